//! Scan of an Arrow IPC stream that can be read only once: workers take turns reading messages and decode them in
//! parallel.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, RecordBatch};
use arrow_ipc::{MessageHeader, MetadataVersion};
use arrow_schema::SchemaRef;
use bytes::Bytes;

use super::column::Dictionaries;
use super::dictionaries::{check_dictionary, load_dictionary};
use super::layout::{column_ranges, layouts};
use super::message::{self, FRAME_BYTES};
use super::scan::{BatchSlices, decode_columns};
use crate::job::Reservation;
use crate::table::decoder_memory::DecoderMemory;
use crate::table::guard::{catch_panics, damaged, name_file};
use crate::table::types::Shape;
use crate::{Batches, Error, Job};

/// Maximum initial buffer size: the buffer grows with the data read, not by a message's claimed length.
const READ_BYTES: u64 = 1 << 20;

/// Purpose that errors name.
const DICTIONARIES: &str = "keeping the dictionaries of a stream";

/// A stream whose schema was read.
pub(in crate::table) struct ArrowStream {
    path: PathBuf,
    reader: Box<dyn Read + Send>,
    schema: SchemaRef,
    version: MetadataVersion,
    dictionaries: Arc<Dictionaries>,
    /// Bytes reserved for the dictionaries.
    reserved: Option<Reservation>,
    /// Bytes read.
    offset: u64,
    has_ended: bool,
}

/// An undecoded record batch.
struct RawBatch {
    header: Vec<u8>,
    body: Bytes,
    dictionaries: Arc<Dictionaries>,
    /// Bytes reserved for the body.
    reserved: usize,
}

impl ArrowStream {
    /// Reads the schema.
    pub(in crate::table) fn open(
        path: &Path,
        mut reader: Box<dyn Read + Send>,
    ) -> Result<ArrowStream, Error> {
        let mut offset = 0;
        let header = read_header(path, &mut *reader, &mut offset)?;
        let header = header.ok_or_else(|| damaged(path, "it has no schema"))?;
        let (schema, version) = catch_panics(path, || {
            let parsed = message::parse(&header).map_err(|how| damaged(path, how))?;
            message::check_version(parsed.version()).map_err(|how| damaged(path, how))?;
            let schema = message::schema(&parsed).map_err(|how| damaged(path, how))?;
            let body = message::body_length(&parsed).map_err(|how| damaged(path, how))?;
            if body > 0 {
                return Err(damaged(path, "its schema has a body"));
            }
            Ok((schema, parsed.version()))
        })?;
        let (path, dictionaries) = (path.to_owned(), Arc::default());
        let (reserved, has_ended) = (None, false);
        Ok(ArrowStream { path, reader, schema, version, dictionaries, reserved, offset, has_ended })
    }

    /// Length in bytes of the schema message, whose first bytes are `head`.
    pub(in crate::table) fn schema_bytes(path: &Path, head: &[u8]) -> Result<usize, Error> {
        let frame = head.first_chunk::<FRAME_BYTES>().ok_or_else(|| cut_off(path))?;
        let length = message::header_length(frame).map_err(|how| damaged(path, how))?;
        Ok(FRAME_BYTES + length.unwrap_or(0) as usize)
    }

    pub(in crate::table) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Reads the next record batch, and loads the dictionaries before it.
    fn next(&mut self, job: &Job, memory: &DecoderMemory) -> Result<Option<RawBatch>, Error> {
        while !self.has_ended {
            let header = read_header(&self.path, &mut *self.reader, &mut self.offset)?;
            let Some(header) = header else {
                self.has_ended = true;
                break;
            };
            let bad = |how: String| damaged(&self.path, how);
            let parsed = message::parse(&header).map_err(bad)?;
            let length = message::body_length(&parsed).map_err(bad)?;
            let bytes = usize::try_from(length).unwrap_or(usize::MAX);
            if parsed.header_type() == MessageHeader::DictionaryBatch {
                check_dictionary(length).map_err(name_file(&self.path))?;
            }
            memory.resize(0, bytes, || format!("reading a message of {length} bytes"))?;
            let body = read_body(&self.path, &mut *self.reader, &mut self.offset, length)?;
            if parsed.header_type() == MessageHeader::RecordBatch {
                let (body, dictionaries) = (Bytes::from(body), Arc::clone(&self.dictionaries));
                return Ok(Some(RawBatch { header, body, dictionaries, reserved: bytes }));
            }
            if parsed.header_type() != MessageHeader::DictionaryBatch {
                return Err(bad("a message is neither a record batch nor a dictionary".into()));
            }
            let dictionaries = Arc::make_mut(&mut self.dictionaries);
            let mut reserved = bytes;
            let reserve = |more: u64| {
                let all = bytes.saturating_add(usize::try_from(more).unwrap_or(usize::MAX));
                memory.resize(bytes, all, || format!("decompressing a dictionary of {more} bytes"))?;
                reserved = all;
                Ok(())
            };
            catch_panics(&self.path, || load_dictionary(&parsed, body, &self.schema, dictionaries, reserve))
                .map_err(name_file(&self.path))?;
            memory.resize(reserved, 0, String::new)?;
            self.reserve_dictionaries(job)?;
        }
        Ok(None)
    }

