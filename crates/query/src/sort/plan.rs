//! Memory plan of a sort (pure).
//!
//! | input phase | output phase |
//! |---|---|
//! | open chunks: one for each partition and thread | loaded partitions: one for each thread, and the next one |
//! | resident partitions | resident partitions that have not been returned |
//! | writes in flight | or the read-ahead of merged runs, and the groups that threads return |
//! | rows longer than a chunk | |
//!
//! The sort reserves all of it before it reads a row. `memory` divides it among threads.
//!
//! The places of spilled chunks take heap. Where they would take much of it, chunks are larger.
//!
//! Resident partitions get a small share at any limit: first-touch page faults cost more than spilling to a fast disk.

use super::chunk::UNIT_BYTES;
use crate::spill::places_bytes;

/// Inputs of a memory plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Bytes of the job's buffer budget that the sort may use.
    pub(crate) bytes: usize,
    /// Bytes of heap that it may use.
    pub(crate) heap_bytes: usize,
    /// Number of input threads, and of output threads.
    pub(crate) threads: usize,
    /// Number of spill directories.
    pub(crate) directories: usize,
    /// Estimated bytes of all rows, if known.
    pub(crate) expected_bytes: Option<u64>,
    /// Estimated number of rows, if known.
    pub(crate) expected_rows: Option<u64>,
    /// Estimated bytes of the rows that may be spilled, if known.
    pub(crate) spilled_bytes: Option<u64>,
    /// Maximum bytes of resident partitions.
    pub(crate) resident_bytes: usize,
    /// Maximum number of partitions; 1 for a sort by runs.
    pub(crate) partitions_max: usize,
    /// Number of partitions that a plan calls for.
    pub(crate) planned_partitions: Option<usize>,
    /// Bytes of a run that a plan calls for.
    pub(crate) planned_run: Option<usize>,
    /// Maximum bytes of a chunk, unless the places of spilled chunks call for larger ones.
    pub(crate) block: usize,
    /// Bytes of heap needed to order one row.
    pub(crate) order_bytes: usize,
}

/// The memory plan of a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    /// Total bytes of buffers.
    pub(crate) bytes: usize,
    /// Bytes of a chunk, a power of two.
    pub(crate) chunk_bytes: usize,
    /// Bytes of heap for the places of spilled chunks, as far as the bytes of rows are known.
    pub(crate) spilled_chunk_list_bytes: usize,
    /// Number of partitions.
    pub(crate) partitions: usize,
    /// Bytes of resident partitions.
    pub(crate) resident_bytes: usize,
    /// Maximum bytes of rows loaded and sorted at once.
    pub(crate) load_bytes: usize,
    /// Maximum rows sorted at once.
    pub(crate) load_rows: usize,
    /// Maximum bytes of rows that a thread collects for a run.
    pub(crate) run_bytes: usize,
    /// Maximum bytes of a run, or of a long row in a run.
    pub(crate) run_max_bytes: usize,
    /// Maximum number of runs merged at once.
    pub(crate) fan_in: usize,
    /// Maximum bytes read for a group of merged rows, unless one chunk has more.
    pub(crate) group_bytes: usize,
    /// Maximum writes in flight of a writer, to each directory.
    pub(crate) writes_in_flight: usize,
    /// Bytes of partitioning, without rows longer than a chunk.
    pub(crate) partition_input_bytes: usize,
    /// Bytes of collecting and writing runs, without the copy of a long row.
    pub(crate) run_input_bytes: usize,
}

/// Default bytes of a chunk if memory allows it: a request size at which most devices reach full bandwidth.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// Minimum bytes of a chunk: the overhead of smaller requests exceeds their transfer time.
pub(crate) const CHUNK_MIN_BYTES: usize = 64 << 10;

/// Maximum bytes of a chunk, for devices that need long requests.
const CHUNK_LIMIT_BYTES: usize = 16 << 20;

