//! Algorithms that can do a task, with their sizes.
//!
//! Sizes are those that the operators take: [`crate::sort::plan`] divides the memory of each sort, as it does when the
//! sort runs. Besides all of its memory, a sort may have a half or a quarter of it, because less memory is touched then.

use super::aggregate::{Groups, SPILLED_PARTITIONS, hash_aggregate};
use super::error::CostError;
use super::flow::{Direction, Flow, Role};
use super::join::{HASH_PASSES_MAX, hash_join, hash_partitions, merge_join, table_bytes};
use super::plan::{Algorithm, SortMethod};
use super::shape::{KeyShape, Operator, Side, Task};
use super::sort::sorted;
use super::stage::Stage;
use super::work::{PARTITION_SKEW_RATIO, ROW_NUMBER_BYTES, Rows, Work};
use crate::aggregate::overflow::BLOCK_BYTES as GROUPS_BLOCK_BYTES;
use crate::batch_spill::BATCH_BLOCK_BYTES;
use crate::join::hash::memory::first_partitions;
use crate::join::sort_memory;
use crate::sort::options::{PARTITIONS_MAX, RESIDENT_BYTES, default_memory};
use crate::sort::plan::{Demand, MemoryPlan, ORDER_BYTES};
use crate::sort::runs::collected_rows;

/// Parts of its memory that a sort may be given.
const MEMORY_DIVISORS: [usize; 3] = [1, 2, 4];
/// Bytes of the digits of a sort's key: one 64-bit number.
const DIGIT_BYTES: usize = 8;
/// Passes over runs at most.
const MERGE_PASSES_MAX: u64 = 4;
/// Estimated bytes of resident rows over their limit, at most: an estimate that is too low must not spill.
const RESIDENT_SAFETY_RATIO: f64 = 1.1;

/// Bytes and rows of a table at most, so that sums of them are numbers of 64 bits.
const EXPECTED_COUNT_MAX: u64 = 1 << 56;

/// Resources that decide the sizes of algorithms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resources {
    /// Bytes of I/O buffers and rows.
    pub(crate) buffers: usize,
    /// Bytes of the allocator.
    pub(crate) heap: usize,
    pub(crate) threads: usize,
    /// Spill directories.
    pub(crate) directories: usize,
    /// Bytes of a spilled block.
    pub(crate) block: usize,
}

/// Rows to be sorted.
#[derive(Clone, Copy, Debug)]
struct Sorting {
    bytes: f64,
    rows: f64,
    /// Bytes of the buffer budget that the sort may use.
    memory: usize,
    limit: Option<u64>,
}

/// Returns all algorithms for a task.
pub(crate) fn algorithms(task: &Task, resources: &Resources) -> Vec<Algorithm> {
    match task.operator {
        Operator::Sort { limit_rows, is_stable, .. } => {
            let rows = task.rows(0);
            let row_bytes = task.row(0).bytes + if is_stable { ROW_NUMBER_BYTES } else { 0.0 };
            let memory = default_memory(resources.buffers);
            let sorting = Sorting { bytes: rows * row_bytes, rows, memory, limit: limit_rows };
            sort_methods(&sorting, resources).into_iter().map(|sort| Algorithm::Sort { sort }).collect()
        }
        Operator::Join { build, .. } => {
            let sides = [Side::Left, Side::Right].into_iter();
            let sides = sides.filter(|&side| build.is_none_or(|build| build == side));
            let rows = |side: Side| Rows { count: task.rows(side.index()), shape: task.row(side.index()) };
            let Resources { buffers, heap, threads, .. } = *resources;
            let partitions = |build| {
                let first = first_partitions(buffers, heap, threads, table_bytes(rows(build), 1));
                (0..=HASH_PASSES_MAX).map(move |passes| hash_partitions(first, passes))
            };
            // Tables may take half of the free memory.
            let fits = |side, partitions| table_bytes(rows(side), partitions) <= resources.heap as f64 / 2.0;
            let hashed = sides.flat_map(|build| {
                let fitting = partitions(build).filter(move |&partitions| fits(build, partitions));
                fitting.map(move |partitions| Algorithm::HashJoin { build, partitions })
            });
            merge_joins(task, resources).into_iter().chain(hashed).collect()
        }
        Operator::Aggregate { .. } => {
            [1, SPILLED_PARTITIONS].map(|partitions| Algorithm::HashAggregate { partitions }).to_vec()
        }
    }
}

