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
mod parquet;
mod plan;
mod sample;
mod source;
mod stream;
mod types;

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use sakiyomi_io::Access;

use content::Content;
use source::Given;
use stream::{Opened, Stream};

use crate::order::SortKey;
use crate::{Batches, Error, Job};

/// Files of one schema, read as one table.
#[derive(Debug)]
pub struct Table {
    schema: SchemaRef,
    content: Content,
    options: OpenOptions,
}

/// How files are opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The format, where neither the first bytes nor the name tell it.
    pub format: Option<Format>,
    /// Whether scans go through the page cache.
    pub access: Access,
    /// Directory of the unnamed file that holds the standard input where its format or an operator needs seeking;
    /// `/var/tmp` by default.
    pub spool: Option<PathBuf>,
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

/// Types of a scan's arrays. All off: the types of [`Table::schema`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Representation {
    /// String and binary views come as `Utf8` and `Binary`: contiguous values with offsets.
    pub contiguous_strings: bool,
    /// Decimals of 128 bits with a precision of 18 digits at most come as `Decimal64`.
    pub narrow_decimals: bool,
    /// Strings that are dictionary-coded throughout, with small dictionaries, come as `Dictionary(Int32, Utf8)`. The
    /// dictionaries of batches differ, and may have values that no row has.
    pub dictionaries: bool,
}

impl Representation {
    /// Types as [`Table::schema`] says.
    pub const STORED: Representation =
        Representation { contiguous_strings: false, narrow_decimals: false, dictionaries: false };
    /// Types with the fewest bytes to move, for operators that restore the stored types in the end.
    pub const COMPACT: Representation =
        Representation { contiguous_strings: true, narrow_decimals: true, dictionaries: true };
}

/// How a table is scanned.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// Places of the columns, in the order in which batches have them.
    pub columns: Vec<usize>,
    /// Streams that share the rows.
    pub streams: usize,
    /// Rows of a batch, at most. Batches of wide rows have fewer.
    pub batch_rows: usize,
    /// Bytes for buffers and decoders of all streams together.
    pub memory: usize,
    /// Whether rows come in the order of the files; only with one stream.
    pub ordered: bool,
    /// Types of the arrays.
    pub representation: Representation,
    /// Bytes of a read, at most, unless a column of a row group is larger.
    pub block: usize,
}

/// Default rows of a batch: columns of 8 bytes fit into the first-level cache with their validity.
const DEFAULT_BATCH_ROWS: usize = 8192;

/// Default memory of a scan: two streams with a row group of 7 MB each, and the next one read ahead.
const DEFAULT_SCAN_BYTES: usize = 64 << 20;

/// Default size of reads, at which direct transfers are fastest on most devices.
const DEFAULT_BLOCK_BYTES: usize = 1 << 20;

impl ScanOptions {
    /// One ordered stream of some columns as they are stored: 8,192 rows a batch, 64 MiB, reads of 1 MiB.
    #[must_use]
    pub fn new(columns: Vec<usize>) -> ScanOptions {
        ScanOptions {
            columns,
            streams: 1,
            batch_rows: DEFAULT_BATCH_ROWS,
            memory: DEFAULT_SCAN_BYTES,
            ordered: true,
            representation: Representation::STORED,
            block: DEFAULT_BLOCK_BYTES,
        }
    }
}

/// What the files say of a column.
#[derive(Clone, Debug, Default)]
pub struct ColumnStatistics {
    /// An array of one row, of the column's stored type: no value is less. None if a file does not say.
    pub min: Option<ArrayRef>,
    /// An array of one row, of the column's stored type: no value is greater. None if a file does not say.
    pub max: Option<ArrayRef>,
    /// Whether the minimum and the maximum are values of the column, not just bounds.
    pub exact: bool,
    /// Number of nulls, where all files say it.
    pub nulls: Option<u64>,
}

impl Table {
    /// Opens files, or all of a directory, as one table; `-` is the standard input. Files lie one after the other in the
    /// order in which they are given, those of a directory by their names; hidden files are left out.
    ///
    /// # Errors
    /// If a file is no table, or has another schema than the first.
    pub fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Table, Error> {
        let (schema, content) = match source::resolve(paths)? {
            Given::Files(files) => content::open_files(&files, options)?,
            Given::Stream(path) => match Stream::open(&path, options)? {
                Opened::Stream(schema, stream) => (schema, Content::Stream(Some(stream).into())),
                Opened::File(source) => content::open_sources(vec![source], options)?,
            },
        };
        Ok(Table { schema, content, options: options.clone() })
    }

    /// Names and types of the columns, as they are stored.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Names and types of the columns of a scan's batches.
    ///
    /// # Panics
    /// If a place is not a column's.
    #[must_use]
    pub fn scan_schema(&self, columns: &[usize], representation: Representation) -> SchemaRef {
        plan::scan_schema(self, columns, representation)
    }

    /// The format of its files.
    #[must_use]
    pub fn format(&self) -> Format {
        match &self.content {
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
        match &self.content {
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
        match &self.content {
            Content::Csv(files) => files.iter().map(|(source, _)| source.size).sum(),
            Content::Stream(_) => 0,
            Content::Parquet(..) | Content::Arrow(_) => plan::bytes(self, columns),
        }
    }

    /// Bounds and nulls of a column, where the files say them. A file may lie: they are for estimates and for choices that
    /// do not change a result. Bounds of floating-point numbers do not count NaN.
    ///
    /// # Panics
    /// If the place is not a column's.
    #[must_use]
    pub fn statistics(&self, column: usize) -> ColumnStatistics {
        match &self.content {
            Content::Parquet(files, _) => parquet::statistics(files, column),
            _ => ColumnStatistics::default(),
        }
    }

    /// The order in which the rows of a table of one file lie, where the file declares it; empty otherwise.
    #[must_use]
    pub fn declared_order(&self) -> Vec<SortKey> {
        match &self.content {
            Content::Parquet(files, _) if files.len() == 1 => parquet::declared_order(&files[0]),
            _ => Vec::new(),
        }
    }

    /// Whether it can be read only once, from its beginning to its end: the standard input, not spooled. Such a table
    /// has one scan and no sample ([`Table::spool`]).
    #[must_use]
    pub fn is_stream(&self) -> bool {
        matches!(self.content, Content::Stream(_))
    }

    /// Copies a stream into an unnamed file, so that it can be sampled and scanned again. Nothing happens to others.
    ///
    /// # Errors
    /// If the standard input cannot be read or was scanned already, or the file cannot be written.
    pub fn spool(&mut self) -> Result<(), Error> {
        let Content::Stream(stream) = &mut self.content else { return Ok(()) };
        let stream = stream.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let stream = stream.ok_or_else(|| Error::Query("the standard input was read already".into()))?;
        let options = OpenOptions { format: Some(stream.format), ..self.options.clone() };
        let source = stream.spool(&options)?;
        (self.schema, self.content) = content::open_sources(vec![source], &options)?;
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
        plan::scan(self, job, options, None)
    }

    /// About `rows` rows from places all over the table, always the same ones; as they are stored. It is empty if the
    /// table is.
    ///
    /// # Errors
    /// If a file cannot be read, or the table is a stream.
    pub fn sample(&self, job: &Job, columns: &[usize], rows: usize) -> Result<RecordBatch, Error> {
        sample::sample(self, job, columns, rows)
    }
}

#[cfg(test)]
mod tests;
