//! Several files, schemas, statistics, representations and streams.

use std::ffi::CString;
use std::io::Write;

use ::parquet::basic::Compression;
use ::parquet::file::metadata::SortingColumn;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray, StringViewArray,
};
use arrow_schema::{DataType, Field, Schema, SortOptions};

use super::arrays::{Random, common};
use super::*;

fn numbers(name: &str, nullable: bool, values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![Field::new(name, DataType::Int64, nullable)]));
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    RecordBatch::try_new(schema, vec![column]).unwrap()
}

#[test]
fn only_regular_files_are_files_of_a_table() {
    let scratch = Scratch::new("regular");
    scratch.file("b", "");
    scratch.file("a", "");
    let directory = scratch.root().to_owned();
    let found = Table::files(&[directory.clone(), scratch.path("b")]).unwrap().unwrap();
    assert_eq!(found, [scratch.path("a"), scratch.path("b"), scratch.path("b")]);
    assert_eq!(Table::files(&["-".into()]).unwrap(), None);
    assert_eq!(Table::files(&["/dev/null".into()]).unwrap(), None);
    assert!(Table::files(&[scratch.path("missing")]).is_err());
}

#[test]
fn files_of_a_directory_come_by_their_names() {
    let scratch = Scratch::new("directory");
    write_parquet(&scratch.path("b"), &[numbers("a", true, 3..5)], WriterProperties::default());
    write_parquet(&scratch.path("a"), &[numbers("a", false, 0..3)], WriterProperties::default());
    scratch.file(".ignored", "x");
    std::fs::create_dir(scratch.path("c")).unwrap();
    let found = read(scratch.root()).unwrap();
    assert!(found.schema().field(0).is_nullable());
    assert_eq!(found.column(0).as_primitive::<Int64Type>().values(), &[0, 1, 2, 3, 4]);
    let error = open(scratch.path("c")).unwrap_err().to_string();
    assert!(error.contains("the directory has no file"), "{error}");
    scratch.file("_SUCCESS", "");
    assert_eq!(read(scratch.root()).unwrap().num_rows(), 5);
    std::os::unix::fs::symlink("nowhere", scratch.path("d")).unwrap();
    let error = open(scratch.root()).unwrap_err().to_string();
    assert!(error.contains(scratch.path("d").to_str().unwrap()), "{error}");
}

#[test]
fn schemas_that_differ_are_refused_with_both_types() {
    let scratch = Scratch::new("schemas");
    write_parquet(&scratch.path("1"), &[numbers("a", true, 0..3)], WriterProperties::default());
    let column: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let other = RecordBatch::try_from_iter([("a", column)]).unwrap();
    write_parquet(&scratch.path("2"), &[other], WriterProperties::default());
    let error = open(scratch.root()).unwrap_err().to_string();
    assert!(error.ends_with("2: column a has type Int32, and Int64 in the first file"), "{error}");
    scratch.file("2", "a\n1\n");
    let error = open(scratch.root()).unwrap_err().to_string();
    assert!(error.ends_with("2: the file is CSV, and the first file is Parquet"), "{error}");
    let error = open(scratch.path("3")).unwrap_err().to_string();
    assert!(error.contains("cannot open") && error.ends_with("/3"), "{error}");
}

