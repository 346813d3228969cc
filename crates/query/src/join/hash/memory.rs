//! Memory of the spilled rows of a hash join: reserved before the first row.
//!
//! All streams of spill files share one account. A thread that divides rows keeps a block of each partition, and waits
//! for writes in flight only; a thread that joins two partitions reads two runs. The account has the blocks of as many
//! threads as may do either at the same time, so that no thread waits for what another one keeps.

use std::sync::Arc;

use sakiyomi_io::buffer::Account;

use crate::batch_spill::{BATCH_BLOCK_BYTES, BATCH_BLOCKS_AHEAD};
use crate::job::Reservation;
use crate::{Error, Job};

/// Hash bits of a division after the first one: 16 partitions have 16 open runs.
pub(super) const PARTITION_BITS: u32 = 4;

/// Smallest blocks, if memory is short: the alignment of direct transfers, and few enough calls.
const BLOCK_MIN_BYTES: usize = 16 << 10;

/// Blocks of a thread besides those of its partitions: writes in flight, and the run that is read.
pub(crate) const OTHER_BLOCKS: usize = BATCH_BLOCKS_AHEAD + BATCH_BLOCKS_AHEAD + 2;

/// One part in this many of the buffer budget is for spilled rows, unless that is too little for one thread.
const BUDGET_PARTS: usize = 4;

/// Most bits of a first division: 128 runs are written at the same time.
const FIRST_BITS_MAX: u32 = 7;

/// Smallest blocks of a first division by more bits than later ones: the blocks of a partition lie far apart on the device.
const FIRST_BLOCK_MIN_BYTES: usize = 128 << 10;

/// One part in this many of the free heap is for rows that are not written yet.
const BATCHES_PARTS: usize = 8;

/// Most bytes of rows that are written together. A batch costs some hundred nanoseconds a column and has all values of its
/// dictionaries, whatever its rows: at 32 KiB, 200 rows of LINEITEM, that was most of the time of a division.
const BATCH_MAX_BYTES: usize = 512 << 10;

/// Name of this memory in errors.
const SPILL_MEMORY: &str = "joining rows";

/// Memory of spilled rows.
pub(super) struct SpillMemory {
    pub(super) account: Arc<Account>,
    /// Threads that may divide or join partitions at the same time.
    pub(super) threads: usize,
    /// Bytes of a block of these threads.
    pub(super) block: usize,
    /// Bits of the first division.
    pub(super) first_bits: u32,
    /// Bytes of a block of the first division, which has all of the memory.
    pub(super) first_block: usize,
    /// Bytes of rows of a partition that are written together: smaller batches would take more memory than their rows.
    pub(super) batch_bytes: usize,
    /// Memory of these rows, of all partitions of all threads.
    _batches: Reservation,
}

/// Blocks to divide rows by a number of bits of their hashes.
fn blocks(bits: u32) -> usize {
    (1 << bits) + OTHER_BLOCKS
}

/// Returns the largest block of which `count` are at most `bytes` bytes.
fn block_of(bytes: usize, count: usize) -> usize {
    let block = (bytes / count + 1).next_power_of_two() / 2;
    block.clamp(BLOCK_MIN_BYTES, BATCH_BLOCK_BYTES)
}

/// Returns the bytes for spilled rows of a buffer budget with `unclaimed` bytes left.
fn spill_bytes(budget: usize, unclaimed: usize, threads: usize) -> usize {
    let least = blocks(PARTITION_BITS) * BLOCK_MIN_BYTES;
    let most = blocks(FIRST_BITS_MAX).max(threads * blocks(PARTITION_BITS)) * BATCH_BLOCK_BYTES;
    (budget / BUDGET_PARTS).min(unclaimed / 2).min(most).max(least)
}

