//! Opening the column chunks of a row group for decoding.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::Fields;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::file::metadata::ParquetMetaData;
use sakiyomi_io::IoFile;
use sakiyomi_io::buffer::Account;

use super::chunk::{Chunk, Fault, Pieces};
use super::division::{Division, LeafPages, Located};
use super::footer::ParquetFile;
use super::pages::{GroupPages, Pages};
use super::plan::ParquetPlan;
use super::rows::RowBytes;
use super::window::Window;
use crate::table::decoder_memory::DecoderMemory;
use crate::table::fetch::Split;
use crate::table::types::retyped;
use crate::{Error, Job};

/// Minimum and maximum block size of a window.
const WINDOW_MIN_BYTES: usize = 4 << 10;
const WINDOW_MAX_BYTES: usize = 1 << 20;

/// Blocks that a window holds at once: one being decoded, one in flight, and one being replaced.
const WINDOW_BLOCKS: usize = 3;

/// A row group and the context for opening its chunks.
pub(super) struct Group {
    pub(super) job: Job,
    pub(super) plan: Arc<ParquetPlan>,
    pub(super) file: usize,
    pub(super) index: usize,
    /// Metadata of the row group alone.
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) memory: Arc<DecoderMemory>,
    pub(super) fault: Fault,
    /// The open file, for windows.
    pub(super) open: Arc<IoFile>,
    /// The part of a divided row group.
    pub(super) part: usize,
    /// The bytes of each leaf with their offsets in the file, if they were read whole.
    pub(super) pieces: Option<Vec<Pieces>>,
    /// Projected leaves with their columns, in file order.
    pub(super) leaves: Vec<(usize, usize)>,
    /// Bytes of file data that may be in memory.
    pub(super) share: usize,
    /// Memory of windows.
    pub(super) account: Arc<Account>,
}

/// Chunks ready to be decoded.
#[derive(Default)]
pub(super) struct Opened {
    chunks: Vec<(usize, Pages)>,
    pub(super) row_bytes: RowBytes,
}

impl Opened {
    /// Returns the number of chunks.
    pub(super) fn len(&self) -> usize {
        self.chunks.len()
    }
}

impl Group {
    /// Assigns the bytes of a split to its leaves.
    pub(super) fn pieces(
        plan: &ParquetPlan,
        split: Split,
        leaves: &[(usize, usize)],
        parts: Vec<Bytes>,
    ) -> Vec<Pieces> {
        let groups = &plan.files[split.file].groups;
        let mut parts = parts.into_iter();
        match plan.divisions.get(&(split.file, split.index)) {
            Some(division) => {
                let rows = division.rows(split.part);
                let of_leaf = |leaf: &Arc<LeafPages>| {
                    let starts = leaf.ranges(&leaf.span(&rows)).into_iter().map(|range| range.start);
                    starts.zip(&mut parts).collect()
                };
                division.leaves.iter().map(of_leaf).collect()
            }
            None => {
                let start = |&(leaf, _): &(usize, usize)| groups.place(split.index, leaf).range().start;
                leaves.iter().map(start).zip(parts).map(|piece| vec![piece]).collect()
            }
        }
    }

    pub(super) fn file(&self) -> &ParquetFile {
        &self.plan.files[self.file]
    }

    /// Returns the division that this is a part of.
    fn division(&self) -> Option<&Division> {
        self.plan.divisions.get(&(self.file, self.index))
    }

    /// Returns the rows of the part, or the sampled ones; `None` for all.
    fn selection(&self) -> Option<RowSelection> {
        if let Some(division) = self.division() {
            let rows = division.rows(self.part);
            let rows = rows.start as usize..rows.end as usize;
            return Some(RowSelection::from_consecutive_ranges([rows].into_iter(), self.rows() as usize));
        }
        self.plan.runs.map(|runs| runs.selection(self.index, self.rows()))
    }

    /// Returns the number of rows to decode.
    pub(super) fn wanted_rows(&self) -> u64 {
        self.selection().map_or_else(|| self.rows(), |selection| selection.row_count() as u64)
    }

    /// Returns the number of rows according to the footer.
    pub(super) fn rows(&self) -> u64 {
        self.file().groups.rows(self.index)
    }

    /// Takes the error that the library reduced to its text.
    pub(super) fn take_fault(&self) -> Option<Error> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The projected leaves of a column, as places in `leaves`.
    fn leaves_of(&self, column: usize) -> Range<usize> {
        let from = self.leaves.partition_point(|&(_, other)| other < column);
        from..self.leaves.partition_point(|&(_, other)| other <= column)
    }

    /// Returns the number of leaves of some columns.
    pub(super) fn leaf_count(&self, columns: &[usize]) -> usize {
        columns.iter().map(|&column| self.leaves_of(column).len()).sum()
    }

    /// Adds the chunks of a column to `opened`.
    pub(super) fn open_column(&self, column: usize, opened: &mut Opened) -> Result<(), Error> {
        let metadata = self.metadata.row_group(0);
        for at in self.leaves_of(column) {
            let leaf = self.leaves[at].0;
            let chunk = metadata.column(leaf);
            let located =
                self.division().map(|division| Located::new(&division.leaves[at], &division.rows(self.part)));
            let pages = match &self.pieces {
                Some(pieces) => {
                    let pages = Chunk::whole(chunk, pieces[at].clone(), located, &self.memory, &self.fault);
                    opened.row_bytes.add_pages(chunk, pages.data_pages(), self.rows());
                    pages
                }
                None => {
                    opened.row_bytes.add_unseen(chunk, self.rows());
                    let (start, length) = chunk.byte_range();
                    let ranges = located
                        .as_ref()
                        .map_or_else(|| std::iter::once(start..start + length).collect(), Located::ranges);
                    Chunk::windowed(chunk, self.window(ranges)?, located, &self.memory, &self.fault)
                }
            };
            let pages = Pages::new(pages, chunk, metadata.num_rows() as usize)?;
            let data_type = self.plan.types[column].data_type();
            opened.row_bytes.add_dictionary(pages.longest_in_dictionary(), data_type);
            opened.chunks.push((leaf, pages));
        }
        Ok(())
    }

    /// Opens a window on ranges of a chunk. The windows of all leaves share the memory.
    fn window(&self, ranges: Vec<Range<u64>>) -> Result<Window, Error> {
        let share = self.share / self.leaves.len() / WINDOW_BLOCKS;
        let block = ((share + 1).next_power_of_two() / 2).clamp(WINDOW_MIN_BYTES, WINDOW_MAX_BYTES);
        Window::open(&self.job, &self.account, &self.open, ranges, block)
    }

    /// Returns a decoder of the opened chunks, with `rows` rows per batch.
    pub(super) fn reader(
        &self,
        columns: &[usize],
        opened: Opened,
        rows: usize,
    ) -> Result<ParquetRecordBatchReader, Error> {
        let file = self.file();
        let fields = file.schema.fields().iter().zip(&self.plan.types);
        let hints: Fields = fields.map(|(own, wanted)| retyped(own, wanted.data_type().clone())).collect();
        let descriptor = file.descriptor();
        let mask = ProjectionMask::roots(descriptor, columns.iter().copied());
        let levels = parquet_to_arrow_field_levels(descriptor, mask, Some(&hints))?;
        let chunks = Mutex::new(opened.chunks.into_iter().collect());
        let pages = GroupPages { metadata: Arc::clone(&self.metadata), chunks };
        Ok(ParquetRecordBatchReader::try_new_with_row_groups(&levels, &pages, rows, self.selection())?)
    }
}
