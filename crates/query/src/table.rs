//! Tables over Parquet, Arrow IPC and CSV files: opening, statistics, scans and samples.
//!
//! ```text
//! paths ─► source ─► content ─► plan ─┬─► fetch ─► parquet, arrow ─► types ─► batches
//!          files     footers,         └─► csv ───────────────────────┘
//!                    schemas
//! ```
//!
//! A scan has one worker for each stream. Workers claim row groups or record batches (`claims`). Their bytes are read
//! ahead through the job's engine and buffers (`fetch`) while the worker decodes the previous split. Half of a scan's
//! memory is for file bytes, taken from the job's pool. The other half is for pages and batches, and is reserved in the
//! job (`decoder_memory`). If a Parquet file has pages larger than that, a scan borrows from the buffer budget when it
//! starts (`parquet/page_memory.rs`), before its operator divides the rest. Files are not trusted: each number is
//! checked against the file's size before use, and a decoder's panic becomes an error (`guard`).

#[doc(hidden)]
pub mod fuzz;

mod arrow;
mod cached;
mod claims;
mod content;
mod csv;
mod decoder_memory;
mod fetch;
mod given;
mod guard;
mod options;
mod parquet;
mod plan;
mod prune;
mod sample;
mod source;
mod splits;
mod stream;
mod types;

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use content::{Content, Data, Once};
use given::GivenBatches;
use source::Given;
use stream::{Opened, Stream};

pub use cached::cached_ratio;
pub use options::{
    ColumnStatistics, ColumnStorage, Extent, Format, OpenOptions, Representation, ScanOptions,
};

use crate::order::SortKey;
use crate::output::check_types;
use crate::{Batches, Error, Job};

/// Files of one schema, read as one table.
#[derive(Debug)]
pub struct Table {
    data: Data,
    options: OpenOptions,
}

impl Table {
    /// Returns the files that [`Table::open`] would read, those of directories included; `None` if any of them is not a
    /// regular file. Opens none of them, so that a pipe is left as it is.
    ///
    /// # Errors
    /// If a path cannot be looked at, or a directory has no file.
    pub fn files(paths: &[PathBuf]) -> Result<Option<Vec<PathBuf>>, Error> {
        let Given::Files(files) = source::resolve(paths)? else { return Ok(None) };
        Ok(Some(files).filter(|files| files.iter().all(|file| file.is_file())))
    }

    /// Opens files, or all files of a directory, as one table; `-` is the standard input. Files are concatenated in the
    /// given order, those of a directory by name; hidden files are skipped.
    ///
    /// # Errors
    /// If a file is not a table, or its schema differs from the first file's.
    pub fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Table, Error> {
        let data = match source::resolve(paths)? {
            Given::Files(files) => content::open_files(&files, options)?,
            Given::Stream(path) => match Stream::open(&path, options)? {
                Opened::Stream(schema, stream) => {
                    Data { schema, content: Content::Stream(stream.format, Some(Once::Bytes(stream)).into()) }
                }
                Opened::File(source) => content::open_sources(vec![source], options)?,
            },
        };
        Ok(Table { data, options: options.clone() })
    }

    /// Returns the record batches of a stream as a table, which can be read once ([`Table::is_stream`]). Their memory is
    /// the caller's: it does not count against a job's limit, and is referenced only while their rows are read.
    ///
    /// # Errors
    /// If a type of the schema is invalid.
    pub fn of_batches(batches: Box<dyn Batches>, options: &OpenOptions) -> Result<Table, Error> {
        let schema = batches.schema();
        check_types(&schema)?;
        let content =
            Content::Stream(Format::ArrowStream, Some(Once::Batches(GivenBatches::new(batches))).into());
        Ok(Table { data: Data { schema, content }, options: options.clone() })
    }

