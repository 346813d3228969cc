//! The operators.

use std::path::Path;

use sakiyomi_expression::Expression;
use sakiyomi_expression::tree::{Tree, type_name};
use sakiyomi_stream::{Overload, Snapshot};
use serde::Serialize;

use super::{EXPORT_VERSION, refused, saved};
use crate::Error;
use crate::output::SavedOutput;
use crate::plan::{Bound, BoundCall, Layout, Plan, Role};
use crate::source::SavedSource;
use crate::spec::{Late, OnBad, Origin, OutputFormat, RecordFormat, SinkSpec, SourceSpec, Target, Window};
use crate::step::Function;

/// The pipeline.
#[derive(Serialize)]
pub(super) struct Job {
    version: u32,
    nodes: Vec<Operator>,
}

/// A source, step or sink.
#[derive(Serialize)]
struct Operator {
    /// Its name, which identifies its state.
    uid: String,
    /// Numbers of the operators whose rows it takes.
    inputs: Vec<usize>,
    /// Types of the cells of its rows.
    row: Vec<&'static str>,
    /// The cell of the event time.
    time: Option<Time>,
    /// Rows and records that cannot be computed are dropped.
    skips_bad: bool,
    #[serde(flatten)]
    task: Task,
}

/// A cell of event times.
#[derive(Clone, Copy, Serialize)]
struct Time {
    cell: usize,
    unit_ns: u64,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Task {
    Source(Source),
    Filter {
        condition: Tree,
    },
    Select {
        items: Vec<Tree>,
    },
    Aggregate {
        keys: Vec<Tree>,
        calls: Vec<Call>,
        window: Span,
        window_unit_ns: Option<u64>,
    },
    Join {
        keys: [Vec<usize>; 2],
        /// Cells of each input that the output has.
        columns: [Vec<usize>; 2],
        within_ns: u64,
    },
    Sink {
        columns: Vec<Column>,
        /// None of a sink that discards its rows.
        path: Option<String>,
        /// Bytes of the file at the snapshot.
        length: Option<u64>,
    },
}

#[derive(Serialize)]
struct Source {
    path: String,
    /// The file is followed while it grows.
    tail: bool,
    format: &'static str,
    separator: Option<char>,
    header: bool,
    /// For each field of a record its number in `fields`; none while the header is awaited.
    header_order: Option<Vec<Option<usize>>>,
    fields: Vec<Field>,
    out_of_order_ns: u64,
    /// Where to continue, in bytes.
    offset: u64,
    /// The latest event time and the last watermark before.
    max_ns: u64,
    watermark_ns: u64,
}

#[derive(Serialize)]
struct Field {
    name: String,
    #[serde(rename = "type")]
    data_type: &'static str,
    /// None of a field that is not used.
    cell: Option<usize>,
}

#[derive(Serialize)]
struct Call {
    function: &'static str,
    argument: Option<Tree>,
    #[serde(rename = "type")]
    data_type: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Span {
    /// All rows.
    All,
    Tumbling {
        size_ns: u64,
    },
    Session {
        gap_ns: u64,
    },
}

#[derive(Serialize)]
struct Column {
    name: String,
    #[serde(rename = "type")]
    data_type: &'static str,
}

/// Returns the operators of a plan.
///
/// # Errors
/// Returns the errors of [`super::export`].
pub(super) fn job(plan: &Plan, snapshot: Option<&Snapshot>, base: &Path) -> Result<Job, Error> {
    let nodes = (0..plan.nodes.len()).map(|node| operator(plan, node, snapshot, base));
    Ok(Job { version: EXPORT_VERSION, nodes: nodes.collect::<Result<_, _>>()? })
}

fn operator(plan: &Plan, node: usize, snapshot: Option<&Snapshot>, base: &Path) -> Result<Operator, Error> {
    let (found, layout) = (&plan.nodes[node], &plan.layouts[node]);
    let state = snapshot.and_then(|snapshot| saved(snapshot, &found.name));
    let (task, on_bad) = match plan.role(node) {
        Role::Source(index) => {
            let spec = &plan.sources[index];
            (Task::Source(source(spec, &found.name, layout, state, base)?), spec.bad)
        }
        Role::Step(index) => (step(plan, node)?, plan.steps[index].bad),
        Role::Sink(index) => (sink(plan, node, &plan.sinks[index], state, base)?, OnBad::Stop),
    };
    // Results of windows and joins have their time as the last cell, in nanoseconds.
    let has_own_time = match &found.bound {
        Bound::Aggregate { window, .. } => window.is_some(),
        Bound::Join { .. } => true,
        _ => false,
    };
    let width = layout.columns.len();
    let time = match (layout.time, has_own_time) {
        (_, true) => Some(Time { cell: width, unit_ns: 1 }),
        (time, false) => time.map(|time| Time { cell: time.cell, unit_ns: time.unit_ns }),
    };
    let mut row = types(plan, node)?;
    if time.is_some_and(|time| time.cell == width) {
        row.push("timestamp(ns)");
    }
    let skips_bad = on_bad == OnBad::Skip;
    Ok(Operator { uid: found.name.clone(), inputs: found.inputs.clone(), row, time, skips_bad, task })
}

/// Returns the types of the columns of a node that are used.
fn types(plan: &Plan, node: usize) -> Result<Vec<&'static str>, Error> {
    let found = &plan.nodes[node];
    let type_of = |&column: &usize| {
        let field = found.schema.field(column);
        type_name(field.data_type()).ok_or_else(|| {
            let (column, data_type) = (field.name(), field.data_type());
            refused(
                &found.name,
                &format!("column {column} is {data_type}, which cannot be exported; cast it"),
            )
        })
    };
    plan.layouts[node].columns.iter().map(type_of).collect()
}

fn source(
    source: &SourceSpec,
    name: &str,
    layout: &Layout,
    state: Option<&[u8]>,
    base: &Path,
) -> Result<Source, Error> {
    let refused = |reason: &str| refused(name, reason);
    let (path, tail) = match &source.origin.value {
        Origin::File { path, .. } => (path, false),
        Origin::Tail { path, .. } => (path, true),
        other => {
            let shown = other.shown();
            return Err(refused(&format!(
                "{shown} cannot be reread from an offset; write it to a file first"
            )));
        }
    };
    let (format, separator, header) = match &source.format {
        RecordFormat::Csv { separator, header } => ("csv", Some(char::from(*separator)), *header),
        RecordFormat::Json => ("json", None, false),
        _ => return Err(refused("only the formats csv and json can be exported")),
    };
    if source.overload != Overload::Wait {
        return Err(refused("overload = \"shed\" cannot be exported; remove it"));
    }
    let clock = source.event_time.as_ref().filter(|_| layout.time.is_some());
    if clock.is_some_and(|time| time.late != Late::Drop) {
        return Err(refused("late = \"allow\" cannot be exported; remove it"));
    }
    if clock.is_some_and(|time| time.idle_ns.is_some()) {
        return Err(refused("idle cannot be exported; remove it"));
    }
    let field = |(index, field): (usize, &arrow_schema::FieldRef)| {
        let known = layout.columns.iter().position(|&column| column == index);
        let time = layout.time.filter(|_| clock.is_some_and(|time| time.column == index));
        let cell = known.or(time.map(|time| time.cell));
        // The values of unused fields are not looked at.
        let data_type = type_name(field.data_type()).unwrap_or("null");
        Field { name: field.name().clone(), data_type, cell }
    };
    let saved = state.map(SavedSource::load).transpose();
    let saved = saved.map_err(|error| refused(&error.to_string()))?.unwrap_or_default();
    let (max_ns, watermark_ns) = saved.clock.unwrap_or_default();
    Ok(Source {
        path: below(base, path),
        tail,
        format,
        separator,
        header,
        header_order: saved.header,
        fields: source.schema.fields().iter().enumerate().map(field).collect(),
        out_of_order_ns: clock.map_or(0, |time| time.out_of_order_ns),
        offset: saved.offset,
        max_ns,
        watermark_ns,
    })
}

fn below(base: &Path, path: &Path) -> String {
    base.join(path).display().to_string()
}

fn step(plan: &Plan, node: usize) -> Result<Task, Error> {
    let found = &plan.nodes[node];
    let (name, input) = (&found.name, &plan.layouts[found.inputs[0]]);
    let tree = |expression: &Expression| {
        let tree = expression.clone().onto(&input.columns).tree();
        tree.map_err(|error| refused(name, &error.to_string()))
    };
    let without = |reason: &str| Err(refused(name, reason));
    Ok(match &found.bound {
        Bound::Filter(condition) => Task::Filter { condition: tree(condition)? },
        Bound::Select(projection) => {
            let layout = &plan.layouts[node];
            let used = layout.columns.iter().map(|&column| &projection.expressions()[column]);
            let mut items = used.map(tree).collect::<Result<Vec<Tree>, _>>()?;
            if let (Some(to), Some(from)) = (layout.time, input.time)
                && to.cell == items.len()
            {
                items.push(cell(from.cell));
            }
            Task::Select { items }
        }
        Bound::Aggregate { keys, calls, window, window_unit_ns } => {
            let window = match *window {
                None => Span::All,
                Some(Window::Tumbling { size_ns }) => Span::Tumbling { size_ns },
                Some(Window::Session { gap_ns }) => Span::Session { gap_ns },
                Some(Window::Sliding { .. }) => {
                    return without("sliding windows cannot be exported; use tumbling ones");
                }
            };
            let keys = keys.iter().map(tree).collect::<Result<Vec<Tree>, _>>()?;
            if keys.iter().any(|key| key.data_type == "float64") {
                return without(FLOAT_KEY);
            }
            let calls = calls.iter().map(|call| aggregate_call(name, call, &tree));
            Task::Aggregate {
                keys,
                calls: calls.collect::<Result<_, _>>()?,
                window,
                window_unit_ns: *window_unit_ns,
            }
        }
        Bound::Join { keys, columns, within_ns } => {
            let schema = &plan.nodes[found.inputs[0]].schema;
            if keys[0].iter().any(|&key| schema.field(key).data_type().is_floating()) {
                return without(FLOAT_KEY);
            }
            let cells = |columns: &[Vec<usize>; 2]| {
                [0, 1].map(|side| plan.layouts[found.inputs[side]].cells(&columns[side]))
            };
            Task::Join { keys: cells(keys), columns: cells(columns), within_ns: *within_ns }
        }
        Bound::Top { .. } => return without("top cannot be exported; remove it"),
        Bound::Distinct { .. } => return without("distinct cannot be exported; use an aggregate"),
        Bound::Lookup { .. } => return without("lookup cannot be exported; remove it"),
        Bound::Append => return without("append cannot be exported; use a sink"),
        Bound::Source | Bound::Sink => unreachable!("the node is a step"),
    })
}

/// Why a key is refused: engines do not agree which floats are equal.
const FLOAT_KEY: &str = "a floating-point key cannot be exported; cast it";

/// Returns an expression that is a cell.
fn cell(cell: usize) -> Tree {
    let (inputs, sql) = (Vec::new(), String::new());
    Tree { op: "column", data_type: "timestamp(ns)", column: Some(cell), value: None, inputs, sql }
}

fn aggregate_call(
    name: &str,
    call: &BoundCall,
    tree: &impl Fn(&Expression) -> Result<Tree, Error>,
) -> Result<Call, Error> {
    let function = match call.function {
        Function::Count => "count",
        Function::Sum => "sum",
        Function::Avg => "avg",
        Function::Min => "min",
        Function::Max => "max",
        Function::CountDistinct => {
            return Err(refused(name, "count(distinct …) cannot be exported; remove it"));
        }
    };
    let data_type = type_name(&call.data_type).ok_or_else(|| {
        refused(name, &format!("{} is {}, which cannot be exported; cast it", call.name, call.data_type))
    })?;
    Ok(Call { function, argument: call.argument.as_ref().map(tree).transpose()?, data_type })
}

fn sink(plan: &Plan, node: usize, sink: &SinkSpec, state: Option<&[u8]>, base: &Path) -> Result<Task, Error> {
    let found = &plan.nodes[node];
    let refused = |reason: &str| refused(&found.name, reason);
    let path = match &sink.target.value {
        Target::File { path, .. } => below(base, path),
        Target::Discard => return Ok(Task::Sink { columns: Vec::new(), path: None, length: None }),
        other => return Err(refused(&format!("{} is not a file; write to one", other.shown()))),
    };
    if sink.format != OutputFormat::Json {
        return Err(refused("only the format json can be exported"));
    }
    let saved = state.map(SavedOutput::load).transpose().map_err(|error| refused(&error.to_string()))?;
    let columns = types(plan, node)?.into_iter().zip(found.schema.fields());
    let columns = columns.map(|(data_type, field)| Column { name: field.name().clone(), data_type });
    let length = saved.and_then(|saved| saved.extent).map(|extent| extent.length);
    Ok(Task::Sink { columns: columns.collect(), path: Some(path), length })
}
