//! The stages of an aggregation in tables of groups, one for each thread. Groups that do not fit into memory are spilled
//! in partitions of their hash, and merged partition by partition.

use super::curve::Curve;
use super::error::CostError;
use super::flow::{Flow, Role};
use super::operators::OperatorCosts;
use super::records::{EMITTING_GROUPS, GROUPING};
use super::shape::{GroupKeyShape, GroupSize, RowShape, StateShape};
use super::stage::Stage;
use super::step::Step;
use super::work::{PARTITION_SKEW_RATIO, Rows, Work};
use crate::aggregate::fused;
use crate::aggregate::groups::PARTITION_COUNT;
use crate::aggregate::index::FIRST_GROUP;
use crate::aggregate::queue::SORTED_GROUPS_MAX;
use crate::aggregate::run::GROUP_MEMORY_RATIO;
use crate::aggregate::worker::DENSE_PARTS;

/// Partitions of spilled groups.
pub(crate) const SPILLED_PARTITIONS: u64 = PARTITION_COUNT as u64;
/// Bytes of the index for each group: 1.5 to 3 slots of 8 bytes.
const INDEX_BYTES: f64 = 16.0;
/// Part of its memory that a full table holds: capacities grow by an eighth at most, and while a column of states grows,
/// half of the former capacity counts as well.
const FULL_TABLE_RATIO: f64 = 0.65;
/// Ratio of the capacity of a table to its groups, on average.
const CAPACITY_RATIO: f64 = 1.06;
/// Divisions of spilled groups at most: 65,536 partitions.
const DIVISIONS_MAX: u32 = 4;
/// Groups whose sums are updated in one pass.
const FUSED_GROUPS_MAX: f64 = (fused::GROUPS_MAX - FIRST_GROUP as usize) as f64;
/// Blocks of a run of groups in memory: one that is filled, and those in flight.
const RUN_BLOCKS: f64 = 3.0;

/// The groups of a task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Groups {
    pub(crate) count: f64,
    /// Bytes of a group.
    pub(crate) size: GroupSize,
    pub(crate) key: GroupKeyShape,
    pub(crate) states: StateShape,
}

impl Groups {
    /// CPU time of adding rows to tables of some bytes, in which they make `new` groups.
    fn update_ns(&self, work: &Work<'_>, rows: f64, new: f64, table_bytes: f64) -> f64 {
        let at = |curve: &Curve| curve.at(table_bytes.max(1.0));
        let costs = work.costs;
        let find_ns = match self.key.codes {
            0 => at(&costs.group_ns_per_row) + self.key.texts as f64 * at(&costs.group_text_ns_per_value),
            codes => costs.code_group_ns_per_row + codes as f64 * costs.code_group_ns_per_value,
        };
        let row_ns = find_ns + self.update_states_ns(costs);
        rows * row_ns + new * at(&work.costs.insert_ns_per_group)
    }

    /// CPU time of updating the states of a group by a row, in nanoseconds.
    fn update_states_ns(&self, costs: &OperatorCosts) -> f64 {
        let StateShape { sums, counts, others } = self.states;
        let others_ns = others as f64 * costs.update_ns_per_value;
        match self.count <= FUSED_GROUPS_MAX {
            true if sums + counts > 0 => {
                others_ns + costs.sums_ns_per_row + sums as f64 * costs.sum_ns_per_value
            }
            true => others_ns,
            false => others_ns + (sums + counts) as f64 * costs.update_ns_per_value,
        }
    }

    /// Returns the number of rows that are processed. If groups are looked up by codes and many rows of a batch pass the
    /// filter, the others are masked but still processed.
    fn updated_rows(&self, work: &Work<'_>) -> f64 {
        let (rows, ratio) = (work.rows(0).count, work.task.selected_ratio);
        let is_masked = self.key.codes > 0 && ratio > 0.0 && ratio * DENSE_PARTS as f64 >= 1.0;
        if is_masked { rows / ratio } else { rows }
    }

    /// Returns the number of states of a group.
    fn state_count(&self) -> f64 {
        (self.states.sums + self.states.counts + self.states.others) as f64
    }

    /// CPU time of merging `count` groups of several tables, which have `bytes` bytes together, into one.
    fn merge_ns(&self, work: &Work<'_>, count: f64, bytes: f64) -> f64 {
        let at = |curve: &Curve| curve.at(bytes.max(1.0));
        let group_ns = at(&work.costs.merge_ns_per_group)
            + self.key.texts as f64 * at(&work.costs.group_text_ns_per_value)
            + self.state_count() * work.costs.merge_ns_per_value;
        count * group_ns + self.count.min(count) * at(&work.costs.merge_insert_ns_per_group)
    }

