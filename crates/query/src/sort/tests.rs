//! Tests of the public interface, with Arrow's row format as the oracle of order and equality.

mod faults;
mod limits;
mod random;
mod stress;

use std::sync::Arc;

use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, cast::AsArray};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Field, Schema, SortOptions as Direction};
use proptest::prelude::*;
use sakiyomi_testing::Scratch;

use super::{SortOptions, Sorted, Sorter, sort};
use crate::batches::InMemory;
use crate::order::SortKey;
use crate::{Batches, Error, Job, JobOptions};

/// Memory limit of the test jobs in bytes.
const SMALL_JOB_BYTES: usize = 8 << 20;

fn job(scratch: &Scratch, threads: usize) -> Job {
    let spill = vec![scratch.root().to_owned()];
    let options = JobOptions { memory: SMALL_JOB_BYTES, threads, spill, ..JobOptions::default() };
    Job::new(options).unwrap()
}

/// Options with which a few thousand rows need spill files and several merge passes.
fn tiny(sample: Option<RecordBatch>) -> SortOptions {
    let (memory, resident) = (Some(192 << 10), 16 << 10);
    SortOptions { sample, memory, resident, block: 4096, batch_rows: 100, ..SortOptions::default() }
}

fn ascending(column: usize) -> SortKey {
    SortKey { column, options: Direction { descending: false, nulls_first: false } }
}

fn inputs(batches: &[RecordBatch], streams: usize) -> Vec<Box<dyn Batches>> {
    let schema = batches[0].schema();
    let stream = |stream: usize| {
        let of_stream = batches.iter().skip(stream).step_by(streams).cloned().collect();
        Box::new(InMemory::new(schema.clone(), of_stream)) as Box<dyn Batches>
    };
    (0..streams).map(stream).collect()
}

fn collect(sorted: Sorted) -> Result<Vec<RecordBatch>, Error> {
    let mut batches = sorted.into_batches();
    let mut all = Vec::new();
    while let Some(batch) = batches.next()? {
        all.push(batch);
    }
    Ok(all)
}

/// Encodes the rows of batches as bytes in the order of the keys.
fn encoded(batches: &[RecordBatch], keys: &[SortKey]) -> Vec<Vec<u8>> {
    let Some(first) = batches.first() else { return Vec::new() };
    let fields = keys.iter().map(|key| {
        SortField::new_with_options(first.schema().field(key.column).data_type().clone(), key.options)
    });
    let converter = RowConverter::new(fields.collect()).unwrap();
    let rows = batches.iter().flat_map(|batch| {
        let columns: Vec<ArrayRef> = keys.iter().map(|key| canonical(batch.column(key.column))).collect();
        let rows = converter.convert_columns(&columns).unwrap();
        rows.iter().map(|row| row.as_ref().to_vec()).collect::<Vec<_>>()
    });
    rows.collect()
}

/// Replaces -0 by 0, which is equal to it.
fn canonical(array: &ArrayRef) -> ArrayRef {
    match array.as_primitive_opt::<Float64Type>() {
        Some(floats) => Arc::new(floats.unary::<_, Float64Type>(|value| value + 0.0)),
        None => Arc::clone(array),
    }
}

/// Asserts that `output` has the rows of `input` in sort order.
fn check(input: &[RecordBatch], output: &[RecordBatch], keys: &[SortKey]) {
    assert!(output.iter().all(|batch| batch.num_rows() > 0 && batch.schema() == input[0].schema()));
    let order = encoded(output, keys);
    assert!(order.is_sorted(), "rows are not in order");
    let all: Vec<SortKey> = (0..input[0].num_columns()).map(ascending).collect();
    let (mut before, mut after) = (encoded(input, &all), encoded(output, &all));
    before.sort();
    after.sort();
    assert!(before == after, "{} rows became {} others", before.len(), after.len());
}

fn numbers(rows: impl Iterator<Item = i64>) -> RecordBatch {
    let column = Arc::new(Int64Array::from_iter_values(rows)) as ArrayRef;
    RecordBatch::try_from_iter([("n", column)]).unwrap()
}

