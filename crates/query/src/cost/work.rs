//! The work of operators, apart from any device: rows, CPU time, memory.

use super::error::CostError;
use super::flow::{Flow, Role};
use super::operators::{Codec, CodecCost, OperatorCosts};
use super::shape::{KeyShape, Task};
use super::stage::Stage;

/// Rows that an operator holds or passes on.
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

/// Choices that decide the work of an operator, and the machine's costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work<'a> {
    pub(crate) task: &'a Task,
    pub(crate) costs: &'a OperatorCosts,
    /// Threads that compute.
    pub(crate) threads: usize,
    /// Bytes of a chunk of a partition, or of a block of a run.
    pub(crate) spill_block: f64,
    pub(crate) codec: Codec,
}

/// Rows of a batch between operators.
const BATCH_ROWS: f64 = 8192.0;
/// Bytes of a row of a batch over those of the packed row: arrays, offsets, and the batch before.
const BATCH_BYTES_RATIO: f64 = 3.0;
/// Bytes of the decoders or encoders of a thread, at least: pages and dictionaries.
const DECODER_BYTES: f64 = (1u64 << 20) as f64;
/// Rows of a sampled split of the key over those of the mean partition, for the memory of the largest one.
pub(crate) const PARTITION_SKEW_RATIO: f64 = 1.25;
/// Bytes of a sort's entry: a 64-bit key, a reference, and the same again while digits are distributed.
pub(crate) const SORT_ENTRY_BYTES: f64 = 24.0;
/// Bytes of the row number that a stable sort adds to a row.
const ROW_NUMBER_BYTES: f64 = 8.0;
/// Read ranges of a sample: places all over a table, so that splitters hold for all of it.
const SAMPLE_RANGES: f64 = 32.0;
/// Bytes of a read range of a sample.
const SAMPLE_RANGE_BYTES: f64 = 64.0 * 1024.0;

impl Work<'_> {
    /// Threads, as a factor.
    pub(crate) fn threads(&self) -> f64 {
        self.threads.max(1) as f64
    }

    /// Rows of a table that its filter leaves.
    pub(crate) fn rows(&self, table: usize) -> Rows {
        let shape = &self.task.tables[table];
        let selected = if table == 0 { self.task.selected_ratio } else { 1.0 };
        Rows { count: shape.rows as f64 * selected, row_bytes: shape.row_bytes() }
    }

    /// The same with a row number.
    pub(crate) fn numbered(rows: Rows) -> Rows {
        Rows { row_bytes: rows.row_bytes + ROW_NUMBER_BYTES, ..rows }
    }

    /// A stage that reads a table, decodes it, and evaluates expressions.
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

    /// A stage that reads the keys of rows all over a table, for splitters.
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

    /// CPU time to compress rows that are spilled, and the bytes that are left of them.
    pub(crate) fn compress(&self, rows: Rows) -> Result<(f64, f64), CostError> {
        let codec = self.codec()?;
        Ok((rows.bytes() * codec.compress_ns_per_byte, rows.bytes() * codec.compressed_ratio))
    }

    /// CPU time to restore rows that were spilled, in nanoseconds.
    pub(crate) fn restore_ns(&self, rows: Rows) -> Result<f64, CostError> {
        Ok(rows.bytes() * self.codec()?.restore_ns_per_byte)
    }

    fn codec(&self) -> Result<CodecCost, CostError> {
        self.costs.codec(self.codec).ok_or(CostError::Codec { codec: self.codec })
    }

    /// CPU time to sort rows in portions of a number of rows, in nanoseconds.
    pub(crate) fn sort_ns(&self, rows: Rows, portion_rows: f64, key: KeyShape) -> f64 {
        rows.count * self.costs.radix_sort_ns_per_row.at(portion_rows.max(1.0))
            + key.ties_ns(rows.count, self.costs)
    }

    /// CPU time to scatter rows to partitions, in nanoseconds.
    pub(crate) fn scatter_ns(&self, rows: Rows, partitions: f64) -> f64 {
        self.costs.scatter.ns(rows.count, rows.bytes(), partitions)
    }

    /// CPU time to gather rows in an order from some bytes of memory, in nanoseconds.
    pub(crate) fn gather_ns(&self, rows: Rows, memory_bytes: f64) -> f64 {
        self.costs.gather.ns(rows.count, rows.bytes(), memory_bytes.max(1.0))
    }

    /// Adds encoding and writing the result to a stage.
    pub(crate) fn write_result(&self, stage: &mut Stage) -> Result<(), CostError> {
        if let Some(output) = &self.task.output {
            stage.user_ns += output.encode_ns(self.costs)?;
            stage.flows.push(Flow::write(Role::Output, output.file_bytes()));
            stage.heap_bytes += self.threads() * DECODER_BYTES;
        }
        Ok(())
    }
}
