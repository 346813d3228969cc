//! Scan of Parquet files by one worker, row group by row group.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::chunk::Fault;
use super::column_sets::ColumnSets;
use super::footer::check_codecs;
use super::group::{Group, Opened};
use super::plan::ParquetPlan;
use crate::table::decoder_memory::DecoderMemory;
use crate::table::fetch::Fetcher;
use crate::table::guard::{catch_panics, damaged, name_file};
use crate::table::types::with_rows;
use crate::{Batches, Error, Job};

/// Scan state of one worker.
pub(in crate::table) struct ParquetScan {
    job: Job,
    plan: Arc<ParquetPlan>,
    fetcher: Fetcher,
    memory: Arc<DecoderMemory>,
    current: Option<Current>,
}

/// The row group being decoded.
struct Current {
    decoder: Decoder,
    fault: Fault,
    file: usize,
    index: usize,
    rows_left: u64,
    /// Bytes reserved for a batch.
    batch_bytes: usize,
}

enum Decoder {
    /// Only rows are counted: no column is projected.
    Count,
    Columns(ParquetRecordBatchReader),
    Sets(ColumnSets),
}

impl ParquetScan {
    pub(in crate::table) fn new(
        job: &Job,
        plan: &Arc<ParquetPlan>,
        fetcher: Fetcher,
        memory: DecoderMemory,
    ) -> ParquetScan {
        let (job, plan, memory) = (job.clone(), Arc::clone(plan), Arc::new(memory));
        ParquetScan { job, plan, fetcher, memory, current: None }
    }

    fn path(&self, file: usize) -> &Path {
        &self.plan.files[file].source.path
    }

    /// Starts the next row group; false if there is none.
    fn begin(&mut self) -> Result<bool, Error> {
        let Some(fetched) = self.fetcher.next()? else { return Ok(false) };
        let file = &self.plan.files[fetched.split.file];
        let leaves = file.leaves(&self.plan.columns);
        let path = &file.source.path;
        let metadata =
            catch_panics(path, || file.groups.group(fetched.split.index)).map_err(name_file(path))?;
        check_codecs(metadata.row_group(0), &leaves, path)?;
        let pieces = fetched.parts.map(|parts| Group::pieces(&self.plan, fetched.split, &leaves, parts));
        let group = Group {
            job: self.job.clone(),
            plan: Arc::clone(&self.plan),
            file: fetched.split.file,
            index: fetched.split.index,
            metadata,
            part: fetched.split.part,
            leaves,
            memory: Arc::clone(&self.memory),
            fault: Fault::default(),
            open: fetched.file,
            pieces,
            share: self.fetcher.share(),
            account: Arc::clone(self.fetcher.account()),
        };
        let path = self.path(group.file);
        let begun = catch_panics(path, || self.open(&group)).map_err(name_file(path));
        let (decoder, batch_bytes) = begun.map_err(|error| group.take_fault().unwrap_or(error))?;
        let (file, index, rows_left) = (group.file, group.index, group.wanted_rows());
        self.current = Some(Current { decoder, fault: group.fault, file, index, rows_left, batch_bytes });
        Ok(true)
    }

    /// Returns the decoder and the bytes reserved for its batches.
    fn open(&self, group: &Group) -> Result<(Decoder, usize), Error> {
        if self.plan.columns.is_empty() {
            return Ok((Decoder::Count, 0));
        }
        match self.open_all(group).map_err(|error| group.take_fault().unwrap_or(error)) {
            Err(Error::Memory { .. }) if self.plan.columns.len() > 1 => {
                Ok((Decoder::Sets(ColumnSets::new(group)?), 0))
            }
            other => other,
        }
    }

    /// Opens all columns at once.
    fn open_all(&self, group: &Group) -> Result<(Decoder, usize), Error> {
        let mut opened = Opened::default();
        self.plan.columns.iter().try_for_each(|&column| group.open_column(column, &mut opened))?;
        let row_bytes = opened.row_bytes;
        let rows = row_bytes.batch_rows(self.plan.batch_rows, self.memory.share() / 2);
        let bytes = rows.saturating_mul(row_bytes.of_row());
        let what = || format!("decoding {rows} rows of {} bytes", row_bytes.of_row());
        self.memory.resize(0, bytes, what)?;
        let reader = group.reader(&self.plan.columns, opened, rows)?;
        Ok((Decoder::Columns(reader), bytes))
    }

    /// Decodes the next batch of the row group; `None` at its end.
    fn advance(&self, current: &mut Current) -> Result<Option<RecordBatch>, Error> {
        let (plan, path) = (&self.plan, self.path(current.file));
        let next = match &mut current.decoder {
            Decoder::Count => {
                let rows = current.rows_left.min(plan.batch_rows as u64);
                let batch = with_rows(&plan.shape.schema, Vec::new(), rows as usize)?;
                Ok(Some(batch).filter(|_| rows > 0))
            }
            Decoder::Columns(reader) => catch_panics(path, || match reader.next() {
                None => Ok(None),
                Some(batch) => plan.shape.apply(&batch?).map(Some),
            }),
            Decoder::Sets(sets) => catch_panics(path, || match sets.next()? {
                None => Ok(None),
                Some(batch) => plan.shape.apply(&batch).map(Some),
            }),
        };
        if let Some(error) = current.fault.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() {
            return Err(error);
        }
        let batch = next.map_err(name_file(path))?;
        let rows = batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
        let index = current.index;
        let too_many = || damaged(path, format_args!("row group {index} has more rows than it claims"));
        current.rows_left = current.rows_left.checked_sub(rows).ok_or_else(too_many)?;
        if batch.is_none() && current.rows_left > 0 {
            let left = current.rows_left;
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
            if let Some(mut current) = self.current.take() {
                if let Some(batch) = self.advance(&mut current)? {
                    self.current = Some(current);
                    return Ok(Some(batch));
                }
                // The memory of its pages is released before the next row group needs some.
                let bytes = current.batch_bytes;
                drop(current);
                self.memory.resize(bytes, 0, String::new)?;
            }
            if !self.begin()? {
                return Ok(None);
            }
        }
    }
}
