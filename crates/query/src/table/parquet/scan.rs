//! The scan of Parquet files by one worker: row groups, decoded batch by batch.

use std::sync::{Arc, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::{Fields, SchemaRef};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};

use super::chunk::{Chunk, Fault};
use super::footer::ParquetFile;
use super::pages::{GroupPages, Pages};
use super::rows::RowBytes;
use super::window::Window;
use crate::table::allowance::Allowance;
use crate::table::fetch::{Fetched, Fetcher, Split};
use crate::table::guard::{damaged, decode, named};
use crate::table::types::{Shape, retyped, with_rows};
use crate::{Batches, Error, Job};

/// Smallest and largest blocks of a window.
const WINDOW_MIN_BYTES: usize = 4 << 10;
const WINDOW_MAX_BYTES: usize = 1 << 20;

/// Blocks that a window has at the same time: one that is decoded, one in flight, and one that is being replaced.
const WINDOW_BLOCKS: usize = 3;

/// The parts of a scan's options that its workers share.
#[derive(Debug)]
pub(in crate::table) struct ParquetPlan {
    pub(in crate::table) files: Arc<Vec<ParquetFile>>,
    /// The columns that are decoded, in the order of the files, each once.
    pub(in crate::table) columns: Vec<usize>,
    /// The scan's types of all columns of the table.
    pub(in crate::table) types: Fields,
    pub(in crate::table) shape: Shape,
    pub(in crate::table) batch_rows: usize,
}

/// One worker.
pub(in crate::table) struct ParquetScan {
    job: Job,
    plan: Arc<ParquetPlan>,
    fetcher: Fetcher,
    allowance: Arc<Allowance>,
    /// How the columns of the file that was begun last are decoded.
    levels: Option<(usize, Arc<FieldLevels>)>,
    group: Option<Group>,
}

/// A row group that is being decoded.
struct Group {
    file: usize,
    index: usize,
    /// None where no column is wanted.
    reader: Option<ParquetRecordBatchReader>,
    fault: Fault,
    rows_left: u64,
    /// Bytes that are reserved for a batch.
    batch_bytes: usize,
}

impl ParquetScan {
    pub(in crate::table) fn new(
        job: &Job,
        plan: &Arc<ParquetPlan>,
        fetcher: Fetcher,
        allowance: Allowance,
    ) -> ParquetScan {
        let (job, plan, allowance) = (job.clone(), Arc::clone(plan), Arc::new(allowance));
        ParquetScan { job, plan, fetcher, allowance, levels: None, group: None }
    }

    /// Begins the next row group; false if there is none.
    fn begin(&mut self) -> Result<bool, Error> {
        let Some(fetched) = self.fetcher.next()? else { return Ok(false) };
        let Split { file, index } = fetched.split;
        let plan = Arc::clone(&self.plan);
        let path = &plan.files[file].source.path;
        let rows = plan.files[file].metadata.row_group(index).num_rows() as u64;
        let fault = Fault::default();
        let mut group = Group { file, index, reader: None, fault, rows_left: rows, batch_bytes: 0 };
        if !plan.columns.is_empty() {
            let begun = decode(path, || self.open(&mut group, fetched)).map_err(named(path));
            let fault = group.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let (Err(_), Some(error)) = (&begun, fault) {
                return Err(error);
            }
            begun?;
        }
        self.group = Some(group);
        Ok(true)
    }

