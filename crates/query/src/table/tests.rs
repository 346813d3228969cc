//! Tests of tables against files written by the libraries.

mod arrays;
mod csv;
mod damage;
mod division;
mod faults;
mod files;
mod given;
mod hostile;
mod memory;
mod prune;
mod round_trip;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use ::parquet::arrow::ArrowWriter;
use ::parquet::file::properties::WriterProperties;
use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_select::concat::concat_batches;
use sakiyomi_testing::Scratch;

use super::*;
use crate::JobOptions;

/// A job of `memory` bytes.
fn job(memory: usize) -> Job {
    Job::new(JobOptions { memory, threads: 2, ..JobOptions::default() }).unwrap()
}

const MIB: usize = 1 << 20;

fn open(path: impl AsRef<Path>) -> Result<Table, Error> {
    Table::open(&[path.as_ref().to_path_buf()], &OpenOptions::default())
}

/// Indices of all columns.
fn all(table: &Table) -> Vec<usize> {
    (0..table.schema().fields().len()).collect()
}

/// All rows of a scan, of all its streams in order.
fn rows(table: &Table, job: &Job, options: &ScanOptions) -> Result<RecordBatch, Error> {
    let mut batches = Vec::new();
    let schema = table.scan_schema(&options.columns, options.representation);
    for mut stream in table.scan(job, options)? {
        assert_eq!(stream.schema(), schema);
        while let Some(batch) = stream.next()? {
            assert!((1..=options.batch_rows).contains(&batch.num_rows()));
            assert_eq!(batch.schema(), schema);
            // Copied, because batches may point into the job's buffers.
            let half = batch.num_rows() / 2;
            let halves = [batch.slice(0, half), batch.slice(half, batch.num_rows() - half)];
            batches.push(if schema.fields().is_empty() { batch } else { concat_batches(&schema, &halves)? });
        }
    }
    if schema.fields().is_empty() {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        return types::with_rows(&schema, Vec::new(), rows);
    }
    Ok(concat_batches(&schema, &batches)?)
}

/// All rows of all columns.
fn read(path: impl AsRef<Path>) -> Result<RecordBatch, Error> {
    let (table, job) = (open(path)?, job(64 * MIB));
    rows(&table, &job, &ScanOptions::new(all(&table)))
}

fn write_parquet(path: &Path, batches: &[RecordBatch], properties: WriterProperties) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
}

fn write_file(path: &Path, batches: &[RecordBatch], options: IpcWriteOptions) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = FileWriter::try_new_with_options(file, &batches[0].schema(), options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
}

fn write_stream(path: &Path, batches: &[RecordBatch], options: IpcWriteOptions) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = StreamWriter::try_new_with_options(file, &batches[0].schema(), options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
}