    /// Returns the names and stored types of the columns.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.data.schema)
    }

    /// Returns the names and types of the columns of a scan's batches.
    ///
    /// # Panics
    /// If a column index is out of range.
    #[must_use]
    pub fn scan_schema(&self, columns: &[usize], representation: Representation) -> SchemaRef {
        splits::scan_schema(&self.data, columns, representation)
    }

    /// File format of the table.
    #[must_use]
    pub fn format(&self) -> Format {
        match &self.data.content {
            Content::Parquet(..) => Format::Parquet,
            Content::Arrow(_) => Format::ArrowFile,
            Content::Csv(_) => Format::Csv,
            Content::Stream(format, _) => *format,
        }
    }

    /// Returns the number of rows, if the files' metadata records it.
    #[must_use]
    pub fn rows(&self) -> Option<u64> {
        match &self.data.content {
            Content::Parquet(files, _) => {
                Some(files.iter().map(parquet::ParquetFile::rows).fold(0, u64::saturating_add))
            }
            Content::Arrow(files) => {
                Some(files.iter().map(arrow::ArrowFile::rows).fold(0, u64::saturating_add))
            }
            Content::Csv(_) | Content::Stream(..) => None,
        }
    }

    /// Returns the bytes that a scan of `columns` reads, without the gaps between them; 0 for a stream, whose length
    /// is unknown.
    #[must_use]
    pub fn bytes(&self, columns: &[usize]) -> u64 {
        match &self.data.content {
            Content::Csv(files) => files.iter().map(|(source, _)| source.size).sum(),
            Content::Stream(..) => 0,
            Content::Parquet(..) | Content::Arrow(_) => splits::bytes(&self.data, columns),
        }
    }

    /// Returns the part of the table that a scan reads.
    #[must_use]
    pub fn extent(&self, options: &ScanOptions) -> Extent {
        match &self.data.content {
            Content::Parquet(..) | Content::Arrow(_) => prune::extent(&self.data, options),
            Content::Csv(_) | Content::Stream(..) => {
                Extent { bytes: self.bytes(&options.columns), ..Extent::default() }
            }
        }
    }

    /// Bounds and null count of a column, where the files record them. They may be wrong: use them only for estimates
    /// and for choices that do not change a result. Scans do trust the bounds of row groups
    /// ([`ScanOptions::condition`]), as other engines do. Bounds of floating-point columns ignore NaN.
    ///
    /// # Panics
    /// If `column` is out of range.
    #[must_use]
    pub fn statistics(&self, column: usize) -> ColumnStatistics {
        match &self.data.content {
            Content::Parquet(files, _) => parquet::statistics(files, column),
            _ => ColumnStatistics::default(),
        }
    }

    /// Returns how a column is stored, as far as the files record it; for estimates only, like [`Table::statistics`].
    ///
    /// # Panics
    /// If `column` is out of range.
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

    /// Returns the row order of a single-file table, if the file declares it and the bounds of its row groups agree;
    /// else empty. The declaration may be wrong: callers that rely on the order must verify it.
    #[must_use]
    pub fn declared_order(&self) -> Vec<SortKey> {
        match &self.data.content {
            Content::Parquet(files, _) if files.len() == 1 => parquet::declared_order(&files[0]),
            _ => Vec::new(),
        }
    }

    /// Returns whether the table can be read only once, front to back: a pipe or the standard input, not spooled.
    /// Such a table allows one scan and no sample; see [`Table::spool`].
    #[must_use]
    pub fn is_stream(&self) -> bool {
        matches!(self.data.content, Content::Stream(..))
    }

    /// Returns whether the rows are record batches of the caller ([`Table::of_batches`]), not copied.
    #[must_use]
    pub fn has_batches(&self) -> bool {
        let Content::Stream(_, stream) = &self.data.content else { return false };
        matches!(&*stream.lock().unwrap_or_else(PoisonError::into_inner), Some(Once::Batches(_)))
    }

    /// Copies a stream into an unnamed file, so that it can be sampled and scanned again. A table of files is left
    /// unchanged.
    ///
    /// # Errors
    /// If the stream cannot be read or was already scanned, the file cannot be written, or the job is cancelled.
    pub fn spool(&mut self, job: &Job) -> Result<(), Error> {
        let Content::Stream(_, stream) = &mut self.data.content else { return Ok(()) };
        let stream = stream.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let stream = stream.ok_or_else(|| Error::Query("the stream was read already".into()))?;
        let options = OpenOptions { format: Some(self.format()), ..self.options.clone() };
        let source = match stream {
            Once::Bytes(stream) => stream.spool(&options, &|| job.check())?,
            Once::Batches(given) => given.spool(&options, &|| job.check())?,
        };
        self.data = content::open_sources(vec![source], &options)?;
        Ok(())
    }

    /// Writes the bytes of a generated file to an unnamed one, and opens it.
    ///
    /// # Errors
    /// If the unnamed file cannot be written, or the bytes are not a table.
    pub(crate) fn of_bytes(bytes: Vec<u8>, options: &OpenOptions) -> Result<Table, Error> {
        let source = match Stream::begin(Path::new("generated rows"), Box::new(Cursor::new(bytes)), options)?
        {
            Opened::Stream(_, stream) => stream.spool(options, &|| Ok(()))?,
            Opened::File(source) => source,
        };
        Ok(Table { data: content::open_sources(vec![source], options)?, options: options.clone() })
    }

    /// Starts a scan with one stream per thread. Half of its memory is taken from the job's buffers as it reads. The
    /// other half is reserved in the job at once. Both are limited to what the job has left; larger pages and rows
    /// reserve more. Arrow IPC arrays and Parquet views point into the job's buffers while they live: a caller that
    /// keeps batches must copy them.
    ///
    /// # Errors
    /// If the memory is not enough, a file cannot be read, or a stream was already read.
    pub fn scan(&self, job: &Job, options: &ScanOptions) -> Result<Vec<Box<dyn Batches>>, Error> {
        plan::scan(&self.data, job, options, None)
    }

    /// Returns about `rows` rows, in their stored types, spread over the whole table; fewer if they exceed a sixteenth of the
    /// job's free heap. With the same memory, the same table always gives the same sample, which is empty if the table is.
    ///
    /// # Errors
    /// If a file cannot be read, or the table is a stream.
    pub fn sample(&self, job: &Job, columns: &[usize], rows: usize) -> Result<RecordBatch, Error> {
        sample::sample(&self.data, job, columns, rows)
    }
}

#[cfg(test)]
mod tests;
