//! Reading of a record batch that exceeds the memory: row ranges, with separate reads for each column.
//!
//! Rows of fixed-width columns are located by their index, strings by their offsets. Nested, compressed and view
//! columns cannot be read this way.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Schema, SchemaRef};
use bytes::Bytes;
use sakiyomi_io::buffer::Account;
use sakiyomi_io::{IoFile, ReadStream, SharedOptions};

use super::column::Dictionaries;
use super::index::ArrowFile;
use super::layout::layouts;
use super::message;
use crate::table::fetch::READ_PHASE_NAME;
use crate::table::types::with_rows;
use crate::{Error, Job};

/// Row ranges are multiples of this, so that bitmaps are cut at bytes and values at vector alignment.
const ROWS_STEP: u64 = 64;

/// Reads in flight for a row range.
const PART_AHEAD: usize = 8;

/// Buffer layout of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One bit per row.
    Bits,
    /// A fixed number of bytes per row.
    Fixed(u64),
    /// Strings: one more offset than rows, of this many bytes each, and the values.
    Strings(u64),
}

/// A column and the file ranges of its buffers.
#[derive(Clone, Debug)]
struct Part {
    column: usize,
    kind: Kind,
    /// `None` without nulls.
    validity: Option<Range<u64>>,
    /// Values, or offsets of strings.
    values: Range<u64>,
    /// Bytes of strings.
    bytes: Range<u64>,
}

/// A record batch that is read in row ranges.
pub(super) struct Rows {
    job: Job,
    file: Arc<IoFile>,
    /// Memory of the worker.
    account: Arc<Account>,
    schema: SchemaRef,
    parts: Vec<Part>,
    dictionaries: Arc<Dictionaries>,
    rows: u64,
    next: u64,
    /// Maximum bytes of a row range.
    memory: u64,
}

impl Rows {
    /// Opens a record batch; `None` if it has a column that cannot be read in row ranges.
    pub(super) fn new(
        job: &Job,
        (arrow, dictionaries): (&ArrowFile, Arc<Dictionaries>),
        at: usize,
        columns: &[usize],
        (file, account): (&Arc<IoFile>, &Arc<Account>),
        memory: usize,
    ) -> Result<Option<Rows>, Error> {
        let batch = &arrow.batches[at];
        let header = message::parse(&batch.header).map_err(Error::Query)?;
        let header = message::record_batch(&header).map_err(Error::Query)?.expect("a record batch");
        let layouts = layouts(&arrow.schema, &header, arrow.version).map_err(Error::Query)?;
        if header.compression().is_some() {
            return Ok(None);
        }
        let mut parts = Vec::with_capacity(columns.len());
        for &column in columns {
            let Some(kind) = kind(arrow.schema.field(column).data_type()) else { return Ok(None) };
            let layout = &layouts[column];
            let node = *header.nodes().expect("checked").get(layout.nodes.start);
            if node.length() != header.length() {
                return Err(Error::Query("a column has another length than its record batch".into()));
            }
            let buffer = |at: usize| {
                let buffer = header.buffers().expect("checked").get(layout.buffers.start + at);
                let start = batch.body + buffer.offset() as u64;
                start..start + buffer.length() as u64
            };
            let validity = (node.null_count() > 0).then(|| buffer(0));
            let bytes = if matches!(kind, Kind::Strings(_)) { buffer(2) } else { 0..0 };
            parts.push(Part { column, kind, validity, values: buffer(1), bytes });
        }
        let (rows, memory) = (batch.rows, memory as u64);
        let (job, file, schema) = (job.clone(), Arc::clone(file), Arc::clone(&arrow.schema));
        let account = Arc::clone(account);
        Ok(Some(Rows { job, file, account, schema, parts, dictionaries, rows, next: 0, memory }))
    }

