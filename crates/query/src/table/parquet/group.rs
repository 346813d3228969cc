//! Opening the column chunks of a row group for decoding.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::Fields;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use sakiyomi_io::IoFile;
use sakiyomi_io::buffer::Account;

use super::chunk::{Chunk, Fault};
use super::footer::ParquetFile;
use super::pages::{GroupPages, Pages};
use super::plan::ParquetPlan;
use super::rows::RowBytes;
use super::window::Window;
use crate::table::allowance::Allowance;
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
    pub(super) allowance: Arc<Allowance>,
    pub(super) fault: Fault,
    /// The open file, for windows.
    pub(super) open: Arc<IoFile>,
    /// The bytes of each leaf, if the row group was read whole.
    pub(super) parts: Option<Vec<Bytes>>,
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
    /// Number of chunks.
    pub(super) fn len(&self) -> usize {
        self.chunks.len()
    }
}

impl Group {
    pub(super) fn file(&self) -> &ParquetFile {
        &self.plan.files[self.file]
    }

    /// The sampled rows; `None` for all.
    fn selection(&self) -> Option<RowSelection> {
        self.plan.runs.map(|runs| runs.selection(self.index, self.rows()))
    }

    /// Number of rows to decode.
    pub(super) fn wanted_rows(&self) -> u64 {
        self.selection().map_or_else(|| self.rows(), |selection| selection.row_count() as u64)
    }

    /// Number of rows according to the footer.
    pub(super) fn rows(&self) -> u64 {
        self.file().metadata.row_group(self.index).num_rows() as u64
    }

    /// Takes the error that the library reduced to its text.
    pub(super) fn take_fault(&self) -> Option<Error> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Adds the chunks of a column to `opened`.
    pub(super) fn open_column(&self, wanted: usize, opened: &mut Opened) -> Result<(), Error> {
        let metadata = self.file().metadata.row_group(self.index);
        let leaves = self.file().leaves(&self.plan.columns);
        for (at, &(leaf, column)) in leaves.iter().enumerate().filter(|(_, (_, column))| *column == wanted) {
            let chunk = metadata.column(leaf);
            let pages = match &self.parts {
                Some(parts) => {
                    let pages = Chunk::whole(chunk, parts[at].clone(), &self.allowance, &self.fault);
                    opened.row_bytes.add_pages(chunk, pages.data_pages(), self.rows());
                    pages
                }
                None => {
                    opened.row_bytes.add_unseen(chunk, self.rows());
                    self.windowed(leaf, leaves.len())?
                }
            };
            let pages = Pages::new(pages, chunk, metadata.num_rows() as usize)?;
            let data_type = self.plan.types[column].data_type();
            opened.row_bytes.add_dictionary(pages.longest_in_dictionary(), data_type);
            opened.chunks.push((leaf, pages));
        }
        Ok(())
    }

    /// Opens a chunk through one of `windows` windows that share the memory.
    fn windowed(&self, leaf: usize, windows: usize) -> Result<Chunk, Error> {
        let chunk = self.file().metadata.row_group(self.index).column(leaf);
        let (start, length) = chunk.byte_range();
        let share = self.share / windows / WINDOW_BLOCKS;
        let block = ((share + 1).next_power_of_two() / 2).clamp(WINDOW_MIN_BYTES, WINDOW_MAX_BYTES);
        let window = Window::open(&self.job, &self.account, &self.open, start..start + length, block)?;
        Ok(Chunk::windowed(chunk, window, &self.allowance, &self.fault))
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
        let descriptor = file.metadata.file_metadata().schema_descr();
        let mask = ProjectionMask::roots(descriptor, columns.iter().copied());
        let levels = parquet_to_arrow_field_levels(descriptor, mask, Some(&hints))?;
        let chunks = Mutex::new(opened.chunks.into_iter().collect());
        let pages = GroupPages { metadata: Arc::clone(&file.metadata), group: self.index, chunks };
        Ok(ParquetRecordBatchReader::try_new_with_row_groups(&levels, &pages, rows, self.selection())?)
    }
}
