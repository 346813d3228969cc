//! The stages of an aggregation in tables of groups, one for each thread. Groups that do not fit into memory are spilled
//! in partitions of their hash, and merged partition by partition.

use super::error::CostError;
use super::flow::{Flow, Role};
use super::operators::Codec;
use super::records::{GIVING_GROUPS, GROUPING};
use super::stage::Stage;
use super::work::{PARTITION_SKEW_RATIO, Work};
use crate::aggregate::groups::PARTITION_COUNT;
use crate::aggregate::merge::SORTED_GROUPS_MAX;
use crate::aggregate::run::GROUP_MEMORY_RATIO;

/// Partitions of spilled groups.
pub(crate) const SPILLED_PARTITIONS: u64 = PARTITION_COUNT as u64;
/// Bytes of the index for each group: 32-bit group numbers, at most half full.
const INDEX_BYTES: f64 = 8.0;
/// Blocks of a run of groups in memory: one that is filled, and those in flight.
const RUN_BLOCKS: f64 = 3.0;

/// The groups and the aggregates of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    pub(crate) count: f64,
    /// Bytes of a group in the hash table.
    pub(crate) bytes: f64,
    /// Number of aggregates.
    pub(crate) aggregates: f64,
}

/// The stages of an aggregation; with several partitions, groups are spilled.
pub(crate) fn hash_aggregate(
    work: &Work<'_>,
    groups: Groups,
    partitions: f64,
) -> Result<Vec<Stage>, CostError> {
    let rows = work.rows(0);
    let threads = work.threads();
    // Each thread meets nearly all groups that have several rows.
    let of_thread = groups.count.min(rows.count / threads);
    let group_bytes = groups.bytes + INDEX_BYTES;
    let update_ns = |count: f64, table_bytes: f64| {
        let find_ns = work.costs.group_ns_per_row.at(table_bytes.max(1.0));
        count * (find_ns + groups.aggregates * work.costs.update_ns_per_value)
    };
    let mut read = work.scan("read", GROUPING, 0)?;
    let mut last = Stage { name: "write", records: GIVING_GROUPS, ..Stage::default() };
    if partitions <= 1.0 {
        let table_bytes = of_thread * group_bytes;
        read.user_ns += update_ns(rows.count, table_bytes);
        read.heap_bytes += threads * table_bytes / GROUP_MEMORY_RATIO;
        // The tables of all threads are merged: few groups by one thread.
        last.user_ns = update_ns(of_thread * (threads - 1.0), table_bytes);
        if groups.count <= SORTED_GROUPS_MAX as f64 {
            last.serial_ns = last.user_ns;
        } else {
            last.portions = SPILLED_PARTITIONS as f64;
        }
        last.heap_bytes = read.heap_bytes;
    } else {
        // A full table is spilled; rows whose group it does not have begin it again.
        let table_bytes = (work.heap * GROUP_MEMORY_RATIO / threads).min(of_thread * group_bytes).max(1.0);
        let met = (table_bytes / (groups.count * group_bytes).max(1.0)).min(1.0);
        let spilled_groups = (rows.count * (1.0 - met)).max(of_thread * threads);
        let spilled = spilled_groups * groups.bytes;
        read.user_ns += update_ns(rows.count, table_bytes) + spilled * work.costs.copy_ns_per_byte;
        read.flows.push(Flow::write(Role::Spill, spilled));
        read.buffer_bytes = partitions * threads * RUN_BLOCKS * work.spill_block;
        read.heap_bytes += threads * table_bytes;
        last.flows.push(Flow::read_randomly(Role::Spill, spilled));
        let part_bytes = groups.count * group_bytes / partitions;
        last.user_ns = update_ns(spilled_groups, part_bytes) + spilled * work.costs.copy_ns_per_byte;
        last.portions = partitions;
        last.fill_bytes = spilled / partitions;
        last.buffer_bytes = threads * RUN_BLOCKS * work.spill_block;
        last.heap_bytes = threads * part_bytes.min(table_bytes) * PARTITION_SKEW_RATIO;
        if work.codec != Codec::None {
            return Err(CostError::Task("spilled groups are not compressed"));
        }
    }
    work.write_result(&mut last)?;
    Ok(vec![read, last])
}
