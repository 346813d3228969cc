//! The device-independent work of operators: rows, CPU time, memory.

use super::error::CostError;
use super::flow::{Flow, Role};
use super::operators::{Codec, CodecCost, OperatorCosts};
use super::shape::{KeyShape, Task};
use super::stage::Stage;

/// Number and width of the rows of an operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rows {
    pub(crate) count: f64,
    /// Bytes of a packed row.
    pub(crate) row_bytes: f64,
}

impl Rows {
    pub(crate) fn bytes(self) -> f64 {
        self.count * self.row_bytes
    }
}

/// The choices that determine the work of an operator, and the machine's costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work<'a> {
    pub(crate) task: &'a Task,
    pub(crate) costs: &'a OperatorCosts,
    /// Number of compute threads.
    pub(crate) threads: usize,
    /// Bytes of a chunk of a partition, or of a block of a run.
    pub(crate) spill_block: f64,
    /// Bytes of the allocator that the job may use.
    pub(crate) heap: f64,
    pub(crate) codec: Codec,
}

/// Rows of a batch between operators.
const BATCH_ROWS: f64 = 8192.0;
/// Ratio of the bytes of a row in batches to the packed row: arrays, offsets, and the preceding batch.
const BATCH_BYTES_RATIO: f64 = 3.0;
/// Minimum bytes of the decoders or encoders of a thread: pages and dictionaries.
const DECODER_BYTES: f64 = (1u64 << 20) as f64;
/// Ratio of the largest partition to the mean with sampled splitters.
pub(crate) const PARTITION_SKEW_RATIO: f64 = 1.25;
/// Bytes of a sort entry: a 64-bit key and a reference, doubled during radix distribution.
pub(crate) const SORT_ENTRY_BYTES: f64 = 24.0;
/// Bytes of the row number that a stable sort adds to a row.
pub(crate) const ROW_NUMBER_BYTES: f64 = 8.0;
/// Read ranges of a sample: places all over a table, so that splitters hold for all of it.
const SAMPLE_RANGES: f64 = 32.0;
/// Bytes of a range of a sample.
const SAMPLE_RANGE_BYTES: f64 = 64.0 * 1024.0;

impl Work<'_> {
    /// Number of compute threads, at least 1.
    pub(crate) fn threads(&self) -> f64 {
        self.threads.max(1) as f64
    }

    /// Rows of a table that pass its filter.
    pub(crate) fn rows(&self, table: usize) -> Rows {
        let shape = &self.task.tables[table];
        let selected = if table == 0 { self.task.selected_ratio } else { 1.0 };
        Rows { count: shape.rows as f64 * selected, row_bytes: shape.row_bytes() }
    }

    /// Adds a row number to rows.
    pub(crate) fn numbered(rows: Rows) -> Rows {
        Rows { row_bytes: rows.row_bytes + ROW_NUMBER_BYTES, ..rows }
    }

    /// Returns a stage that reads and decodes a table and evaluates expressions.
    pub(crate) fn scan(
        &self,
        name: &'static str,
        records: &'static [&'static str],
        table: usize,
    ) -> Result<Stage, CostError> {
        let shape = &self.task.tables[table];
        let (rows, selected) = (shape.rows as f64, self.rows(table));
        let mut user_ns = shape.decode_ns(self.costs)?;
        if table == 0 {
            user_ns += rows * self.task.expressions as f64 * self.costs.expression_ns_per_value;
            if self.task.selected_ratio < 1.0 {
                user_ns += selected.count * shape.columns.len() as f64 * self.costs.filter_ns_per_value;
            }
        }
        let flows = vec![Flow::read(Role::Input(table), shape.file_bytes())];
        Ok(Stage {
            name,
            records,
            flows,
            user_ns,
            heap_bytes: self.batches_bytes(selected),
            ..Stage::default()
        })
    }

    /// Returns a stage that samples the keys of a table for splitters.
    pub(crate) fn sample(&self, records: &'static [&'static str], table: usize) -> Stage {
        let bytes = self.task.tables[table].file_bytes().min(SAMPLE_RANGES * SAMPLE_RANGE_BYTES);
        Stage {
            name: "sample",
            records,
            flows: vec![Flow::read_randomly(Role::Input(table), bytes)],
            ..Stage::default()
        }
    }

    /// Bytes of the batches and decoders of all threads.
    pub(crate) fn batches_bytes(&self, rows: Rows) -> f64 {
        let batch = rows.count.min(BATCH_ROWS) * rows.row_bytes * BATCH_BYTES_RATIO;
        self.threads() * (batch + DECODER_BYTES)
    }

    /// CPU time to compress spilled rows, in nanoseconds, and their compressed bytes.
    pub(crate) fn compress(&self, rows: Rows) -> Result<(f64, f64), CostError> {
        let codec = self.codec()?;
        Ok((rows.bytes() * codec.compress_ns_per_byte, rows.bytes() * codec.compressed_ratio))
    }

    /// CPU time to decompress spilled rows, in nanoseconds.
    pub(crate) fn restore_ns(&self, rows: Rows) -> Result<f64, CostError> {
        Ok(rows.bytes() * self.codec()?.restore_ns_per_byte)
    }

    fn codec(&self) -> Result<CodecCost, CostError> {
        self.costs.codec(self.codec).ok_or(CostError::Codec { codec: self.codec })
    }

    /// CPU time to sort rows in portions of `portion_rows`, in nanoseconds.
    pub(crate) fn sort_ns(&self, rows: Rows, portion_rows: f64, key: KeyShape) -> f64 {
        rows.count * self.costs.radix_sort_ns_per_row.at(portion_rows.max(1.0))
            + key.ties_ns(rows.count, self.costs)
    }

    /// CPU time to scatter rows to partitions, in nanoseconds.
    pub(crate) fn scatter_ns(&self, rows: Rows, partitions: f64) -> f64 {
        self.costs.scatter.ns(rows.count, rows.bytes(), partitions)
    }

    /// CPU time to gather rows in sort order from `memory_bytes` of memory, in nanoseconds.
    pub(crate) fn gather_ns(&self, rows: Rows, memory_bytes: f64) -> f64 {
        self.costs.gather.ns(rows.count, rows.bytes(), memory_bytes.max(1.0))
    }

    /// Adds the encoding and writing of the result to a stage.
    pub(crate) fn write_result(&self, stage: &mut Stage) -> Result<(), CostError> {
        if let Some(output) = &self.task.output {
            stage.user_ns += output.encode_ns(self.costs)?;
            stage.flows.push(Flow::write(Role::Output, output.file_bytes()));
            stage.heap_bytes += self.threads() * DECODER_BYTES;
        }
        Ok(())
    }
}