/// Ways to sort rows.
fn sort_methods(sorting: &Sorting, resources: &Resources) -> Vec<SortMethod> {
    let memories = MEMORY_DIVISORS.iter().map(|divisor| sorting.memory / divisor);
    let mut methods: Vec<SortMethod> = memories
        .flat_map(|memory| {
            let residents = [0, RESIDENT_BYTES, usize::MAX].into_iter();
            let ranges = residents.filter_map(move |resident| ranges(sorting, resources, memory, resident));
            ranges.chain(runs(sorting, resources, memory))
        })
        .collect();
    methods.extend(top(sorting, resources));
    methods.sort_unstable();
    methods.dedup();
    methods
}

/// Returns the memory plan that a sort makes.
fn memory_plan(
    sorting: &Sorting,
    resources: &Resources,
    (memory, resident): (usize, usize),
    partitions_max: usize,
) -> MemoryPlan {
    MemoryPlan::new(&Demand {
        bytes: memory,
        heap_bytes: resources.heap,
        threads: resources.threads,
        directories: resources.directories,
        expected_bytes: Some((sorting.bytes as u64).min(EXPECTED_COUNT_MAX)),
        expected_rows: Some((sorting.rows as u64).min(EXPECTED_COUNT_MAX)),
        spilled_bytes: Some((sorting.bytes as u64).min(EXPECTED_COUNT_MAX)),
        resident_bytes: resident,
        partitions_max,
        planned_partitions: None,
        planned_run: None,
        block: resources.block,
        order_bytes: ORDER_BYTES + DIGIT_BYTES,
    })
}

/// Range partitioning, in memory or spilled; none if the mean partition would have to be sorted as runs, or if the
/// sort would take smaller chunks.
fn ranges(sorting: &Sorting, resources: &Resources, memory: usize, resident: usize) -> Option<SortMethod> {
    let plan = memory_plan(sorting, resources, (memory, resident), PARTITIONS_MAX);
    let partition = |all: f64| all / plan.partitions as f64 * PARTITION_SKEW_RATIO;
    let fits = partition(sorting.bytes) <= plan.load_bytes as f64
        && partition(sorting.rows) <= plan.load_rows as f64;
    if !fits || plan.chunk_bytes != resources.block {
        return None;
    }
    let (partitions, memory_bytes) = (plan.partitions as u64, memory as u64);
    let resident_bytes = plan.resident_bytes as u64;
    Some(if sorting.bytes * RESIDENT_SAFETY_RATIO <= resident_bytes as f64 {
        SortMethod::InMemory { partitions, resident_bytes, memory_bytes }
    } else {
        SortMethod::RangePartition { partitions, resident_bytes, memory_bytes }
    })
}

/// Runs that are merged.
fn runs(sorting: &Sorting, resources: &Resources, memory: usize) -> Option<SortMethod> {
    let plan = memory_plan(sorting, resources, (memory, 0), 1);
    if plan.chunk_bytes != resources.block {
        return None;
    }
    let passes = match sorting.bytes * RESIDENT_SAFETY_RATIO <= (plan.run_bytes * resources.threads) as f64 {
        true => 0,
        false => merge_passes(sorting.bytes, plan.run_bytes as u64, plan.fan_in as u64),
    };
    let (run_bytes, fan_in) = (plan.run_bytes as u64, plan.fan_in as u64);
    let method = SortMethod::RunsAndMerge { run_bytes, fan_in, passes, memory_bytes: memory as u64 };
    (passes <= MERGE_PASSES_MAX).then_some(method)
}

/// Returns the first rows only, if those that each thread collects fit into its memory.
fn top(sorting: &Sorting, resources: &Resources) -> Option<SortMethod> {
    let plan = memory_plan(sorting, resources, (sorting.memory, 0), 1);
    let rows = (collected_rows(sorting.limit?) as f64).min(sorting.rows);
    let bytes = rows * sorting.bytes / sorting.rows.max(1.0);
    let fits = bytes + plan.chunk_bytes as f64 <= plan.run_bytes as f64 && rows <= plan.load_rows as f64;
    fits.then_some(SortMethod::TopN)
}

/// Merge passes until one run is left: `log_k(runs)`, rounded up.
fn merge_passes(bytes: f64, run_bytes: u64, fan_in: u64) -> u64 {
    let mut runs = (bytes / run_bytes as f64).ceil().max(1.0);
    let mut passes = 1;
    while runs > fan_in as f64 {
        runs = (runs / fan_in as f64).ceil();
        passes += 1;
    }
    passes
}

