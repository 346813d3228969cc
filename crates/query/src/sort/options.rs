//! How rows are sorted.

use arrow_array::RecordBatch;

use super::plan::CHUNK_BYTES;

/// Rows of a sample that divide a table well: some hundred for each partition.
pub const SAMPLE_ROWS: usize = 1 << 14;

/// How rows are sorted.
#[derive(Clone, Debug)]
pub struct SortOptions {
    /// A sample of the rows, of about [`SAMPLE_ROWS`], which has the key columns only, in the order of the keys. With
    /// it, rows are divided by ranges of their keys; without, they become runs that are merged.
    pub sample: Option<RecordBatch>,
    /// Bytes of all rows in memory, about, if they are known.
    pub expected_bytes: Option<u64>,
    /// Number of all rows, about, if it is known.
    pub expected_rows: Option<u64>,
    /// Bytes of the job's buffers that the sort may use; by default three quarters of them.
    pub memory: Option<usize>,
    /// Bytes of rows that stay in memory while others are written, at most.
    pub resident: usize,
    /// Bytes that are written and read at once, at most: a power of two from 4 KiB to 16 MiB, else the next one is taken.
    pub block: usize,
    /// Partitions at most.
    pub partitions: usize,
    /// Rows of a batch that comes out, at most.
    pub batch_rows: usize,
    /// Only this many rows come out, the first ones.
    pub limit: Option<u64>,
    /// Whether equal rows keep the order in which they came. Those of several workers come in the order of the workers.
    pub stable: bool,
}

impl Default for SortOptions {
    /// By runs, 64 MiB resident, batches of 8,192 rows.
    fn default() -> SortOptions {
        SortOptions {
            sample: None,
            expected_bytes: None,
            expected_rows: None,
            memory: None,
            resident: RESIDENT_BYTES,
            block: CHUNK_BYTES,
            partitions: PARTITIONS_MAX,
            batch_rows: BATCH_ROWS,
            limit: None,
            stable: false,
        }
    }
}

/// Rows that stay in memory by default: more memory costs more when it is first touched than a fast disk.
const RESIDENT_BYTES: usize = 64 << 20;

/// Partitions at most by default: more have chunks that are smaller than disks like.
const PARTITIONS_MAX: usize = 1024;

/// Rows of a batch by default: its columns fit in the second level of cache.
const BATCH_ROWS: usize = 8192;

impl SortOptions {
    /// The sample, if it has rows.
    pub(crate) fn usable_sample(&self) -> Option<&RecordBatch> {
        self.sample.as_ref().filter(|sample| sample.num_rows() > 0)
    }
}
