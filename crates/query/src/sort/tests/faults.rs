//! Faulty disks: every sort ends with an error or the right rows, and never hangs.

use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{BufferPool, Io, Memory, Spill};

use super::*;
use crate::sort::spill::Spills;

/// Queue depth of the engine.
const DEPTH: usize = 4;

/// Sorts batches on a disk with faults.
fn sorted_with(
    faults: Faults,
    sample: Option<RecordBatch>,
    batches: &[RecordBatch],
) -> Result<Vec<RecordBatch>, Error> {
    let disk = FakeDisk::default();
    let file = disk.file(Vec::new(), 4096).unwrap();
    let pool = BufferPool::with_budget(1 << 20, Memory::Ordinary);
    let io = Io::over(disk.engine(DEPTH, faults), pool);
    let options = JobOptions { memory: SMALL_JOB_BYTES, threads: 2, ..JobOptions::default() };
    let job = Job::over(options, io.clone());
    let spills = Spills::over(vec![Spill::over(&io, file)]);
    let schema = batches[0].schema();
    let mut sorter = Sorter::with_spills(&job, &schema, &[ascending(0)], &tiny(sample), spills)?;
    let workers = (0..2).map(|_| sorter.worker()).collect();
    crate::sort::feed(&job, inputs(batches, 2), workers)?;
    collect(sorter.finish()?)
}

fn batches() -> Vec<RecordBatch> {
    (0..20).map(|batch| numbers((0..1000).map(move |row| shuffled(batch * 1000 + row, 19_997)))).collect()
}

#[test]
fn short_interrupted_and_late_transfers_give_the_right_rows() {
    let batches = batches();
    for seed in 0..4 {
        let faults =
            Faults { seed, short_of_256: 60, interrupted_of_256: 60, late_of_256: 60, ..Faults::default() };
        for sample in [None, Some(batches[0].clone())] {
            let output = sorted_with(faults.clone(), sample, &batches).unwrap();
            check(&batches, &output, &[ascending(0)]);
        }
    }
}

#[test]
fn a_disk_that_fails_anywhere_or_becomes_full_gives_an_error() {
    let batches = batches();
    for sample in [None, Some(batches[0].clone())] {
        for byte in (0..140_000).step_by(20_000) {
            let faults = Faults { errors: vec![(byte, 5)], ..Faults::default() };
            let error = sorted_with(faults, sample.clone(), &batches).expect_err("a failed write");
            assert!(matches!(error, Error::Io(sakiyomi_io::Error::Write { .. })), "{error}");
            let full = Faults { capacity: byte + 4096, ..Faults::default() };
            let error = sorted_with(full, sample.clone(), &batches).expect_err("a full disk");
            assert!(matches!(error, Error::Io(sakiyomi_io::Error::Full { .. })), "{error}");
        }
    }
}

#[test]
fn a_spill_that_loses_bytes_gives_an_error() {
    let batches = batches();
    for sample in [None, Some(batches[0].clone())] {
        for calls in (60..200).step_by(20) {
            let faults = Faults { shrinks: Some((calls, 4096)), ..Faults::default() };
            if let Ok(output) = sorted_with(faults, sample.clone(), &batches) {
                check(&batches, &output, &[ascending(0)]);
            }
        }
    }
}
