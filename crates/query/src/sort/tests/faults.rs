//! Faulty disks: every sort ends with an error or the right rows, and never hangs.

use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{BufferPool, Io, Memory, Spill};

use super::*;
use crate::spill::{Level, SpillCompression, SpillFiles};

/// Queue depth of the engine.
const DEPTH: usize = 4;

/// Sorts batches on a disk with faults.
fn sorted_with(
    faults: Faults,
    sample: Option<RecordBatch>,
    batches: &[RecordBatch],
) -> Result<Vec<RecordBatch>, Error> {
    sorted_on(&[0], SpillCompression::Adaptive, faults, sample, batches).1
}

/// Sorts batches on disks with capacities in bytes (0 for no limit), and returns the job as well.
fn sorted_on(
    capacities: &[u64],
    spill_compression: SpillCompression,
    faults: Faults,
    sample: Option<RecordBatch>,
    batches: &[RecordBatch],
) -> (Job, Result<Vec<RecordBatch>, Error>) {
    let disk = FakeDisk::default();
    let file = |(number, &capacity): (usize, &u64)| match capacity {
        0 => disk.file(Vec::new(), 4096).unwrap(),
        capacity => disk.limited_file(format!("/disk{number}/spill").as_ref(), 4096, capacity).unwrap(),
    };
    let files: Vec<_> = capacities.iter().enumerate().map(file).collect();
    let pool = BufferPool::with_budget(1 << 20, Memory::Ordinary);
    let io = Io::over(disk.engine(DEPTH, faults), pool);
    let options = JobOptions { memory: 64 << 20, threads: 2, spill_compression, ..JobOptions::default() };
    let job = Job::over(options, io.clone());
    let spills = SpillFiles::over(&job, files.into_iter().map(|file| Spill::over(&io, file)).collect());
    let sorted = sorted_in(&job, spills, sample, batches);
    (job, sorted)
}

fn sorted_in(
    job: &Job,
    spills: SpillFiles,
    sample: Option<RecordBatch>,
    batches: &[RecordBatch],
) -> Result<Vec<RecordBatch>, Error> {
    let schema = batches[0].schema();
    // A chunk of one block cannot become shorter.
    let options = match job.options().spill_compression {
        SpillCompression::Adaptive | SpillCompression::Fixed(Level::None) => tiny(sample),
        SpillCompression::Fixed(_) => {
            SortOptions { block: 16 << 10, memory: Some(512 << 10), ..tiny(sample) }
        }
    };
    let mut sorter = Sorter::with_spills(job, &schema, &[ascending(0)], &options, spills)?;
    let workers = (0..2).map(|_| sorter.worker()).collect();
    crate::sort::feed(job, inputs(batches, 2), workers)?;
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
            assert!(matches!(error, Error::SpillFull { .. }), "{error}");
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

#[test]
fn every_level_gives_the_right_rows_and_its_bytes() {
    let batches = [batches(), batches()].concat();
    for level in Level::ALL {
        for sample in [None, Some(batches[0].clone())] {
            let faults = Faults { short_of_256: 60, late_of_256: 60, ..Faults::default() };
            let fixed = SpillCompression::Fixed(level);
            let (job, output) = sorted_on(&[0], fixed, faults, sample, &batches);
            check(&batches, &output.unwrap(), &[ascending(0)]);
            let bytes = job.spill_bytes();
            let stored: u64 = bytes.iter().map(|bytes| bytes.stored_bytes).sum();
            let phases = job.phases().list();
            let phase = phases.iter().find(|phase| phase.name == "write runs").unwrap();
            assert_eq!(phase.stored_bytes, stored);
            assert_eq!(phase.bytes, bytes.iter().map(|bytes| bytes.raw_bytes).sum::<u64>());
            assert_eq!(
                level > Level::None,
                bytes.iter().any(|bytes| bytes.level == level && level > Level::None)
            );
            assert!(level == Level::None || stored < phase.bytes, "{bytes:?}");
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_an_error_or_never_read() {
    let batches = [batches(), batches()].concat();
    for level in [Level::None, Level::Lz4, Level::Zstd] {
        for sample in [None, Some(batches[0].clone())] {
            let mut found = 0;
            for bit in (4096..900_000).step_by(100_003) {
                let faults = Faults { flips: vec![bit], ..Faults::default() };
                let fixed = SpillCompression::Fixed(level);
                match sorted_on(&[0], fixed, faults, sample.clone(), &batches).1 {
                    // The bit pads a chunk.
                    Ok(output) => check(&batches, &output, &[ascending(0)]),
                    Err(error) => {
                        assert!(matches!(error, Error::SpillDamaged { .. }), "{error:?}");
                        found += 1;
                    }
                }
            }
            assert!(found > 0, "{level:?}");
        }
    }
}

#[test]
fn a_full_directory_leaves_the_chunks_to_the_others() {
    let batches = batches();
    let none = SpillCompression::Fixed(Level::None);
    for sample in [None, Some(batches[0].clone())] {
        for capacities in [[80_000, 2 << 20, 120_000], [2 << 20, 0, 1]] {
            let (_, output) = sorted_on(&capacities, none, Faults::default(), sample.clone(), &batches);
            check(&batches, &output.unwrap(), &[ascending(0)]);
        }
        let (_, output) = sorted_on(&[40_000, 80_000], none, Faults::default(), sample, &batches);
        let error = output.unwrap_err().to_string();
        assert!(error.contains("no room is left in /disk0, /disk1; "), "{error}");
    }
}
