//! How a sort divides its memory: pure arithmetic.
//!
//! | while rows come | while they are given out |
//! |---|---|
//! | open chunks: one for each partition on each thread | partitions that are loaded: one a thread, and the next one |
//! | partitions that stay in memory | those of them that have not been given out |
//! | writes in flight | |
//!
//! Partitions in memory have a small part, whatever the limit: memory that is used for the first time costs more than
//! to write rows to a fast disk and to read them back.

use super::chunk::UNIT_BYTES;
use super::spill::WRITES_IN_FLIGHT;

/// What a plan is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Bytes of the job's buffers that the sort may use.
    pub(crate) bytes: usize,
    /// Bytes of the allocator's memory that it may use.
    pub(crate) heap_bytes: usize,
    /// Threads that give rows, and those that take them.
    pub(crate) threads: usize,
    /// Directories for spills.
    pub(crate) directories: usize,
    /// Bytes of all rows, if they are known, about.
    pub(crate) expected_bytes: Option<u64>,
    /// Number of all rows, if it is known, about.
    pub(crate) expected_rows: Option<u64>,
    /// Bytes of partitions that stay in memory, at most.
    pub(crate) resident_bytes: usize,
    /// Partitions at most; 1 for a sort by runs.
    pub(crate) partitions_max: usize,
    /// Bytes of a chunk, at most.
    pub(crate) block: usize,
    /// Bytes of the allocator's memory that ordering a row takes.
    pub(crate) order_bytes: usize,
}

/// How the memory of a sort is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    /// Bytes of buffers in all.
    pub(crate) bytes: usize,
    /// Bytes of a chunk, a power of two.
    pub(crate) chunk_bytes: usize,
    /// Number of partitions.
    pub(crate) partitions: usize,
    /// Bytes of partitions that stay in memory.
    pub(crate) resident_bytes: usize,
    /// Bytes of rows that are loaded at once to be sorted.
    pub(crate) load_bytes: usize,
    /// Rows that are sorted at once.
    pub(crate) load_rows: usize,
    /// Bytes of rows that a thread collects for a run.
    pub(crate) run_bytes: usize,
    /// Runs that are merged at once.
    pub(crate) fan_in: usize,
}

/// Bytes of a chunk by default, where memory allows it: a request that most devices serve at their full speed.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// Smallest chunks: below, the time of a request is more that of its beginning than that of its bytes.
const CHUNK_MIN_BYTES: usize = 64 << 10;

/// Largest chunks: those of a device that needs long requests.
const CHUNK_LIMIT_BYTES: usize = 16 << 20;

/// Bytes of a partition whose rows are gathered at random within a cache: of LINEITEM, partitions of 5 MB take a third of
/// the time that those of 10 MB take.
const PARTITION_BYTES: u64 = 4 << 20;

/// Partitions beyond which dividing rows takes longer, as their open chunks exceed what addresses are cached for.
const CACHED_PARTITIONS: u64 = 128;

/// Bytes of rows that a thread collects for a run where a merge can take all runs at once: more would be fresh memory.
const RUN_BYTES: usize = 48 << 20;

/// Blocks of each run that are read ahead in a merge.
pub(crate) const MERGE_AHEAD: usize = 2;

/// Chunks for which each sort has memory: some of each kind.
const MIN_CHUNKS: usize = 32;

/// Bytes that ordering a row takes beside its digits: its place, its code, its item twice.
pub(crate) const ORDER_BYTES: usize = 4 + 8 + 2 * 8;

/// Bytes of buffers that a sort needs at least, with chunks of at most `block` bytes.
pub(crate) fn min_bytes(block: usize) -> usize {
    MIN_CHUNKS * block.clamp(UNIT_BYTES, CHUNK_MIN_BYTES).next_power_of_two()
}

