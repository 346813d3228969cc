//! Scan of CSV: one block reader, from which workers take whole records in turn.

use std::collections::VecDeque;
use std::io::Read;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use memchr::memchr_iter;
use sakiyomi_io::{Block, ReadStream, SharedOptions};

use super::records::{Scanner, State, not_text};
use super::typed::Decoder;
use crate::job::Reservation;
use crate::table::fetch::READ_PHASE_NAME;
use crate::table::guard::printable;
use crate::table::source::Source;
use crate::table::types::{Shape, with_rows};
use crate::{Batches, Error, Job};

/// Minimum transfer size, used when memory is short.
const READ_MIN_BYTES: usize = 64 << 10;

/// Returns the number of line ends in a text.
fn line_ends(text: &[u8]) -> u64 {
    memchr_iter(b'\n', text).count() as u64
}

/// Files to read in order, or a stream that can be read only once.
pub(in crate::table) enum CsvInput {
    /// Files, each with the offset of its first record.
    Files(VecDeque<(Source, u64)>),
    /// A stream after its header, and the bytes of the header.
    Stream(PathBuf, u64, Box<dyn Read + Send>),
}

/// The parts of a scan's options that its workers share.
pub(in crate::table) struct CsvPlan {
    /// The schema of the files.
    pub(in crate::table) stored: SchemaRef,
    /// Columns to decode, in file order, each once.
    pub(in crate::table) columns: Vec<usize>,
    pub(in crate::table) shape: Shape,
    pub(in crate::table) batch_rows: usize,
    reader: Mutex<Reader>,
    /// Memory of all decoders.
    _decoders: Reservation,
}

impl CsvPlan {
    pub(in crate::table) fn new(
        job: &Job,
        input: CsvInput,
        stored: SchemaRef,
        columns: Vec<usize>,
        shape: Shape,
        (batch_rows, memory, block): (usize, usize, usize),
        decoders: Reservation,
    ) -> Result<CsvPlan, Error> {
        let block = block.min(memory / 8).max(READ_MIN_BYTES);
        let ahead = (memory / 2 / block).clamp(1, 64);
        let options = SharedOptions { block, ahead, ..SharedOptions::default() };
        let reserved = job.reserve(0, "reading CSV")?;
        let offset = if let CsvInput::Stream(_, offset, _) = &input { *offset } else { 0 };
        let reader = Reader {
            job: job.clone(),
            input,
            options,
            current: None,
            scanner: Scanner::default(),
            rest: Vec::new(),
            offset,
            // The header of a stream was read already.
            lines: 1,
            reserved,
        };
        Ok(CsvPlan { stored, columns, shape, batch_rows, reader: Mutex::new(reader), _decoders: decoders })
    }
}

/// Reads blocks in order and splits them at record ends.
struct Reader {
    job: Job,
    input: CsvInput,
    options: SharedOptions,
    current: Option<(PathBuf, ReadStream)>,
    scanner: Scanner,
    /// The start of a record whose end has not been read.
    rest: Vec<u8>,
    /// File offset of the next piece, and the lines before it.
    offset: u64,
    lines: u64,
    /// Reservation of `rest`.
    reserved: Reservation,
}

/// Whole records of one file.
struct Piece {
    path: PathBuf,
    offset: u64,
    /// Lines of the file before it.
    lines: u64,
    /// The first record, if it begins in a previous block, or ends with the file.
    head: Vec<u8>,
    block: Chunk,
    /// Bytes of the block that belong to the piece, without those in `head`.
    range: Range<usize>,
}

impl Piece {
    /// Returns the records in the order of the file, in two parts.
    fn parts(&self) -> [&[u8]; 2] {
        [&self.head, &self.block.bytes()[self.range.clone()]]
    }

    /// File offset of the first byte that is not UTF-8.
    fn not_utf8(&self) -> Option<usize> {
        let mut offset = self.offset as usize;
        self.parts().into_iter().find_map(|part| {
            let invalid = str::from_utf8(part).err().map(|error| offset + error.valid_up_to());
            offset += part.len();
            invalid
        })
    }
}

enum Chunk {
    None,
    Block(Block),
    Bytes(Vec<u8>),
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match self {
            Chunk::None => &[],
            Chunk::Block(block) => block,
            Chunk::Bytes(bytes) => bytes,
        }
    }
}