/// Target bytes of a partition, so that rows are gathered at random within a cache. For LINEITEM, 5 MB partitions take
/// a third of the time of 10 MB partitions.
const PARTITION_BYTES: u64 = 4 << 20;

/// Number of partitions above which partitioning slows down, because the open chunks exceed the TLB.
const CACHED_PARTITIONS: u64 = 128;

/// Bytes of rows collected for a run if one merge pass suffices: larger runs would only touch more memory.
const RUN_BYTES: usize = 48 << 20;

/// Blocks read ahead for each run of a merge.
pub(crate) const MERGE_AHEAD: usize = 2;

/// Blocks read ahead for a run with rows that are longer than a chunk.
pub(crate) const LONG_MERGE_AHEAD: usize = 1;

/// Minimum number of chunks in the memory of a sort.
const MIN_CHUNKS: usize = 32;

/// Bytes needed to order a row besides its digits: its place, its code, and its radix-sort item twice.
pub(crate) const ORDER_BYTES: usize = 4 + 8 + 2 * 8;

/// Minimum number of chunks per thread: a run of two and their copies for a limit, one that is filled, and one that is
/// written.
const MIN_CHUNKS_PER_THREAD: usize = 6;

/// Bytes of the writes in flight: enough to keep a fast device busy while the threads that write compute.
const WRITES_BYTES: usize = 2 << 20;

/// Limits of the number of writes in flight, whatever their size: enough for the queue of a device, and no more than its
/// bandwidth needs.
const WRITES_IN_FLIGHT: std::ops::RangeInclusive<usize> = 8..=32;

/// Maximum writes in flight of chunks of this many bytes.
fn writes_max(chunk_bytes: usize) -> usize {
    (WRITES_BYTES / chunk_bytes).clamp(*WRITES_IN_FLIGHT.start(), *WRITES_IN_FLIGHT.end())
}

/// Blocks of a merged run in memory: read ahead, and in use.
pub(crate) const MERGE_BLOCKS: usize = MERGE_AHEAD + 1;

/// Minimum number of chunks in the memory of a sort with some threads and spill directories.
fn min_chunks(threads: usize, directories: usize) -> usize {
    MIN_CHUNKS.max(MIN_CHUNKS_PER_THREAD * threads.max(1) + directories.max(1) + 3)
}

/// Returns the minimum bytes of buffers of a sort with chunks of at most `block` bytes.
pub(crate) fn min_bytes(block: usize, threads: usize, directories: usize) -> usize {
    min_chunks(threads, directories) * block.clamp(UNIT_BYTES, CHUNK_MIN_BYTES).next_power_of_two()
}