#[test]
fn statistics_hold_over_files_and_row_groups() {
    let scratch = Scratch::new("statistics");
    let small = || WriterProperties::builder().set_max_row_group_row_count(Some(10));
    let order = vec![SortingColumn { column_idx: 0, descending: false, nulls_first: false }];
    write_parquet(&scratch.path("1"), &[numbers("a", true, -5..30)], small().build());
    write_parquet(&scratch.path("2"), &[numbers("a", true, 100..130)], small().build());
    let stats = open(scratch.root()).unwrap().statistics(0);
    let bound = |bound: Option<ArrayRef>| bound.unwrap().as_primitive::<Int64Type>().value(0);
    assert_eq!((bound(stats.min), bound(stats.max), stats.exact, stats.nulls), (-5, 129, true, Some(0)));
    let sorted = WriterProperties::builder().set_sorting_columns(Some(order)).build();
    write_parquet(&scratch.path("3"), &[numbers("a", true, 0..9)], sorted);
    let options = SortOptions { descending: false, nulls_first: false };
    assert_eq!(open(scratch.path("3")).unwrap().declared_order(), [SortKey { column: 0, options }]);
    assert_eq!(open(scratch.path("2")).unwrap().declared_order(), []);
    for (values, expected) in
        [(vec![0, 1, 2, 3], 2), (vec![0, 1, 1, 3], 1), (vec![2, 3, 0, 1], 0), (vec![0, 0, 0, 0], 1)]
    {
        let order =
            [0, 1].map(|column_idx| SortingColumn { column_idx, descending: false, nulls_first: false });
        let properties = WriterProperties::builder()
            .set_sorting_columns(Some(order.into()))
            .set_max_row_group_row_count(Some(2));
        let second: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
        let first: ArrayRef = Arc::new(Int64Array::from(values));
        let batch = RecordBatch::try_from_iter([("a", first), ("b", second)]).unwrap();
        write_parquet(&scratch.path("5"), &[batch], properties.build());
        assert_eq!(open(scratch.path("5")).unwrap().declared_order().len(), expected);
    }
    let (batch, path) = (common(&mut Random::new(3), 50), scratch.path("4"));
    write_parquet(&path, std::slice::from_ref(&batch), WriterProperties::default());
    let table = open(&path).unwrap();
    for column in 0..batch.num_columns() {
        let stats = table.statistics(column);
        if let Some(nulls) = stats.nulls {
            assert_eq!(nulls, batch.column(column).logical_null_count() as u64, "column {column}");
        }
        if let Some(min) = stats.min {
            assert_eq!(min.len(), 1);
            assert_eq!(min.data_type(), batch.column(column).data_type());
        }
    }
}

fn representative() -> RecordBatch {
    let decimals =
        Decimal128Array::from_iter_values((0..3000).map(|at| at * 7)).with_precision_and_scale(15, 2);
    let flags = StringViewArray::from_iter_values((0..3000).map(|at| ["A", "N", "R"][at % 3]));
    let unique = StringViewArray::from_iter_values((0..3000).map(|at| format!("a long unique text {at}")));
    let columns: [(&str, ArrayRef); 3] =
        [("d", Arc::new(decimals.unwrap())), ("f", Arc::new(flags)), ("u", Arc::new(unique))];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn representations_change_types_and_no_value() {
    let scratch = Scratch::new("representation");
    let batch = representative();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(1000))
        .set_column_dictionary_enabled("u".into(), false)
        .set_compression(Compression::SNAPPY);
    write_parquet(&scratch.path("p"), std::slice::from_ref(&batch), properties.build());
    write_file(&scratch.path("f"), std::slice::from_ref(&batch), IpcWriteOptions::default());
    let job = job(64 * MIB);
    for (name, flag) in [("p", "Dictionary(Int32, Utf8)"), ("f", "Utf8")] {
        let table = open(scratch.path(name)).unwrap();
        assert_eq!(table.schema().fields(), batch.schema().fields(), "{name}");
        let options =
            ScanOptions { representation: Representation::COMPACT, ..ScanOptions::new(vec![0, 1, 2]) };
        let found = rows(&table, &job, &options).unwrap();
        let types: Vec<String> =
            found.columns().iter().map(|column| column.data_type().to_string()).collect();
        assert_eq!(types, ["Decimal64(15, 2)", flag, "Utf8"], "{name}");
        for (column, expected) in found.columns().iter().zip(batch.columns()) {
            assert_eq!(&types::converted(column, expected.data_type()).unwrap(), expected, "{name}");
        }
    }
}

/// Makes a FIFO that a thread writes to.
fn piped(scratch: &Scratch, bytes: Vec<u8>) -> PathBuf {
    let path = scratch.path("pipe");
    let _ = std::fs::remove_file(&path);
    let name = CString::new(path.to_str().unwrap()).unwrap();
    drop(name);
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let target = path.clone();
    thread::spawn(move || {
        let mut file = std::fs::OpenOptions::new().write(true).open(target).unwrap();
        let _ = file.write_all(&bytes);
    });
    path
}

