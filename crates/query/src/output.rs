//! Files as results: encoded on many threads, appended in order.

use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::table::Format;
use crate::{Error, Job};

/// How a result is written.
#[derive(Clone, Debug)]
pub struct OutputOptions {
    /// The format; told by the name's ending where it has one.
    pub format: Format,
    /// Compression of Parquet pages and of Arrow IPC buffers.
    pub compression: Compression,
    /// Rows of a group (a Parquet row group, an IPC record batch), at most.
    pub group_rows: usize,
}

/// Compression of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// None.
    #[default]
    None,
    /// Snappy (Parquet only).
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard, level 1.
    Zstd,
}

/// Where a result goes.
#[derive(Clone, Debug)]
pub enum Target {
    /// A file, which appears when it is whole.
    File(PathBuf),
    /// The standard output.
    Stdout,
}

/// A result that is being written; nothing appears unless it is finished.
#[derive(Debug)]
pub struct Output {}

/// Turns batches into groups, on any thread.
#[derive(Clone, Debug)]
pub struct Encoder {}

/// A group of rows, encoded.
#[derive(Debug)]
pub struct Encoded {}

impl Output {
    /// Begins a result.
    ///
    /// # Errors
    /// If the file cannot be made, or the format cannot hold the schema.
    pub fn create(
        job: &Job,
        target: &Target,
        schema: &SchemaRef,
        options: &OutputOptions,
    ) -> Result<Output, Error> {
        let _ = (job, target, schema, options);
        unimplemented!("output")
    }

    /// What encodes groups for it.
    #[must_use]
    pub fn encoder(&self) -> Encoder {
        unimplemented!("output")
    }

    /// Appends a group.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, group: Encoded) -> Result<(), Error> {
        let _ = group;
        unimplemented!("output")
    }

    /// Ends the result, which appears under its name; gives its bytes.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> Result<u64, Error> {
        unimplemented!("output")
    }
}

impl Encoder {
    /// Encodes rows as one group.
    ///
    /// # Errors
    /// If the format cannot hold them.
    pub fn encode(&self, batches: &[RecordBatch]) -> Result<Encoded, Error> {
        let _ = batches;
        unimplemented!("output")
    }
}