    fn open(&mut self, group: &mut Group, fetched: Fetched) -> Result<(), Error> {
        let plan = Arc::clone(&self.plan);
        let file = &plan.files[group.file];
        let metadata = file.metadata.row_group(group.index);
        let leaves = file.leaves(&self.plan.columns);
        let count = leaves.len();
        let mut parts = fetched.parts.map(Vec::into_iter);
        let mut chunks = Vec::with_capacity(count);
        let mut row_bytes = RowBytes::default();
        for (leaf, column) in leaves {
            let chunk = metadata.column(leaf);
            let pages = match parts.as_mut().and_then(Iterator::next) {
                Some(bytes) => self.whole(chunk, bytes, group, &mut row_bytes)?,
                None => {
                    let (start, length) = chunk.byte_range();
                    let share = self.fetcher.share() / count / WINDOW_BLOCKS;
                    let block = (share + 1).next_power_of_two() / 2;
                    let block = block.clamp(WINDOW_MIN_BYTES, WINDOW_MAX_BYTES);
                    let range = start..start + length;
                    let window = Window::open(&self.job, &fetched.file, range, block)?;
                    row_bytes.add_unseen(chunk, group.rows_left);
                    Chunk::windowed(chunk, window, &self.allowance, &group.fault)
                }
            };
            let pages = Pages::new(pages, chunk, metadata.num_rows() as usize)?;
            row_bytes.add_dictionary(pages.longest_in_dictionary(), self.plan.types[column].data_type());
            chunks.push((leaf, pages));
        }
        let rows = row_bytes.batch_rows(self.plan.batch_rows, self.allowance.share() / 2);
        let bytes = rows.saturating_mul(row_bytes.of_row());
        self.allowance
            .exchange(0, bytes, || format!("decoding {rows} rows of {} bytes", row_bytes.of_row()))?;
        group.batch_bytes = bytes;
        let levels = self.levels(group.file)?;
        let chunks = std::sync::Mutex::new(chunks.into_iter().collect());
        let pages = GroupPages { metadata: Arc::clone(&file.metadata), group: group.index, chunks };
        let reader = ParquetRecordBatchReader::try_new_with_row_groups(&levels, &pages, rows, None)?;
        group.reader = Some(reader);
        Ok(())
    }

    fn whole(
        &self,
        metadata: &parquet::file::metadata::ColumnChunkMetaData,
        bytes: Bytes,
        group: &Group,
        row_bytes: &mut RowBytes,
    ) -> Result<Chunk, Error> {
        let chunk = Chunk::whole(metadata, bytes, &self.allowance, &group.fault);
        row_bytes.add_pages(metadata, chunk.data_pages(), group.rows_left);
        Ok(chunk)
    }

    /// How the columns of a file are decoded.
    fn levels(&mut self, file: usize) -> Result<Arc<FieldLevels>, Error> {
        if let Some((known, levels)) = &self.levels
            && *known == file
        {
            return Ok(Arc::clone(levels));
        }
        let opened = &self.plan.files[file];
        let fields = opened.schema.fields().iter().zip(&self.plan.types);
        let hints: Fields = fields.map(|(own, wanted)| retyped(own, wanted.data_type().clone())).collect();
        let descriptor = opened.metadata.file_metadata().schema_descr();
        let mask = ProjectionMask::roots(descriptor, self.plan.columns.iter().copied());
        let levels = Arc::new(parquet_to_arrow_field_levels(descriptor, mask, Some(&hints))?);
        self.levels = Some((file, Arc::clone(&levels)));
        Ok(levels)
    }

    /// The next batch of the row group; none at its end.
    fn advance(&self, group: &mut Group) -> Result<Option<RecordBatch>, Error> {
        let plan = &self.plan;
        let Some(reader) = &mut group.reader else {
            let rows = group.rows_left.min(plan.batch_rows as u64);
            group.rows_left -= rows;
            let batch = with_rows(&plan.shape.schema, Vec::new(), rows as usize)?;
            return Ok(Some(batch).filter(|_| rows > 0));
        };
        let path = &plan.files[group.file].source.path;
        let next = decode(path, || match reader.next() {
            None => Ok(None),
            Some(batch) => plan.shape.apply(&batch?).map(Some),
        });
        if let Some(error) = group.fault.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(error);
        }
        let batch = next.map_err(named(path))?;
        let rows = batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
        let index = group.index;
        let too_many = || damaged(path, format_args!("row group {index} has more rows than it claims"));
        group.rows_left = group.rows_left.checked_sub(rows).ok_or_else(too_many)?;
        if batch.is_none() && group.rows_left > 0 {
            let left = group.rows_left;
            return Err(damaged(path, format_args!("row group {index} has {left} rows less than it claims")));
        }
        Ok(batch)
    }
}

impl Batches for ParquetScan {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.shape.schema)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.job.check()?;
        loop {
            if let Some(mut group) = self.group.take() {
                if let Some(batch) = self.advance(&mut group)? {
                    self.group = Some(group);
                    return Ok(Some(batch));
                }
                // The memory of its pages is released before the next row group needs some.
                let bytes = group.batch_bytes;
                drop(group);
                self.allowance.exchange(bytes, 0, String::new)?;
            }
            if !self.begin()? {
                return Ok(None);
            }
        }
    }
}
