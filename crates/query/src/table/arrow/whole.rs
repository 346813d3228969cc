//! Record batches that exceed a worker's share of file data and cannot be read in row ranges: compressed ones, and those
//! with nested columns. Writers such as pandas make one record batch of a table, which is then compressed as a whole.
//!
//! They are decoded as a whole, but read one column at a time: the bytes of a compressed column are released when it is
//! decompressed. The scan reserves the memory before the operator divides the rest.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema;
use bytes::Bytes;
use sakiyomi_io::buffer::Account;
use sakiyomi_io::{IoFile, ReadStream, SharedOptions};

use super::column::{Column, Dictionaries, claimed_bytes};
use super::index::ArrowFile;
use super::layout::{column_ranges, layouts};
use super::message;
use super::rows::can_be_read_in_parts;
use crate::table::decoder_memory::DecoderMemory;
use crate::table::fetch::{READ_PHASE_NAME, Split};
use crate::table::guard::{catch_panics, damaged, name_file};
use crate::table::types::with_rows;
use crate::{Error, Job};

/// Record batches whose decompressed size is read from the file before the scan, the largest ones: each buffer is a
/// read of its own. The others have fewer bytes to decompress, unless they are compressed more.
const MEASURED_BATCHES_MAX: usize = 16;

/// Transfer size of a column.
const READ_BYTES: usize = 1 << 20;

/// Parts of a worker's share of file data, of which a transfer is one.
const SHARE_PARTS: usize = 4;

/// Returns the memory that the largest record batch among `splits` needs to be decoded as a whole, in bytes. `whole` is
/// the size up to which a record batch is read at once; uncompressed ones within it need none.
pub(in crate::table) fn batch_memory(
    files: &[ArrowFile],
    splits: &[Split],
    columns: &[usize],
    whole: u64,
) -> Result<usize, Error> {
    let mut sizes = Vec::with_capacity(splits.len());
    for split in splits {
        let file = &files[split.file];
        let is_divisible = file.is_divisible(split.index, columns)?;
        let ranges = file.ranges(split.index, columns)?;
        let bytes = ranges.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
        if !is_divisible {
            sizes.push((bytes, *split));
        }
    }
    sizes.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let mut most = 0;
    for (bytes, split) in sizes.into_iter().take(MEASURED_BATCHES_MAX) {
        let need = files[split.file].need(split.index, columns, bytes <= whole)?;
        most = most.max(need);
    }
    Ok(usize::try_from(most).unwrap_or(usize::MAX))
}

impl ArrowFile {
    /// Returns whether a record batch is read in row ranges if it exceeds the memory.
    fn is_divisible(&self, batch: usize, columns: &[usize]) -> Result<bool, Error> {
        let bad = |how: String| damaged(&self.source.path, how);
        let header = message::parse(&self.batches[batch].header).map_err(bad)?;
        let batch = message::record_batch(&header).map_err(bad)?.expect("a record batch");
        let types = columns.iter().map(|&column| self.schema.field(column).data_type());
        Ok(batch.compression().is_none() && types.into_iter().all(can_be_read_in_parts))
    }

    /// Returns the bytes to decode columns of a record batch as a whole: its arrays, and the largest compressed column
    /// unless `is_held`, so that its bytes are in the buffers of the scan.
    fn need(&self, batch: usize, columns: &[usize], is_held: bool) -> Result<u64, Error> {
        let bad = |how: String| damaged(&self.source.path, how);
        let body = self.batches[batch].body;
        let header = message::parse(&self.batches[batch].header).map_err(bad)?;
        let batch = message::record_batch(&header).map_err(bad)?.expect("a record batch");
        let layouts = layouts(&self.schema, &batch, self.version).map_err(bad)?;
        let ranges = column_ranges(&batch, &layouts);
        let reader = self.source.reader()?;
        let (mut arrays, mut largest) = (0u64, 0);
        for &column in columns {
            let stored = ranges[column].end - ranges[column].start;
            if batch.compression().is_none() {
                // The arrays keep the bytes as they were read.
                arrays = arrays.saturating_add(if is_held { 0 } else { stored });
                continue;
            }
            largest = largest.max(if is_held { 0 } else { stored });
            let mut shares_file_bytes = false;
            for buffer in layouts[column].buffers.clone() {
                let buffer = *batch.buffers().expect("checked").get(buffer);
                let head = |length| reader.read(body + buffer.offset() as u64, length);
                match claimed_bytes(&buffer, head).map_err(name_file(&self.source.path))? {
                    Some(bytes) => arrays = arrays.saturating_add(bytes),
                    None => shares_file_bytes = true,
                }
            }
            if shares_file_bytes && !is_held {
                arrays = arrays.saturating_add(stored);
            }
        }
        Ok(arrays.saturating_add(largest))
    }
}