    /// Reads the next rows; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        if self.next == self.rows {
            return Ok(None);
        }
        // The extra byte is for the bitmap. Half of the memory is for the bytes of strings.
        let of_row: u64 = self.parts.iter().map(|part| part.kind.row_bytes() + 1).sum();
        let count = (self.memory / 2 / of_row.max(1)) / ROWS_STEP * ROWS_STEP;
        let rows = self.next..(self.next + count.max(ROWS_STEP)).min(self.rows);
        let fixed = self.read(self.parts.iter().flat_map(|part| part.fixed_ranges(&rows)).collect())?;
        let mut fixed = fixed.into_iter();
        let fixed: Vec<(Option<Bytes>, Bytes)> = self
            .parts
            .iter()
            .map(|part| {
                let validity = part.validity.as_ref().map(|_| fixed.next().expect("a block for each range"));
                (validity, fixed.next().expect("a block for each range"))
            })
            .collect();
        let rows = self.shorten(rows, &fixed)?;
        let offsets = self.parts.iter().zip(&fixed).map(|(part, (_, offsets))| part.strings(&rows, offsets));
        let offsets = offsets.collect::<Result<Vec<_>, Error>>()?;
        let mut strings = self.read(offsets.iter().flatten().cloned().collect())?.into_iter();
        let count = (rows.end - rows.start) as usize;
        let mut arrays = Vec::with_capacity(self.parts.len());
        for ((part, (validity, values)), strings_at) in self.parts.iter().zip(fixed).zip(offsets) {
            let bytes = strings_at.map(|_| strings.next().expect("a block for each range"));
            arrays.push(self.array(part, count, validity, values, bytes)?);
        }
        self.next = rows.end;
        let fields = self.parts.iter().map(|part| Arc::clone(&self.schema.fields()[part.column]));
        with_rows(&Arc::new(Schema::new(fields.collect::<Vec<_>>())), arrays, count).map(Some)
    }

    /// Reads byte ranges of the file, one block each.
    fn read(&self, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>, Error> {
        let file = Arc::clone(&self.file);
        let ranges = ranges.into_iter().map(move |range| (Arc::clone(&file), range));
        let options = SharedOptions { ahead: PART_AHEAD, ..SharedOptions::default() };
        let mut stream = ReadStream::ranges_within(self.job.io(), Some(&self.account), ranges, &options)?;
        let mut blocks = Vec::new();
        while let Some(block) = stream.next().transpose()? {
            blocks.push(Bytes::from_owner(block));
        }
        self.job.phases().add_io(READ_PHASE_NAME, stream.stats());
        Ok(blocks)
    }

    /// Shortens a row range until its strings fit into the memory, to no less than [`ROWS_STEP`] rows.
    fn shorten(&self, rows: Range<u64>, fixed: &[(Option<Bytes>, Bytes)]) -> Result<Range<u64>, Error> {
        let mut rows = rows;
        loop {
            let mut bytes = 0u64;
            for (part, (_, offsets)) in self.parts.iter().zip(fixed) {
                let strings = part.strings(&rows, offsets)?.unwrap_or(0..0);
                bytes = bytes.saturating_add(strings.end - strings.start);
            }
            let count = rows.end - rows.start;
            if bytes <= self.memory / 2 || count <= ROWS_STEP {
                return Ok(rows);
            }
            rows.end = rows.start + (count / 2).next_multiple_of(ROWS_STEP);
        }
    }

    fn array(
        &self,
        part: &Part,
        rows: usize,
        validity: Option<Bytes>,
        values: Bytes,
        bytes: Option<Bytes>,
    ) -> Result<ArrayRef, Error> {
        let data_type = self.schema.field(part.column).data_type();
        let mut builder = ArrayData::builder(data_type.clone()).len(rows).align_buffers(true);
        builder = builder.null_bit_buffer(validity.map(Buffer::from));
        builder = match (part.kind, bytes) {
            (Kind::Strings(4), Some(bytes)) => {
                let offsets = rebased(&values, rows, i32::from_le_bytes)?;
                builder.add_buffer(Buffer::from_vec(offsets)).add_buffer(Buffer::from(bytes))
            }
            (Kind::Strings(_), Some(bytes)) => {
                let offsets = rebased(&values, rows, i64::from_le_bytes)?;
                builder.add_buffer(Buffer::from_vec(offsets)).add_buffer(Buffer::from(bytes))
            }
            _ => builder.add_buffer(Buffer::from(values)),
        };
        if let DataType::Dictionary(_, value_type) = data_type {
            #[expect(deprecated, reason = "the only way to the number of a field's dictionary")]
            let id = self.schema.field(part.column).dict_id().unwrap_or_default();
            let known = self.dictionaries.get(&id).cloned();
            let values = known.unwrap_or_else(|| arrow_array::new_empty_array(value_type));
            builder = builder.add_child_data(values.to_data());
        }
        Ok(make_array(builder.build()?))
    }
}