fn values(batches: &[RecordBatch]) -> Vec<i64> {
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// Returns a pseudo-random value for an index.
fn shuffled(index: i64, modulus: i64) -> i64 {
    index.wrapping_mul(7919) % modulus
}

#[test]
fn the_space_of_the_spill_is_free_before_the_last_rows_are_taken() {
    let scratch = Scratch::new("sort-leave");
    let spilled_bytes = || -> u64 {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
        let own = files.filter(|file| file.read_link().is_ok_and(|link| link.starts_with(scratch.root())));
        own.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
    };
    let batches: Vec<RecordBatch> = (0..40)
        .map(|batch| numbers((0..1000).map(move |row| shuffled(batch * 1000 + row, 39_983))))
        .collect();
    let job = job(&scratch, 1);
    let options = tiny(Some(batches[3].clone()));
    let sorted = sort(&job, inputs(&batches, 1), &[ascending(0)], &options).unwrap();
    assert!(spilled_bytes() > 200_000);
    let (mut rows, mut last) = (0, None);
    while let Some((_, partition)) = sorted.next_partition().unwrap() {
        rows += partition.rows();
        last = Some(partition);
    }
    assert_eq!((rows, spilled_bytes()), (40_000, 0));
    drop((last, sorted));
}

#[test]
fn rows_are_sorted_by_partitions_and_by_runs_with_spills_and_several_passes() {
    let scratch = Scratch::new("sort");
    let batches: Vec<RecordBatch> = (0..40)
        .map(|batch| numbers((0..1000).map(move |row| shuffled(batch * 1000 + row, 39_983))))
        .collect();
    for sample in [None, Some(batches[3].clone())] {
        for threads in [1, 3] {
            let job = job(&scratch, threads);
            let options = tiny(sample.clone());
            let sorted = sort(&job, inputs(&batches, threads), &[ascending(0)], &options).unwrap();
            assert_eq!(sorted.rows(), 40_000);
            let output = collect(sorted).unwrap();
            check(&batches, &output, &[ascending(0)]);
            assert!(
                job.phases().list().iter().any(|phase| phase.name == "write runs" && phase.bytes > 200_000)
            );
        }
    }
    assert_eq!(scratch.entries(), 0, "a spill has a name");
}

#[test]
fn partitions_are_taken_by_many_threads_and_their_numbers_give_the_order() {
    let scratch = Scratch::new("sort-threads");
    let batches: Vec<RecordBatch> = (0..40)
        .map(|batch| numbers((0..1000).map(move |row| shuffled(batch * 1000 + row, 39_983))))
        .collect();
    for sample in [None, Some(batches[0].clone())] {
        let job = job(&scratch, 3);
        let sorted = sort(&job, inputs(&batches, 3), &[ascending(0)], &tiny(sample)).unwrap();
        let mut parts: Vec<(usize, Vec<RecordBatch>)> = std::thread::scope(|scope| {
            let take = || {
                let mut parts = Vec::new();
                while let Some((number, mut partition)) = sorted.next_partition().unwrap() {
                    let rows = partition.rows();
                    let mut batches = Vec::new();
                    while let Some(batch) = partition.next().unwrap() {
                        batches.push(batch);
                    }
                    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), rows);
                    parts.push((number, batches));
                }
                parts
            };
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(take)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        parts.sort_by_key(|(number, _)| *number);
        assert!(parts.iter().enumerate().all(|(index, (number, _))| index == *number));
        let output: Vec<RecordBatch> = parts.into_iter().flat_map(|(_, batches)| batches).collect();
        check(&batches, &output, &[ascending(0)]);
    }
}

#[test]
fn run_end_encoded_values_have_the_order_of_plain_ones() {
    let values = [1.5, -f64::NAN, 0.0, f64::NAN, -0.0, f64::INFINITY, -2.0, 0.0, -f64::NAN];
    let plain = Float64Array::from_iter(values.iter().map(|&value| Some(value)).chain([None]));
    let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..plain.len() as i64));
    // Names that the library does not give by itself.
    let ends = Arc::new(Field::new("ends", DataType::Int32, false));
    let runs = DataType::RunEndEncoded(ends, Arc::new(Field::new("value", DataType::Float64, true)));
    let runs_of = |array: &ArrayRef| {
        let encoded = arrow_cast::cast(array, &runs).unwrap().to_data();
        arrow_array::make_array(encoded.into_builder().data_type(runs.clone()).build().unwrap())
    };
    for descending in [false, true] {
        for nulls_first in [false, true] {
            let sorted = |array: ArrayRef, scratch: &Scratch| {
                let columns = [("f", array, true), ("row", Arc::clone(&rows), false)];
                let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
                let key = SortKey { column: 0, options: Direction { descending, nulls_first } };
                let options = SortOptions { stable: true, ..tiny(None) };
                let output =
                    sort(&job(scratch, 1), inputs(std::slice::from_ref(&batch), 1), &[key], &options);
                let output = collect(output.unwrap()).unwrap();
                assert!(output.iter().all(|sorted| sorted.schema() == batch.schema()));
                concat(output.iter().map(|batch| Arc::clone(batch.column(1))))
            };
            let scratch = Scratch::new("sort-runs-of-values");
            let plain: ArrayRef = Arc::new(plain.clone());
            assert_eq!(sorted(runs_of(&plain), &scratch), sorted(plain, &scratch));
        }
    }
}

