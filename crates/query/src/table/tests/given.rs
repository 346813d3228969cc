//! Record batches of the caller as tables.

use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringViewArray};

use super::arrays::{Random, common};
use super::*;
use crate::batches::InMemory;

/// Batches of many types, with one larger than a scan's.
fn batches() -> Vec<RecordBatch> {
    let mut random = Random::new(9);
    [20_000, 0, 3, 900].into_iter().map(|rows| common(&mut random, rows)).collect()
}

fn given(batches: &[RecordBatch]) -> Table {
    let stream = InMemory::new(batches[0].schema(), batches.to_vec());
    Table::of_batches(Box::new(stream), &OpenOptions::default()).unwrap()
}

#[test]
fn batches_are_scanned_once_and_in_order_without_memory_of_the_job() {
    let (batches, job) = (batches(), job(32 * MIB));
    let expected = concat_batches(&batches[0].schema(), &batches).unwrap();
    let table = given(&batches);
    assert!(table.is_stream() && table.has_batches());
    assert!(table.sample(&job, &[0], 10).is_err());
    let before = job.available();
    let streams = table.scan(&job, &ScanOptions::new(vec![0])).unwrap();
    assert_eq!(job.available(), before);
    drop(streams);
    assert!(table.scan(&job, &ScanOptions::new(vec![0])).is_err() && !table.has_batches());
    let all_columns = all(&given(&batches));
    assert_eq!(rows(&given(&batches), &job, &ScanOptions::new(all_columns)).unwrap(), expected);
    let some = ScanOptions { batch_rows: 7, ..ScanOptions::new(vec![2, 0, 2]) };
    assert_eq!(rows(&given(&batches), &job, &some).unwrap(), expected.project(&[2, 0, 2]).unwrap());
}

#[test]
fn threads_share_the_batches() {
    let batches = batches();
    let options = ScanOptions { streams: 3, ordered: false, ..ScanOptions::new(vec![0]) };
    let mut streams = given(&batches).scan(&job(32 * MIB), &options).unwrap();
    let mut counts = [0; 3];
    for _ in 0..100 {
        for (count, stream) in counts.iter_mut().zip(&mut streams) {
            *count += stream.next().unwrap().map_or(0, |batch| batch.num_rows());
        }
    }
    assert_eq!(counts.iter().sum::<usize>(), 20_903);
    assert!(counts.iter().filter(|count| **count > 0).count() == 3, "{counts:?}");
}

#[test]
fn spooled_batches_are_a_table_that_is_read_again() {
    let scratch = Scratch::new("given_spool");
    let batches = batches();
    let expected = concat_batches(&batches[0].schema(), &batches).unwrap();
    let options = OpenOptions { spool: Some(scratch.root().to_owned()), ..OpenOptions::default() };
    let stream = InMemory::new(batches[0].schema(), batches.clone());
    let mut table = Table::of_batches(Box::new(stream), &options).unwrap();
    let job = job(64 * MIB);
    table.spool(&job).unwrap();
    assert_eq!((table.rows(), table.is_stream(), table.has_batches()), (Some(20_903), false, false));
    for _ in 0..2 {
        assert_eq!(rows(&table, &job, &ScanOptions::new(all(&table))).unwrap(), expected);
    }
    assert_eq!(std::fs::read_dir(scratch.root()).unwrap().count(), 0, "the copy has no name");
    job.cancel();
    assert!(matches!(given(&batches).spool(&job), Err(Error::Cancelled)));
}

#[test]
fn dictionaries_and_views_are_scanned_in_the_types_of_operators() {
    let scratch = Scratch::new("given_types");
    let columns = |from: i32| -> [(&str, ArrayRef); 2] {
        let words =
            StringViewArray::from_iter_values((from..from + 100).map(|at| format!("word number {at}")));
        let keys = Int32Array::from_iter((0..100).map(|at| (at % 5 > 0).then_some(at)));
        [("d", Arc::new(DictionaryArray::new(keys, Arc::new(words.clone())))), ("v", Arc::new(words))]
    };
    let batches = [0, 1000].map(|from| {
        RecordBatch::try_from_iter_with_nullable(columns(from).map(|(name, column)| (name, column, true)))
            .unwrap()
    });
    let expected = concat_batches(&batches[0].schema(), &batches).unwrap();
    let job = job(64 * MIB);
    let compact = ScanOptions { representation: Representation::COMPACT, ..ScanOptions::new(vec![0, 1]) };
    let plain = |batch: &RecordBatch| -> Vec<ArrayRef> {
        batch
            .columns()
            .iter()
            .map(|column| arrow_cast::cast(column, &arrow_schema::DataType::Utf8).unwrap())
            .collect()
    };
    let mut spooled = Table::of_batches(
        Box::new(InMemory::new(batches[0].schema(), batches.to_vec())),
        &OpenOptions { spool: Some(scratch.root().to_owned()), ..OpenOptions::default() },
    )
    .unwrap();
    spooled.spool(&job).unwrap();
    for table in [given(&batches), spooled] {
        assert_eq!(plain(&rows(&table, &job, &compact).unwrap()), plain(&expected));
    }
}

#[test]
fn an_error_of_the_batches_is_that_of_the_scan_and_of_the_copy() {
    struct Failing(arrow_schema::SchemaRef);
    impl Batches for Failing {
        fn schema(&self) -> arrow_schema::SchemaRef {
            Arc::clone(&self.0)
        }
        fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
            Err(Error::Query("the sensor is unplugged".to_owned()))
        }
    }
    let table = || {
        let batches = Failing(batches()[0].schema());
        Table::of_batches(Box::new(batches), &OpenOptions::default()).unwrap()
    };
    let job = job(32 * MIB);
    assert_eq!(table().spool(&job).unwrap_err().to_string(), "the sensor is unplugged");
    let options = ScanOptions { streams: 2, ordered: false, ..ScanOptions::new(vec![0]) };
    let mut streams = table().scan(&job, &options).unwrap();
    assert_eq!(streams[0].next().unwrap_err().to_string(), "the sensor is unplugged");
    assert!(streams[1].next().unwrap().is_none());
}
