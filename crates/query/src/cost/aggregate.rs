//! The stages of hash and sorted aggregations. TPC-H query 1 is a hash aggregation with few groups.

use super::error::CostError;
use super::flow::{Flow, Role};
use super::plan::SortMethod;
use super::records::{GIVING_GROUPS, GROUPING};
use super::shape::KeyShape;
use super::sort::sorted;
use super::stage::Stage;
use super::work::{PARTITION_SKEW_RATIO, Work};

/// The groups and the aggregates of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    pub(crate) count: f64,
    /// Bytes of a group in the hash table.
    pub(crate) bytes: f64,
    /// Number of aggregates.
    pub(crate) aggregates: f64,
}

/// The stages of a hash aggregation; several partitions are spilled.
pub(crate) fn hash_aggregate(
    work: &Work<'_>,
    groups: Groups,
    partitions: f64,
) -> Result<Vec<Stage>, CostError> {
    let rows = work.rows(0);
    let table_bytes = groups.count * groups.bytes / partitions;
    let update_ns = rows.count
        * (work.costs.group_ns_per_row.at(table_bytes.max(1.0))
            + groups.aggregates * work.costs.update_ns_per_value);
    let mut read = work.scan("read", GROUPING, 0)?;
    let mut last = Stage { name: "write", records: GIVING_GROUPS, ..Stage::default() };
    if partitions <= 1.0 {
        read.user_ns += update_ns;
        read.heap_bytes += work.threads() * table_bytes;
        // One thread merges the tables of all threads.
        let merged = groups.count * (work.threads() - 1.0);
        let merge_ns = merged
            * (work.costs.group_ns_per_row.at(table_bytes.max(1.0))
                + groups.aggregates * work.costs.update_ns_per_value);
        last.user_ns = merge_ns;
        last.serial_ns = merge_ns;
        last.heap_bytes = work.threads() * table_bytes;
    } else {
        let (compress_ns, spilled) = work.compress(rows)?;
        read.user_ns += work.scatter_ns(rows, partitions) + compress_ns;
        read.flows.push(Flow::write(Role::Spill, spilled));
        read.buffer_bytes = partitions * work.threads() * work.spill_block;
        last.flows.push(Flow::read_randomly(Role::Spill, spilled));
        last.user_ns = update_ns + work.restore_ns(rows)?;
        last.portions = partitions;
        last.fill_bytes = spilled / partitions;
        last.buffer_bytes = work.threads() * 2.0 * work.spill_block;
        last.heap_bytes = work.threads() * table_bytes * PARTITION_SKEW_RATIO;
    }
    work.write_result(&mut last)?;
    Ok(vec![read, last])
}

/// The stages of a sorted aggregation.
pub(crate) fn sorted_aggregate(
    work: &Work<'_>,
    groups: Groups,
    method: SortMethod,
    key: KeyShape,
) -> Result<Vec<Stage>, CostError> {
    let rows = work.rows(0);
    let found = sorted(work, 0, rows, method, key)?;
    let (mut stages, mut last) = (found.before, found.last);
    last.user_ns +=
        rows.count * (work.costs.merge_join_ns_per_row + groups.aggregates * work.costs.update_ns_per_value);
    work.write_result(&mut last)?;
    stages.push(last);
    Ok(stages)
}