fn concat(arrays: impl Iterator<Item = ArrayRef>) -> Vec<i64> {
    arrays.flat_map(|array| array.as_primitive::<Int64Type>().values().to_vec()).collect()
}

#[test]
fn a_sample_may_be_of_other_types_than_the_rows() {
    let scratch = Scratch::new("sort-types");
    let batches: Vec<RecordBatch> = (0..20)
        .map(|batch| numbers((0..1000).map(move |row| shuffled(batch * 1000 + row, 19_997))))
        .collect();
    let sample = arrow_cast::cast(batches[0].column(0), &DataType::Decimal128(20, 0)).unwrap();
    let sample = RecordBatch::try_from_iter([("d", sample)]).unwrap();
    let sorted = sort(&job(&scratch, 1), inputs(&batches, 1), &[ascending(0)], &tiny(Some(sample))).unwrap();
    let (_, first) = sorted.next_partition().unwrap().unwrap();
    assert!(first.rows() < 5000, "all rows are in one partition");
    drop(first);
}

#[test]
fn equal_rows_of_any_number_stream_through_little_memory() {
    let scratch = Scratch::new("sort-equal");
    let mut batches: Vec<RecordBatch> = (0..40).map(|_| numbers((0..1000).map(|_| 5))).collect();
    batches[7] = numbers([9, 5, 1, 9].into_iter());
    for sample in [None, Some(batches[3].clone()), Some(numbers([1, 5, 5, 5, 9].into_iter()))] {
        let job = job(&scratch, 2);
        let sorted = sort(&job, inputs(&batches, 2), &[ascending(0)], &tiny(sample)).unwrap();
        check(&batches, &collect(sorted).unwrap(), &[ascending(0)]);
    }
}

#[test]
fn a_sample_that_has_nothing_to_do_with_the_rows_makes_it_slower_only() {
    let scratch = Scratch::new("sort-sample");
    let batches: Vec<RecordBatch> = (0..30)
        .map(|batch| numbers((0..1000).map(move |row| shuffled(batch * 1000 + row, 29_989))))
        .collect();
    for sample in [numbers([-7, -7, -7].into_iter()), numbers([i64::MIN, i64::MAX].into_iter())] {
        let job = job(&scratch, 2);
        let sorted = sort(&job, inputs(&batches, 2), &[ascending(0)], &tiny(Some(sample))).unwrap();
        check(&batches, &collect(sorted).unwrap(), &[ascending(0)]);
    }
}

#[test]
fn the_first_rows_are_the_smallest_ones_and_few_of_them_need_no_spill() {
    let scratch = Scratch::new("sort-limit");
    let batches: Vec<RecordBatch> = (0..50)
        .map(|batch| numbers((0..1000).map(move |row| shuffled(batch * 1000 + row, 49_999))))
        .collect();
    let mut expected = values(&batches);
    expected.sort_unstable();
    for sample in [None, Some(batches[0].clone())] {
        for limit in [0, 1, 10, 5_000, 30_000, 60_000] {
            let job = job(&scratch, 2);
            let options = SortOptions { limit: Some(limit), ..tiny(sample.clone()) };
            let sorted = sort(&job, inputs(&batches, 2), &[ascending(0)], &options).unwrap();
            assert_eq!(sorted.rows(), limit.min(50_000));
            let output = values(&collect(sorted).unwrap());
            assert_eq!(output, expected[..50_000.min(limit as usize)], "limit {limit}");
            let has_spilled = job.phases().list().iter().any(|phase| phase.name == "write runs");
            assert!(!has_spilled || limit > 10 || sample.is_some());
        }
    }
}

#[test]
fn a_stable_sort_keeps_the_order_of_equal_rows() {
    let scratch = Scratch::new("sort-stable");
    let batch = |batch: i64| {
        let key = Int64Array::from_iter_values((0..1000).map(|row| shuffled(batch * 1000 + row, 13)));
        let id = Int64Array::from_iter_values((0..1000).map(|row| batch * 1000 + row));
        RecordBatch::try_from_iter([("key", Arc::new(key) as ArrayRef), ("id", Arc::new(id) as ArrayRef)])
            .unwrap()
    };
    let batches: Vec<RecordBatch> = (0..20).map(batch).collect();
    for sample in [None, Some(batches[0].project(&[0]).unwrap())] {
        let job = job(&scratch, 2);
        let options = SortOptions { stable: true, ..tiny(sample) };
        let sorted = sort(&job, inputs(&batches, 1), &[ascending(0)], &options).unwrap();
        check(&batches, &collect(sorted).unwrap(), &[ascending(0), ascending(1)]);
    }
}

