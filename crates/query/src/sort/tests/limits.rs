//! Limits above the rows sorted at once, many spilled chunks, slices of large batches, and equal floats.

use super::*;
use crate::sort::{Target, staged_rows};

#[test]
fn rows_that_are_kept_for_a_limit_are_not_sorted_again_for_each_chunk() {
    let scratch = Scratch::new("sort-kept");
    let job = job(&scratch, 1);
    // Leaves memory to order a few thousand rows.
    let _rest = job.reserve(job.available() - (256 << 10), "a test").unwrap();
    let schema = numbers(0..1).schema();
    let options = SortOptions { limit: Some(1 << 40), memory: Some(2 << 20), ..tiny(None) };
    let mut sorter = Sorter::new(&job, &schema, &[ascending(0)], &options).unwrap();
    let load_rows = sorter.context.memory.load_rows;
    assert!(load_rows < 8_000, "{load_rows}");
    let mut worker = sorter.worker();
    for part in 0..60 {
        worker.push(&numbers((0..500).map(|row| shuffled(part * 500 + row, 29_989)))).unwrap();
        let Target::Runs(collector) = &worker.target else { panic!("a sort by runs") };
        assert!(collector.rows() <= load_rows + 1000, "{} rows of {load_rows}", collector.rows());
    }
    worker.finish().unwrap();
    let output = values(&collect(sorter.finish().unwrap()).unwrap());
    assert!(output.len() == 30_000 && output.is_sorted());
}

#[test]
fn slices_of_a_large_batch_are_packed_like_small_batches() {
    let texts = StringArray::from_iter_values((0..100_000).map(|row| format!("a text of number {row:020}")));
    let batch = RecordBatch::try_from_iter([("t", Arc::new(texts) as ArrayRef)]).unwrap();
    assert_eq!(staged_rows(&batch, 1024), 1024);
    assert_eq!(staged_rows(&batch.slice(77, 3), 1024), 1024);
    let long = StringArray::from_iter_values((0..10).map(|_| "x".repeat(1 << 20)));
    let long = RecordBatch::try_from_iter([("t", Arc::new(long) as ArrayRef)]).unwrap();
    assert!((3..=4).contains(&staged_rows(&long, 1024)));
}

#[test]
fn later_keys_order_the_rows_of_equal_floats() {
    let scratch = Scratch::new("sort-zero");
    let floats = [0.0, -0.0, f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001)];
    let column = Float64Array::from_iter((0..500).map(|row| floats.get(row % 6).copied()));
    let numbers = Int64Array::from_iter_values((0..500).map(|row| shuffled(row, 499)));
    for data_type in [DataType::Float64, DataType::Float32, DataType::Float16] {
        let float = arrow_cast::cast(&column, &data_type).unwrap();
        let columns = [("f", float), ("n", Arc::new(numbers.clone()) as ArrayRef)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let keys = [ascending(0), ascending(1)];
        let sorted = sort(&job(&scratch, 2), inputs(&[batch], 1), &keys, &tiny(None)).unwrap();
        let output = collect(sorted).unwrap();
        let all = arrow_select::concat::concat_batches(&output[0].schema(), &output).unwrap();
        let floats = arrow_cast::cast(all.column(0), &DataType::Float64).unwrap();
        let numbers = all.column(1).as_primitive::<Int64Type>();
        // Zeros, NaNs and nulls.
        let group = |row: usize| match floats.is_null(row) {
            true => 2,
            false => i32::from(floats.as_primitive::<Float64Type>().value(row).is_nan()),
        };
        let rows: Vec<(i32, i64)> = (0..500).map(|row| (group(row), numbers.value(row))).collect();
        assert!(rows.is_sorted(), "{rows:?}");
    }
}

/// Rows of about a quarter of a chunk of [`tiny`].
fn long_rows(rows: std::ops::Range<i64>) -> RecordBatch {
    let keys = Int64Array::from_iter_values(rows.clone().map(|row| shuffled(row, 29_989)));
    let texts = StringArray::from_iter_values(rows.map(|_| "x".repeat(1000)));
    let columns: [(&str, ArrayRef); 2] = [("k", Arc::new(keys)), ("t", Arc::new(texts))];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn a_sort_ends_whose_many_spilled_chunks_have_little_memory_for_their_places() {
    let scratch = Scratch::new("sort-places");
    for sample in [None, Some(long_rows(0..500).project(&[0]).unwrap())] {
        let job = job(&scratch, 1);
        let schema = long_rows(0..1).schema();
        // A few thousand chunks of 24 bytes.
        let _rest = job.reserve(job.available() - (420 << 10), "a test").unwrap();
        let options = SortOptions { expected_bytes: Some(20_000 << 10), ..tiny(sample) };
        let mut sorter = Sorter::new(&job, &schema, &[ascending(0)], &options).unwrap();
        let mut worker = sorter.worker();
        for part in 0..40 {
            worker.push(&long_rows(part * 500..(part + 1) * 500)).unwrap();
        }
        worker.finish().unwrap();
        let sorted = sorter.finish().unwrap();
        let mut batches = sorted.into_batches();
        let (mut rows, mut last) = (0, i64::MIN);
        while let Some(batch) = batches.next().unwrap() {
            let keys = batch.column(0).as_primitive::<Int64Type>().values();
            assert!(last <= keys[0] && keys.is_sorted());
            (rows, last) = (rows + keys.len(), keys[keys.len() - 1]);
        }
        assert_eq!(rows, 20_000);
    }
}

#[test]
fn a_sort_without_the_memory_for_its_places_is_refused_before_the_first_row() {
    let scratch = Scratch::new("sort-refused");
    let job = job(&scratch, 1);
    let schema = long_rows(0..1).schema();
    let options = SortOptions { expected_bytes: Some(1 << 40), ..tiny(None) };
    let refused = Sorter::new(&job, &schema, &[ascending(0)], &options).unwrap_err();
    assert!(refused.to_string().contains("keeping the places of spilled rows"), "{refused}");
    // An upper bound is not a reason.
    let options = SortOptions { expected_bytes: None, bytes_max: Some(1 << 40), ..options };
    assert!(Sorter::new(&job, &schema, &[ascending(0)], &options).is_ok());
}
