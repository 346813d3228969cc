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
const OTHER_BLOCKS: usize = BATCH_BLOCKS_AHEAD + BATCH_BLOCKS_AHEAD + 2;

/// One part in this many of the buffer budget is for spilled rows, unless that is too little for one thread.
const BUDGET_PARTS: usize = 4;

/// Most bits of a first division: 64 runs are written at the same time.
const FIRST_BITS_MAX: u32 = 6;

/// Partitions of the first division for each thread: memory that holds an eighth of the build side then suffices for
/// a pair of each thread.
const PARTITIONS_PER_THREAD: usize = 8;

/// One part in this many of the free heap is for rows that are not written yet.
const BATCHES_PARTS: usize = 8;

/// Most rows that are written together: larger batches are not faster.
const BATCH_MAX_BYTES: usize = 32 << 10;

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

impl SpillMemory {
    /// Reserves memory from the buffer budget of a job.
    ///
    /// # Errors
    /// [`Error::Memory`] if it does not suffice for one thread.
    pub(super) fn reserve(job: &Job) -> Result<SpillMemory, Error> {
        let threads = job.options().threads.max(1);
        let least = blocks(PARTITION_BITS) * BLOCK_MIN_BYTES;
        let most = threads * blocks(PARTITION_BITS) * BATCH_BLOCK_BYTES;
        let pool = job.io().pool();
        let bytes = (pool.budget() / BUDGET_PARTS).min(pool.unclaimed() / 2).min(most).max(least);
        let account = Arc::new(job.account(bytes, SPILL_MEMORY)?);
        let wanted = (threads * PARTITIONS_PER_THREAD).next_power_of_two().ilog2();
        let mut first_bits = wanted.clamp(PARTITION_BITS, FIRST_BITS_MAX);
        while first_bits > PARTITION_BITS && blocks(first_bits) * BLOCK_MIN_BYTES > bytes {
            first_bits -= 1;
        }
        let threads = threads.min(bytes / least);
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
                let memory = SpillMemory::reserve(&Job::new(options).unwrap()).unwrap();
                let bytes = memory.account.guarantee();
                assert!((1..=threads).contains(&memory.threads));
                assert!(memory.threads * blocks(PARTITION_BITS) * memory.block <= bytes);
                assert!(blocks(memory.first_bits) * memory.first_block <= bytes);
                assert!(memory.batch_bytes >= 512, "{mebibytes} MiB, {threads} threads");
            }
        }
    }
}
