//! Result files: encoded on many threads, appended in order.
//!
//! ```text
//! batches ─► Encoder::encode, on any thread ─► Encoded ─► Output::append, in order ─► WriteStream ─► AtomicFile
//! ```
//!
//! A result file appears under its name only when [`Output::finish`] succeeds, not after an error or when the process
//! is killed. Batches may have the compact types of scans: dictionary arrays for strings, `Decimal64` for `Decimal128`.
//! The file has the types of the schema, without dictionaries.
//!
//! | file | subject |
//! |---|---|
//! | `parquet.rs`, `parquet/` | Parquet, by this crate's encoder |
//! | `ipc.rs` | Arrow IPC, files and streams |
//! | `csv.rs`, `csv/` | CSV |
//! | `sink.rs` | the file, the pipe or the standard output, and its errors |
//! | `pool.rs`, `buffer.rs` | reused buffers, reserved in the job |
//! | `plain.rs`, `options.rs` | types of files; options |

mod buffer;
pub(crate) mod csv;
mod ipc;
mod options;
mod parquet;
pub(crate) mod plain;
mod pool;
mod sink;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use sakiyomi_io::IoStats;

pub(crate) use options::GROUP_ROWS_MIN;
pub use options::{Compression, OutputOptions, Target, group_rows};

use crate::job::Reservation;
use crate::table::Format;
use crate::{Error, Job};
use buffer::Buf;
use plain::{find_type, is_impossible, plain_schema};
use pool::{Lease, Pool, Reusable};
use sink::{SharedSink, Sink};

/// Purpose that errors about memory name.
const PURPOSE: &str = "encoding rows of the result";

/// A result being written; its file appears only when it is finished.
#[derive(Debug)]
pub struct Output {
    encoder: Encoder,
    sink: SharedSink,
    writer: Writer,
}

#[derive(Debug)]
enum Writer {
    Parquet(Box<parquet::Writer>),
    Ipc(ipc::Writer),
    Csv,
}

/// Encodes batches as groups, on any thread. Clones share their buffers.
#[derive(Clone, Debug)]
pub struct Encoder {
    job: Job,
    schema: SchemaRef,
    kind: EncoderKind,
    buffers: Pool<Buf>,
    scratch: Pool<parquet::Scratch>,
}

#[derive(Clone, Debug)]
enum EncoderKind {
    Parquet(parquet::Encoder),
    Ipc(ipc::Encoder),
    Csv(csv::Encoder),
}

/// An encoded group of rows. Its memory is reserved in the job until it is appended or dropped.
#[derive(Debug)]
pub struct Encoded {
    rows: usize,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Parquet(
        Lease<Buf>,
        Vec<parquet::Chunk>,
        #[expect(dead_code, reason = "holds the memory of the chunks' metadata")] Reservation,
    ),
    Ipc(ipc::Message, #[expect(dead_code, reason = "holds the memory")] Reservation),
    Csv(Lease<Buf>),
}

impl Reusable for Buf {
    fn memory(&self) -> usize {
        Buf::memory(self)
    }
}

impl Output {
    /// Creates a result.
    ///
    /// # Errors
    /// If the file cannot be created, or the format does not support the schema.
    pub fn create(
        job: &Job,
        target: &Target,
        schema: &SchemaRef,
        options: &OutputOptions,
    ) -> Result<Output, Error> {
        // Refuses unsupported schemas before anything is opened.
        let encoder = Encoder::new(job, schema, options)?;
        Output::over(Sink::create(job, target)?, encoder, options)
    }

    fn over(sink: Sink, encoder: Encoder, options: &OutputOptions) -> Result<Output, Error> {
        let sink = SharedSink::new(sink);
        let writer = match &encoder.kind {
            EncoderKind::Parquet(parquet) => {
                let (job, schema) = (&encoder.job, &encoder.schema);
                let writer = parquet::Writer::new(job, parquet, &sink, schema, &options.sorted_by)?;
                Writer::Parquet(Box::new(writer))
            }
            EncoderKind::Ipc(ipc) => Writer::Ipc(ipc::Writer::new(ipc, &sink, options)?),
            EncoderKind::Csv(csv) => {
                csv.begin(&sink)?;
                Writer::Csv
            }
        };
        Ok(Output { encoder, sink, writer })
    }

    /// Returns an encoder of groups for this result.
    #[must_use]
    pub fn encoder(&self) -> Encoder {
        self.encoder.clone()
    }

    /// Returns the bytes written so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.sink.written()
    }

    /// Counters of the writes so far.
    #[must_use]
    pub fn stats(&self) -> IoStats {
        self.sink.stats()
    }

    /// Appends a group; a group without rows changes nothing.
    ///
    /// # Errors
    /// If writing fails or the job is cancelled.
    pub fn append(&mut self, group: Encoded) -> Result<(), Error> {
        self.encoder.job.check()?;
        if group.rows == 0 {
            return Ok(());
        }
        match (&mut self.writer, group.body) {
            (Writer::Parquet(writer), Body::Parquet(bytes, chunks, _)) => {
                writer.append(bytes.as_slice(), chunks, group.rows)
            }
            (Writer::Ipc(writer), Body::Ipc(message, _)) => writer.append(&message),
            (Writer::Csv, Body::Csv(lines)) => self.sink.append(lines.as_slice()),
            _ => Err(Error::Query("a group was encoded for another result".to_owned())),
        }
    }

