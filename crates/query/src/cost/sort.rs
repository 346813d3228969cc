//! The stages of a sort (facts section 7).
//!
//! - *In memory*: decode and scatter to partitions; then sort, gather and encode each.
//! - *Range partitioning*: the same, with chunks of partitions spilled and reloaded. Each further pass repartitions
//!   partitions that are still too large.
//! - *Runs and merge*: fill memory, sort, write a run; merge runs with a loser tree, the final merge on one thread.
//! - *Top N*: keep the first rows.

use super::error::CostError;
use super::flow::{Flow, Role};
use super::plan::SortMethod;
use super::records::{DIVIDING, GIVING_MERGED, GIVING_PARTITIONS, MAKING_RUNS, STREAMING};
use super::shape::KeyShape;
use super::stage::Stage;
use super::work::{PARTITION_SKEW_RATIO, Rows, SORT_ENTRY_BYTES, Work};

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
        SortMethod::InMemory { partitions } => in_memory(work, table, rows, partitions as f64, key),
        SortMethod::RangePartition { partitions, passes, resident_bytes } => {
            range_partition(work, table, rows, partitions as f64, (passes, resident_bytes as f64), key)
        }
        SortMethod::RunsAndMerge { run_bytes, fan_in, passes } => {
            runs_and_merge(work, table, rows, (run_bytes as f64, fan_in as f64, passes), key)
        }
        SortMethod::TopN => top(work, table, rows),
        SortMethod::AlreadySorted => {
            Ok(Sorted { before: Vec::new(), last: work.scan("read", STREAMING, table)? })
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
    let mut read = work.scan("read", DIVIDING, table)?;
    read.user_ns += work.scatter_ns(rows, partitions);
    read.buffer_bytes = rows.bytes() + partitions * work.threads() * work.spill_block;
    let mut last = emit(work, rows, partitions, key);
    last.buffer_bytes = read.buffer_bytes;
    Ok(Sorted { before: vec![work.sample(DIVIDING, table), read], last })
}

fn range_partition(
    work: &Work<'_>,
    table: usize,
    rows: Rows,
    partitions: f64,
    (passes, resident): (u64, f64),
    key: KeyShape,
) -> Result<Sorted, CostError> {
    let resident = resident.min(rows.bytes());
    let spilled_rows = Rows { count: (rows.bytes() - resident) / rows.row_bytes, ..rows };
    let (compress_ns, spilled) = work.compress(spilled_rows)?;
    let restore_ns = work.restore_ns(spilled_rows)?;
    let scattered = |mut stage: Stage| {
        stage.user_ns += work.scatter_ns(rows, partitions) + compress_ns;
        stage.flows.push(Flow::write(Role::Spill, spilled));
        stage.buffer_bytes = resident + partitions * work.threads() * work.spill_block;
        stage
    };
    let mut before = vec![work.sample(DIVIDING, table), scattered(work.scan("read", DIVIDING, table)?)];
    for _ in 1..passes {
        let flows = vec![Flow::read_randomly(Role::Spill, spilled)];
        let mut again = scattered(Stage {
            name: "partition again",
            records: GIVING_PARTITIONS,
            flows,
            ..Stage::default()
        });
        again.user_ns += restore_ns;
        again.buffer_bytes += work.threads() * work.spill_block;
        before.push(again);
    }
    let parts = partitions.powf(passes as f64);
    let mut last = emit(work, rows, parts, key);
    last.flows.push(Flow::read_randomly(Role::Spill, spilled));
    last.user_ns += restore_ns;
    last.fill_bytes = spilled / parts;
    // One partition per thread, and one prefetched.
    last.buffer_bytes = resident + rows.bytes() / parts * PARTITION_SKEW_RATIO * (work.threads() + 1.0);
    Ok(Sorted { before, last })
}

/// The stage that sorts and gathers partitions, one thread per partition.
fn emit(work: &Work<'_>, rows: Rows, partitions: f64, key: KeyShape) -> Stage {
    let portion = rows.count / partitions;
    let user_ns = work.sort_ns(rows, portion, key) + work.gather_ns(rows, rows.bytes() / partitions);
    let entries = portion * PARTITION_SKEW_RATIO * SORT_ENTRY_BYTES;
    Stage {
        name: "write",
        records: GIVING_PARTITIONS,
        user_ns,
        portions: partitions,
        drain_ns: 0.0,
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
    let (compress_ns, spilled) = work.compress(rows)?;
    let restore_ns = work.restore_ns(rows)?;
    let run_rows = (run_bytes / rows.row_bytes).min(rows.count);
    let mut read = work.scan("read", MAKING_RUNS, table)?;
    read.user_ns += work.scatter_ns(rows, 1.0)
        + work.sort_ns(rows, run_rows, key)
        + work.gather_ns(rows, run_bytes.min(rows.bytes()))
        + compress_ns;
    read.flows.push(Flow::write(Role::Spill, spilled));
    read.buffer_bytes = work.threads() * (run_bytes + 2.0 * work.spill_block);
    read.heap_bytes += work.threads() * run_rows * SORT_ENTRY_BYTES;
    let mut before = vec![read];
    let runs = (rows.bytes() / run_bytes).ceil().max(1.0);
    let merge_ns =
        |k: f64| rows.count * work.costs.merge_ns_per_row.at(k) + rows.bytes() * work.costs.copy_ns_per_byte;
    let inputs = fan_in.min(runs);
    let merge_buffers = inputs * 2.0 * work.spill_block;
    for _ in 1..passes {
        before.push(Stage {
            name: "merge",
            records: GIVING_MERGED,
            flows: vec![Flow::read_randomly(Role::Spill, spilled), Flow::write(Role::Spill, spilled)],
            user_ns: merge_ns(inputs) + compress_ns + restore_ns,
            serial_ns: merge_ns(inputs),
            buffer_bytes: merge_buffers + 2.0 * work.spill_block,
            ..Stage::default()
        });
    }
    // The fan-in of the last merge is the number of runs that remain after the earlier passes.
    let merged = (runs / fan_in.powf(passes as f64 - 1.0)).ceil().clamp(1.0, inputs);
    let last = Stage {
        name: "write",
        records: GIVING_MERGED,
        flows: vec![Flow::read_randomly(Role::Spill, spilled)],
        // Rows are in order, so gathering reads memory sequentially.
        user_ns: merge_ns(merged) + restore_ns + work.gather_ns(rows, 1.0),
        serial_ns: merge_ns(merged),
        fill_bytes: merged * work.spill_block,
        buffer_bytes: merge_buffers,
        heap_bytes: work.batches_bytes(rows),
        ..Stage::default()
    };
    Ok(Sorted { before, last })
}

fn top(work: &Work<'_>, table: usize, rows: Rows) -> Result<Sorted, CostError> {
    let mut read = work.scan("read", DIVIDING, table)?;
    read.user_ns += rows.count * work.costs.comparison_ns;
    let kept = work.task.output.as_ref().map_or(0.0, |output| output.rows as f64);
    let kept = Rows { count: kept.min(rows.count), ..rows };
    read.buffer_bytes = 2.0 * kept.bytes() * work.threads();
    let last = Stage {
        name: "write",
        records: GIVING_PARTITIONS,
        user_ns: work.gather_ns(kept, kept.bytes()),
        ..Stage::default()
    };
    Ok(Sorted { before: vec![read], last })
}