    /// Reserves the memory of the dictionaries until the end of the scan.
    fn reserve_dictionaries(&mut self, job: &Job) -> Result<(), Error> {
        let bytes = self.dictionaries.values().map(|values| values.get_buffer_memory_size()).sum();
        let reserved = match &mut self.reserved {
            Some(reserved) => reserved,
            None => self.reserved.insert(job.reserve(0, DICTIONARIES)?),
        };
        reserved.resize(bytes, DICTIONARIES)
    }
}

/// Reads the header of the next message; `None` at the end of the stream. `offset` counts the bytes read.
fn read_header(path: &Path, reader: &mut dyn Read, offset: &mut u64) -> Result<Option<Vec<u8>>, Error> {
    let frame = read_up_to(path, reader, offset, FRAME_BYTES as u64)?;
    if frame.is_empty() {
        return Ok(None);
    }
    let frame: Result<[u8; FRAME_BYTES], _> = frame.try_into();
    let frame = frame.map_err(|_| cut_off(path))?;
    let length = message::header_length(&frame).map_err(|how| damaged(path, how))?;
    length.map(|length| read_body(path, reader, offset, length)).transpose()
}

fn read_body(path: &Path, reader: &mut dyn Read, offset: &mut u64, length: u64) -> Result<Vec<u8>, Error> {
    let bytes = read_up_to(path, reader, offset, length)?;
    if bytes.len() as u64 == length { Ok(bytes) } else { Err(cut_off(path)) }
}

fn read_up_to(path: &Path, reader: &mut dyn Read, offset: &mut u64, length: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::with_capacity(length.min(READ_BYTES) as usize);
    loop {
        match reader.take(length - bytes.len() as u64).read_to_end(&mut bytes) {
            Ok(_) => {
                *offset += bytes.len() as u64;
                return Ok(bytes);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => {
                let (path, offset) = (path.to_owned(), *offset + bytes.len() as u64);
                let length = (length - bytes.len() as u64) as usize;
                return Err(sakiyomi_io::Error::Read { path, offset, length, source }.into());
            }
        }
    }
}

fn cut_off(path: &Path) -> Error {
    damaged(path, "the stream ends within a message")
}

/// Scan state of one worker.
pub(in crate::table) struct StreamScan {
    job: Job,
    stream: Arc<Mutex<ArrowStream>>,
    path: PathBuf,
    /// The schema of the stream.
    stored: SchemaRef,
    version: MetadataVersion,
    columns: Arc<Vec<usize>>,
    shape: Shape,
    batch_rows: usize,
    memory: DecoderMemory,
    current: Option<BatchSlices>,
}

impl StreamScan {
    pub(in crate::table) fn new(
        job: &Job,
        stream: &Arc<Mutex<ArrowStream>>,
        columns: &Arc<Vec<usize>>,
        shape: Shape,
        batch_rows: usize,
        memory: DecoderMemory,
    ) -> StreamScan {
        let locked = stream.lock().unwrap_or_else(PoisonError::into_inner);
        let (path, stored, version) = (locked.path.clone(), Arc::clone(&locked.schema), locked.version);
        drop(locked);
        let (job, stream, columns) = (job.clone(), Arc::clone(stream), Arc::clone(columns));
        StreamScan { job, stream, path, stored, version, columns, shape, batch_rows, memory, current: None }
    }

    fn decode(&self, raw: RawBatch) -> Result<BatchSlices, Error> {
        let RawBatch { header, body, dictionaries, reserved } = raw;
        let decoded = catch_panics(&self.path, || {
            let parsed = message::parse(&header).map_err(Error::Query)?;
            let batch = message::record_batch(&parsed).map_err(Error::Query)?.expect("a record batch");
            let layouts = layouts(&self.stored, &batch, self.version).map_err(Error::Query)?;
            let ranges = column_ranges(&batch, &layouts);
            let parts = self.columns.iter().map(|&column| {
                let range = &ranges[column];
                (column, body.slice(range.start as usize..range.end as usize))
            });
            decode_columns(&self.stored, &header, self.version, parts, &dictionaries, &self.memory)
        });
        let (batch, more) = decoded.map_err(name_file(&self.path))?;
        Ok(BatchSlices { batch, next: 0, reserved: reserved + more, path: self.path.clone() })
    }
}

impl Batches for StreamScan {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shape.schema)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.job.check()?;
        loop {
            if let Some(current) = &mut self.current
                && let Some(batch) = current.next(self.batch_rows, &self.shape)?
            {
                return Ok(Some(batch));
            }
            if let Some(done) = self.current.take() {
                let reserved = done.reserved;
                drop(done);
                self.memory.resize(reserved, 0, String::new)?;
            }
            let raw =
                self.stream.lock().unwrap_or_else(PoisonError::into_inner).next(&self.job, &self.memory)?;
            match raw {
                None => return Ok(None),
                Some(raw) => self.current = Some(self.decode(raw)?),
            }
        }
    }
}
