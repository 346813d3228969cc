//! Page indexes and metadata of a file, of which one row group at a time has the library's structures in memory.
//!
//! These take more than a kilobyte for a column chunk: hundreds of megabytes for a file of many small row groups. Here
//! the library encodes each row group when it is closed, its bytes are kept ([`GroupLog`]), and it is decoded once
//! more to be written: the offsets of its indexes are known only after the last row group.
//!
//! The encoded `FileMetaData` of one row group and of none differ in the number of rows and in the list of row groups
//! only. So the bytes of a row group can be cut out, and those of all be put into one list:
//!
//! ```text
//! of none   version, schema │    0     │ list of 0 │                       │ key values, writer, orders
//! of one    version, schema │ its rows │ list of 1 │ row group             │ key values, writer, orders
//! the file  version, schema │ all rows │ list of n │ row group … row group │ key values, writer, orders
//! ```

use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaDataBuilder, ParquetMetaDataOptions, ParquetMetaDataReader,
    ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;

use super::chunk::Chunk;
use super::group_log::{Entry, GroupLog};
use crate::job::Reservation;
use crate::{Error, Job};

/// Magic number at the start and the end of a file.
pub(super) const MAGIC: &[u8] = b"PAR1";

/// Header of field 4, a list, behind field 3: `row_groups`.
const ROW_GROUPS_FIELD: u8 = 0x19;
/// Type of a list's elements: structures.
const TYPE_STRUCT: u8 = 12;
/// Maximum elements of a list whose header has their number.
const SHORT_LIST_MAX: u64 = 14;

/// Bytes of a column while a row group is closed: its metadata as they are collected, encoded and decoded.
const CLOSING_COLUMN_BYTES: usize = 3 * size_of::<ColumnChunkMetaData>();

/// Purpose that errors about memory name.
const PURPOSE: &str = "closing row groups of the result";

/// The metadata of a file being written.
pub(super) struct Footer {
    file: FileMetaData,
    /// Memory to close a row group.
    closing: Reservation,
    /// Known from the first row group on.
    frame: Option<Frame>,
    log: GroupLog,
    rows: u64,
    groups: u64,
}

/// Page indexes of the columns of a row group.
#[derive(Default)]
pub(super) struct Indexes {
    columns: Vec<ColumnIndexMetaData>,
    offsets: Vec<OffsetIndexMetaData>,
}

impl Indexes {
    /// Takes the chunks of a row group apart.
    pub(super) fn of(chunks: Vec<Chunk>) -> (Vec<ColumnChunkMetaData>, Indexes) {
        let mut metadata = Vec::with_capacity(chunks.len());
        let mut indexes = Indexes::default();
        for chunk in chunks {
            metadata.push(chunk.metadata);
            indexes.columns.push(chunk.column_index);
            indexes.offsets.push(chunk.offset_index);
        }
        (metadata, indexes)
    }
}

impl Footer {
    /// `file` is the metadata of a file without row groups.
    ///
    /// # Errors
    /// [`Error::Memory`] if the job has no memory for the metadata.
    pub(super) fn new(job: &Job, file: FileMetaData) -> Result<Footer, Error> {
        let closing = job.reserve(file.schema_descr().num_columns() * CLOSING_COLUMN_BYTES, PURPOSE)?;
        Ok(Footer { file, closing, frame: None, log: GroupLog::new(job)?, rows: 0, groups: 0 })
    }

    /// Returns the number of row groups so far.
    pub(super) fn groups(&self) -> u64 {
        self.groups
    }

    /// Adds a row group that was written.
    ///
    /// # Errors
    /// If its metadata cannot be spilled.
    pub(super) fn add(&mut self, group: RowGroupMetaData, indexes: Indexes) -> Result<(), Error> {
        let rows = group.num_rows().cast_unsigned();
        let tail = Tail::encode(&self.file, Some((group, indexes)))?;
        let (column_indexes, offset_indexes) = tail.indexes()?;
        let frame = match &mut self.frame {
            Some(frame) => frame,
            empty => {
                let none = Tail::encode(&self.file, None)?;
                empty.insert(Frame::between(none.metadata(), tail.metadata()))
            }
        };
        let group = frame.row_group(tail.metadata(), rows);
        self.log.push(&Entry { rows, column_indexes, offset_indexes, group })?;
        self.rows += rows;
        self.groups += 1;
        Ok(())
    }

    /// Writes the page indexes, the metadata and the end of the file by `write`, from file offset `base` on.
    ///
    /// # Errors
    /// Returns the errors of `write` and of spill files, and an error if the metadata exceed 4 GiB.
    pub(super) fn finish(
        self,
        base: u64,
        mut write: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Footer { file, closing: _closing, frame, log, rows, groups } = self;
        let Some(frame) = frame else { return write(&Tail::encode(&file, None)?.bytes) };
        let log = log.finish()?;
        let (mut column_indexes, mut offset_indexes) = (base, base);
        log.for_each(|entry| {
            offset_indexes += entry.column_indexes.len() as u64;
            write(entry.column_indexes)
        })?;
        log.for_each(|entry| write(entry.offset_indexes))?;
        let start = frame.start(rows, groups);
        write(&start)?;
        let mut length = start.len() + frame.end.len();
        log.for_each(|entry| {
            let group = frame.decode(entry.group, entry.rows)?;
            let split = entry.column_indexes.len() as u64;
            // Offset indexes lie behind the row group's column indexes there, behind those of all row groups here.
            let group = placed(group, column_indexes as i64, offset_indexes as i64 - split as i64)?;
            column_indexes += split;
            offset_indexes += entry.offset_indexes.len() as u64;
            let tail = Tail::encode(&file, Some((group, Indexes::default())))?;
            let bytes = frame.row_group(tail.metadata(), entry.rows);
            length += bytes.len();
            write(bytes)
        })?;
        write(&frame.end)?;
        let length = u32::try_from(length).map_err(|_| {
            Error::Query(format!(
                "the metadata of {groups} row groups exceed the 4 GiB that Parquet allows; raise --memory, or write Arrow IPC"
            ))
        })?;
        write(&length.to_le_bytes())?;
        write(MAGIC)
    }
}