/// Decodes offsets and rebases them to 0.
fn rebased<const N: usize, T: Copy + std::ops::Sub<Output = T>>(
    bytes: &[u8],
    rows: usize,
    number: fn([u8; N]) -> T,
) -> Result<Vec<T>, Error> {
    let offsets = bytes.chunks_exact(N).map(|bytes| number(bytes.try_into().expect("a chunk")));
    let offsets: Vec<T> = offsets.take(rows + 1).collect();
    let first = *offsets.first().ok_or_else(|| Error::Query("a column of strings has no offsets".into()))?;
    // `strings` checked the first and last offset; building the array checks the others.
    Ok(offsets.into_iter().map(|offset| offset - first).collect())
}

impl Kind {
    fn row_bytes(self) -> u64 {
        match self {
            Kind::Bits => 1,
            Kind::Fixed(bytes) | Kind::Strings(bytes) => bytes,
        }
    }
}

impl Part {
    /// File ranges of the bitmap (if any) and of the values or offsets of `rows`, which start at a multiple of
    /// [`ROWS_STEP`].
    fn fixed_ranges(&self, rows: &Range<u64>) -> Vec<Range<u64>> {
        let bits = |of: &Range<u64>| of.start + rows.start / 8..of.start + rows.end.div_ceil(8);
        let values = match self.kind {
            Kind::Bits => bits(&self.values),
            Kind::Fixed(width) => {
                self.values.start + rows.start * width..self.values.start + rows.end * width
            }
            Kind::Strings(width) => {
                self.values.start + rows.start * width..self.values.start + (rows.end + 1) * width
            }
        };
        let clamped = |range: Range<u64>, of: &Range<u64>| range.start.min(of.end)..range.end.min(of.end);
        let validity = self.validity.as_ref().map(|of| clamped(bits(of), of));
        validity.into_iter().chain([clamped(values, &self.values)]).collect()
    }

    /// File range of the strings of `rows`, by their offsets; `None` if the column has no strings.
    fn strings(&self, rows: &Range<u64>, offsets: &[u8]) -> Result<Option<Range<u64>>, Error> {
        let Kind::Strings(width) = self.kind else { return Ok(None) };
        let offset = |at: u64| -> Result<u64, Error> {
            let from = (at * width) as usize;
            let bytes = offsets.get(from..from + width as usize);
            let bytes =
                bytes.ok_or_else(|| Error::Query("a column of strings has too few offsets".into()))?;
            let mut number = [0; 8];
            number[..bytes.len()].copy_from_slice(bytes);
            Ok(u64::from_le_bytes(number))
        };
        let (first, last) = (offset(0)?, offset(rows.end - rows.start)?);
        let size = self.bytes.end - self.bytes.start;
        if first > last || last > size {
            return Err(Error::Query("the offsets of a column of strings do not ascend".into()));
        }
        Ok(Some(self.bytes.start + first..self.bytes.start + last))
    }
}

/// Returns whether columns of a type can be read in row ranges, if they are not compressed.
pub(super) fn can_be_read_in_parts(data_type: &DataType) -> bool {
    kind(data_type).is_some()
}

/// Buffer layout of a type; `None` if its columns cannot be read in row ranges.
fn kind(data_type: &DataType) -> Option<Kind> {
    Some(match data_type {
        DataType::Boolean => Kind::Bits,
        DataType::Utf8 | DataType::Binary => Kind::Strings(4),
        DataType::LargeUtf8 | DataType::LargeBinary => Kind::Strings(8),
        DataType::FixedSizeBinary(width) => Kind::Fixed(u64::try_from(*width).ok()?),
        DataType::Dictionary(keys, _) => Kind::Fixed(keys.primitive_width()? as u64),
        other => Kind::Fixed(other.primitive_width()? as u64),
    })
}
