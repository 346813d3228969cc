//! The stages of joins: sort-merge (mission B, table 1) and hash.

use super::error::CostError;
use super::flow::{Flow, Role};
use super::plan::SortMethod;
use super::records::{STREAMING, of_side};
use super::shape::{KeyShape, RowShape, Side};
use super::sort::sorted;
use super::stage::Stage;
use super::step::Step;
use super::work::{PARTITION_SKEW_RATIO, Rows, Work};
use crate::batch_spill::BATCH_BLOCKS_AHEAD;
use crate::join::hash::build::{BUILD_COPIES, ENTRY_BYTES};
use crate::join::hash::memory::OTHER_BLOCKS;
use crate::join::hash::partition::PARTITION_COUNT;

/// Partitions of a pass over both sides after the first one.
const HASH_PARTITIONS: u64 = PARTITION_COUNT as u64;
/// Passes at most: 4,096 partitions at least.
pub(crate) const HASH_PASSES_MAX: u32 = 3;

/// Partitions after some passes, of which the first divides into `first`, 16 to 255.
pub(crate) fn hash_partitions(first: u64, passes: u32) -> u64 {
    passes.checked_sub(1).map_or(1, |again| first * HASH_PARTITIONS.pow(again))
}

/// Returns the stages of a join of sorted tables: both sorts, and the last stages of both together. All threads join
/// pairs of partitions; of other sorts, one thread for each side puts its rows in order, and one more joins them.
pub(crate) fn merge_join(
    work: &Work<'_>,
    methods: [SortMethod; 2],
    key: KeyShape,
) -> Result<Vec<Stage>, CostError> {
    let [left, right] = [work.rows(0), work.rows(1)];
    let left_sorted = sorted(work, 0, left, methods[0], key)?;
    let right_sorted = sorted(work, 1, right, methods[1], key)?;
    let held = left_sorted.last.buffer_bytes;
    let of = |side| move |stage: Stage| Stage { records: of_side(stage.records, side), ..stage };
    let mut stages: Vec<Stage> = left_sorted.before.into_iter().map(of(Side::Left)).collect();
    // The first side's rows stay in its memory while the second is read.
    stages.extend(right_sorted.before.into_iter().map(of(Side::Right)).map(|stage| {
        let buffer_bytes = stage.buffer_bytes + held;
        Stage { buffer_bytes, ..stage }
    }));
    let (a, b) = (left_sorted.last, right_sorted.last);
    let merge_ns = (left.count + right.count) * work.costs.merge_join_ns_per_row;
    let is_partitioned = |method: &SortMethod| {
        matches!(method, SortMethod::InMemory { .. } | SortMethod::RangePartition { .. })
    };
    let is_divided = methods.iter().all(is_partitioned);
    let mut join = Stage {
        step: Step::MergeJoin,
        records: a.records,
        flows: a.flows.into_iter().chain(b.flows).collect(),
        user_ns: a.user_ns + b.user_ns + merge_ns,
        serial_ns: if is_divided { 0.0 } else { a.user_ns.max(b.user_ns).max(merge_ns) },
        portions: if is_divided { a.portions.min(b.portions) } else { 0.0 },
        fill_bytes: a.fill_bytes + b.fill_bytes,
        buffer_bytes: a.buffer_bytes + b.buffer_bytes,
        heap_bytes: a.heap_bytes + b.heap_bytes,
        ..Stage::default()
    };
    work.write_result(&mut join)?;
    stages.push(join);
    Ok(stages)
}

/// Bytes of rows in batches over those of packed rows: validity, padding, and dictionaries, which each batch has.
const BATCH_RATIO: f64 = 1.2;

/// Returns the rows as they are in batches, in memory and spilled.
fn in_batches(rows: Rows) -> Rows {
    Rows { shape: RowShape { bytes: rows.shape.bytes * BATCH_RATIO, ..rows.shape }, ..rows }
}

/// Returns the bytes of the table of a partition of one side's rows. Batches are concatenated.
pub(crate) fn table_bytes(rows: Rows, partitions: u64) -> f64 {
    let row_bytes = in_batches(rows).shape.bytes * BUILD_COPIES as f64 + ENTRY_BYTES as f64;
    rows.count * row_bytes / partitions as f64
}

