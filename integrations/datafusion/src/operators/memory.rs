//! The memory of an operator: taken from DataFusion's pool before its first row, so that the limit of the pool holds for both.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use sakiyomi_model::Bytes;

/// Smallest memory of a sort with one thread: chunks, writes in flight, and the order of some rows.
pub(super) const SORT_MIN_BYTES: usize = 4 << 20;
/// Smallest memory of a join: a sort of each side, and a run of rows with equal keys.
pub(super) const JOIN_MIN_BYTES: usize = 8 << 20;
/// Memory of each further thread.
const MEMORY_PER_THREAD_BYTES: usize = 2 << 20;
/// Memory that suffices for rows of a known size: the rows in packed form, their order, and batches on their way.
const MEMORY_PER_BYTE: usize = 4;
/// Memory for rows of a known size at least: estimates are not exact.
const KNOWN_MIN_BYTES: usize = 32 << 20;
/// Eighths of the offered memory that an operator takes. The rest is for operators that cannot spill: small
/// aggregations and the Parquet writer, which holds a whole row group, by default of 1,048,576 rows.
const TAKEN_EIGHTHS: usize = 5;
/// Name of the pool that divides its memory among operators by itself.
const FAIR_POOL: &str = "fair";

/// Threads for which some memory suffices, of at most `threads`.
pub(super) fn threads(bytes: usize, threads: usize) -> usize {
    let further = bytes.saturating_sub(SORT_MIN_BYTES) / MEMORY_PER_THREAD_BYTES;
    threads.min(1 + further)
}

/// Bounds of the memory of an operator.
pub(super) struct Bounds {
    /// Bytes of its rows, if known.
    pub(super) expected: Option<u64>,
    /// Number of its partitions, each of which takes memory.
    pub(super) partitions: usize,
    /// Bytes that a pool without a limit grants.
    pub(super) unlimited: usize,
    /// Bytes without which it cannot work.
    pub(super) min: usize,
}

/// Takes as much memory as the rows need and the pool grants, and returns how many bytes it was.
///
/// A fair pool divides its memory among all consumers that spill, also among those that take little. If such a share is less
/// than the minimum, the minimum is taken out of what the pool has left, as by a consumer that does not spill.
///
/// # Errors
/// If the pool does not grant the minimum.
pub(super) fn take(
    pool: &Arc<dyn MemoryPool>,
    reservation: &mut MemoryReservation,
    bounds: &Bounds,
) -> Result<usize> {
    let Bounds { expected, partitions, unlimited, min } = *bounds;
    let most = match pool.memory_limit() {
        // Each operator has the share that this pool allows it. Partitions may begin before the others are registered.
        MemoryLimit::Finite(limit) if pool.name() == FAIR_POOL => limit / partitions.max(1),
        // The first of several must leave some to the others.
        MemoryLimit::Finite(limit) => {
            (limit.saturating_sub(pool.reserved()) / 2).min(limit / (2 * partitions.max(1)))
        }
        _ => unlimited,
    };
    let needed = expected.map_or(most, |bytes| {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        bytes.saturating_mul(MEMORY_PER_BYTE).max(KNOWN_MIN_BYTES)
    });
    let mut bytes = needed.min(most).max(min);
    loop {
        if reservation.try_grow(bytes).is_ok() {
            let kept = (bytes / 8 * TAKEN_EIGHTHS).max(min);
            reservation.shrink(bytes - kept);
            return Ok(kept);
        }
        if bytes == min {
            break;
        }
        bytes = (bytes / 8 * 7).max(min);
    }
    let consumer = MemoryConsumer::new(reservation.consumer().name());
    let unshared = consumer.register(pool);
    if unshared.try_grow(min).is_ok() {
        *reservation = unshared;
        return Ok(min);
    }
    let name = reservation.consumer().name();
    let (needed, reserved) = (Bytes(min as u64), Bytes(pool.reserved() as u64 / 1024 * 1024));
    Err(DataFusionError::ResourcesExhausted(format!(
        "{name} needs at least {needed} of memory and the pool does not grant it, with {reserved} reserved"
    )))
}
