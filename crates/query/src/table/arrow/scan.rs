//! Scan of Arrow IPC files by one worker: record batches, sliced to the batch size of operators.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;

use super::column::{Column, Dictionaries, decompressed_bytes};
use super::dictionaries::Loaded;
use super::index::{ArrowFile, Batch};
use super::layout::{column_ranges, layouts};
use super::message;
use super::rows::Rows;
use super::whole::{self, Reading};
use crate::job::Reservation;
use crate::table::decoder_memory::DecoderMemory;
use crate::table::fetch::{Fetched, Fetcher};
use crate::table::guard::{catch_panics, damaged, name_file};
use crate::table::types::{Shape, with_rows};
use crate::{Batches, Error, Job};

/// The parts of a scan's options that its workers share.
#[derive(Debug)]
pub(in crate::table) struct ArrowPlan {
    pub(in crate::table) files: Arc<Vec<ArrowFile>>,
    /// Columns to decode, in file order, each once.
    pub(in crate::table) columns: Vec<usize>,
    pub(in crate::table) shape: Shape,
    pub(in crate::table) batch_rows: usize,
    /// The dictionaries of each file.
    pub(in crate::table) dictionaries: Vec<Loaded>,
    #[expect(dead_code, reason = "holds the memory")]
    pub(in crate::table) memory: Reservation,
}

impl ArrowFile {
    /// File ranges of `columns` of a record batch.
    pub(in crate::table) fn ranges(
        &self,
        batch: usize,
        columns: &[usize],
    ) -> Result<Vec<std::ops::Range<u64>>, Error> {
        let Batch { header, body, .. } = &self.batches[batch];
        let bad = |how: String| damaged(&self.source.path, how);
        let header = message::parse(header).map_err(bad)?;
        let batch = message::record_batch(&header).map_err(bad)?.expect("a record batch");
        let layouts = layouts(&self.schema, &batch, self.version).map_err(bad)?;
        let ranges = column_ranges(&batch, &layouts);
        Ok(columns.iter().map(|&column| body + ranges[column].start..body + ranges[column].end).collect())
    }

    /// Returns the rows of a record batch.
    pub(in crate::table) fn batch_rows(&self, batch: usize) -> u64 {
        self.batches[batch].rows
    }

    /// Decodes columns of a record batch from the bytes of their ranges.
    pub(super) fn decode(
        &self,
        at: usize,
        columns: &[usize],
        parts: Vec<Bytes>,
        dictionaries: &Loaded,
        memory: &DecoderMemory,
    ) -> Result<(RecordBatch, usize), Error> {
        let batch = &self.batches[at];
        let dictionaries = dictionaries.of(batch.dictionaries);
        let path = &self.source.path;
        let parts = columns.iter().copied().zip(parts);
        catch_panics(path, || {
            decode_columns(&self.schema, &batch.header, self.version, parts, &dictionaries, memory)
        })
        .map_err(name_file(path))
    }
}