    /// Groups that each thread meets: of a group with `k` rows, which are divided at random, a thread of `p` meets none
    /// with the probability `(1 - 1 / p)^k`.
    fn of_thread(&self, work: &Work<'_>) -> f64 {
        let (rows, threads) = (work.rows(0).count, work.threads());
        let rows_per_group = rows / self.count.max(1.0);
        let met = self.count * (1.0 - (1.0 - 1.0 / threads).powf(rows_per_group));
        met.clamp(0.0, rows / threads)
    }

    /// Returns the bytes of a group and its index entry.
    fn table_bytes(&self) -> f64 {
        self.size.table_bytes + INDEX_BYTES
    }

    /// Groups of a full table of `bytes` bytes.
    fn capacity(&self, bytes: f64) -> f64 {
        (bytes * FULL_TABLE_RATIO / self.table_bytes()).floor().max(1.0)
    }

    /// Groups that a table of at most `capacity` groups has when it is full, summed over all fillings, and at the end,
    /// after `rows` rows of random groups: of `n` groups, `r` rows meet `n (1 - exp(-r / n))`.
    fn met(&self, rows: f64, capacity: f64) -> (f64, f64) {
        let met = |rows: f64| -self.count * (-rows / self.count).exp_m1();
        if capacity >= self.count {
            return (0.0, met(rows));
        }
        let rows_of_table = -self.count * (-capacity / self.count).ln_1p();
        let tables = (rows / rows_of_table).floor();
        (tables * capacity, met(rows - tables * rows_of_table))
    }

    /// Records of groups: CPU time to write them to the runs of their partitions, in nanoseconds, and their rows.
    fn records(&self, work: &Work<'_>, count: f64) -> (f64, Rows) {
        let values = 1.0 + self.state_count();
        let shape = RowShape { values, bytes: self.size.record_bytes, ..RowShape::default() };
        let rows = Rows { count, shape };
        (work.scatter_ns(rows, SPILLED_PARTITIONS as f64), rows)
    }
}

/// Returns the stages of an aggregation; with several partitions, groups are spilled.
pub(crate) fn hash_aggregate(
    work: &Work<'_>,
    groups: Groups,
    partitions: f64,
) -> Result<Vec<Stage>, CostError> {
    let read = work.scan(Step::Group, GROUPING, 0)?;
    let mut stages = if partitions > 1.0 {
        spilled(work, groups, partitions, read)?
    } else {
        resident(work, groups, read)
    };
    if let Some(last) = stages.last_mut() {
        work.write_result(last)?;
    }
    Ok(stages)
}

fn resident(work: &Work<'_>, groups: Groups, mut read: Stage) -> Vec<Stage> {
    let (threads, of_thread) = (work.threads(), groups.of_thread(work));
    let table_bytes = of_thread * groups.table_bytes();
    read.user_ns += groups.update_ns(work, groups.updated_rows(work), of_thread * threads, table_bytes);
    // The tables of all threads are merged: few groups by one thread.
    let merged = if threads > 1.0 { of_thread * threads } else { 0.0 };
    let merge_ns = groups.merge_ns(work, merged, table_bytes * threads);
    let is_serial = groups.count <= SORTED_GROUPS_MAX as f64;
    // Tables that take more than half of the memory are spilled before they are merged.
    let memory_ratio = match threads > 1.0 && !is_serial {
        true => 2.0 * CAPACITY_RATIO,
        false => 1.0 / FULL_TABLE_RATIO,
    };
    read.heap_bytes += threads * table_bytes * memory_ratio / GROUP_MEMORY_RATIO;
    let last = Stage {
        step: Step::EmitGroups,
        records: EMITTING_GROUPS,
        user_ns: merge_ns,
        serial_ns: if is_serial { merge_ns } else { 0.0 },
        portions: if is_serial { 0.0 } else { SPILLED_PARTITIONS as f64 },
        heap_bytes: read.heap_bytes,
        ..Stage::default()
    };
    vec![read, last]
}

/// A full table is spilled, and the rows after it begin an empty one. At its end each thread spills the rest.
fn spilled(
    work: &Work<'_>,
    groups: Groups,
    partitions: f64,
    mut read: Stage,
) -> Result<Vec<Stage>, CostError> {
    let (rows, threads) = (work.rows(0).count, work.threads());
    let share = work.heap * GROUP_MEMORY_RATIO / threads;
    let capacity = groups.capacity(share);
    let (full, rest) = groups.met(rows / threads, capacity);
    // Each table is written to its end before the thread continues.
    read.pauses.writes = full / capacity + 1.0;
    let (full, rest) = (full * threads, rest * threads);
    let table_bytes = capacity.min(groups.count) * groups.table_bytes();
    read.user_ns += groups.update_ns(work, rows, full + rest, table_bytes);
    read.buffer_bytes = partitions * threads * RUN_BLOCKS * work.spill_block;
    read.heap_bytes += threads * share.min(table_bytes / FULL_TABLE_RATIO);
    write_records(work, groups, &mut read, full + rest)?;
    Ok(vec![read, merged(work, groups, partitions, (full + rest, capacity, share))?])
}

