//! The stages of an aggregation in tables of groups, one for each thread. Groups that do not fit into memory are spilled
//! in partitions of their hash, and merged partition by partition.

use super::curve::Curve;
use super::error::CostError;
use super::flow::{Flow, Role};
use super::records::{GIVING_GROUPS, GROUPING};
use super::shape::RowShape;
use super::stage::Stage;
use super::work::{PARTITION_SKEW_RATIO, Rows, Work};
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
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Groups {
    pub(crate) count: f64,
    /// Bytes of a group in the hash table.
    pub(crate) bytes: f64,
    /// Number of texts in the key.
    pub(crate) text_keys: f64,
    /// Number of aggregates.
    pub(crate) aggregates: f64,
}

impl Groups {
    /// CPU time of adding rows to tables of some bytes, in which they make `new` groups.
    fn update_ns(&self, work: &Work<'_>, rows: f64, new: f64, table_bytes: f64) -> f64 {
        let at = |curve: &Curve| curve.at(table_bytes.max(1.0));
        let row_ns = at(&work.costs.group_ns_per_row) + self.value_ns(work);
        rows * row_ns + new * at(&work.costs.insert_ns_per_group)
    }

    /// CPU time of merging `count` groups of several tables, which have `bytes` bytes together, into one.
    fn merge_ns(&self, work: &Work<'_>, count: f64, bytes: f64) -> f64 {
        let at = |curve: &Curve| curve.at(bytes.max(1.0));
        let group_ns = at(&work.costs.merge_ns_per_group) + self.value_ns(work);
        count * group_ns + self.count.min(count) * at(&work.costs.merge_insert_ns_per_group)
    }

    /// CPU time of the texts of a key and of the aggregates, in nanoseconds.
    fn value_ns(&self, work: &Work<'_>) -> f64 {
        self.text_keys * work.costs.group_text_ns_per_value + self.aggregates * work.costs.update_ns_per_value
    }

    /// Groups that each thread meets: of a group with `k` rows, which are divided at random, a thread of `p` meets none
    /// with the probability `(1 - 1 / p)^k`.
    fn of_thread(&self, work: &Work<'_>) -> f64 {
        let (rows, threads) = (work.rows(0).count, work.threads());
        let rows_per_group = rows / self.count.max(1.0);
        let met = self.count * (1.0 - (1.0 - 1.0 / threads).powf(rows_per_group));
        met.clamp(0.0, rows / threads)
    }

    /// Bytes of a group and its index entry.
    fn table_bytes(&self) -> f64 {
        self.bytes + INDEX_BYTES
    }
}

/// The stages of an aggregation; with several partitions, groups are spilled.
pub(crate) fn hash_aggregate(
    work: &Work<'_>,
    groups: Groups,
    partitions: f64,
) -> Result<Vec<Stage>, CostError> {
    let read = work.scan("read", GROUPING, 0)?;
    let (read, mut last) = if partitions > 1.0 {
        spilled(work, groups, partitions, read)?
    } else {
        resident(work, groups, read)
    };
    work.write_result(&mut last)?;
    Ok(vec![read, last])
}

fn resident(work: &Work<'_>, groups: Groups, mut read: Stage) -> (Stage, Stage) {
    let (threads, of_thread) = (work.threads(), groups.of_thread(work));
    let table_bytes = of_thread * groups.table_bytes();
    read.user_ns += groups.update_ns(work, work.rows(0).count, of_thread * threads, table_bytes);
    read.heap_bytes += threads * table_bytes / GROUP_MEMORY_RATIO;
    // The tables of all threads are merged: few groups by one thread.
    let merged = if threads > 1.0 { of_thread * threads } else { 0.0 };
    let merge_ns = groups.merge_ns(work, merged, table_bytes * threads);
    let is_serial = groups.count <= SORTED_GROUPS_MAX as f64;
    if threads > 1.0 && !is_serial {
        // Tables that take more than half of the memory are spilled before they are merged.
        read.heap_bytes += threads * table_bytes / GROUP_MEMORY_RATIO;
    }
    let last = Stage {
        name: "write",
        records: GIVING_GROUPS,
        user_ns: merge_ns,
        serial_ns: if is_serial { merge_ns } else { 0.0 },
        portions: if is_serial { 0.0 } else { SPILLED_PARTITIONS as f64 },
        heap_bytes: read.heap_bytes,
        ..Stage::default()
    };
    (read, last)
}

/// A full table is spilled, and the rows after it begin an empty one.
fn spilled(
    work: &Work<'_>,
    groups: Groups,
    partitions: f64,
    mut read: Stage,
) -> Result<(Stage, Stage), CostError> {
    let (rows, threads, of_thread) = (work.rows(0).count, work.threads(), groups.of_thread(work));
    let all_bytes = groups.count * groups.table_bytes();
    let share = work.heap * GROUP_MEMORY_RATIO / threads;
    let table_bytes = share.min(of_thread * groups.table_bytes()).max(1.0);
    let met_ratio = (table_bytes / all_bytes.max(1.0)).min(1.0);
    let spilled_groups = (rows * (1.0 - met_ratio)).max(of_thread * threads);
    let bytes = spilled_groups * groups.bytes;
    let copy_ns = bytes * work.costs.copy_ns_per_byte;
    let shape = RowShape { bytes: groups.bytes, ..RowShape::default() };
    let raw = Rows { count: spilled_groups, shape };
    let (compress_ns, stored_bytes) = work.compress(raw)?;
    read.user_ns += groups.update_ns(work, rows, spilled_groups, table_bytes) + copy_ns + compress_ns;
    read.flows.push(Flow::write(Role::Spill, stored_bytes));
    read.buffer_bytes = partitions * threads * RUN_BLOCKS * work.spill_block;
    read.heap_bytes += threads * table_bytes;
    let part_bytes = all_bytes / partitions;
    let last = Stage {
        name: "write",
        records: GIVING_GROUPS,
        flows: vec![Flow::read_randomly(Role::Spill, stored_bytes)],
        user_ns: groups.merge_ns(work, spilled_groups, all_bytes) + copy_ns + work.restore_ns(raw)?,
        portions: partitions,
        fill_bytes: bytes / partitions,
        buffer_bytes: threads * RUN_BLOCKS * work.spill_block,
        heap_bytes: threads * part_bytes.min(table_bytes) * PARTITION_SKEW_RATIO,
        ..Stage::default()
    };
    Ok((read, last))
}