impl MemoryPlan {
    /// Divides the memory of a demand.
    pub(crate) fn new(demand: &Demand) -> MemoryPlan {
        let threads = demand.threads.max(1);
        let mut chunk_bytes = demand.block.clamp(UNIT_BYTES, CHUNK_LIMIT_BYTES).next_power_of_two();
        let chunk_min = chunk_bytes.min(CHUNK_MIN_BYTES);
        let directories = demand.directories.max(1);
        let bytes = demand.bytes.max(min_bytes(demand.block, threads, directories));
        let resident_max = demand.resident_bytes.min(bytes / 4);
        let loads = threads + 1;
        let load_bytes = ((bytes - resident_max) / loads).min(PLACES_BYTES);
        let wanted = partitions(demand, load_bytes, threads, chunk_bytes);
        while chunk_bytes > chunk_min && MIN_CHUNKS * chunk_bytes > bytes / 2 {
            chunk_bytes /= 2;
        }
        let are_few =
            |chunk_bytes| spilled_chunk_list_bytes(demand, chunk_bytes) <= demand.heap_bytes / PLACES_PARTS;
        while chunk_bytes > chunk_min
            && wanted * threads * chunk_bytes > bytes / 2
            && are_few(chunk_bytes / 2)
        {
            chunk_bytes /= 2;
        }
        let chunks_min = min_chunks(threads, directories).max(2 * MIN_CHUNKS);
        while !are_few(chunk_bytes)
            && chunk_bytes < CHUNK_LIMIT_BYTES
            && chunks_min * 2 * chunk_bytes <= bytes
        {
            chunk_bytes *= 2;
        }
        let chunks = bytes / chunk_bytes;
        let writes_in_flight = (chunks / 4 / threads.max(directories)).clamp(1, writes_max(chunk_bytes));
        // Each thread also hands one chunk over.
        let in_flight = (writes_in_flight * directories + threads + 1) * chunk_bytes;
        let partitions = wanted.min((bytes - in_flight) / 2 / (threads * chunk_bytes)).max(1);
        let open = partitions * threads * chunk_bytes;
        let resident_bytes = resident_max.min((bytes - in_flight).saturating_sub(open));
        let fan_in = (chunks * 3 / 8 / MERGE_BLOCKS).max(2);
        let groups = bytes.saturating_sub(fan_in * MERGE_BLOCKS * chunk_bytes) / threads;
        let group_bytes = groups.saturating_sub((fan_in + 1) * chunk_bytes);
        let run_writes = threads * (writes_in_flight + 1) * chunk_bytes;
        // The rows, copies of half of them for a limit, and one copy of a long row.
        let run_max = (2 * bytes.saturating_sub(run_writes) / (3 * threads + 2)).max(2 * chunk_bytes);
        let run_max = run_max.min(PLACES_BYTES / threads);
        let run_needed = demand.expected_bytes.unwrap_or(0) / (fan_in * threads) as u64;
        let run_needed = usize::try_from(run_needed).unwrap_or(usize::MAX);
        MemoryPlan {
            bytes,
            chunk_bytes,
            spilled_chunk_list_bytes: spilled_chunk_list_bytes(demand, chunk_bytes),
            partitions,
            resident_bytes,
            load_bytes,
            load_rows: load_rows(demand, chunk_bytes, expected_rows(demand, partitions)),
            run_bytes: demand.planned_run.unwrap_or(RUN_BYTES.max(run_needed)).min(run_max),
            run_max_bytes: run_max,
            fan_in,
            group_bytes: group_bytes.clamp(chunk_bytes, (load_bytes / 2).max(chunk_bytes)),
            writes_in_flight,
            partition_input_bytes: open + in_flight + resident_bytes,
            run_input_bytes: run_writes + threads * run_max * 3 / 2,
        }
    }

    /// Returns the plan of one of two sorts that take turns with all of the memory while rows come in, and whose partitions
    /// are then loaded in pairs. A pair may take the memory of all `threads` threads. This side has the part `bytes` of the
    /// buffers and the part `rows` of the rows that are put in order.
    pub(crate) fn share(self, threads: usize, bytes: f64, rows: f64) -> MemoryPlan {
        let of = |all: usize, part: f64| (all as f64 * part) as usize;
        let loads = threads.max(1) + 1;
        let resident_bytes = of(self.resident_bytes, bytes);
        // Buffers exceed their contents by a quarter at most.
        let load_bytes = of(self.bytes - self.resident_bytes, bytes) / 5 * 4;
        MemoryPlan {
            bytes: of(self.bytes, bytes),
            resident_bytes,
            load_bytes: load_bytes.min(PLACES_BYTES),
            load_rows: of(self.load_rows * loads, rows).clamp(LOAD_MIN_ROWS, MAX_ROWS),
            fan_in: of(self.fan_in, bytes).max(2),
            group_bytes: of(self.group_bytes, bytes).max(self.chunk_bytes),
            writes_in_flight: of(self.writes_in_flight, bytes).max(1),
            partition_input_bytes: self.partition_input_bytes - self.resident_bytes + resident_bytes,
            ..self
        }
    }

    /// Returns the bytes of heap that `threads` threads and one load ahead need to order rows.
    pub(crate) fn heap_bytes(&self, threads: usize, order_bytes: usize) -> usize {
        (threads.max(1) + 1) * self.load_rows * order_bytes
    }