/// Merge joins of tables that are sorted, each in its share of the memory, or are sorted already.
fn merge_joins(task: &Task, resources: &Resources) -> Vec<Algorithm> {
    let methods = |table: usize| {
        if task.tables[table].is_sorted {
            return vec![SortMethod::AlreadySorted];
        }
        let rows = task.rows(table);
        let (bytes, memory) = (rows * task.row(table).bytes, sort_memory(resources.buffers));
        sort_methods(&Sorting { bytes, rows, memory, limit: None }, resources)
    };
    let (lefts, rights) = (methods(0), methods(1));
    let pairs = lefts.iter().flat_map(|&left| rights.iter().map(move |&right| (left, right)));
    pairs.map(|(left, right)| Algorithm::MergeJoin { left, right }).collect()
}

/// Returns the stages of an algorithm.
pub(crate) fn stages(work: &Work<'_>, algorithm: Algorithm) -> Result<Vec<Stage>, CostError> {
    let key = match work.task.operator {
        Operator::Sort { key, .. } | Operator::Join { key, .. } => key,
        Operator::Aggregate { .. } => KeyShape::EXACT,
    };
    let groups = || match work.task.operator {
        Operator::Aggregate { groups, size, key, states } => {
            Groups { count: (groups as f64).max(1.0), size, key, states }
        }
        _ => Groups::default(),
    };
    let mut stages = match algorithm {
        Algorithm::Sort { sort } => {
            let is_stable = matches!(work.task.operator, Operator::Sort { is_stable: true, .. });
            let rows = if is_stable { Work::numbered(work.rows(0)) } else { work.rows(0) };
            let found = sorted(work, 0, rows, sort, key)?;
            let (mut stages, mut last) = (found.before, found.last);
            if is_stable {
                // One thread reads the rows in order.
                stages.iter_mut().for_each(|stage| stage.serial_ns = stage.user_ns);
            }
            work.write_result(&mut last)?;
            stages.push(last);
            stages
        }
        Algorithm::MergeJoin { left, right } => merge_join(work, [left, right], key)?,
        Algorithm::HashJoin { build, partitions } => hash_join(work, build, partitions)?,
        Algorithm::HashAggregate { partitions } => hash_aggregate(work, groups(), partitions as f64)?,
    };
    charge_fresh_memory(&mut stages);
    charge_spill_space(&mut stages);
    if let Some(first) = stages.first_mut() {
        first.user_ns += work.threads() * work.costs.start_ns_per_thread;
    }
    Ok(stages)
}

/// Sets the space in spill files that stages need; what is read again frees its space.
fn charge_spill_space(stages: &mut [Stage]) {
    let mut live = 0.0;
    for stage in stages {
        let sum = |direction| -> f64 {
            let same = |flow: &&Flow| flow.role == Role::Spill && flow.direction == direction;
            stage.flows.iter().filter(same).map(|flow| flow.bytes).sum()
        };
        let (written, read) = (sum(Direction::Write), sum(Direction::Read));
        let after = f64::max(live + written - read, 0.0);
        stage.spilled_bytes = f64::max(live, after);
        live = after;
    }
}

/// Charges page faults for the memory that a stage needs beyond all earlier stages (facts section 7).
fn charge_fresh_memory(stages: &mut [Stage]) {
    let mut known = [0.0; 2];
    for stage in stages {
        let used = [stage.buffer_bytes, stage.heap_bytes];
        let fresh = |at: usize| f64::max(used[at] - known[at], 0.0);
        (stage.fresh_buffer_bytes, stage.fresh_heap_bytes) = (fresh(0), fresh(1) + stage.passing_heap_bytes);
        known = [0, 1].map(|at| f64::max(used[at], known[at]));
    }
}

/// Returns whether the executor can spill an algorithm's rows in these blocks: sorts choose their chunks, others do
/// not. All choose the compression while they spill.
pub(crate) fn can_spill(algorithm: Algorithm, block_bytes: u64) -> bool {
    match algorithm {
        Algorithm::Sort { .. } | Algorithm::MergeJoin { .. } => true,
        Algorithm::HashJoin { .. } => block_bytes == BATCH_BLOCK_BYTES as u64,
        Algorithm::HashAggregate { .. } => block_bytes == GROUPS_BLOCK_BYTES as u64,
    }
}