/// Returns the stages of a join by a table of one side's rows. Threads read and decode both sides; one thread builds
/// a table, and all look up. If the table exceeds the memory, all threads partition both sides and join pairs of
/// partitions, as many at once as have their tables in half of the memory.
pub(crate) fn hash_join(work: &Work<'_>, build: Side, partitions: u64) -> Result<Vec<Stage>, CostError> {
    let [built, probed] = [build.index(), build.other().index()];
    let table = work.rows(built);
    let needed_bytes = table_bytes(table, partitions);
    let build_ns = built_ns(work, table, needed_bytes);
    let probe_ns = probed_ns(work, work.rows(probed), table, needed_bytes);
    if partitions <= 1 {
        let mut build = work.scan(Step::Build, STREAMING, built)?;
        build.user_ns += build_ns;
        build.serial_ns = build_ns;
        build.heap_bytes += needed_bytes;
        let mut join = work.scan(Step::HashJoin, STREAMING, probed)?;
        join.user_ns += probe_ns;
        join.heap_bytes += needed_bytes;
        work.write_result(&mut join)?;
        return Ok(vec![build, join]);
    }
    let mut stages = Vec::new();
    let mut join = Stage { step: Step::HashJoin, records: STREAMING, ..Stage::default() };
    for side in [built, probed] {
        stages.extend(partitioned(work, side, partitions)?);
        let rows = in_batches(work.rows(side));
        let (_, spilled) = work.compress(rows)?;
        join.flows.push(Flow::read_randomly(Role::Spill, spilled).ahead(0));
        join.user_ns += work.restore_ns(rows)?;
        join.fill_bytes += spilled / partitions as f64;
    }
    join.user_ns += build_ns + probe_ns;
    let tables = work.heap / 2.0 / (needed_bytes * PARTITION_SKEW_RATIO).max(1.0);
    join.serial_ns = join.user_ns / tables.floor().clamp(1.0, work.threads());
    join.portions = partitions as f64;
    join.buffer_bytes = 2.0 * RUN_BLOCKS * work.spill_block;
    join.heap_bytes = needed_bytes * PARTITION_SKEW_RATIO + work.batches_bytes(table);
    work.write_result(&mut join)?;
    stages.push(join);
    Ok(stages)
}

/// Blocks of a run of batches in memory: one that is filled or decoded, and those in flight.
const RUN_BLOCKS: f64 = (1 + BATCH_BLOCKS_AHEAD) as f64;

/// Partitions one side, in several passes if there are many partitions.
fn partitioned(work: &Work<'_>, side: usize, partitions: u64) -> Result<Vec<Stage>, CostError> {
    let rows = in_batches(work.rows(side));
    let (compress_ns, spilled) = work.compress(rows)?;
    let passes = partitions.ilog(HASH_PARTITIONS);
    let first = partitions / HASH_PARTITIONS.pow(passes.saturating_sub(1));
    let divide_ns = |count: u64| work.costs.partition.ns(rows.count, rows.shape, count as f64) + compress_ns;
    let again_ns = divide_ns(HASH_PARTITIONS) + work.restore_ns(rows)?;
    let mut read = work.scan(Step::Partition, STREAMING, side)?;
    read.user_ns += divide_ns(first);
    read.flows.push(Flow::write(Role::Spill, spilled).ahead(0));
    read.buffer_bytes = (first as f64 + OTHER_BLOCKS as f64) * work.spill_block;
    let buffer_bytes = (HASH_PARTITIONS + 1) as f64 * RUN_BLOCKS * work.spill_block;
    let again = Stage {
        step: Step::PartitionAgain,
        records: STREAMING,
        flows: vec![
            Flow::read_randomly(Role::Spill, spilled).ahead(0),
            Flow::write(Role::Spill, spilled).ahead(0),
        ],
        user_ns: again_ns,
        portions: first as f64,
        buffer_bytes,
        ..Stage::default()
    };
    let again = std::iter::repeat_n(again, (passes as usize).saturating_sub(1));
    Ok(std::iter::once(read).chain(again).collect())
}

fn built_ns(work: &Work<'_>, table: Rows, table_bytes: f64) -> f64 {
    table.count * work.costs.hash_build_ns_per_row.at(table_bytes.max(1.0)) + work.scatter_ns(table, 1.0)
}

/// CPU time to probe the table and gather the matching rows of both sides, in nanoseconds.
fn probed_ns(work: &Work<'_>, probe: Rows, table: Rows, table_bytes: f64) -> f64 {
    let result = work.task.output.as_ref().map_or(probe.count, |output| output.rows as f64);
    let [met, own] = [table, probe].map(|side| Rows { count: result, ..side });
    let probe_ns = probe.count * work.costs.hash_probe_ns_per_row.at(table_bytes.max(1.0));
    // The rows of a batch of the probe side are in caches.
    probe_ns + work.gather_ns(met, table_bytes) + work.gather_ns(own, 1.0)
}