/// Bits of the first division of a build side whose table has `table_bytes` bytes if it is known: enough that each
/// thread has a table in `tables` bytes, as far as `bytes` bytes have the blocks for it. A partition whose table
/// exceeds the memory is spilled again, and if two tables exceed it, one thread joins while others wait. Partitions
/// beyond that cost CPU time.
fn first_bits(bytes: usize, tables: usize, threads: usize, table_bytes: Option<u64>) -> u32 {
    let has_blocks = |bits: &u32| blocks(*bits) * FIRST_BLOCK_MIN_BYTES <= bytes;
    let most = (PARTITION_BITS..=FIRST_BITS_MAX).rev().find(has_blocks).unwrap_or(PARTITION_BITS);
    let Some(table_bytes) = table_bytes else { return most };
    // Estimates are not exact, and partitions differ.
    let needed = table_bytes.saturating_add(table_bytes / 2).saturating_mul(threads as u64);
    let wanted = needed / tables.max(1) as u64;
    wanted.checked_next_power_of_two().map_or(most, u64::ilog2).clamp(PARTITION_BITS, most)
}

/// Partitions of the first division of a join that has a buffer budget and a heap for itself, of a build side whose table
/// has `table_bytes` bytes.
pub(crate) fn first_partitions(budget: usize, heap: usize, threads: usize, table_bytes: f64) -> u64 {
    let bytes = spill_bytes(budget, budget, threads);
    1 << first_bits(bytes, heap / 2, threads, Some(table_bytes as u64))
}

impl SpillMemory {
    /// Reserves memory from the buffer budget of a job, to spill a build side whose table has `table_bytes` bytes if it is
    /// known.
    ///
    /// # Errors
    /// [`Error::Memory`] if it does not suffice for one thread.
    pub(super) fn reserve(job: &Job, table_bytes: Option<u64>) -> Result<SpillMemory, Error> {
        let threads = job.options().threads.max(1);
        let pool = job.io().pool();
        let bytes = spill_bytes(pool.budget(), pool.unclaimed(), threads);
        let first_bits = first_bits(bytes, job.available() / 2, threads, table_bytes);
        let most = blocks(first_bits).max(threads * blocks(PARTITION_BITS)) * BATCH_BLOCK_BYTES;
        let bytes = bytes.min(most);
        let account = Arc::new(job.account(bytes, SPILL_MEMORY)?);
        let threads = threads.min(bytes / (blocks(PARTITION_BITS) * BLOCK_MIN_BYTES));
        let block = block_of(bytes, threads * blocks(PARTITION_BITS));
        let first_block = block_of(bytes, blocks(first_bits));
        let batches = (threads << PARTITION_BITS).max(1 << first_bits);
        let batch_bytes = (job.available() / BATCHES_PARTS / batches).min(BATCH_MAX_BYTES);
        let _batches = job.reserve(batches * batch_bytes, SPILL_MEMORY)?;
        Ok(SpillMemory { account, threads, block, first_bits, first_block, batch_bytes, _batches })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobOptions;

    #[test]
    fn the_blocks_of_all_threads_fit_into_the_reserved_memory() {
        for threads in 1..=64 {
            for mebibytes in [1, 2, 8, 32, 100, 512, 4096] {
                let options = JobOptions { memory: mebibytes << 20, threads, ..JobOptions::default() };
                let memory = SpillMemory::reserve(&Job::new(options).unwrap(), None).unwrap();
                let bytes = memory.account.guarantee();
                assert!((1..=threads).contains(&memory.threads));
                assert!(memory.threads * blocks(PARTITION_BITS) * memory.block <= bytes);
                assert!(blocks(memory.first_bits) * memory.first_block <= bytes);
                assert!(memory.batch_bytes >= 512, "{mebibytes} MiB, {threads} threads");
            }
        }
    }

    #[test]
    fn four_times_the_limit_is_divided_once_into_tables_of_which_two_fit() {
        for mebibytes in [64, 128, 256, 512, 4096] {
            let options = JobOptions { memory: mebibytes << 20, threads: 2, ..JobOptions::default() };
            let job = Job::new(options).unwrap();
            let heap = job.available();
            for times in [1, 2, 4] {
                let table_bytes = (times * mebibytes as u64) << 20;
                let memory = SpillMemory::reserve(&job, Some(table_bytes)).unwrap();
                let of_partition = table_bytes >> memory.first_bits;
                let tables = job.available() / 2;
                assert!(2 * of_partition <= tables as u64, "{times} times {mebibytes} MiB");
                let planned = first_partitions(job.io().pool().budget(), heap, 2, table_bytes as f64);
                assert_eq!(planned, 1 << memory.first_bits, "the cost model knows the partitions");
            }
        }
    }
}
