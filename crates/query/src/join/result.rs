//! Result batches: coalesces small batches, and limits batches by rows and bytes.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::coalesce::BatchCoalescer;

use crate::Job;

/// Maximum rows of a result batch: they stay in a core's cache with the gathered columns.
pub(super) const RESULT_BATCH_ROWS: usize = 8192;

/// Maximum bytes of a result batch, unless a single row has more. Without it, wide rows with many matches would form
/// batches of unbounded size.
const RESULT_BATCH_BYTES: usize = 16 << 20;

/// Lower limit of the maximum bytes of a result batch if memory is short.
const RESULT_BATCH_MIN_BYTES: usize = 512 << 10;

/// A result batch has at most one part in this many of the unreserved memory. Several are in use, and the allocator leaves
/// gaps of such sizes.
const AVAILABLE_PARTS: usize = 32;

/// Batches of more than 1/4 of the maximum rows are returned without a copy; smaller ones are coalesced.
const SMALL_BATCH_PART: usize = 4;

/// Queue of result batches.
#[derive(Debug)]
pub(super) struct ResultBatches {
    small: BatchCoalescer,
    ready: VecDeque<RecordBatch>,
    batch_rows: usize,
    batch_bytes: usize,
}

impl ResultBatches {
    /// Creates a queue with batches of at most `batch_rows` rows.
    pub(super) fn new(job: &Job, schema: SchemaRef, batch_rows: usize) -> ResultBatches {
        let small_rows = batch_rows / SMALL_BATCH_PART;
        let small =
            BatchCoalescer::new(schema, batch_rows).with_biggest_coalesce_batch_size(Some(small_rows));
        let batch_bytes =
            (job.available() / AVAILABLE_PARTS).clamp(RESULT_BATCH_MIN_BYTES, RESULT_BATCH_BYTES);
        ResultBatches { small, ready: VecDeque::new(), batch_rows, batch_bytes }
    }

    /// Returns the maximum rows of a batch of rows of at most `row_bytes` bytes.
    pub(super) fn rows_of(&self, row_bytes: usize) -> usize {
        (self.batch_bytes / row_bytes.max(1)).clamp(1, self.batch_rows)
    }

    /// Adds rows of at most `row_bytes` bytes each.
    pub(super) fn push(&mut self, batch: RecordBatch, row_bytes: usize) -> Result<(), ArrowError> {
        if self.rows_of(row_bytes) == self.batch_rows {
            self.small.push_batch(batch)?;
        } else {
            // Wide rows are not coalesced.
            self.small.finish_buffered_batch()?;
            self.move_completed();
            self.ready.push_back(batch);
        }
        self.move_completed();
        Ok(())
    }

    /// Completes the last batch.
    pub(super) fn finish(&mut self) -> Result<(), ArrowError> {
        self.small.finish_buffered_batch()?;
        self.move_completed();
        Ok(())
    }

    /// Returns the next complete batch.
    pub(super) fn pop(&mut self) -> Option<RecordBatch> {
        self.ready.pop_front()
    }

    fn move_completed(&mut self) {
        while let Some(batch) = self.small.next_completed_batch() {
            self.ready.push_back(batch);
        }
    }
}
