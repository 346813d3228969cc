//! Plans as trees of operators.

use serde::Serialize;

use super::operators::Codec;
use super::plan::{Algorithm, Plan, SortMethod};
use super::shape::{Side, TableShape, Task};

/// An operator of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// Its name and options: `sort by range partitioning, 64 partitions`.
    pub operator: String,
    /// Rows that it emits; `None` if unknown.
    pub rows: Option<u64>,
    /// Bytes of its file I/O.
    pub bytes: u64,
    /// Its input operators.
    pub inputs: Vec<Node>,
}

/// Returns the tree of a plan, the result at its root.
pub(crate) fn tree(task: &Task, plan: &Plan) -> Node {
    let inputs = match plan.algorithm {
        Algorithm::Sort { sort } => vec![sorted(task, plan, 0, sort)],
        Algorithm::MergeJoin { left, right } => {
            vec![sorted(task, plan, 0, left), sorted(task, plan, 1, right)]
        }
        Algorithm::HashJoin { build: Side::Left, .. } => vec![scan(task, plan, 0), scan(task, plan, 1)],
        Algorithm::HashJoin { build: Side::Right, .. } => vec![scan(task, plan, 1), scan(task, plan, 0)],
        Algorithm::HashAggregate { .. } => vec![scan(task, plan, 0)],
    };
    let rows = task.output.as_ref().map(|output| output.rows);
    let operator = plan.algorithm.describe();
    let root = match (plan.algorithm, inputs) {
        (Algorithm::Sort { .. }, mut inputs) if inputs.len() == 1 => inputs.remove(0),
        (_, inputs) => Node { operator, rows, bytes: 0, inputs },
    };
    let Some(output) = &task.output else { return root };
    let page_cache = plan.output.map_or("buffered", |output| output.page_cache.name());
    let operator = format!("write {:?} ({page_cache})", output.format);
    Node { operator, rows, bytes: bytes(output), inputs: vec![root] }
}

fn scan(task: &Task, plan: &Plan, table: usize) -> Node {
    let shape = &task.tables[table];
    let operator = format!("scan table {} ({:?}, {})", table + 1, shape.format, plan.input.page_cache.name());
    let scanned = Node { operator, rows: Some(shape.rows), bytes: bytes(shape), inputs: Vec::new() };
    if table > 0 || (task.expressions == 0 && task.selected_ratio >= 1.0) {
        return scanned;
    }
    let rows = (shape.rows as f64 * task.selected_ratio).round() as u64;
    Node { operator: "filter and project".to_owned(), rows: Some(rows), bytes: 0, inputs: vec![scanned] }
}

fn sorted(task: &Task, plan: &Plan, table: usize, method: SortMethod) -> Node {
    let input = scan(task, plan, table);
    if method == SortMethod::AlreadySorted {
        return input;
    }
    let compression = match plan.spill {
        Some(spill) if spill.codec != Codec::None => format!(", spill compressed by {:?}", spill.codec),
        _ => String::new(),
    };
    let operator = format!("sort: {}{compression}", sizes(method));
    Node { operator, rows: input.rows, bytes: 0, inputs: vec![input] }
}

fn bytes(table: &TableShape) -> u64 {
    table.columns.iter().map(|column| column.file_bytes).sum()
}

/// Describes a sort method with its sizes.
fn sizes(method: SortMethod) -> String {
    match method {
        SortMethod::InMemory { partitions, .. } => format!("{}, {partitions} partitions", method.name()),
        SortMethod::RangePartition { partitions, .. } => {
            format!("{}, {partitions} partitions", method.name())
        }
        SortMethod::RunsAndMerge { run_bytes, passes: 0, .. } => {
            format!("runs in memory and merge, runs of {run_bytes} bytes")
        }
        SortMethod::RunsAndMerge { run_bytes, fan_in, passes, .. } => {
            format!("{}, runs of {run_bytes} bytes, {fan_in} at a time, passes: {passes}", method.name())
        }
        SortMethod::TopN | SortMethod::AlreadySorted => method.name().to_owned(),
    }
}
