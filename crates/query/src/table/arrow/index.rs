//! Index of an Arrow IPC file: its schema and the locations of its record batches.

use std::sync::Arc;

use arrow_ipc::{Block, MessageHeader, MetadataVersion, root_as_footer};
use arrow_schema::SchemaRef;

use super::dictionaries::{DictionaryPlace, Loaded, Needed, dictionary_id};
use super::message::{self, FRAME_BYTES};
use crate::job::Reservation;
use crate::table::guard::{catch_panics, damaged, name_file};
use crate::table::source::{Source, SourceReader};
use crate::{Error, Job};

/// Bytes at the end of a file: the footer's length and the magic number.
const TAIL_BYTES: u64 = 10;

/// Bytes of the padded magic number at the start.
const HEAD_BYTES: u64 = 8;

/// A record batch in a file.
#[derive(Debug)]
pub(in crate::table) struct Batch {
    /// The header of its message.
    pub(super) header: Vec<u8>,
    /// File offset of the body.
    pub(super) body: u64,
    pub(in crate::table) rows: u64,
    /// Number of messages with dictionaries before it.
    pub(super) dictionaries: usize,
}

/// An Arrow IPC file, with its record batches in order.
#[derive(Debug)]
pub(in crate::table) struct ArrowFile {
    pub(in crate::table) source: Source,
    pub(in crate::table) schema: SchemaRef,
    pub(super) version: MetadataVersion,
    pub(in crate::table) batches: Vec<Batch>,
    pub(super) dictionaries: Vec<DictionaryPlace>,
}

impl ArrowFile {
    /// Reads the footer and the headers of a file.
    pub(in crate::table) fn open_file(source: Source) -> Result<ArrowFile, Error> {
        let path = source.path.clone();
        catch_panics(&path, || Index::of_file(source)).map_err(name_file(&path))
    }

    /// Reads the message headers of a stream stored in a file.
    pub(in crate::table) fn open_stream(source: Source) -> Result<ArrowFile, Error> {
        let path = source.path.clone();
        catch_panics(&path, || Index::of_stream(source)).map_err(name_file(&path))
    }

    /// Returns the rows of the file.
    pub(in crate::table) fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.rows).fold(0, u64::saturating_add)
    }

    /// Loads the dictionaries of columns, and adds their bytes to `memory`.
    ///
    /// # Errors
    /// [`Error::Memory`] if the job does not have the memory; errors of reading and decoding.
    pub(in crate::table) fn load(
        &self,
        job: &Job,
        columns: &[usize],
        memory: &mut Reservation,
    ) -> Result<Loaded, Error> {
        let used = self.batches.iter().map(|batch| batch.dictionaries).collect();
        let (source, schema, places) = (&self.source, &self.schema, &self.dictionaries);
        Needed { source, schema, places, used, columns }.load(job, memory)
    }

    /// Returns the bytes in memory.
    pub(in crate::table) fn memory_bytes(&self) -> usize {
        let batches = self.batches.iter().map(|batch| size_of::<Batch>() + batch.header.capacity());
        let of_dictionary = |place: &DictionaryPlace| size_of::<DictionaryPlace>() + place.header.capacity();
        batches.chain(self.dictionaries.iter().map(of_dictionary)).sum()
    }
}

/// State of indexing a file.
struct Index {
    reader: SourceReader,
    file: ArrowFile,
}

/// A message in a file.
struct Place {
    header: Vec<u8>,
    body: u64,
}

impl Index {
    fn of_file(source: Source) -> Result<ArrowFile, Error> {
        let reader = source.reader()?;
        let bad = |how: &str| damaged(&source.path, how);
        let start = source.size.checked_sub(TAIL_BYTES).filter(|&start| start >= HEAD_BYTES);
        let start = start.ok_or_else(|| bad("it is too short for an Arrow IPC file"))?;
        let tail = reader.read(start, TAIL_BYTES)?;
        if tail[4..] != *b"ARROW1" {
            return Err(bad("it has no footer; it may have been cut off"));
        }
        let length = i32::from_le_bytes(tail[..4].try_into().expect("four bytes"));
        let length = u64::try_from(length).ok().filter(|&length| length <= start - HEAD_BYTES);
        let length = length.ok_or_else(|| bad("its footer is longer than the file"))?;
        let footer = reader.read(start - length, length)?;
        let footer = root_as_footer(&footer).map_err(|_| bad("its footer is not readable"))?;
        message::check_version(footer.version()).map_err(|how| bad(&how))?;
        let schema = footer.schema().ok_or_else(|| bad("its footer has no schema"))?;
        let schema = message::native(&schema).map_err(|how| bad(&how))?;
        let version = footer.version();
        let (batches, dictionaries) = (Vec::new(), Vec::new());
        let file = ArrowFile { source: source.clone(), schema, version, batches, dictionaries };
        let mut index = Index { reader, file };
        let blocks =
            footer.dictionaries().into_iter().flatten().chain(footer.recordBatches().into_iter().flatten());
        for block in blocks {
            let place = index.place(block)?;
            index.add(place)?;
        }
        Ok(index.file)
    }