    /// Returns the number of low bits of a row's place that hold its offset in a chunk.
    pub(crate) fn shift(&self) -> u32 {
        self.chunk_bytes.trailing_zeros()
    }
}

/// Bytes of chunks addressable by 32-bit places if chunks are half full, as with long rows.
const PLACES_BYTES: usize = 1 << 31;

/// Maximum rows sorted at once: their number fits into the 32-bit counters of the radix sort.
const MAX_ROWS: usize = 1 << 31;

/// Returns the maximum rows sorted at once: as many as fit into the heap, but no more than expected.
fn load_rows(demand: &Demand, chunk_bytes: usize, expected: usize) -> usize {
    affordable_rows(demand, chunk_bytes).min(expected).clamp(LOAD_MIN_ROWS, MAX_ROWS)
}

/// Returns the rows of a load for which the heap suffices beside the places of spilled chunks.
fn affordable_rows(demand: &Demand, chunk_bytes: usize) -> usize {
    // Places that need more than half are refused, unless a limit leaves fewer rows.
    let places = spilled_chunk_list_bytes(demand, chunk_bytes).min(demand.heap_bytes / 2);
    let loads = demand.threads.max(1) + 1;
    (demand.heap_bytes - places) / 2 / loads / demand.order_bytes.max(1)
}

/// Chunks are at least this part full on average, in quarters: the last ones of a partition are short, and a row that
/// does not fit begins the next chunk.
const CHUNK_FULL_QUARTERS: u64 = 3;

/// Part of the heap above which the places of spilled chunks call for larger chunks: the rest is for ordering rows,
/// decoders and encoders.
const PLACES_PARTS: usize = 4;

/// Returns the bytes of heap for the places of spilled chunks.
fn spilled_chunk_list_bytes(demand: &Demand, chunk_bytes: usize) -> usize {
    let chunks = demand.spilled_bytes.unwrap_or(0) / (chunk_bytes as u64 / 4 * CHUNK_FULL_QUARTERS);
    places_bytes(chunks)
}

/// Returns the maximum expected rows of a partition: four times the mean, because partition sizes differ.
fn expected_rows(demand: &Demand, partitions: usize) -> usize {
    let rows = demand
        .expected_rows
        .filter(|_| partitions > 1)
        .map(|rows| (rows / partitions as u64).saturating_mul(4));
    rows.map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX).max(EXPECTED_MIN_ROWS))
}

/// Lower limit of [`MemoryPlan::load_rows`].
const LOAD_MIN_ROWS: usize = 1 << 10;

/// Lower limit of the expected rows of a partition.
const EXPECTED_MIN_ROWS: usize = 1 << 17;

/// Returns the number of partitions that caches, buffers and heap call for.
fn partitions(demand: &Demand, load_bytes: usize, threads: usize, chunk_bytes: usize) -> usize {
    if let Some(planned) = demand.planned_partitions {
        return planned.clamp(1, demand.partitions_max);
    }
    let Some(expected) = demand.expected_bytes else {
        return demand.partitions_max.min(CACHED_PARTITIONS as usize);
    };
    let for_caches = expected
        .div_ceil(PARTITION_BYTES)
        .clamp(2 * threads as u64, CACHED_PARTITIONS.max(2 * threads as u64));
    // Half of `load_bytes`, because splitters from a sample give partitions of different sizes.
    let for_memory = expected.div_ceil((load_bytes / 2).max(1) as u64);
    let affordable = affordable_rows(demand, chunk_bytes).max(LOAD_MIN_ROWS) as u64;
    let for_heap = demand.expected_rows.map_or(0, |rows| (rows.saturating_mul(3) / 2).div_ceil(affordable));
    usize::try_from(for_caches.max(for_memory).max(for_heap)).unwrap_or(usize::MAX).min(demand.partitions_max)
}

#[cfg(test)]
mod tests;