/// Decodes columns of a record batch from their bytes. Also returns the bytes reserved for decompressed data.
pub(super) fn decode_columns(
    schema: &Schema,
    header: &[u8],
    version: arrow_ipc::MetadataVersion,
    parts: impl Iterator<Item = (usize, Bytes)>,
    dictionaries: &Dictionaries,
    memory: &DecoderMemory,
) -> Result<(RecordBatch, usize), Error> {
    let header = message::parse(header).map_err(Error::Query)?;
    let batch = message::record_batch(&header).map_err(Error::Query)?;
    let batch = batch.ok_or_else(|| Error::Query("a message is not a record batch".into()))?;
    let layouts = layouts(schema, &batch, version).map_err(Error::Query)?;
    let ranges = column_ranges(&batch, &layouts);
    let (mut fields, mut arrays): (Vec<_>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    let mut reserved = 0;
    for (column, bytes) in parts {
        let (field, layout, start) = (&schema.fields()[column], &layouts[column], ranges[column].start);
        let more = decompressed_bytes(&batch, layout.buffers.clone(), &bytes, start).map_err(Error::Query)?;
        let more = usize::try_from(more).unwrap_or(usize::MAX);
        let what = || format!("decompressing column {} of a record batch", field.name());
        memory.resize(0, more, what)?;
        reserved += more;
        let array = Column { field, layout, bytes, start }.decode(&batch, dictionaries, version)?;
        fields.push(Arc::clone(field));
        arrays.push(array);
    }
    let rows = usize::try_from(batch.length()).unwrap_or(usize::MAX);
    if let Some(array) = arrays.iter().find(|array| array.len() != rows) {
        let length = array.len();
        return Err(Error::Query(format!("a record batch of {rows} rows has a column of {length}")));
    }
    Ok((with_rows(&Arc::new(Schema::new(fields)), arrays, rows)?, reserved))
}

/// Scan state of one worker.
pub(in crate::table) struct ArrowScan {
    job: Job,
    plan: Arc<ArrowPlan>,
    fetcher: Fetcher,
    memory: DecoderMemory,
    current: Option<BatchSlices>,
    /// A record batch that exceeds the memory, read in row ranges.
    rows: Option<(Rows, PathBuf)>,
}

/// A record batch that is returned in slices.
pub(super) struct BatchSlices {
    pub(super) batch: RecordBatch,
    /// The next row.
    pub(super) next: usize,
    /// Bytes reserved for the record batch.
    pub(super) reserved: usize,
    pub(super) path: PathBuf,
}

impl BatchSlices {
    /// Returns the next `rows` rows at most; `None` at the end.
    pub(super) fn next(&mut self, rows: usize, shape: &Shape) -> Result<Option<RecordBatch>, Error> {
        let count = rows.min(self.batch.num_rows() - self.next);
        let part = self.batch.slice(self.next, count);
        self.next += count;
        if count == 0 {
            return Ok(None);
        }
        catch_panics(&self.path, || shape.apply(&part)).map_err(name_file(&self.path)).map(Some)
    }
}

impl ArrowScan {
    pub(in crate::table) fn new(
        job: &Job,
        plan: &Arc<ArrowPlan>,
        fetcher: Fetcher,
        memory: DecoderMemory,
    ) -> ArrowScan {
        ArrowScan { job: job.clone(), plan: Arc::clone(plan), fetcher, memory, current: None, rows: None }
    }

    /// Starts the next record batch; false if there is none.
    fn begin(&mut self) -> Result<bool, Error> {
        let Some(Fetched { split, parts, file: open }) = self.fetcher.next()? else {
            return Ok(false);
        };
        let (file, index) = (&self.plan.files[split.file], split.index);
        let (columns, dictionaries) = (&self.plan.columns, &self.plan.dictionaries[split.file]);
        let path = &file.source.path;
        if let Some(parts) = parts {
            let (batch, reserved) = file.decode(index, columns, parts, dictionaries, &self.memory)?;
            self.current = Some(BatchSlices { batch, next: 0, reserved, path: path.clone() });
            return Ok(true);
        }
        let memory = self.fetcher.share() / 2;
        let account = self.fetcher.account();
        let dictionaries = dictionaries.of(file.batches[index].dictionaries);
        let rows = Rows::new(&self.job, (file, dictionaries), index, columns, (&open, account), memory);
        let rows = rows.map_err(name_file(path))?;
        let Some(rows) = rows else {
            let reading = Reading { job: &self.job, file: &open, account, share: self.fetcher.share() };
            let dictionaries = self.plan.dictionaries[split.file].of(file.batches[index].dictionaries);
            let (batch, reserved) =
                whole::decode(file, index, columns, &dictionaries, &reading, &self.memory)?;
            self.current = Some(BatchSlices { batch, next: 0, reserved, path: path.clone() });
            return Ok(true);
        };
        self.rows = Some((rows, path.clone()));
        Ok(true)
    }

    /// Reads the next row range of a record batch that exceeds the memory; false at its end.
    fn next_part(&mut self) -> Result<bool, Error> {
        let Some((rows, path)) = &mut self.rows else { return Ok(false) };
        let part = catch_panics(path, || rows.next()).map_err(name_file(path))?;
        match part {
            Some(batch) => {
                self.current = Some(BatchSlices { batch, next: 0, reserved: 0, path: path.clone() })
            }
            None => self.rows = None,
        }
        Ok(self.rows.is_some())
    }
}

impl Batches for ArrowScan {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.shape.schema)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.job.check()?;
        loop {
            if let Some(current) = &mut self.current
                && let Some(batch) = current.next(self.plan.batch_rows, &self.plan.shape)?
            {
                return Ok(Some(batch));
            }
            if let Some(done) = self.current.take() {
                let reserved = done.reserved;
                drop(done);
                self.memory.resize(reserved, 0, String::new)?;
            }
            if !self.next_part()? && !self.begin()? {
                return Ok(None);
            }
        }
    }
}
