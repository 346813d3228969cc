//! The device-independent work of operators: rows, CPU time, memory.

use super::error::CostError;
use super::flow::{Flow, Role};
use super::operators::{Codec, CodecCost, FileFormat, OperatorCosts};
use super::records::SAMPLING;
use super::shape::{KeyShape, Operator, RowShape, Task};
use super::stage::Stage;
use super::step::Step;
use crate::output::GROUP_ROWS_MIN;
use crate::sort::SAMPLE_ROWS;

/// Number and width of the rows of an operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rows {
    pub(crate) count: f64,
    pub(crate) shape: RowShape,
}

impl Rows {
    pub(crate) fn bytes(self) -> f64 {
        self.count * self.shape.bytes
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
/// Copies of the rows of an encoded group: as arrays, and as pages.
const ENCODED_COPIES: f64 = 2.0;
/// Minimum bytes of the decoders or encoders of a thread: pages and dictionaries.
const DECODER_BYTES: f64 = (1u64 << 20) as f64;
/// Ratio of the largest partition to the mean with sampled splitters.
pub(crate) const PARTITION_SKEW_RATIO: f64 = 1.25;
/// Bytes of a sort entry: a 64-bit key and a reference, doubled during radix distribution.
pub(crate) const SORT_ENTRY_BYTES: f64 = 24.0;
/// Bytes of the row number that a stable sort adds to a row.
pub(crate) const ROW_NUMBER_BYTES: f64 = 8.0;
/// Runs of rows in a sample, each in another page: places all over a table, so that splitters hold for all of it.
const SAMPLE_RUNS: f64 = 256.0;
/// Rows of a page: the limit of most Parquet writers.
const PAGE_ROWS: f64 = 20_000.0;
/// Record batches that are sampled at most.
const SAMPLE_BATCHES: f64 = 32.0;
/// Bytes of the sections of CSV text that are sampled.
const SAMPLE_TEXT_BYTES: f64 = (4 << 20) as f64;

impl Work<'_> {
    /// Returns the number of compute threads, at least 1.
    pub(crate) fn threads(&self) -> f64 {
        self.threads.max(1) as f64
    }

    /// Returns the rows of a table that pass its filter.
    pub(crate) fn rows(&self, table: usize) -> Rows {
        Rows { count: self.task.rows(table), shape: self.task.row(table) }
    }

    /// Adds a row number to rows.
    pub(crate) fn numbered(rows: Rows) -> Rows {
        let RowShape { values, bytes, .. } = rows.shape;
        let shape = RowShape { values: values + 1.0, bytes: bytes + ROW_NUMBER_BYTES, ..rows.shape };
        Rows { shape, ..rows }
    }

    /// Returns a stage that reads and decodes a table and evaluates expressions.
    pub(crate) fn scan(
        &self,
        step: Step,
        records: &'static [&'static str],
        table: usize,
    ) -> Result<Stage, CostError> {
        let shape = &self.task.tables[table];
        let (rows, selected) = (shape.rows as f64, self.rows(table));
        let mut user_ns = shape.decode_ns(self.costs)?;
        if table == 0 {
            user_ns += rows * self.task.expressions as f64 * self.costs.expression_ns_per_value;
            // An aggregation skips the other rows where they are.
            if self.task.selected_ratio < 1.0 && !matches!(self.task.operator, Operator::Aggregate { .. }) {
                user_ns += selected.count * shape.columns.len() as f64 * self.costs.filter_ns_per_value;
            }
        }
        let flows = vec![Flow::read(Role::Input(table), shape.file_bytes())];
        Ok(Stage {
            step,
            records,
            flows,
            user_ns,
            portions: shape.splits as f64,
            heap_bytes: self.batches_bytes(selected),
            ..Stage::default()
        })
    }

    /// Returns a stage that samples the keys of a table for splitters, on one thread.
    pub(crate) fn sample(&self, table: usize, key: KeyShape) -> Result<Stage, CostError> {
        let shape = &self.task.tables[table];
        let rows_ratio = |rows: f64| (rows / (shape.rows as f64).max(1.0)).min(1.0);
        // Parts of the table that are read and decompressed, and of its values that are decoded.
        let (ratio, decoded_ratio) = match shape.format {
            // Whole pages of the keys, of which only the sampled values are decoded.
            FileFormat::Parquet => {
                let pages = rows_ratio(SAMPLE_RUNS * PAGE_ROWS) * key.sampled_ratio;
                (pages, pages.min(rows_ratio(SAMPLE_ROWS as f64) * key.sampled_ratio))
            }
            // Whole record batches of the keys.
            FileFormat::Arrow => {
                let batches = rows_ratio(SAMPLE_BATCHES * GROUP_ROWS_MIN as f64) * key.sampled_ratio;
                (batches, batches)
            }
            // Sections of the text, with all columns.
            FileFormat::Csv => {
                let sections = (SAMPLE_TEXT_BYTES / shape.file_bytes().max(1.0)).min(1.0);
                (sections, sections)
            }
        };
        let decode_ns =
            shape.restore_ns(self.costs)? * ratio + shape.decompressed_decode_ns(self.costs)? * decoded_ratio;
        let flows = vec![Flow::read_randomly(Role::Input(table), shape.file_bytes() * ratio)];
        Ok(Stage {
            step: Step::Sample,
            records: SAMPLING,
            flows,
            user_ns: decode_ns,
            serial_ns: decode_ns,
            ..Stage::default()
        })
    }

    /// Returns the bytes of the batches and decoders of all threads.
    pub(crate) fn batches_bytes(&self, rows: Rows) -> f64 {
        let batch = rows.count.min(BATCH_ROWS) * rows.shape.bytes * BATCH_BYTES_RATIO;
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
        let radix_ns = self.costs.radix_sort_ns_per_row.at(portion_rows.max(1.0));
        rows.count * (radix_ns + key.ns(portion_rows, self.costs))
    }

    /// CPU time to scatter rows to partitions, in nanoseconds.
    pub(crate) fn scatter_ns(&self, rows: Rows, partitions: f64) -> f64 {
        self.costs.scatter.ns(rows.count, rows.shape, partitions)
    }

    /// CPU time to gather rows in sort order from `memory_bytes` of memory, in nanoseconds.
    pub(crate) fn gather_ns(&self, rows: Rows, memory_bytes: f64) -> f64 {
        self.costs.gather.ns(rows.count, rows.shape, memory_bytes.max(1.0))
    }

    /// Adds the encoding and writing of the result to a stage.
    pub(crate) fn write_result(&self, stage: &mut Stage) -> Result<(), CostError> {
        if let Some(output) = &self.task.output {
            stage.user_ns += output.encode_ns(self.costs)?;
            stage.flows.push(Flow::write(Role::Output, output.file_bytes()));
            stage.heap_bytes += self.threads() * DECODER_BYTES;
            // Rows of groups, and their encoded pages.
            let rows = (output.rows as f64 / self.threads()).min(GROUP_ROWS_MIN as f64);
            stage.passing_heap_bytes += self.threads() * rows * output.row().bytes * ENCODED_COPIES;
        }
        Ok(())
    }
}
