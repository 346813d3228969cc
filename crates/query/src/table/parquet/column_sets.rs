//! Decoding of row groups whose columns are so numerous that one page of each exceeds the memory.
//!
//! Columns are decoded in sets, as many at a time as fit, and each set's batches are spilled as a run. Then all runs
//! are read in step. This external transposition writes and reads the decoded rows once.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;

use super::group::{Group, Opened};
use super::rows::RowBytes;
use crate::Error;
use crate::batch_spill::{BatchReader, BatchRun, BatchWriter};
use crate::spill::SpillFiles;
use crate::table::types::with_rows;

/// Minimum transfer size of the runs.
const RUN_BLOCK_MIN_BYTES: usize = 4 << 10;

/// Divisor of a worker's memory for a batch of all columns; the rest is for pages and transfers.
const BATCH_SHARE: usize = 8;

/// The spilled columns of a row group.
pub(super) struct ColumnSets {
    readers: Vec<BatchReader>,
}

impl ColumnSets {
    /// Decodes and spills all columns.
    pub(super) fn new(group: &Group) -> Result<ColumnSets, Error> {
        let rows = batch_rows(group);
        let spill = SpillFiles::new(&group.job);
        let columns = &group.plan.columns;
        let mut runs = Vec::new();
        let (mut first, mut next) = (0, 0);
        let mut opened = Opened::default();
        while next < columns.len() {
            let is_full = group.memory.used() > group.memory.share() / 2;
            let outcome = if is_full && next > first {
                Err(None)
            } else {
                group
                    .open_column(columns[next], &mut opened)
                    .map_err(|error| Some(group.take_fault().unwrap_or(error)))
            };
            match outcome {
                Ok(()) => next += 1,
                Err(Some(error)) if next == first || !matches!(error, Error::Memory { .. }) => {
                    return Err(error);
                }
                // The column that did not fit is opened again with the next set.
                Err(_) => {
                    let set = opened_again(group, &columns[first..next], std::mem::take(&mut opened))?;
                    runs.push(spilled(group, &spill, &columns[first..next], set, rows)?);
                    first = next;
                }
            }
        }
        runs.push(spilled(group, &spill, &columns[first..], opened, rows)?);
        let block = group.memory.share() / 4 / runs.len();
        let block = ((block + 1).next_power_of_two() / 2).max(RUN_BLOCK_MIN_BYTES);
        // The windows of the columns are closed, so that all of the worker's memory is there for the runs.
        let readers = runs.into_iter().map(|run| run.drain_within(&group.account, block));
        let readers = readers.collect::<Result<_, Error>>()?;
        Ok(ColumnSets { readers })
    }

    /// Returns the next rows of all columns; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        let (mut fields, mut columns, mut rows) = (Vec::new(), Vec::new(), None);
        let mut ended = 0;
        for reader in &mut self.readers {
            let Some(batch) = reader.next()? else {
                ended += 1;
                continue;
            };
            if *rows.get_or_insert(batch.num_rows()) != batch.num_rows() {
                return Err(Error::Query("its columns have different numbers of rows".into()));
            }
            fields.extend(batch.schema().fields().iter().map(Arc::clone));
            columns.extend(batch.columns().iter().map(Arc::clone));
        }
        match (ended, rows) {
            (0, Some(rows)) => with_rows(&Arc::new(Schema::new(fields)), columns, rows).map(Some),
            (_, None) => Ok(None),
            _ => Err(Error::Query("its columns have different numbers of rows".into())),
        }
    }
}

/// Reopens `columns` if `opened` also has some leaves of a column that did not fit.
fn opened_again(group: &Group, columns: &[usize], opened: Opened) -> Result<Opened, Error> {
    if opened.len() == group.leaf_count(columns) {
        return Ok(opened);
    }
    drop(opened);
    let mut again = Opened::default();
    for &column in columns {
        group.open_column(column, &mut again).map_err(|error| group.take_fault().unwrap_or(error))?;
    }
    Ok(again)
}

/// Decodes a set of columns and spills its batches.
fn spilled(
    group: &Group,
    spill: &SpillFiles,
    columns: &[usize],
    opened: Opened,
    rows: usize,
) -> Result<BatchRun, Error> {
    let mut reader = group.reader(columns, opened, rows)?;
    let mut writer: Option<BatchWriter> = None;
    while let Some(batch) =
        reader.next().transpose().map_err(|error| group.take_fault().unwrap_or(error.into()))?
    {
        group.job.check()?;
        if writer.is_none() {
            writer = Some(BatchWriter::create_within(spill, &batch.schema(), Some(&group.account))?);
        }
        writer.as_mut().expect("made above").write(&batch)?;
    }
    let writer = match writer {
        Some(writer) => writer,
        None => BatchWriter::create_within(spill, &Schema::empty(), Some(&group.account))?,
    };
    writer.finish()
}

/// Returns the rows per batch of all columns.
fn batch_rows(group: &Group) -> usize {
    let mut row_bytes = RowBytes::default();
    for &(leaf, _) in &group.leaves {
        row_bytes.add_unseen(group.metadata.row_group(0).column(leaf), group.rows());
    }
    row_bytes.batch_rows(group.plan.batch_rows, group.memory.share() / BATCH_SHARE)
}
