//! Memory from the allocator, against what files have and the limits of jobs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use arrow_array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use sakiyomi_query::generate::{ColumnTypes, GenerateOptions, TpchTable, generate_file, schema};
use sakiyomi_query::output::{OutputOptions, Target};
use sakiyomi_query::statement::{Destination, Input, Sort, Statement};
use sakiyomi_query::table::{Format, OpenOptions, Table};
use sakiyomi_query::{Error, Job, JobOptions};
use sakiyomi_testing::{Scratch, peak_bytes};

use crate::ALONE;

const MIB: usize = 1 << 20;

fn open(path: &Path) -> Table {
    Table::open(&[path.to_owned()], &OpenOptions::default()).unwrap()
}

fn job(scratch: &Scratch, memory: usize) -> Job {
    let spill = vec![scratch.root().to_owned()];
    Job::new(JobOptions { memory, threads: 2, spill, ..JobOptions::default() }).unwrap()
}

/// Numbers without an order in some columns.
fn numbers(columns: usize, rows: usize) -> RecordBatch {
    let column = |at: usize| -> (String, ArrayRef) {
        let number = |row: usize| (row * 31 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64;
        (format!("c{at}"), Arc::new(Int64Array::from_iter_values((0..rows).map(number))))
    };
    RecordBatch::try_from_iter((0..columns).map(column)).unwrap()
}

fn write_parquet(path: &Path, batch: &RecordBatch, group_rows: usize) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group_rows));
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn the_metadata_of_a_column_chunk_take_little_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new("metadata_memory");
    let (columns, groups) = (16, 600);
    write_parquet(&scratch.path("p"), &numbers(columns, 4 * groups), 4);
    let mut table = None;
    let peak = peak_bytes(|| table = Some(open(&scratch.path("p"))));
    // The footer has about 170 bytes for each, with their bounds.
    let of_chunk = peak / (columns * groups);
    assert!(of_chunk < 320, "{of_chunk} bytes for a column chunk");
    assert_eq!(table.unwrap().rows(), Some(4 * groups as u64));
}

#[test]
fn an_arrow_file_is_opened_without_its_dictionaries() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new("dictionary_memory");
    let values = StringArray::from_iter_values((0..8).map(|value| format!("{value}").repeat(MIB)));
    let keys = Int32Array::from_iter_values((0..100).map(|row| row % 8));
    let coded: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(values)));
    let batch = RecordBatch::try_from_iter([("d", coded)]).unwrap();
    let file = File::create(scratch.path("t")).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop((writer, batch));
    let peak = peak_bytes(|| drop(open(&scratch.path("t"))));
    assert!(peak < MIB, "{peak} bytes");
}

#[test]
fn a_shuffled_table_is_generated_within_the_limit() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new("shuffle_memory");
    let (table, scale, types) = (TpchTable::Lineitem, 0.03, ColumnTypes::Standard);
    let mut options = GenerateOptions { table, scale, columns: Vec::new(), shuffle: Some(1), types };
    let all = schema(&options).unwrap();
    let names = all.fields().iter().map(|field| field.name().clone());
    options.columns = names.filter(|name| name != "l_comment").collect();
    let limit = 64 * MIB;
    let job = job(&scratch, limit);
    let target = Target::File(scratch.path("t"));
    let peak = peak_bytes(|| {
        let output = OutputOptions::new(Format::Parquet);
        let made = generate_file(&job, &options, &target, &output, &mut |_| ()).unwrap();
        assert!(made.rows.abs_diff(180_000) < 2_000, "{} rows", made.rows);
    });
    // Besides, the buffers of spill files.
    assert!(peak + job.io().pool().resident() <= limit, "{peak} bytes");
}

#[test]
fn comments_are_refused_if_the_limit_is_less_than_their_text() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new("comment_memory");
    let (table, columns, types) = (TpchTable::Region, Vec::new(), ColumnTypes::Standard);
    for shuffle in [None, Some(1)] {
        let options = GenerateOptions { table, scale: 1.0, columns: columns.clone(), shuffle, types };
        let (job, target) = (job(&scratch, 256 * MIB), Target::File(scratch.path("t")));
        let output = OutputOptions::new(Format::Parquet);
        let refused = generate_file(&job, &options, &target, &output, &mut |_| ()).unwrap_err().to_string();
        assert!(refused.contains("comment") && refused.contains("raise --memory"), "{refused}");
        assert_eq!(scratch.entries(), 0);
    }
}

#[test]
fn a_sample_takes_as_much_memory_as_its_rows() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new("sample_memory");
    let (columns, groups) = (16, 128);
    write_parquet(&scratch.path("p"), &numbers(columns, 200 * groups), 200);
    let (table, job) = (open(&scratch.path("p")), job(&scratch, 64 * MIB));
    let all: Vec<usize> = (0..columns).collect();
    let peak = peak_bytes(|| {
        let sample = table.sample(&job, &all, 2000).unwrap();
        assert!((1000..3000).contains(&sample.num_rows()), "{} rows", sample.num_rows());
    });
    // The rows have 256 KB; each of the row groups had buffers for 8,192 rows.
    assert!(peak < 3 * MIB, "{peak} bytes");
}

/// Sorts a table into a Parquet file within a limit; returns the outcome and the most bytes in memory.
fn sorted(scratch: &Scratch, path: PathBuf, limit: usize) -> (Result<u64, Error>, usize) {
    let job = job(scratch, limit);
    let mut outcome = Err(Error::Cancelled);
    let peak = peak_bytes(|| {
        let sort = Sort { by: "c0".to_owned(), limit: None, stable: false };
        let target = Target::File(scratch.path("sorted"));
        let destination = Destination::File { target, options: OutputOptions::new(Format::Parquet) };
        let table = Table::open(&[path], &OpenOptions::default()).unwrap();
        let statement = Statement::Sort(Input::all(table), sort);
        outcome = statement.run(&job, &destination, None).map(|outcome| outcome.output_rows);
    });
    (outcome, peak + job.io().pool().resident())
}

#[test]
fn a_table_of_a_thousand_columns_is_sorted_within_the_limit_or_refused() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new("wide_memory");
    let rows = 3000;
    write_parquet(&scratch.path("p"), &numbers(1000, rows), rows);
    for limit in [32, 48, 96] {
        let (outcome, peak) = sorted(&scratch, scratch.path("p"), limit * MIB);
        match outcome {
            Ok(found) => assert_eq!(found, rows as u64),
            Err(Error::Memory { needed, .. }) => assert!(limit < 96, "{limit} MiB, {needed} bytes"),
            Err(error) => panic!("{limit} MiB: {error}"),
        }
        // Small structures of the library, and stacks, are not counted.
        assert!(peak <= (limit + 8) * MIB, "{limit} MiB: {peak} bytes");
    }
}