#[test]
fn streams_are_read_as_they_come_or_spooled() {
    let scratch = Scratch::new("streams");
    let mut random = Random::new(5);
    let batches = [common(&mut random, 90), common(&mut random, 60)];
    let expected = concat_batches(&batches[0].schema(), &batches).unwrap();
    write_stream(&scratch.path("s"), &batches, IpcWriteOptions::default());
    write_file(&scratch.path("f"), &batches, IpcWriteOptions::default());
    write_parquet(&scratch.path("p"), &batches, WriterProperties::default());
    let options = OpenOptions { spool: Some(scratch.root().to_owned()), ..OpenOptions::default() };
    let job = job(64 * MIB);
    for (name, is_stream) in [("s", true), ("f", false), ("p", false)] {
        let bytes = std::fs::read(scratch.path(name)).unwrap();
        let mut table = Table::open(&[piped(&scratch, bytes)], &options).unwrap();
        assert_eq!(table.is_stream(), is_stream, "{name}");
        if is_stream {
            assert!(table.sample(&job, &[0], 10).is_err());
        }
        assert_eq!(rows(&table, &job, &ScanOptions::new(all(&table))).unwrap(), expected, "{name}");
        let again = rows(&table, &job, &ScanOptions::new(all(&table)));
        assert_eq!(again.is_ok(), !is_stream, "{name}");
        assert_eq!(table.format() == Format::ArrowStream, is_stream, "{name}");
        assert_eq!(table.spool(&job).is_ok(), !is_stream, "{name}");
        let bytes = std::fs::read(scratch.path(name)).unwrap();
        let mut table = Table::open(&[piped(&scratch, bytes)], &options).unwrap();
        table.spool(&job).unwrap();
        for _ in 0..2 {
            assert_eq!(rows(&table, &job, &ScanOptions::new(all(&table))).unwrap(), expected, "{name}");
        }
        assert_eq!(table.rows(), Some(150), "{name}");
    }
}

#[test]
fn the_dictionaries_of_a_stream_are_reserved_while_it_is_scanned() {
    let scratch = Scratch::new("stream_dictionary");
    let values = StringArray::from_iter_values((0..2000).map(|at| format!("{at:01000}")));
    let keys = arrow_array::Int32Array::from_iter_values(0..2000);
    let column: ArrayRef = Arc::new(arrow_array::DictionaryArray::new(keys, Arc::new(values)));
    let batch = RecordBatch::try_from_iter([("d", column)]).unwrap();
    write_stream(&scratch.path("s"), &[batch.clone(), batch], IpcWriteOptions::default());
    let table = open(piped(&scratch, std::fs::read(scratch.path("s")).unwrap())).unwrap();
    let (job, memory) = (job(32 * MIB), 2 * MIB);
    let before = job.available();
    let mut streams = table.scan(&job, &ScanOptions { memory, ..ScanOptions::new(vec![0]) }).unwrap();
    while let Some(batch) = streams[0].next().unwrap() {
        drop(batch);
        assert!(before - job.available() >= MIB + 2_000_000, "{} bytes", before - job.available());
    }
    drop(streams);
    assert_eq!(job.available(), before);
}

#[test]
fn a_stream_is_not_copied_for_a_cancelled_job() {
    let scratch = Scratch::new("spool_cancelled");
    let lines: String = (0..500_000).map(|at| format!("{at},x\n")).collect();
    let mut table = open(piped(&scratch, format!("a,b\n{lines}").into_bytes())).unwrap();
    let job = job(32 * MIB);
    job.cancel();
    assert!(matches!(table.spool(&job), Err(Error::Cancelled)));
}

