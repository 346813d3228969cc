//! The stages of a sort (facts section 7).
//!
//! - *In memory*: decode and scatter to partitions; then sort, gather and encode each.
//! - *Range partitioning*: the same, with chunks of partitions spilled and loaded again.
//! - *Runs and merge*: fill memory, sort, write a run; merge runs by a loser tree, whose final merge is one thread's.
//! - *Top N*: keep the first rows.

use super::error::CostError;
use super::flow::{Flow, Role};
use super::plan::SortMethod;
use super::records::{EMITTING_MERGED, EMITTING_PARTITIONS, MAKING_RUNS, PARTITIONING, STREAMING};
use super::shape::{KeyShape, Operator};
use super::stage::Stage;
use super::step::Step;
use super::work::{PARTITION_SKEW_RATIO, Rows, SORT_ENTRY_BYTES, Work};
use crate::sort::plan::MERGE_BLOCKS;
use crate::sort::runs::collected_rows;

/// Blocks of runs that are read ahead of a merge, and runs that are written behind the threads. While rows come in, the
/// chunks of all partitions become full at about the same time, so that writes overlap no better than that.
const UNITS_AHEAD: usize = 1;

/// The stages of a sort. The consumer adds its work to the last one, which emits the rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sorted {
    pub(crate) before: Vec<Stage>,
    pub(crate) last: Stage,
}

/// Returns the stages of a sort.
pub(crate) fn sorted(
    work: &Work<'_>,
    table: usize,
    rows: Rows,
    method: SortMethod,
    key: KeyShape,
) -> Result<Sorted, CostError> {
    match method {
        SortMethod::InMemory { partitions, .. } => in_memory(work, table, rows, partitions as f64, key),
        SortMethod::RangePartition { partitions, resident_bytes, .. } => {
            range_partition(work, table, rows, (partitions as f64, resident_bytes as f64), key)
        }
        SortMethod::RunsAndMerge { run_bytes, fan_in, passes, .. } => {
            runs_and_merge(work, table, rows, (run_bytes as f64, fan_in as f64, passes), key)
        }
        SortMethod::TopN => top(work, table, rows),
        SortMethod::AlreadySorted => {
            Ok(Sorted { before: Vec::new(), last: work.scan(Step::Scan, STREAMING, table)? })
        }
    }
}

fn in_memory(
    work: &Work<'_>,
    table: usize,
    rows: Rows,
    partitions: f64,
    key: KeyShape,
) -> Result<Sorted, CostError> {
    let mut read = work.scan(Step::Divide, PARTITIONING, table)?;
    read.user_ns += work.scatter_ns(rows, partitions);
    read.buffer_bytes = rows.bytes() + partitions * work.threads() * work.spill_block;
    let mut last = emit(work, rows, partitions, key);
    last.buffer_bytes = read.buffer_bytes;
    Ok(Sorted { before: vec![work.sample(table, key)?, read], last })
}

fn range_partition(
    work: &Work<'_>,
    table: usize,
    rows: Rows,
    (partitions, resident): (f64, f64),
    key: KeyShape,
) -> Result<Sorted, CostError> {
    let resident = resident.min(rows.bytes());
    let spilled_rows = Rows { count: (rows.bytes() - resident) / rows.shape.bytes, ..rows };
    let (compress_ns, spilled) = work.compress(spilled_rows)?;
    let restore_ns = work.restore_ns(spilled_rows)?;
    let mut read = work.scan(Step::Divide, PARTITIONING, table)?;
    read.user_ns += work.scatter_ns(rows, partitions) + compress_ns;
    read.flows.push(Flow::write(Role::Spill, spilled).ahead(UNITS_AHEAD));
    read.buffer_bytes = resident + partitions * work.threads() * work.spill_block;
    let mut last = emit(work, rows, partitions, key);
    // The next partition of each thread, too, if the memory allows it; one at least.
    last.flows.push(Flow::read_randomly(Role::Spill, spilled).ahead(work.threads() as usize));
    last.user_ns += restore_ns;
    last.fill_bytes = spilled / partitions;
    last.buffer_bytes = resident + rows.bytes() / partitions * PARTITION_SKEW_RATIO * (work.threads() + 1.0);
    Ok(Sorted { before: vec![work.sample(table, key)?, read], last })
}

/// Returns the stage that sorts and gathers partitions, one thread per partition.
fn emit(work: &Work<'_>, rows: Rows, partitions: f64, key: KeyShape) -> Stage {
    let portion = rows.count / partitions;
    let user_ns = work.sort_ns(rows, portion, key) + work.gather_ns(rows, rows.bytes() / partitions);
    let entries = portion * PARTITION_SKEW_RATIO * SORT_ENTRY_BYTES;
    Stage {
        step: Step::EmitPartitions,
        records: EMITTING_PARTITIONS,
        user_ns,
        portions: partitions,
        heap_bytes: work.threads() * entries + work.batches_bytes(rows),
        ..Stage::default()
    }
}