/// Adds to the offsets of a row group's page indexes.
fn placed(
    group: RowGroupMetaData,
    column_indexes: i64,
    offset_indexes: i64,
) -> Result<RowGroupMetaData, Error> {
    let columns: Result<Vec<_>, _> = group
        .columns()
        .iter()
        .map(|column| {
            let by = |offset: Option<i64>, base| offset.map(|offset| offset + base);
            let (of_columns, of_offsets) = (column.column_index_offset(), column.offset_index_offset());
            let builder = column.clone().into_builder();
            builder
                .set_column_index_offset(by(of_columns, column_indexes))
                .set_offset_index_offset(by(of_offsets, offset_indexes))
                .build()
        })
        .collect();
    Ok(group.into_builder().set_column_metadata(columns?).build()?)
}

/// The end of a file as the library writes it: page indexes, metadata, their length, the magic number.
struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    /// Encodes the end of a file of one row group at most.
    fn encode(file: &FileMetaData, group: Option<(RowGroupMetaData, Indexes)>) -> Result<Tail, Error> {
        let mut builder = ParquetMetaDataBuilder::new(file.clone());
        if let Some((group, Indexes { columns, offsets })) = group {
            let is_indexed = !columns.is_empty();
            builder = builder
                .add_row_group(group)
                .set_column_index(is_indexed.then(|| vec![columns]))
                .set_offset_index(is_indexed.then(|| vec![offsets]));
        }
        let mut bytes = Vec::new();
        ParquetMetaDataWriter::new(&mut bytes, &builder.build()).finish()?;
        Ok(Tail { bytes })
    }

    /// Returns the encoded `FileMetaData`.
    fn metadata(&self) -> &[u8] {
        let rest = self.bytes.strip_suffix(MAGIC).expect("the end of a file");
        let (rest, length) = rest.split_last_chunk().expect("the length of the metadata");
        &rest[rest.len() - u32::from_le_bytes(*length) as usize..]
    }

    /// Column indexes and offset indexes.
    fn indexes(&self) -> Result<(&[u8], &[u8]), Error> {
        let length = self.bytes.len() - MAGIC.len() - size_of::<u32>() - self.metadata().len();
        let indexes = &self.bytes[..length];
        let metadata = ParquetMetaDataReader::decode_metadata(self.metadata())?;
        let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
        let first = columns.filter_map(ColumnChunkMetaData::offset_index_offset).min();
        Ok(indexes.split_at(first.map_or(length, |first| first as usize)))
    }
}

/// The encoded metadata of a file without the number of rows and the row groups.
struct Frame {
    start: Vec<u8>,
    end: Vec<u8>,
}

impl Frame {
    /// Compares the metadata of a file without row groups with those of one.
    ///
    /// # Panics
    /// If the library encodes a file in another way than this module assumes.
    fn between(none: &[u8], one: &[u8]) -> Frame {
        // Numbers of rows differ in their first byte, since 0 alone has that byte.
        let start = none.iter().zip(one).take_while(|(none, one)| none == one).count();
        let (start, rest) = none.split_at(start);
        assert_eq!(rest[..3], [0, ROW_GROUPS_FIELD, TYPE_STRUCT], "metadata without row groups");
        Frame { start: start.to_vec(), end: rest[3..].to_vec() }
    }

    /// Returns the beginning of the metadata of a file, up to its first row group.
    fn start(&self, rows: u64, groups: u64) -> Vec<u8> {
        let mut start = self.start.clone();
        varint(&mut start, zigzag(rows));
        start.push(ROW_GROUPS_FIELD);
        if groups <= SHORT_LIST_MAX {
            start.push((groups as u8) << 4 | TYPE_STRUCT);
        } else {
            start.push(0xf0 | TYPE_STRUCT);
            varint(&mut start, groups);
        }
        start
    }

    /// Cuts the row group out of the metadata of a file that has one.
    fn row_group<'a>(&self, one: &'a [u8], rows: u64) -> &'a [u8] {
        &one[self.start(rows, 1).len()..one.len() - self.end.len()]
    }

    /// Decodes a row group that was cut out.
    fn decode(&self, row_group: &[u8], rows: u64) -> Result<RowGroupMetaData, Error> {
        let one = [&self.start(rows, 1), row_group, &self.end].concat();
        let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
        let metadata = ParquetMetaDataReader::decode_metadata_with_options(&one, Some(&options))?;
        Ok(metadata.row_group(0).clone())
    }
}

/// Returns a signed integer of the compact protocol.
fn zigzag(value: u64) -> u64 {
    value << 1
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
