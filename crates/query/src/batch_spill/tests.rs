use std::sync::Arc;

use arrow_array::{Int64Array, StringArray, StringViewArray};
use arrow_schema::{DataType, Field, Schema};
use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{BufferPool, Io, Memory, Spill};

use super::*;
use crate::spill::{Level, SpillCompression};
use crate::{Job, JobOptions};

/// Buffer bytes of one run being written and one being read.
const TEST_BUDGET_BYTES: usize = 2 << 20;

/// Linux error number.
const EIO: i32 = 5;

fn batch(from: i64) -> RecordBatch {
    let fields = vec![
        Field::new("number", DataType::Int64, false),
        Field::new("text", DataType::Utf8, true),
        Field::new("view", DataType::Utf8View, true),
    ];
    let text = |row: i64| (row % 3 != 0).then(|| format!("a text that is longer than a view {row}"));
    let columns: Vec<arrow_array::ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(from..from + 1000)),
        Arc::new((from..from + 1000).map(text).collect::<StringArray>()),
        Arc::new((from..from + 1000).map(text).collect::<StringViewArray>()),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Spill files in memory with injected faults, one for each capacity (0 for no limit).
fn spill_of(faults: Faults, compression: SpillCompression, capacities: &[u64]) -> (Job, SpillFiles) {
    let disk = FakeDisk::default();
    let pool = BufferPool::with_budget(TEST_BUDGET_BYTES, Memory::Ordinary);
    let io = Io::over(disk.engine(4, faults), pool);
    let options = JobOptions { spill_compression: compression, ..JobOptions::default() };
    let job = Job::over(options, io.clone());
    let file = |(number, &capacity): (usize, &u64)| match capacity {
        0 => disk.file(Vec::new(), 4096).unwrap(),
        capacity => disk.limited_file(format!("/disk{number}/spill").as_ref(), 4096, capacity).unwrap(),
    };
    let files = capacities.iter().enumerate().map(file).map(|file| Spill::over(&io, file)).collect();
    let spill = SpillFiles::over(&job, files);
    (job, spill)
}

/// A spill file in memory with injected faults.
fn spill(faults: Faults) -> SpillFiles {
    spill_of(faults, SpillCompression::Adaptive, &[0]).1
}

/// Writes batches, reads them twice, and returns the result of the second read.
fn round_trip(spill: &SpillFiles, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>, Error> {
    let mut writer = BatchWriter::create(spill, &batches[0].schema())?;
    for batch in batches {
        writer.write(batch)?;
    }
    let run = writer.finish()?;
    let account = Arc::new(spill.job().account(1 << 20, "a test")?);
    let mut first = run.read_blocks_within(&account, BATCH_BLOCK_BYTES)?;
    while first.next()?.is_some() {}
    drop(first);
    let (mut second, mut found) = (run.drain()?, Vec::new());
    while let Some(batch) = second.next()? {
        found.push(batch);
    }
    Ok(found)
}

#[test]
fn batches_come_back_as_they_were_however_transfers_are_cut() {
    for seed in 0..20 {
        let level = SpillCompression::Fixed(Level::ALL[seed as usize % Level::ALL.len()]);
        let faults =
            Faults { seed, short_of_256: 100, interrupted_of_256: 60, late_of_256: 120, ..Faults::default() };
        // Slices whose views share the values of all rows.
        let batches: Vec<RecordBatch> =
            (0..12).map(|part| batch(part * 1000).slice(part as usize * 10, 500)).collect();
        assert!(round_trip(&spill_of(faults, level, &[0]).1, &batches).unwrap() == batches);
    }
}

#[test]
fn a_transfer_that_fails_anywhere_is_an_error_and_never_other_rows() {
    let batches: Vec<RecordBatch> = (0..12).map(|part| batch(part * 1000)).collect();
    let mut failed = 0;
    for place in (0..1_600_000).step_by(100_000) {
        let faults = Faults { seed: place, errors: vec![(place, EIO)], ..Faults::default() };
        match round_trip(&spill(faults), &batches) {
            Ok(found) => assert!(found == batches),
            Err(error) => {
                assert!(matches!(error, Error::Io(_)), "{error:?}");
                failed += 1;
            }
        }
    }
    assert!(failed > 5, "{failed}");
}

#[test]
fn a_flipped_bit_anywhere_is_an_error_that_names_the_directory() {
    let batches: Vec<RecordBatch> = (0..4).map(|part| batch(part * 1000)).collect();
    for level in Level::ALL {
        let (job, files) = spill_of(Faults::default(), SpillCompression::Fixed(level), &[0]);
        assert!(round_trip(&files, &batches).unwrap() == batches);
        let stored: u64 = job.spill_bytes().iter().map(|bytes| bytes.stored_bytes).sum();
        for bit in (0..stored * 8).step_by(20_011) {
            let faults = Faults { flips: vec![bit], ..Faults::default() };
            let error =
                round_trip(&spill_of(faults, SpillCompression::Fixed(level), &[0]).1, &batches).unwrap_err();
            assert!(matches!(error, Error::SpillDamaged { .. }), "bit {bit}, {level:?}: {error:?}");
            assert!(error.to_string().contains("a spill file in memory"), "{error}");
        }
    }
}

#[test]
fn a_full_disk_is_an_error_with_amounts_and_a_remedy() {
    let batches: Vec<RecordBatch> = (0..12).map(|part| batch(part * 1000)).collect();
    let faults = Faults { capacity: 400_000, ..Faults::default() };
    let error = round_trip(&spill(faults), &batches).unwrap_err();
    assert!(matches!(error, Error::SpillFull { .. }), "{error:?}");
    let (_, files) = spill_of(Faults::default(), SpillCompression::Fixed(Level::None), &[300_000, 400_000]);
    let error = round_trip(&files, &batches).unwrap_err().to_string();
    assert!(
        error.contains("no room is left in /disk0, /disk1; ") && error.contains("--spill DIR"),
        "{error}"
    );
}

#[test]
fn a_run_continues_in_the_directories_with_room() {
    let batches: Vec<RecordBatch> = (0..12).map(|part| batch(part * 1000)).collect();
    let none = SpillCompression::Fixed(Level::None);
    for capacities in [[1 << 20, 600_000, 1 << 20], [1_200_000, 20_000, 900_000]] {
        let (_, files) = spill_of(Faults::default(), none, &capacities);
        assert!(round_trip(&files, &batches).unwrap() == batches);
    }
}