impl Reader {
    /// Reads the next piece; `None` at the end of all files.
    fn next(&mut self) -> Result<Option<Piece>, Error> {
        loop {
            let Some((path, chunk)) = self.chunk()? else { return Ok(None) };
            if matches!(chunk, Chunk::None) {
                self.scanner = Scanner::default();
                let head = std::mem::take(&mut self.rest);
                self.reserved.resize(0, "")?;
                if head.is_empty() {
                    continue;
                }
                let (offset, lines) = (self.offset, self.lines);
                return Ok(Some(Piece { path, offset, lines, head, block: chunk, range: 0..0 }));
            }
            let bytes = chunk.bytes();
            let Some(end) = self.scanner.last_record_end(bytes) else {
                let wanted = self.rest.len() + bytes.len();
                self.reserved.resize(wanted, &format!("reading a record of more than {wanted} bytes"))?;
                self.rest.extend_from_slice(bytes);
                continue;
            };
            let rest = bytes[end..].to_vec();
            let mut head = std::mem::replace(&mut self.rest, rest);
            self.reserved.resize(self.rest.len(), "reading CSV")?;
            let (offset, lines) = (self.offset, self.lines);
            self.offset += (head.len() + end) as u64;
            self.lines += line_ends(&head) + line_ends(&bytes[..end]);
            let mut start = 0;
            if !head.is_empty() {
                start = State::default().after(&head).record_end(bytes).unwrap_or(end);
                head.extend_from_slice(&bytes[..start]);
            }
            return Ok(Some(Piece { path, offset, lines, head, block: chunk, range: start..end }));
        }
    }

    /// Reads the next block, or [`Chunk::None`] at the end of a file; `None` after the last file.
    fn chunk(&mut self) -> Result<Option<(PathBuf, Chunk)>, Error> {
        match &mut self.input {
            CsvInput::Stream(path, _, reader) => {
                let mut bytes = Vec::with_capacity(self.options.block);
                let read = reader.take(self.options.block as u64).read_to_end(&mut bytes);
                let offset = self.offset + (self.rest.len() + bytes.len()) as u64;
                read.map_err(|source| sakiyomi_io::Error::Read {
                    path: path.clone(),
                    offset,
                    length: self.options.block,
                    source,
                })?;
                let path = path.clone();
                if bytes.is_empty() {
                    self.input = CsvInput::Files(VecDeque::new());
                    return Ok(Some((path, Chunk::None)));
                }
                Ok(Some((path, Chunk::Bytes(bytes))))
            }
            CsvInput::Files(files) => {
                if self.current.is_none() {
                    let Some((source, from)) = files.pop_front() else { return Ok(None) };
                    let file = source.io_file()?;
                    let stream = ReadStream::shared(self.job.io(), &file, from..source.size, &self.options)?;
                    // Only messages name lines: a header that is not readable again has one.
                    let header = source.reader().and_then(|reader| reader.read(0, from));
                    self.lines = header.map_or(1, |header| line_ends(&header));
                    (self.current, self.offset) = (Some((source.path, stream)), from);
                }
                let Some((path, stream)) = &mut self.current else { return Ok(None) };
                let path = path.clone();
                match stream.next().transpose()? {
                    Some(block) => Ok(Some((path, Chunk::Block(block)))),
                    None => {
                        self.job.phases().add_io(READ_PHASE_NAME, stream.stats());
                        self.current = None;
                        Ok(Some((path, Chunk::None)))
                    }
                }
            }
        }
    }
}

/// Scan state of one worker.
pub(in crate::table) struct CsvScan {
    job: Job,
    plan: Arc<CsvPlan>,
    decoder: Decoder,
    piece: Option<Piece>,
    /// Bytes of each part of the piece decoded so far.
    done: [usize; 2],
}

impl CsvScan {
    pub(in crate::table) fn new(job: &Job, plan: &Arc<CsvPlan>) -> CsvScan {
        let decoder = Decoder::new(&plan.stored, &plan.columns, plan.batch_rows);
        CsvScan { job: job.clone(), plan: Arc::clone(plan), decoder, piece: None, done: [0; 2] }
    }

    /// Decodes the next batch of the piece; `None` at its end. An error says in which line of the file.
    fn advance(&mut self) -> Result<Option<RecordBatch>, String> {
        let Some(piece) = &self.piece else { return Ok(None) };
        let mut lines = piece.lines;
        for (part, done) in piece.parts().into_iter().zip(&mut self.done) {
            let from = *done;
            *done += self.decoder.decode(&part[from..]).map_err(|error| {
                let line = lines + line_ends(&part[..from + self.decoder.record_start()]) + 1;
                format!("line {line}: {error}")
            })?;
            if *done < part.len() {
                break;
            }
            lines += line_ends(part);
        }
        self.decoder.flush().map_err(|error| error.to_string())
    }

    fn shaped(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        if self.plan.shape.places.is_empty() {
            return with_rows(&self.plan.shape.schema, Vec::new(), batch.num_rows());
        }
        self.plan.shape.apply(batch)
    }
}

impl Batches for CsvScan {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.shape.schema)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.job.check()?;
        loop {
            if let Some(piece) = &self.piece {
                let path = piece.path.clone();
                let batch =
                    self.advance().map_err(|error| Error::Table { path, reason: printable(error) })?;
                if let Some(batch) = batch {
                    return self.shaped(&batch).map(Some);
                }
            }
            self.piece = self.plan.reader.lock().unwrap_or_else(PoisonError::into_inner).next()?;
            self.done = [0; 2];
            let Some(piece) = &self.piece else { return Ok(None) };
            if let Some(at) = piece.not_utf8() {
                return Err(Error::Table { path: piece.path.clone(), reason: not_text(at) });
            }
        }
    }
}