    fn of_stream(source: Source) -> Result<ArrowFile, Error> {
        let reader = source.reader()?;
        let path = source.path.clone();
        let version = MetadataVersion::V5;
        let file = ArrowFile {
            source,
            schema: Arc::new(arrow_schema::Schema::empty()),
            version,
            batches: Vec::new(),
            dictionaries: Vec::new(),
        };
        let mut index = Index { reader, file };
        let first = index.place_at(0)?.ok_or_else(|| damaged(&path, "it has no schema"))?;
        let header = message::parse(&first.header).map_err(|how| damaged(&path, how))?;
        message::check_version(header.version()).map_err(|how| damaged(&path, how))?;
        index.file.version = header.version();
        index.file.schema = message::schema(&header).map_err(|how| damaged(&path, how))?;
        let mut at = first.body + message::body_length(&header).map_err(|how| damaged(&path, how))?;
        while let Some(place) = index.place_at(at)? {
            at = index.add(place)?;
        }
        Ok(index.file)
    }

    /// Reads the header of the message at an offset; `None` at the end of the stream.
    fn place_at(&self, at: u64) -> Result<Option<Place>, Error> {
        if at == self.reader.size {
            return Ok(None);
        }
        let frame = self.reader.read(at, FRAME_BYTES as u64).map_err(|_| self.cut_off())?;
        let length = message::header_length(frame[..].try_into().expect("a frame"));
        let Some(length) = length.map_err(|how| self.damaged(&how))? else { return Ok(None) };
        let header_at = at + FRAME_BYTES as u64;
        let header = self.reader.read(header_at, length).map_err(|_| self.cut_off())?;
        Ok(Some(Place { header, body: header_at + length }))
    }

    /// Reads the header of a message that a footer block refers to.
    fn place(&self, block: &Block) -> Result<Place, Error> {
        let offset =
            u64::try_from(block.offset()).map_err(|_| self.damaged("a block has a negative offset"))?;
        let place = self.place_at(offset.min(self.reader.size))?;
        let place = place.ok_or_else(|| self.damaged("a block of the footer has no message"))?;
        let length = i64::from(block.metaDataLength());
        if length < 0 || place.body != offset.saturating_add(length as u64) {
            return Err(self.damaged("the footer and a message disagree about its length"));
        }
        Ok(place)
    }

    /// Adds a message and returns the offset of its end.
    fn add(&mut self, place: Place) -> Result<u64, Error> {
        let header = message::parse(&place.header).map_err(|how| self.damaged(&how))?;
        let length = message::body_length(&header).map_err(|how| self.damaged(&how))?;
        let end = place.body.checked_add(length).filter(|&end| end <= self.reader.size);
        let end = end.ok_or_else(|| self.cut_off())?;
        if header.version() != self.file.version {
            return Err(self.damaged("its messages have several versions"));
        }
        match header.header_type() {
            MessageHeader::DictionaryBatch => {
                let Place { header: bytes, body } = &place;
                let id = dictionary_id(&header, length)?;
                let (header, body) = (bytes.clone(), *body);
                self.file.dictionaries.push(DictionaryPlace { header, body, length, id });
            }
            MessageHeader::RecordBatch => {
                let batch = message::record_batch(&header).map_err(|how| self.damaged(&how))?;
                let rows = batch.map_or(0, |batch| batch.length() as u64);
                super::layout::layouts(&self.file.schema, &batch.expect("a record batch"), self.file.version)
                    .map_err(|how| self.damaged(&how))?;
                let dictionaries = self.file.dictionaries.len();
                self.file.batches.push(Batch { header: place.header, body: place.body, rows, dictionaries });
            }
            _ => return Err(self.damaged("a message is neither a record batch nor a dictionary")),
        }
        Ok(end)
    }

    fn damaged(&self, how: &str) -> Error {
        damaged(&self.file.source.path, how)
    }

    fn cut_off(&self) -> Error {
        self.damaged("it ends within a message; it may have been cut off")
    }
}
