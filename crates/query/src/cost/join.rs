//! The stages of joins: sort-merge (mission B, table 1) and hash.

use super::error::CostError;
use super::flow::{Flow, Role};
use super::plan::SortMethod;
use super::records::STREAMING;
use super::shape::{KeyShape, Side};
use super::sort::sorted;
use super::stage::Stage;
use super::work::{PARTITION_SKEW_RATIO, Rows, Work};

/// Bytes of a hash table per row, in addition to the row: hash, chain link, and free slots.
pub(crate) const HASH_ENTRY_BYTES: f64 = 24.0;

/// The stages of a merge join: those of both sorts, with the last stages of both combined.
pub(crate) fn merge_join(
    work: &Work<'_>,
    methods: [SortMethod; 2],
    key: KeyShape,
) -> Result<Vec<Stage>, CostError> {
    let [left, right] = [work.rows(0), work.rows(1)];
    let left_sorted = sorted(work, 0, left, methods[0], key)?;
    let right_sorted = sorted(work, 1, right, methods[1], key)?;
    let mut stages = left_sorted.before;
    stages.extend(right_sorted.before);
    let (a, b) = (left_sorted.last, right_sorted.last);
    let merge_ns = (left.count + right.count) * work.costs.merge_join_ns_per_row;
    // One thread joins merged streams; many threads join pairs of partitions.
    let is_serial = methods
        .iter()
        .any(|method| matches!(method, SortMethod::RunsAndMerge { .. } | SortMethod::AlreadySorted));
    let mut join = Stage {
        name: "join",
        records: a.records,
        flows: a.flows.into_iter().chain(b.flows).collect(),
        user_ns: a.user_ns + b.user_ns + merge_ns,
        serial_ns: if is_serial { a.serial_ns + b.serial_ns + merge_ns } else { 0.0 },
        portions: if is_serial { 0.0 } else { a.portions.min(b.portions) },
        fill_bytes: a.fill_bytes + b.fill_bytes,
        buffer_bytes: a.buffer_bytes + b.buffer_bytes,
        heap_bytes: a.heap_bytes + b.heap_bytes,
        ..Stage::default()
    };
    work.write_result(&mut join)?;
    stages.push(join);
    Ok(stages)
}

/// The stages of a hash join.
pub(crate) fn hash_join(work: &Work<'_>, build: Side, partitions: f64) -> Result<Vec<Stage>, CostError> {
    let sides = [build.index(), build.other().index()];
    let table = work.rows(sides[0]);
    let table_bytes = table.bytes() + table.count * HASH_ENTRY_BYTES;
    if partitions <= 1.0 {
        let mut built = work.scan("build", STREAMING, sides[0])?;
        built.user_ns += built_ns(work, table, table_bytes);
        built.buffer_bytes = table_bytes;
        let mut probed = work.scan("join", STREAMING, sides[1])?;
        probed.user_ns += probed_ns(work, work.rows(sides[1]), table, table_bytes);
        probed.buffer_bytes = table_bytes;
        work.write_result(&mut probed)?;
        return Ok(vec![built, probed]);
    }
    let mut stages = Vec::new();
    let part_bytes = table_bytes / partitions;
    let mut join = Stage { name: "join", records: STREAMING, portions: partitions, ..Stage::default() };
    for side in sides {
        let rows = work.rows(side);
        let (compress_ns, spilled) = work.compress(rows)?;
        let mut read = work.scan("partition", STREAMING, side)?;
        read.user_ns += work.scatter_ns(rows, partitions) + compress_ns;
        read.flows.push(Flow::write(Role::Spill, spilled));
        read.buffer_bytes = partitions * work.threads() * work.spill_block;
        stages.push(read);
        join.flows.push(Flow::read_randomly(Role::Spill, spilled));
        join.user_ns += work.restore_ns(rows)?;
        join.fill_bytes += spilled / partitions;
    }
    join.user_ns +=
        built_ns(work, table, part_bytes) + probed_ns(work, work.rows(sides[1]), table, part_bytes);
    join.buffer_bytes =
        part_bytes * PARTITION_SKEW_RATIO * (work.threads() + 1.0) + work.threads() * work.spill_block;
    join.heap_bytes = work.batches_bytes(table);
    work.write_result(&mut join)?;
    stages.push(join);
    Ok(stages)
}

fn built_ns(work: &Work<'_>, table: Rows, table_bytes: f64) -> f64 {
    table.count * work.costs.hash_build_ns_per_row.at(table_bytes.max(1.0)) + work.scatter_ns(table, 1.0)
}

/// CPU time to probe the table and gather its matching rows, in nanoseconds.
fn probed_ns(work: &Work<'_>, probe: Rows, table: Rows, table_bytes: f64) -> f64 {
    let result = work.task.output.as_ref().map_or(probe.count, |output| output.rows as f64);
    let met = Rows { count: result, ..table };
    probe.count * work.costs.hash_probe_ns_per_row.at(table_bytes.max(1.0)) + work.gather_ns(met, table_bytes)
}
