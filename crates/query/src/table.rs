//! Files as tables.

use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::{Batches, Error, Job};

/// Files of one schema, read as one table.
#[derive(Debug)]
pub struct Table {}

/// What is known of files before they are opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The format, where a name's ending does not tell it.
    pub format: Option<Format>,
}

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, a file with a footer.
    ArrowFile,
    /// Arrow IPC, a stream.
    ArrowStream,
    /// Comma-separated values with a header.
    Csv,
}

/// How a table is scanned.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// Places of the columns, in the order in which batches have them.
    pub columns: Vec<usize>,
    /// Streams that share the rows.
    pub streams: usize,
    /// Rows of a batch, at most.
    pub batch_rows: usize,
    /// Bytes for buffers and decoders of all streams together.
    pub memory: usize,
    /// Whether rows come in the order of the files; only with one stream.
    pub ordered: bool,
}

impl Table {
    /// Opens files, or all of a directory, as one table; `-` is the standard input.
    ///
    /// # Errors
    /// If a file is no table, or has another schema than the first.
    pub fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Table, Error> {
        let _ = (paths, options);
        unimplemented!("table")
    }

    /// Names and types of the columns.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        unimplemented!("table")
    }

    /// Number of rows, where the files tell it without being read.
    #[must_use]
    pub fn rows(&self) -> Option<u64> {
        unimplemented!("table")
    }

    /// Bytes that a scan of some columns reads.
    #[must_use]
    pub fn bytes(&self, columns: &[usize]) -> u64 {
        let _ = columns;
        unimplemented!("table")
    }

    /// Begins a scan: one stream for each thread.
    ///
    /// # Errors
    /// If the memory is not enough, or a file cannot be read.
    pub fn scan(&self, job: &Job, options: &ScanOptions) -> Result<Vec<Box<dyn Batches>>, Error> {
        let _ = (job, options);
        unimplemented!("table")
    }

    /// About `rows` rows from places all over the table, always the same ones.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn sample(&self, job: &Job, columns: &[usize], rows: usize) -> Result<RecordBatch, Error> {
        let _ = (job, columns, rows);
        unimplemented!("table")
    }
}