fn runs_and_merge(
    work: &Work<'_>,
    table: usize,
    rows: Rows,
    (run_bytes, fan_in, passes): (f64, f64, u64),
    key: KeyShape,
) -> Result<Sorted, CostError> {
    let run_bytes = run_bytes.min((rows.bytes() / work.threads()).max(rows.shape.bytes));
    let run_rows = run_bytes / rows.shape.bytes;
    let runs = (rows.bytes() / run_bytes).ceil().max(1.0);
    let mut read = work.scan(Step::MakeRuns, MAKING_RUNS, table)?;
    read.user_ns += work.scatter_ns(rows, 1.0);
    read.user_ns += work.sort_ns(rows, run_rows, key.in_runs(run_rows / rows.count.max(1.0)));
    read.buffer_bytes = work.threads() * (run_bytes + 2.0 * work.spill_block);
    read.heap_bytes += work.threads() * run_rows * SORT_ENTRY_BYTES;
    if passes == 0 {
        let mut last = merged(work, rows, runs, key);
        last.user_ns += work.gather_ns(rows, run_bytes);
        last.buffer_bytes = read.buffer_bytes;
        return Ok(Sorted { before: vec![read], last });
    }
    let (compress_ns, spilled) = work.compress(rows)?;
    let restore_ns = work.restore_ns(rows)?;
    // The rows of a run are copied to its chunks in order, from all over its memory.
    read.user_ns += work.gather_ns(rows, run_bytes) + compress_ns;
    read.flows.push(Flow::write(Role::Spill, spilled).ahead(UNITS_AHEAD));
    let mut before = vec![read];
    let inputs = fan_in.min(runs);
    let merge_buffers = inputs * MERGE_BLOCKS as f64 * work.spill_block;
    for _ in 1..passes {
        let mut again = merged(work, rows, inputs, key);
        again.step = Step::MergeAgain;
        again.flows = vec![
            Flow::read_randomly(Role::Spill, spilled).ahead(UNITS_AHEAD),
            Flow::write(Role::Spill, spilled).ahead(UNITS_AHEAD),
        ];
        again.user_ns += compress_ns + restore_ns;
        again.serial_ns = again.user_ns;
        again.buffer_bytes = merge_buffers + 2.0 * work.spill_block;
        before.push(again);
    }
    // The last merge's fan-in is the number of runs that the passes before leave.
    let left = (runs / fan_in.powf(passes as f64 - 1.0)).ceil().clamp(1.0, inputs);
    let mut last = merged(work, rows, left, key);
    last.flows.push(Flow::read_randomly(Role::Spill, spilled).ahead(UNITS_AHEAD));
    last.serial_ns += restore_ns;
    // Rows come in order: their gathering reads memory one row after the other.
    last.user_ns += restore_ns + work.gather_ns(rows, 1.0);
    last.fill_bytes = left * work.spill_block;
    last.buffer_bytes = merge_buffers;
    Ok(Sorted { before, last })
}

/// Merges runs by one thread at a time.
fn merged(work: &Work<'_>, rows: Rows, runs: f64, key: KeyShape) -> Stage {
    let merge_ns = work.costs.merge_ns_per_row.at(runs) + key.in_runs(1.0).ns(runs, work.costs);
    let ns = rows.count * merge_ns + rows.bytes() * work.costs.copy_ns_per_byte;
    let heap_bytes = work.batches_bytes(rows);
    Stage {
        step: Step::EmitMerged,
        records: EMITTING_MERGED,
        user_ns: ns,
        serial_ns: ns,
        heap_bytes,
        ..Stage::default()
    }
}

fn top(work: &Work<'_>, table: usize, rows: Rows) -> Result<Sorted, CostError> {
    let mut read = work.scan(Step::KeepFirst, MAKING_RUNS, table)?;
    // The code of each row is compared with that of the last row that is kept; most rows are not packed.
    read.user_ns += rows.count * work.costs.scatter.ns_per_row.at(1.0);
    let limit = match work.task.operator {
        Operator::Sort { limit_rows: Some(limit), .. } => limit,
        _ => u64::MAX,
    };
    let kept = Rows { count: (limit as f64).min(rows.count), ..rows };
    let collected = Rows { count: (collected_rows(limit) as f64).min(rows.count), ..rows };
    read.buffer_bytes = collected.bytes() * work.threads();
    read.heap_bytes += collected.count * SORT_ENTRY_BYTES * work.threads();
    let last = Stage {
        step: Step::EmitPartitions,
        records: EMITTING_PARTITIONS,
        user_ns: work.gather_ns(kept, kept.bytes()),
        ..Stage::default()
    };
    Ok(Sorted { before: vec![read], last })
}