#[test]
fn a_row_that_is_longer_than_a_chunk_has_one_of_its_own() {
    let scratch = Scratch::new("sort-long");
    let text =
        |row: usize| "x".repeat(if row % 50 == 7 { 20_000 + row } else { row % 30 }) + &row.to_string();
    let column = StringArray::from_iter_values((0..400).map(|row| text(shuffled(row, 401) as usize)));
    let batch = RecordBatch::try_from_iter([("text", Arc::new(column) as ArrayRef)]).unwrap();
    for sample in [None, Some(batch.slice(0, 100))] {
        let job = job(&scratch, 1);
        let sorted =
            sort(&job, inputs(std::slice::from_ref(&batch), 1), &[ascending(0)], &tiny(sample)).unwrap();
        check(std::slice::from_ref(&batch), &collect(sorted).unwrap(), &[ascending(0)]);
    }
    let long = StringArray::from_iter_values(["a".repeat(64 << 20), "b".to_owned()]);
    let long = RecordBatch::try_from_iter([("text", Arc::new(long) as ArrayRef)]).unwrap();
    let error = sort(&job(&scratch, 1), inputs(&[long], 1), &[ascending(0)], &tiny(None)).err().unwrap();
    assert!(error.to_string().starts_with("sorting a row of 67108"), "{error}");
}

#[test]
fn all_nan_come_last_and_first_if_descending() {
    let scratch = Scratch::new("sort-nan");
    let negative = -f64::NAN;
    let column =
        Float64Array::from(vec![1.0, negative, f64::INFINITY, f64::NAN, -0.0, f64::NEG_INFINITY, 0.0]);
    let batch = RecordBatch::try_from_iter([("n", Arc::new(column) as ArrayRef)]).unwrap();
    for descending in [false, true] {
        let key = SortKey { column: 0, options: Direction { descending, nulls_first: false } };
        let sorted =
            sort(&job(&scratch, 1), inputs(std::slice::from_ref(&batch), 1), &[key], &tiny(None)).unwrap();
        let output = collect(sorted).unwrap();
        let mut values = output[0].column(0).as_primitive::<Float64Type>().values().to_vec();
        if descending {
            values.reverse();
        }
        assert!(values[5].is_nan() && values[6].is_nan());
        let numbers: Vec<String> = values[..5].iter().map(|value| (value + 0.0).to_string()).collect();
        assert_eq!(numbers, ["-inf", "0", "0", "1", "inf"]);
    }
}

#[test]
fn no_rows_and_no_columns_are_sorted_as_well() {
    let scratch = Scratch::new("sort-none");
    let empty = numbers(std::iter::empty());
    let sorted =
        sort(&job(&scratch, 2), inputs(std::slice::from_ref(&empty), 2), &[ascending(0)], &tiny(Some(empty)))
            .unwrap();
    assert_eq!(sorted.rows(), 0);
    assert!(collect(sorted).unwrap().is_empty());
    let schema = Arc::new(Schema::empty());
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(5000));
    let batch = RecordBatch::try_new_with_options(schema, Vec::new(), &options).unwrap();
    let sorted = sort(&job(&scratch, 2), inputs(&[batch], 1), &[], &tiny(None)).unwrap();
    assert_eq!(collect(sorted).unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 5000);
}

#[test]
fn a_column_or_a_batch_that_does_not_fit_is_refused_with_a_sentence() {
    let scratch = Scratch::new("sort-refused");
    let batch = numbers(0..3);
    let refused = |key: usize| {
        sort(&job(&scratch, 1), inputs(std::slice::from_ref(&batch), 1), &[ascending(key)], &tiny(None))
    };
    assert_eq!(refused(1).err().unwrap().to_string(), "the table has no column number 1");
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Utf8, false)]));
    let mut sorter = Sorter::new(&job(&scratch, 1), &schema, &[ascending(0)], &tiny(None)).unwrap();
    let error = sorter.worker().push(&batch).err().unwrap();
    assert_eq!(error.to_string(), "column \"n\" has type Int64 in a batch, but type Utf8 in the table");
    assert!(matches!(sorter.finish(), Err(Error::Cancelled)), "rows of a worker were lost");
}

#[test]
fn a_sort_that_is_cancelled_ends_while_it_takes_rows_and_while_it_gives_them() {
    let scratch = Scratch::new("sort-cancelled");
    let batches: Vec<RecordBatch> = (0..30).map(|_| numbers((0..1000).rev())).collect();
    let cancelled = job(&scratch, 1);
    cancelled.cancel();
    let outcome = sort(&cancelled, inputs(&batches, 1), &[ascending(0)], &tiny(None));
    assert!(matches!(outcome, Err(Error::Cancelled)));
    let job = job(&scratch, 1);
    let sorted = sort(&job, inputs(&batches, 1), &[ascending(0)], &tiny(None)).unwrap();
    job.cancel();
    assert!(matches!(collect(sorted), Err(Error::Cancelled)));
}
