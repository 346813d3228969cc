//! Candidate algorithms of a task and their sizes.
//!
//! Sizes come from fixed grids that do not depend on the memory limit. A larger limit therefore allows all plans of a
//! smaller one, and never predicts a slower optimum.

use super::aggregate::{Groups, hash_aggregate, sorted_aggregate};
use super::error::CostError;
use super::join::{hash_join, merge_join};
use super::plan::{Algorithm, SortMethod};
use super::shape::{KeyShape, Operator, Side, Task};
use super::sort::sorted;
use super::stage::Stage;
use super::work::Work;

/// Partitions of an in-memory sort: from a few per thread to partitions that fit into a cache.
const RESIDENT_PARTITION_COUNTS: [u64; 3] = [4, 16, 64];
/// Partitions of a pass. The cost of scattering rises with their number because of caches and the TLB.
const PARTITION_COUNTS: [u64; 8] = [4, 8, 16, 32, 64, 128, 256, 512];
/// Maximum passes over spilled rows: two passes of 512 partitions suffice for the storage of a machine.
const PARTITION_PASSES_MAX: u64 = 3;
/// Minimum partitions of a pass if there are several passes.
const REPEATED_PARTITIONS_MIN: u64 = 64;
/// Bytes of resident rows of a spilling sort, if any: page faults of more memory cost more than a fast disk (facts
/// section 7).
const RESIDENT_BYTES: u64 = 64 << 20;
/// Candidate bytes of a run, in factors of four.
const RUN_SIZES_BYTES: [u64; 7] = [1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30, 4 << 30];
/// Candidate fan-ins of a merge.
const MERGE_FAN_INS: [u64; 4] = [4, 16, 64, 256];
/// Maximum merge passes: 256^4 runs of 1 MiB are 4 PiB.
const MERGE_PASSES_MAX: u64 = 4;

/// Returns all candidate algorithms of a task.
pub(crate) fn algorithms(task: &Task) -> Vec<Algorithm> {
    let hash_partitions = || std::iter::once(1).chain(PARTITION_COUNTS);
    match task.operator {
        Operator::Sort { limit_rows, is_stable, .. } => {
            let methods = sort_methods(task, 0, is_stable);
            let top = limit_rows.map(|_| SortMethod::TopN);
            methods.into_iter().chain(top).map(|sort| Algorithm::Sort { sort }).collect()
        }
        Operator::Join { build, .. } => {
            let sides = [Side::Left, Side::Right].into_iter();
            let sides = sides.filter(|&side| build.is_none_or(|build| build == side));
            let hashed = sides.flat_map(|build| {
                hash_partitions().map(move |partitions| Algorithm::HashJoin { build, partitions })
            });
            merge_joins(task).into_iter().chain(hashed).collect()
        }
        Operator::Aggregate { .. } => {
            let sorted = sort_methods(task, 0, false).into_iter();
            let hashed = hash_partitions().map(|partitions| Algorithm::HashAggregate { partitions });
            hashed.chain(sorted.map(|sort| Algorithm::SortedAggregate { sort })).collect()
        }
    }
}

/// Candidate sort methods of a table.
fn sort_methods(task: &Task, table: usize, numbered: bool) -> Vec<SortMethod> {
    let shape = &task.tables[table];
    if shape.is_sorted && !numbered {
        return vec![SortMethod::AlreadySorted];
    }
    let resident =
        RESIDENT_PARTITION_COUNTS.into_iter().map(|partitions| SortMethod::InMemory { partitions });
    let ranges = PARTITION_COUNTS.into_iter().flat_map(|partitions| {
        // With few partitions, more partitions are better than more passes.
        let passes = if partitions < REPEATED_PARTITIONS_MIN { 1..=1 } else { 1..=PARTITION_PASSES_MAX };
        passes.flat_map(move |passes| {
            let residents = if passes == 1 { 0..=1 } else { 0..=0 };
            residents.map(move |part| {
                let resident_bytes = part * RESIDENT_BYTES;
                SortMethod::RangePartition { partitions, passes, resident_bytes }
            })
        })
    });
    let bytes = shape.packed_bytes();
    let merges = RUN_SIZES_BYTES.into_iter().flat_map(move |run_bytes| {
        let passes = move |fan_in| merge_passes(bytes, run_bytes, fan_in);
        MERGE_FAN_INS.into_iter().map(move |fan_in| SortMethod::RunsAndMerge {
            run_bytes,
            fan_in,
            passes: passes(fan_in),
        })
    });
    let is_possible = |method: &SortMethod| !matches!(method, SortMethod::RunsAndMerge { passes, .. } if *passes > MERGE_PASSES_MAX);
    resident.chain(ranges).chain(merges.filter(is_possible)).collect()
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

/// Candidate merge joins: unsorted sides use the same sort method.
fn merge_joins(task: &Task) -> Vec<Algorithm> {
    let larger = usize::from(task.tables[1].packed_bytes() > task.tables[0].packed_bytes());
    let unsorted = task.tables.iter().filter(|table| !table.is_sorted).count();
    let methods = match unsorted {
        0 => vec![SortMethod::AlreadySorted],
        1 => sort_methods(task, usize::from(task.tables[0].is_sorted), false),
        _ => sort_methods(task, larger, false),
    };
    let of = |table: usize, method: SortMethod| {
        if task.tables[table].is_sorted { SortMethod::AlreadySorted } else { method }
    };
    methods
        .into_iter()
        .map(|method| Algorithm::MergeJoin { left: of(0, method), right: of(1, method) })
        .collect()
}

/// The stages of an algorithm.
pub(crate) fn stages(work: &Work<'_>, algorithm: Algorithm) -> Result<Vec<Stage>, CostError> {
    let key = match work.task.operator {
        Operator::Sort { key, .. } | Operator::Join { key, .. } => key,
        Operator::Aggregate { .. } => KeyShape::EXACT,
    };
    let groups = || match work.task.operator {
        Operator::Aggregate { groups, group_bytes, aggregates } => {
            Groups { count: groups as f64, bytes: group_bytes, aggregates: aggregates as f64 }
        }
        _ => Groups { count: 0.0, bytes: 0.0, aggregates: 0.0 },
    };
    let mut stages = match algorithm {
        Algorithm::Sort { sort } => {
            let is_stable = matches!(work.task.operator, Operator::Sort { is_stable: true, .. });
            let rows = if is_stable { Work::numbered(work.rows(0)) } else { work.rows(0) };
            let found = sorted(work, 0, rows, sort, key)?;
            let (mut stages, mut last) = (found.before, found.last);
            work.write_result(&mut last)?;
            stages.push(last);
            stages
        }
        Algorithm::MergeJoin { left, right } => merge_join(work, [left, right], key)?,
        Algorithm::HashJoin { build, partitions } => hash_join(work, build, partitions as f64)?,
        Algorithm::HashAggregate { partitions } => hash_aggregate(work, groups(), partitions as f64)?,
        Algorithm::SortedAggregate { sort } => sorted_aggregate(work, groups(), sort, key)?,
    };
    charge_fresh_memory(&mut stages);
    Ok(stages)
}

/// Charges page faults for the memory that a stage needs beyond all earlier stages (facts section 7).
fn charge_fresh_memory(stages: &mut [Stage]) {
    let mut known = 0.0;
    for stage in stages {
        let used = stage.buffer_bytes + stage.heap_bytes;
        stage.fresh_bytes = f64::max(used - known, 0.0);
        known = f64::max(used, known);
    }
}
