//! Files as tables: Parquet, Arrow IPC and CSV; which bytes a scan reads, and when.
//!
//! ```text
//! paths ─► source ─► content ─► plan ─┬─► fetch ─► parquet, arrow ─► types ─► batches
//!          files     footers,         └─► csv ───────────────────────┘
//!                    schemas
//! ```
//!
//! A scan has one worker for each stream. Workers claim row groups or record batches (`claims`), whose bytes are read
//! ahead through the job's engine and buffers (`fetch`) while the worker decodes the one before. The memory of a scan is
//! divided in half: one for the bytes of files, which is the job's pool, and one for pages and batches, which is reserved
//! in the job (`allowance`). Files are not trusted: each number is checked against the file's size before it is used, and
//! a panic of a decoder is an error (`guard`).

mod allowance;
mod arrow;
mod claims;
mod content;
mod csv;
mod fetch;
mod guard;
mod options;
mod parquet;
mod plan;
mod sample;
mod source;
mod stream;
mod types;

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use content::{Content, Data};
use source::Given;
use stream::{Opened, Stream};

pub use options::{ColumnStatistics, ColumnStorage, Format, OpenOptions, Representation, ScanOptions};

use crate::order::SortKey;
use crate::{Batches, Error, Job};

/// Files of one schema, read as one table.
#[derive(Debug)]
pub struct Table {
    data: Data,
    options: OpenOptions,
}

impl Table {
    /// Opens files, or all of a directory, as one table; `-` is the standard input. Files lie one after the other in the
    /// order in which they are given, those of a directory by their names; hidden files are left out.
    ///
    /// # Errors
    /// If a file is no table, or has another schema than the first.
    pub fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Table, Error> {
        let data = match source::resolve(paths)? {
            Given::Files(files) => content::open_files(&files, options)?,
            Given::Stream(path) => match Stream::open(&path, options)? {
                Opened::Stream(schema, stream) => {
                    Data { schema, content: Content::Stream(Some(stream).into()) }
                }
                Opened::File(source) => content::open_sources(vec![source], options)?,
            },
        };
        Ok(Table { data, options: options.clone() })
    }

    /// Names and types of the columns, as they are stored.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.data.schema)
    }

    /// Names and types of the columns of a scan's batches.
    ///
    /// # Panics
    /// If a place is not a column's.
    #[must_use]
    pub fn scan_schema(&self, columns: &[usize], representation: Representation) -> SchemaRef {
        plan::scan_schema(&self.data, columns, representation)
    }

    /// The format of its files.
    #[must_use]
    pub fn format(&self) -> Format {
        match &self.data.content {
            Content::Parquet(..) => Format::Parquet,
            Content::Arrow(_) => Format::ArrowFile,
            Content::Csv(_) => Format::Csv,
            Content::Stream(stream) => {
                let stream = stream.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                stream.as_ref().map_or(Format::Csv, |stream| stream.format)
            }
        }
    }

    /// Number of rows, where the files tell it without being read.
    #[must_use]
    pub fn rows(&self) -> Option<u64> {
        match &self.data.content {
            Content::Parquet(files, _) => {
                Some(files.iter().map(parquet::ParquetFile::rows).fold(0, u64::saturating_add))
            }
            Content::Arrow(files) => {
                Some(files.iter().map(arrow::ArrowFile::rows).fold(0, u64::saturating_add))
            }
            Content::Csv(_) | Content::Stream(_) => None,
        }
    }

    /// Bytes that a scan of some columns reads, without gaps between them; 0 for a stream, whose length is not known.
    #[must_use]
    pub fn bytes(&self, columns: &[usize]) -> u64 {
        match &self.data.content {
            Content::Csv(files) => files.iter().map(|(source, _)| source.size).sum(),
            Content::Stream(_) => 0,
            Content::Parquet(..) | Content::Arrow(_) => plan::bytes(&self.data, columns),
        }
    }

    /// Bounds and nulls of a column, where the files say them. A file may lie: they are for estimates and for choices that
    /// do not change a result. Bounds of floating-point numbers do not count NaN.
    ///
    /// # Panics
    /// If the place is not a column's.
    #[must_use]
    pub fn statistics(&self, column: usize) -> ColumnStatistics {
        match &self.data.content {
            Content::Parquet(files, _) => parquet::statistics(files, column),
            _ => ColumnStatistics::default(),
        }
    }

    /// How a column is stored, where the files say it; for estimates, as [`Table::statistics`].
    ///
    /// # Panics
    /// If the place is not a column's.
    #[must_use]
    pub fn storage(&self, column: usize) -> ColumnStorage {
        match &self.data.content {
            Content::Parquet(files, _) => parquet::storage(files, column),
            _ => {
                let bytes = self.bytes(&[column]);
                ColumnStorage { file_bytes: bytes, encoded_bytes: bytes, ..ColumnStorage::default() }
            }
        }
    }

    /// The order in which the rows of a table of one file lie, where the file declares it, and the bounds of its row
    /// groups agree; empty otherwise. A file may lie: who relies on the order looks whether it holds.
    #[must_use]
    pub fn declared_order(&self) -> Vec<SortKey> {
        match &self.data.content {
            Content::Parquet(files, _) if files.len() == 1 => parquet::declared_order(&files[0]),
            _ => Vec::new(),
        }
    }

    /// Whether it can be read only once, from its beginning to its end: the standard input, not spooled. Such a table
    /// has one scan and no sample ([`Table::spool`]).
    #[must_use]
    pub fn is_stream(&self) -> bool {
        matches!(self.data.content, Content::Stream(_))
    }

    /// Copies a stream into an unnamed file, so that it can be sampled and scanned again. Nothing happens to others.
    ///
    /// # Errors
    /// If the standard input cannot be read or was scanned already, or the file cannot be written.
    pub fn spool(&mut self) -> Result<(), Error> {
        let Content::Stream(stream) = &mut self.data.content else { return Ok(()) };
        let stream = stream.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let stream = stream.ok_or_else(|| Error::Query("the standard input was read already".into()))?;
        let options = OpenOptions { format: Some(stream.format), ..self.options.clone() };
        let source = stream.spool(&options)?;
        self.data = content::open_sources(vec![source], &options)?;
        Ok(())
    }

    /// Begins a scan: one stream for each thread. Half of its memory is taken from the job's buffers as it reads, and
    /// half is reserved in the job at once, or of both what the job has left; pages and rows that need more reserve more.
    /// The arrays of Arrow IPC, and views of Parquet, lie in the job's buffers as long as they live: a caller that keeps
    /// batches copies them.
    ///
    /// # Errors
    /// If the memory is not enough, a file cannot be read, or a stream was read already.
    pub fn scan(&self, job: &Job, options: &ScanOptions) -> Result<Vec<Box<dyn Batches>>, Error> {
        plan::scan(&self.data, job, options, None)
    }

    /// About `rows` rows from places all over the table, always the same ones; as they are stored. It is empty if the
    /// table is.
    ///
    /// # Errors
    /// If a file cannot be read, or the table is a stream.
    pub fn sample(&self, job: &Job, columns: &[usize], rows: usize) -> Result<RecordBatch, Error> {
        sample::sample(&self.data, job, columns, rows)
    }
}

#[cfg(test)]
mod tests;
