//! Options of a sort.

use arrow_array::RecordBatch;

use super::plan::CHUNK_BYTES;

/// Recommended sample size in rows: more than 100 for each of 128 partitions.
pub const SAMPLE_ROWS: usize = 1 << 14;

/// Options of a sort.
#[derive(Clone, Debug)]
pub struct SortOptions {
    /// A sample of about [`SAMPLE_ROWS`] rows: the key columns only, in key order. Rows are range-partitioned with a
    /// sample, and sorted as runs and merged without one.
    pub sample: Option<RecordBatch>,
    /// Estimated bytes of all rows in memory, if known.
    pub expected_bytes: Option<u64>,
    /// Bytes of all rows in memory at most, if estimated: what to plan for if [`SortOptions::expected_bytes`] is
    /// unknown.
    pub bytes_max: Option<u64>,
    /// Estimated number of rows, if known.
    pub expected_rows: Option<u64>,
    /// Bytes of the job's buffer budget that the sort may use; three quarters by default.
    pub memory: Option<usize>,
    /// Maximum bytes of partitions that stay in memory while others are spilled.
    pub resident: usize,
    /// Maximum bytes of one write or read, rounded up to a power of two and clamped to 4 KiB to 16 MiB.
    pub block: usize,
    /// Maximum number of partitions.
    pub partitions: usize,
    /// Number of partitions that a plan calls for, as far as memory allows it; derived from the sizes by default.
    pub planned_partitions: Option<usize>,
    /// Bytes of a run that a plan calls for, as far as memory allows it; derived from the sizes by default.
    pub planned_run: Option<usize>,
    /// Maximum rows of an output batch.
    pub batch_rows: usize,
    /// Maximum rows of the output: the first ones in sort order.
    pub limit: Option<u64>,
    /// Whether equal rows keep their input order; rows of several workers are ordered by worker.
    pub stable: bool,
}

impl Default for SortOptions {
    /// Sorts by runs, with 64 MiB resident and batches of 8,192 rows.
    fn default() -> SortOptions {
        SortOptions {
            sample: None,
            expected_bytes: None,
            bytes_max: None,
            expected_rows: None,
            memory: None,
            resident: RESIDENT_BYTES,
            block: CHUNK_BYTES,
            partitions: PARTITIONS_MAX,
            planned_partitions: None,
            planned_run: None,
            batch_rows: BATCH_ROWS,
            limit: None,
            stable: false,
        }
    }
}

/// Returns the bytes of a buffer budget that a sort may use by default: three quarters.
pub(crate) fn default_memory(budget: usize) -> usize {
    budget / 4 * 3
}

/// Default bytes of resident partitions: first-touch page faults on more memory cost more than spilling to a fast disk.
pub(crate) const RESIDENT_BYTES: usize = 64 << 20;

/// Default maximum number of partitions: more would make chunks too small for efficient disk requests.
pub(crate) const PARTITIONS_MAX: usize = 1024;

/// Default rows of a batch: its columns fit in the L2 cache.
const BATCH_ROWS: usize = 8192;

impl SortOptions {
    /// Returns the sample unless it is empty.
    pub(crate) fn usable_sample(&self) -> Option<&RecordBatch> {
        self.sample.as_ref().filter(|sample| sample.num_rows() > 0)
    }
}
