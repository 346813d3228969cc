use std::sync::Arc;

use arrow_array::{Int64Array, StringArray, StringViewArray};
use arrow_schema::{DataType, Field, Schema};
use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{BufferPool, Io, Memory, Spill};

use super::*;

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

/// An in-memory spill file with injected faults.
fn spill(faults: Faults) -> Spill {
    let disk = FakeDisk::default();
    let file = disk.file(Vec::new(), 4096).unwrap();
    let pool = BufferPool::with_budget(TEST_BUDGET_BYTES, Memory::Ordinary);
    Spill::over(&Io::over(disk.engine(4, faults), pool), file)
}

/// Writes batches, reads them twice, and returns the result of the second read.
fn round_trip(spill: &Spill, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>, Error> {
    let mut writer = BatchWriter::create(spill, &batches[0].schema())?;
    for batch in batches {
        writer.write(batch)?;
    }
    let run = writer.finish()?;
    let mut first = run.read()?;
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
        let faults =
            Faults { seed, short_of_256: 100, interrupted_of_256: 60, late_of_256: 120, ..Faults::default() };
        // Slices whose views share the values of all rows.
        let batches: Vec<RecordBatch> =
            (0..12).map(|part| batch(part * 1000).slice(part as usize * 10, 500)).collect();
        assert!(round_trip(&spill(faults), &batches).unwrap() == batches);
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
fn a_full_disk_is_an_error_of_the_stream_below() {
    let batches: Vec<RecordBatch> = (0..12).map(|part| batch(part * 1000)).collect();
    let faults = Faults { capacity: 400_000, ..Faults::default() };
    let error = round_trip(&spill(faults), &batches).unwrap_err();
    assert!(matches!(error, Error::Io(_)), "{error:?}");
}