#[test]
fn errors_of_a_stream_give_its_lines() {
    let scratch = Scratch::new("stream_offset");
    let lines: String = (0..400_000).map(|at| format!("{at},x\n")).collect();
    let text = format!("a,b\n{lines}bad,x\n");
    let failed =
        |table: Table| rows(&table, &job(32 * MIB), &ScanOptions::new(vec![0])).unwrap_err().to_string();
    let by_file = failed(open(scratch.file("f", &text)).unwrap());
    let by_pipe = failed(open(piped(&scratch, text.into_bytes())).unwrap());
    assert!(by_file.contains(": line 400002: 'bad' in column a"), "{by_file}");
    assert!(by_pipe.contains(": line 400002: 'bad' in column a"), "{by_pipe}");
}

#[test]
fn text_comes_by_a_pipe() {
    let scratch = Scratch::new("text_stream");
    let text: String = (0..300_000).map(|at| format!("{at},\"x\n{at}\"\n")).collect();
    let path = piped(&scratch, format!("a,b\n{text}").into_bytes());
    let table = open(&path).unwrap();
    let found = rows(&table, &job(32 * MIB), &ScanOptions::new(vec![1, 0])).unwrap();
    let expected: Vec<i64> = (0..300_000).collect();
    assert_eq!(found.column(1).as_primitive::<Int64Type>().values(), &expected[..]);
    let path = piped(&scratch, format!("a,b\n{text}").into_bytes());
    let mut table =
        Table::open(&[path], &OpenOptions { spool: Some(scratch.root().into()), ..OpenOptions::default() })
            .unwrap();
    table.spool(&job(32 * MIB)).unwrap();
    assert_eq!(rows(&table, &job(32 * MIB), &ScanOptions::new(vec![0])).unwrap().num_rows(), 300_000);
}

#[test]
fn samples_come_from_everywhere_and_are_the_same_each_time() {
    let scratch = Scratch::new("sample");
    let batch = numbers("a", true, 0..200_000);
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(3000)).build();
    write_parquet(&scratch.path("p"), std::slice::from_ref(&batch), properties);
    let (table, job) = (open(scratch.path("p")).unwrap(), job(32 * MIB));
    let sample = table.sample(&job, &[0], 1000).unwrap();
    assert_eq!(table.sample(&job, &[0], 1000).unwrap(), sample);
    let values = sample.column(0).as_primitive::<Int64Type>().values();
    assert!((950..=1050).contains(&values.len()));
    for part in 0..10 {
        let inside = values.iter().filter(|&&value| value / 20_000 == part).count();
        assert!((60..140).contains(&inside), "{inside} of {} in part {part}", values.len());
    }
}

#[test]
fn a_file_that_was_replaced_is_an_error() {
    let scratch = Scratch::new("replaced");
    write_parquet(&scratch.path("p"), &[numbers("a", true, 0..100)], WriterProperties::default());
    let table = open(scratch.path("p")).unwrap();
    write_parquet(&scratch.path("p"), &[numbers("a", true, 0..20_000)], WriterProperties::default());
    let error = rows(&table, &job(32 * MIB), &ScanOptions::new(vec![0])).unwrap_err().to_string();
    assert!(error.contains("when the table was opened"), "{error}");
}

#[test]
fn columns_that_are_not_there_are_refused() {
    let scratch = Scratch::new("columns");
    write_parquet(&scratch.path("p"), &[numbers("a", true, 0..100)], WriterProperties::default());
    let table = open(scratch.path("p")).unwrap();
    let job = job(32 * MIB);
    assert!(table.scan(&job, &ScanOptions::new(vec![1])).is_err());
    job.cancel();
    let error = rows(&table, &job, &ScanOptions::new(vec![0])).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
}

#[test]
fn floating_point_bounds_do_not_count_nan() {
    let scratch = Scratch::new("nan");
    let column: ArrayRef = Arc::new(Float64Array::from(vec![1.0, f64::NAN, -2.0]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "c", "b"]));
    let batch = RecordBatch::try_from_iter([("x", column), ("s", texts)]).unwrap();
    write_parquet(&scratch.path("p"), &[batch], WriterProperties::default());
    let table = open(scratch.path("p")).unwrap();
    let stats = table.statistics(0);
    assert_eq!(stats.max.unwrap().as_primitive::<arrow_array::types::Float64Type>().value(0), 1.0);
    assert_eq!(table.statistics(1).max.unwrap().as_string::<i32>().value(0), "c");
}
