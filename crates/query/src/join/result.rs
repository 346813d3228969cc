//! The batches of a result: neither small ones nor such as exceed memory.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::coalesce::BatchCoalescer;

use crate::Job;

/// Rows of a batch of the result, at most: as many as stay in a core's cache with the columns that are gathered.
pub(super) const RESULT_BATCH_ROWS: usize = 8192;

/// Bytes of a batch of the result, at most, unless a single row has more. Rows that many partners repeat could have any
/// number of bytes together.
const RESULT_BATCH_BYTES: usize = 16 << 20;

/// Bytes of a batch of the result that are there even if memory is short.
const RESULT_BATCH_MIN_BYTES: usize = 1 << 20;

/// A batch of the result takes at most one part in this many of the memory that is not reserved.
const AVAILABLE_PARTS: usize = 8;

/// A batch of more than one part in this many of the usual rows is given as it is, without a copy; smaller ones are
/// joined.
const SMALL_BATCH_PART: usize = 4;

/// Batches that are to be given out.
#[derive(Debug)]
pub(super) struct ResultBatches {
    small: BatchCoalescer,
    ready: VecDeque<RecordBatch>,
    batch_rows: usize,
    batch_bytes: usize,
}

impl ResultBatches {
    /// With batches of at most some rows.
    pub(super) fn new(job: &Job, schema: SchemaRef, batch_rows: usize) -> ResultBatches {
        let small_rows = batch_rows / SMALL_BATCH_PART;
        let small =
            BatchCoalescer::new(schema, batch_rows).with_biggest_coalesce_batch_size(Some(small_rows));
        let batch_bytes =
            (job.available() / AVAILABLE_PARTS).clamp(RESULT_BATCH_MIN_BYTES, RESULT_BATCH_BYTES);
        ResultBatches { small, ready: VecDeque::new(), batch_rows, batch_bytes }
    }

    /// Rows that a batch may have, if each has at most some bytes.
    pub(super) fn rows_of(&self, row_bytes: usize) -> usize {
        (self.batch_bytes / row_bytes.max(1)).clamp(1, self.batch_rows)
    }

    /// Adds rows of at most some bytes each.
    pub(super) fn push(&mut self, batch: RecordBatch, row_bytes: usize) -> Result<(), ArrowError> {
        if self.rows_of(row_bytes) == self.batch_rows {
            self.small.push_batch(batch)?;
        } else {
            // Wide rows are not collected.
            self.small.finish_buffered_batch()?;
            self.move_completed();
            self.ready.push_back(batch);
        }
        self.move_completed();
        Ok(())
    }

    /// Adds no more rows.
    pub(super) fn finish(&mut self) -> Result<(), ArrowError> {
        self.small.finish_buffered_batch()?;
        self.move_completed();
        Ok(())
    }

    /// The next batch that is complete.
    pub(super) fn pop(&mut self) -> Option<RecordBatch> {
        self.ready.pop_front()
    }

    fn move_completed(&mut self) {
        while let Some(batch) = self.small.next_completed_batch() {
            self.ready.push_back(batch);
        }
    }
}