/// Adds the spilling of groups to a stage. A thread that spills its table does nothing else meanwhile.
fn write_records(work: &Work<'_>, groups: Groups, stage: &mut Stage, count: f64) -> Result<(), CostError> {
    let (write_ns, records) = groups.records(work, count);
    let (compress_ns, stored_bytes) = work.compress(records)?;
    stage.user_ns += write_ns + compress_ns;
    stage.flows.push(Flow::write(Role::Spill, stored_bytes).ahead(0));
    Ok(())
}

/// Merges `count` spilled groups partition by partition, in tables of at most `capacity` groups and `share` bytes. A
/// partition with more groups is divided again.
fn merged(
    work: &Work<'_>,
    groups: Groups,
    partitions: f64,
    (mut count, capacity, share): (f64, f64, f64),
) -> Result<Stage, CostError> {
    let mut last =
        Stage { step: Step::EmitGroups, records: EMITTING_GROUPS, portions: partitions, ..Stage::default() };
    last.buffer_bytes = work.threads() * RUN_BLOCKS * work.spill_block;
    last.fill_bytes = groups.records(work, count).1.bytes() / partitions;
    let (mut part, mut parts) = (groups, 1.0);
    for _ in 0..DIVISIONS_MAX {
        // The first run of a partition is not read ahead.
        last.pauses.reads += parts * partitions / work.threads();
        (parts, part.count) = (parts * partitions, (part.count / partitions).max(1.0));
        let records = groups.records(work, count).1;
        let (_, stored_bytes) = work.compress(records)?;
        // The next blocks of each thread, of the same run or of the next one.
        last.flows.push(Flow::read_randomly(Role::Spill, stored_bytes).ahead(work.threads() as usize));
        last.user_ns += groups.merge_ns(work, count, part.count * parts * groups.table_bytes());
        last.user_ns += work.restore_ns(records)?;
        if part.count <= capacity {
            break;
        }
        let (full, rest) = part.met(count / parts, capacity);
        count = (full + rest) * parts;
        last.pauses.writes += (full / capacity + 1.0) * parts / work.threads();
        write_records(work, groups, &mut last, count)?;
    }
    let table_bytes = part.count * groups.table_bytes() * PARTITION_SKEW_RATIO / FULL_TABLE_RATIO;
    last.heap_bytes = work.threads() * share.min(table_bytes);
    Ok(last)
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    /// Groups of full tables and of the last one, after random rows.
    fn fill(groups: u64, rows: u64, capacity: usize) -> (usize, usize) {
        let mut random = Pcg64::seed_from_u64(groups ^ rows);
        let (mut full, mut table) = (0, std::collections::BTreeSet::new());
        for _ in 0..rows {
            table.insert(random.next_u64() % groups);
            if table.len() == capacity {
                full += capacity;
                table.clear();
            }
        }
        (full, table.len())
    }

    #[test]
    fn groups_of_full_tables_are_as_many_as_random_rows_meet() {
        for (count, rows, capacity) in
            [(3000, 20_000, 500), (3000, 20_000, 2900), (3000, 5000, 3000), (100, 7, 50)]
        {
            let groups = Groups { count: count as f64, ..Groups::default() };
            let (full, rest) = groups.met(rows as f64, capacity as f64);
            let found = fill(count, rows, capacity);
            let (predicted, all) = (full + rest, (found.0 + found.1) as f64);
            assert!((predicted / all - 1.0).abs() < 0.05, "{predicted} of {all}: {count} {rows} {capacity}");
        }
    }

    #[test]
    fn more_capacity_never_spills_more_groups() {
        let groups = Groups { count: 1e6, ..Groups::default() };
        let spilled = |capacity: f64| {
            let (full, rest) = groups.met(7e6, capacity);
            full + rest
        };
        let sizes: Vec<f64> = (0..200).map(|step| spilled(1000.0 * 1.04f64.powi(step))).collect();
        assert!(sizes.is_sorted_by(|a, b| b <= &(a * (1.0 + 1e-9))), "{sizes:?}");
        assert!(sizes[0] <= 7e6 && sizes[199] >= 0.99e6);
    }
}
