//! Statements on adversarial tables, with a memory limit that is small in proportion: each ends with the right rows, or is
//! refused with the limit as the reason.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;
use sakiyomi_testing::{Scratch, skipped};

use super::*;
use crate::aggregate::Function;
use crate::join::JoinKind;
use crate::output::{OutputOptions, Target};
use crate::table::{Format, OpenOptions, Table};
use crate::{Error, Job, JobOptions};

const MIB: usize = 1 << 20;

pub(super) fn job(spill: &Path, memory: usize, threads: usize) -> Job {
    Job::new(JobOptions { memory, threads, spill: vec![spill.to_owned()], ..JobOptions::default() }).unwrap()
}

/// Writes a table of one row group.
pub(super) fn write(path: PathBuf, batch: &RecordBatch) -> Table {
    let properties =
        WriterProperties::builder().set_max_row_group_row_count(None).set_dictionary_enabled(false);
    let mut writer =
        ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), Some(properties.build())).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    Table::open(&[path], &OpenOptions::default()).unwrap()
}

pub(super) fn to_file(path: PathBuf) -> Destination {
    Destination::File { target: Target::File(path), options: OutputOptions::new(Format::Parquet) }
}

/// The first column of a file.
fn numbers(path: &Path) -> Vec<i64> {
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap().build().unwrap();
    reader.flat_map(|batch| batch.unwrap().column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn sorted(table: Table, job: &Job, path: &Path) -> Result<Outcome, Error> {
    let by = Sort { by: "k".to_owned(), limit: None, stable: false };
    let outcome = sort(job, Input::all(table), &by, &to_file(path.to_owned()), None);
    assert!(job.io().pool().resident() <= job.io().pool().budget());
    outcome
}

pub(super) fn key(row: i64) -> i64 {
    (row + 1).wrapping_mul(6_364_136_223_846_793_005)
}

pub(super) fn rows(rows: i64, key: impl Fn(i64) -> i64, text: impl Fn(i64) -> String) -> RecordBatch {
    let keys = Int64Array::from_iter_values((0..rows).map(key));
    let texts = StringArray::from_iter_values((0..rows).map(text));
    let columns: [(&str, ArrayRef); 2] = [("k", Arc::new(keys)), ("t", Arc::new(texts))];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Sorts a table with each number of threads.
fn check_sort(name: &str, batch: &RecordBatch, memory: usize, threads: &[usize]) {
    let scratch = Scratch::new(name);
    let mut expected: Vec<i64> = batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    expected.sort_unstable();
    for &threads in threads {
        let job = job(scratch.root(), memory, threads);
        let output = scratch.path("o");
        sorted(write(scratch.path("t"), batch), &job, &output).unwrap();
        assert!(numbers(&output) == expected, "{threads} threads");
    }
}

#[test]
fn one_row_group_larger_than_the_memory() {
    check_sort("one-group", &rows(150_000, key, |row| format!("{row:060}")), 12 * MIB, &[1, 2]);
}

#[test]
fn all_keys_are_equal() {
    check_sort("equal", &rows(100_000, |_| 7, |row| format!("{row:090}")), 12 * MIB, &[2]);
}

#[test]
fn many_threads_share_little_memory() {
    check_sort("threads", &rows(40_000, key, |row| format!("{row:060}")), 32 * MIB, &[16]);
}

#[test]
fn a_thousand_columns() {
    let column = |at: i64| -> (String, ArrayRef) {
        let name = if at == 0 { "k".to_owned() } else { format!("c{at}") };
        (name, Arc::new(Int64Array::from_iter_values((0..1200).map(|row| key(row ^ (at << 20))))))
    };
    let batch = RecordBatch::try_from_iter((0..1000).map(column)).unwrap();
    check_sort("thousand", &batch, 32 * MIB, &[2]);
}

#[test]
fn a_long_string_is_sorted_or_refused() {
    let text = |row: i64| "x".repeat(if row == 500 { 3 * MIB } else { 10 });
    let batch = rows(1000, key, text);
    check_sort("long", &batch, 64 * MIB, &[1, 2]);
    let scratch = Scratch::new("long-refused");
    for memory in [3 * MIB, 4 * MIB, 6 * MIB] {
        let table = write(scratch.path("t"), &batch);
        let output = scratch.path("o");
        let error = sorted(table, &job(scratch.root(), memory, 2), &output).unwrap_err();
        assert!(matches!(error, Error::Memory { .. }), "{memory}: {error:?}");
        assert!(!output.exists(), "a result of a statement that failed");
    }
}

#[test]
fn a_group_of_equal_keys_larger_than_the_memory() {
    let scratch = Scratch::new("join-group");
    let batch = rows(60, |_| 1, |row| format!("{row:040000}"));
    let (left, right) = (write(scratch.path("l"), &batch), write(scratch.path("r"), &batch));
    let job = job(scratch.root(), 12 * MIB, 2);
    let on = Join {
        on: "k".to_owned(),
        kind: JoinKind::Inner,
        method: None,
        filter: None,
        // The texts are needed on both sides.
        select: Some("k as k, length(t) + length(t_right) as n".to_owned()),
    };
    let output = scratch.path("o");
    join(&job, left, right, &on, &to_file(output.clone()), None).unwrap();
    assert_eq!(numbers(&output), vec![1; 3600]);
}

/// The rows of a file of numbers, in order.
fn number_rows(path: &Path) -> Vec<Vec<Option<i64>>> {
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap().build().unwrap();
    let of_batch = |batch: RecordBatch| {
        let columns: Vec<Int64Array> =
            batch.columns().iter().map(|column| column.as_primitive::<Int64Type>().clone()).collect();
        let row = move |row| columns.iter().map(|column| column.iter().nth(row).unwrap()).collect();
        (0..batch.num_rows()).map(row).collect::<Vec<Vec<Option<i64>>>>()
    };
    let mut rows: Vec<_> = reader.flat_map(|batch| of_batch(batch.unwrap())).collect();
    rows.sort();
    rows
}

#[test]
fn a_join_that_reads_only_the_columns_of_its_expressions_has_the_rows_of_one_that_reads_all() {
    let scratch = Scratch::new("join-columns");
    let column = |factor: i64, modulus: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter((0..200).map(|row| (row % 7 > 0).then_some(row * factor % modulus))))
    };
    let table = |name: &str, columns: [(&str, ArrayRef); 5]| {
        write(
            scratch.path(name),
            &RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
                .unwrap(),
        )
    };
    let left = || {
        table(
            "l",
            [
                ("a", column(3, 50)),
                ("k", column(1, 90)),
                ("b", column(7, 31)),
                ("x", column(5, 23)),
                ("c", column(11, 41)),
            ],
        )
    };
    let right = || {
        table(
            "r",
            [
                ("c", column(2, 43)),
                ("b", column(13, 60)),
                ("k", column(1, 70)),
                ("y", column(5, 23)),
                ("d", column(9, 37)),
            ],
        )
    };
    // Expressions on names with and without a suffix, merged keys, keys of other names, and no columns of one side.
    let paired = [
        ("k=k", "b_right, c + 1 as n, k", Some("c_right < 30 or b_right is null")),
        ("x=y, k=k", "d", None),
        ("x=y", "k_right, k", Some("a < 40")),
        ("k=k", "a", None),
    ];
    let kinds =
        [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full, JoinKind::Semi, JoinKind::Anti];
    for kind in kinds {
        let single = [("k=k", "c", Some("b < 20")), ("x=y", "k, a", None)];
        for (on, select, filter) in if kind.gives_pairs() { &paired[..] } else { &single[..] } {
            let join_with = |select: Option<&str>, filter: Option<&str>, name: &str| {
                let (select, filter) = (select.map(str::to_owned), filter.map(str::to_owned));
                let on = Join { on: (*on).to_owned(), kind, filter, select, method: None };
                let output = scratch.path(name);
                join(&job(scratch.root(), 64 * MIB, 2), left(), right(), &on, &to_file(output.clone()), None)
                    .unwrap();
                output
            };
            let found = join_with(Some(select), *filter, "some");
            // The expressions on the rows of the whole join.
            let all = Table::open(&[join_with(None, None, "all")], &OpenOptions::default()).unwrap();
            let input =
                Input { table: all, filter: filter.map(str::to_owned), select: Some((*select).to_owned()) };
            let expected = scratch.path("expected");
            let first = select.split(',').next().unwrap().trim();
            let by = Sort { by: first.to_owned(), limit: None, stable: false };
            sort(&job(scratch.root(), 64 * MIB, 1), input, &by, &to_file(expected.clone()), None).unwrap();
            let expected = number_rows(&expected);
            assert!(!expected.is_empty() || kind == JoinKind::Anti, "{kind:?} {on} {select}");
            assert_eq!(number_rows(&found), expected, "{kind:?} {on} {select} {filter:?}");
        }
    }
}

#[test]
fn as_many_groups_as_rows() {
    let scratch = Scratch::new("groups");
    let batch = rows(60_000, key, |row| format!("{row:020}"));
    for threads in [1, 4] {
        let job = job(scratch.root(), 12 * MIB, threads);
        let by = Aggregate {
            by: Some("k".to_owned()),
            functions: vec![(Function::Max, "t".to_owned())],
            count: true,
        };
        let output = scratch.path("o");
        let table = write(scratch.path("t"), &batch);
        aggregate(&job, Input::all(table), &by, &to_file(output.clone())).unwrap();
        let mut found = numbers(&output);
        found.sort_unstable();
        let mut expected: Vec<i64> = (0..60_000).map(key).collect();
        expected.sort_unstable();
        assert!(found == expected, "{threads} threads");
        assert!(job.phases().list().iter().any(|phase| phase.name == "write groups"), "nothing was spilled");
    }
}

#[test]
fn progress_ends_at_its_total_however_many_rows_pass() {
    let scratch = Scratch::new("progress");
    let batch = rows(3000, |row| row % 1500, |row| format!("{row:020}"));
    for filter in [None, Some("k < 500"), Some("k < 0")] {
        let input = || Input {
            table: write(scratch.path("t"), &batch),
            filter: filter.map(str::to_owned),
            select: None,
        };
        for limit in [None, Some(100)] {
            let job = job(scratch.root(), 32 * MIB, 2);
            let by = Sort { by: "k".to_owned(), limit, stable: false };
            let outcome = sort(&job, input(), &by, &to_file(scratch.path("o")), None).unwrap();
            let (end, expected) = (job.progress().snapshot(), outcome.input_rows + outcome.output_rows);
            assert_eq!((end.done_rows, end.total_rows), (expected, expected), "{filter:?}, {limit:?}");
        }
        let job = job(scratch.root(), 32 * MIB, 2);
        let by = Aggregate { by: Some("k".to_owned()), functions: Vec::new(), count: true };
        aggregate(&job, input(), &by, &to_file(scratch.path("o"))).unwrap();
        let end = job.progress().snapshot();
        assert_eq!(end.done_rows, end.total_rows, "{filter:?}");
    }
}

/// A directory that is removed on drop.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_spill_directory_in_memory_counts_against_the_limit() {
    let directory = PathBuf::from(format!("/dev/shm/sakiyomi-test-{}", std::process::id()));
    if std::fs::create_dir(&directory).is_err() {
        skipped("a_spill_directory_in_memory_counts_against_the_limit", "needs a writable /dev/shm");
        return;
    }
    let directory = Removed(directory);
    let scratch = Scratch::new("tmpfs");
    let batch = rows(120_000, key, |row| format!("{row:060}"));
    let output = scratch.path("o");
    let spilled_too_much =
        sorted(write(scratch.path("t"), &batch), &job(&directory.0, 8 * MIB, 2), &output).unwrap_err();
    let mut text = spilled_too_much.to_string();
    let mut source = std::error::Error::source(&spilled_too_much);
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    assert!(text.contains("choose a directory on disk"), "{text}");
    let job = job(&directory.0, 64 * MIB, 2);
    sorted(write(scratch.path("t"), &batch), &job, &output).unwrap();
    assert!(numbers(&output).is_sorted());
    let before = job.available();
    let spill = job.spill_file(&directory.0).unwrap();
    let mut run = spill.run(&sakiyomi_io::WriteOptions::default()).unwrap();
    std::io::Write::write_all(&mut run, &[1; 100_000]).unwrap();
    let run = run.finish().unwrap();
    assert!(job.available() <= before - 100_000);
    drop((run, spill));
    assert_eq!(job.available(), before);
}