    /// Finishes the result, so that its file appears under its name. Returns its size in bytes.
    ///
    /// # Errors
    /// If writing fails or the job is cancelled.
    pub fn finish(self) -> Result<u64, Error> {
        self.encoder.job.check()?;
        match self.writer {
            Writer::Parquet(writer) => writer.finish()?,
            Writer::Ipc(writer) => writer.finish()?,
            Writer::Csv => {}
        }
        self.sink.finish()?;
        Ok(self.sink.written())
    }
}

/// Refuses invalid types, which damaged files have.
pub(crate) fn check_types(schema: &SchemaRef) -> Result<(), Error> {
    match find_type(schema, is_impossible) {
        Some((column, data_type)) => Err(Error::Query(format!(
            "column {column}: the type {data_type} is invalid; the input is damaged"
        ))),
        None => Ok(()),
    }
}

impl Encoder {
    fn new(job: &Job, schema: &SchemaRef, options: &OutputOptions) -> Result<Encoder, Error> {
        check_types(schema)?;
        let is_ipc = matches!(options.format, Format::ArrowFile | Format::ArrowStream);
        let plain = plain_schema(schema, |place| is_ipc && options.dictionaries.contains_key(&place));
        let is_parquet = options.format == Format::Parquet;
        let schema = Arc::new(if is_parquet { parquet::stored_schema(&plain) } else { plain });
        let compression = options.compression;
        let kind = match options.format {
            Format::Parquet => EncoderKind::Parquet(parquet::Encoder::new(&schema, compression)?),
            Format::ArrowFile | Format::ArrowStream => EncoderKind::Ipc(ipc::Encoder::new(&schema, options)?),
            Format::Csv if compression != Compression::None => {
                return Err(Error::Query(
                    "CSV is written without compression; use none, or pipe it".to_owned(),
                ));
            }
            Format::Csv => EncoderKind::Csv(csv::Encoder::new(&schema)?),
        };
        let (buffers, scratch) = (Pool::new(job, PURPOSE), Pool::new(job, PURPOSE));
        Ok(Encoder { job: job.clone(), schema, kind, buffers, scratch })
    }

    /// Returns the schema of the file: that of the result, with only the dictionaries of the options.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Encodes rows as one group.
    ///
    /// # Errors
    /// If the format does not support a value, the rows do not match the schema, or the job's memory is not enough.
    pub fn encode(&self, batches: &[RecordBatch]) -> Result<Encoded, Error> {
        self.job.check()?;
        self.check_columns(batches)?;
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let body = match &self.kind {
            EncoderKind::Parquet(parquet) => {
                let bytes = batches.iter().flat_map(RecordBatch::columns).map(plain_bytes).sum();
                let (mut out, mut scratch) = (self.buffers.take()?, self.scratch.take()?);
                out.clear();
                out.reserve(bytes);
                let chunks = parquet.encode(batches, &mut scratch, &mut out)?;
                scratch.settle()?;
                let reservation =
                    self.job.reserve(chunks.iter().map(parquet::Chunk::memory).sum(), PURPOSE)?;
                Body::Parquet(out, chunks, reservation)
            }
            EncoderKind::Ipc(ipc) => {
                let message = ipc.encode(batches)?;
                let reservation = self.job.reserve(message.memory(), PURPOSE)?;
                Body::Ipc(message, reservation)
            }
            EncoderKind::Csv(csv) => {
                let mut out = self.buffers.take()?;
                out.clear();
                csv.encode(batches, &mut out)?;
                out.settle()?;
                Body::Csv(out)
            }
        };
        Ok(Encoded { rows, body })
    }

    /// Bytes of the metadata of a group, however few its rows: much in tables of many columns.
    pub(crate) fn group_metadata_bytes(&self) -> usize {
        match &self.kind {
            EncoderKind::Parquet(parquet) => parquet.group_metadata_bytes(),
            EncoderKind::Ipc(_) | EncoderKind::Csv(_) => 0,
        }
    }

    /// Releases the memory that is kept for the next groups.
    pub(crate) fn release(&self) {
        self.buffers.clear();
        self.scratch.clear();
    }

    fn check_columns(&self, batches: &[RecordBatch]) -> Result<(), Error> {
        let columns = self.schema.fields().len();
        match batches.iter().map(RecordBatch::num_columns).find(|&given| given != columns) {
            Some(given) => {
                Err(Error::Query(format!("a batch has {given} columns, and the result has {columns}")))
            }
            None => Ok(()),
        }
    }
}

impl Encoded {
    /// Returns the rows of the group.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }
}

/// Estimated bytes of an array's rows in plain encoding.
fn plain_bytes(array: &ArrayRef) -> usize {
    let rows = array.len();
    match array.data_type() {
        DataType::Dictionary(..) => rows * size_of::<u16>(),
        DataType::Utf8View | DataType::BinaryView => {
            // About twice the usual length; only avoids growing the buffer.
            rows * size_of::<u128>() * 2
        }
        other => match other.primitive_width() {
            Some(width) => rows * width.clamp(size_of::<u32>(), size_of::<u64>()),
            None => array.to_data().get_slice_memory_size().unwrap_or(0),
        },
    }
}

#[cfg(test)]
mod tests;