/// The reader of a worker.
pub(super) struct Reading<'a> {
    pub(super) job: &'a Job,
    pub(super) file: &'a Arc<IoFile>,
    /// Memory of the worker's transfers.
    pub(super) account: &'a Arc<Account>,
    /// Bytes of file data that the worker may hold.
    pub(super) share: usize,
}

/// Reads and decodes columns of a record batch as a whole. Also returns the bytes reserved for its arrays.
pub(super) fn decode(
    arrow: &ArrowFile,
    at: usize,
    columns: &[usize],
    dictionaries: &Dictionaries,
    reading: &Reading<'_>,
    memory: &DecoderMemory,
) -> Result<(RecordBatch, usize), Error> {
    let path = &arrow.source.path;
    let need = usize::try_from(arrow.need(at, columns, false)?).unwrap_or(usize::MAX);
    memory.resize(0, need, || what(at, path))?;
    let decoded = catch_panics(path, || decode_columns(arrow, at, columns, dictionaries, reading));
    match decoded.map_err(name_file(path)) {
        Ok(batch) => Ok((batch, need)),
        Err(error) => {
            memory.resize(need, 0, String::new)?;
            Err(error)
        }
    }
}

fn what(at: usize, path: &Path) -> String {
    format!(
        "reading record batch {at} of {}, which is compressed or nested and decoded as a whole,",
        path.display()
    )
}

fn decode_columns(
    arrow: &ArrowFile,
    at: usize,
    columns: &[usize],
    dictionaries: &Dictionaries,
    reading: &Reading<'_>,
) -> Result<RecordBatch, Error> {
    let batch = &arrow.batches[at];
    let header = message::parse(&batch.header).map_err(Error::Query)?;
    let found = message::record_batch(&header).map_err(Error::Query)?.expect("a record batch");
    let layouts = layouts(&arrow.schema, &found, arrow.version).map_err(Error::Query)?;
    let ranges = column_ranges(&found, &layouts);
    let (mut fields, mut arrays): (Vec<_>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    for &column in columns {
        let (field, layout, range) =
            (&arrow.schema.fields()[column], &layouts[column], ranges[column].clone());
        let start = range.start;
        let bytes = reading.read(batch.body + range.start..batch.body + range.end)?;
        let array = Column { field, layout, bytes, start }.decode(&found, dictionaries, arrow.version)?;
        if array.len() as u64 != batch.rows {
            let (rows, length) = (batch.rows, array.len());
            return Err(Error::Query(format!("a record batch of {rows} rows has a column of {length}")));
        }
        fields.push(Arc::clone(field));
        arrays.push(array);
    }
    with_rows(&Arc::new(Schema::new(fields)), arrays, batch.rows as usize)
}

impl Reading<'_> {
    /// Reads a range of the file into memory of the allocator.
    fn read(&self, range: Range<u64>) -> Result<Bytes, Error> {
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        if range.is_empty() {
            return Ok(bytes.into());
        }
        let block = READ_BYTES.min(self.share / SHARE_PARTS).max(READ_BYTES / 16);
        let options = SharedOptions { block, ahead: 2, ..SharedOptions::default() };
        let mut stream =
            ReadStream::shared_within(self.job.io(), Some(self.account), self.file, range, &options)?;
        while let Some(block) = stream.next().transpose()? {
            bytes.extend_from_slice(&block);
        }
        self.job.phases().add_io(READ_PHASE_NAME, stream.stats());
        Ok(bytes.into())
    }
}