impl MemoryPlan {
    /// The division of the memory that is demanded.
    pub(crate) fn new(demand: &Demand) -> MemoryPlan {
        let threads = demand.threads.max(1);
        let mut chunk_bytes = demand.block.clamp(UNIT_BYTES, CHUNK_LIMIT_BYTES).next_power_of_two();
        let chunk_min = chunk_bytes.min(CHUNK_MIN_BYTES);
        let bytes = demand.bytes.max(min_bytes(demand.block));
        let resident_max = demand.resident_bytes.min(bytes / 4);
        let loads = threads + 1;
        let load_bytes = ((bytes - resident_max) / loads).min(PLACES_BYTES);
        let wanted = partitions(demand, load_bytes, threads);
        while chunk_bytes > chunk_min && (wanted * threads).max(MIN_CHUNKS) * chunk_bytes > bytes / 2 {
            chunk_bytes /= 2;
        }
        let in_flight = (WRITES_IN_FLIGHT * demand.directories.max(1) + threads + 1) * chunk_bytes;
        let open_max = bytes.saturating_sub(in_flight) * 2 / 3;
        let partitions = wanted.min(open_max / (threads * chunk_bytes)).max(1);
        let open = partitions * threads * chunk_bytes;
        let fan_in = (bytes / 2 / ((MERGE_AHEAD + 2) * chunk_bytes)).max(2);
        let run_max = (bytes.saturating_sub(in_flight) / threads * 3 / 4).max(2 * chunk_bytes);
        let run_needed = demand.expected_bytes.unwrap_or(0) / (fan_in * threads) as u64;
        let run_needed = usize::try_from(run_needed).unwrap_or(usize::MAX);
        MemoryPlan {
            bytes,
            chunk_bytes,
            partitions,
            resident_bytes: resident_max.min(bytes.saturating_sub(open + in_flight)),
            load_bytes,
            load_rows: load_rows(demand, loads, expected_rows(demand, partitions)),
            run_bytes: RUN_BYTES.max(run_needed).min(run_max).min(PLACES_BYTES / threads),
            fan_in,
        }
    }

    /// Bytes of the allocator's memory with which `threads` threads order rows, and the next ones are loaded.
    pub(crate) fn heap_bytes(&self, threads: usize, order_bytes: usize) -> usize {
        (threads.max(1) + 1) * self.load_rows * order_bytes
    }

    /// Bits of a row's place that are its offset in a chunk.
    pub(crate) fn shift(&self) -> u32 {
        self.chunk_bytes.trailing_zeros()
    }
}

/// Bytes of chunks that places of 32 bits can tell apart, at least: chunks are half full where rows are long.
const PLACES_BYTES: usize = 1 << 31;

/// Rows that are sorted at once, at most: so that counters of 32 bits suffice.
const MAX_ROWS: usize = 1 << 31;

/// Rows that may be sorted at once: as many as the allocator's memory has room for, and no more than are expected.
fn load_rows(demand: &Demand, loads: usize, expected: usize) -> usize {
    affordable_rows(demand, loads).min(expected).clamp(LOAD_MIN_ROWS, MAX_ROWS)
}

fn affordable_rows(demand: &Demand, loads: usize) -> usize {
    demand.heap_bytes / 2 / loads / demand.order_bytes.max(1)
}

/// Rows of a partition, at most; partitions are of different sizes.
fn expected_rows(demand: &Demand, partitions: usize) -> usize {
    let rows = demand.expected_rows.filter(|_| partitions > 1).map(|rows| rows / partitions as u64 * 4);
    rows.map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX).max(EXPECTED_MIN_ROWS))
}

/// Rows that are sorted at once in any case.
const LOAD_MIN_ROWS: usize = 1 << 10;

/// Rows of a partition that are always expected: few rows are no reason to expect fewer.
const EXPECTED_MIN_ROWS: usize = 1 << 17;

/// Number of partitions that are worth having.
fn partitions(demand: &Demand, load_bytes: usize, threads: usize) -> usize {
    let Some(expected) = demand.expected_bytes else {
        return demand.partitions_max.min(CACHED_PARTITIONS as usize);
    };
    let for_caches = expected
        .div_ceil(PARTITION_BYTES)
        .clamp(2 * threads as u64, CACHED_PARTITIONS.max(2 * threads as u64));
    // Partitions are of different sizes, as a sample has divided them.
    let for_memory = expected.div_ceil((load_bytes / 2).max(1) as u64);
    let affordable = affordable_rows(demand, threads + 1).max(LOAD_MIN_ROWS) as u64;
    let for_heap = demand.expected_rows.map_or(0, |rows| (rows * 3 / 2).div_ceil(affordable));
    usize::try_from(for_caches.max(for_memory).max(for_heap)).unwrap_or(usize::MAX).min(demand.partitions_max)
}

#[cfg(test)]
mod tests;
