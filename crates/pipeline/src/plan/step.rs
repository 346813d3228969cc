//! Steps with their names bound to the columns of their inputs.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use sakiyomi_expression::{Expression, Projection, columns};

use super::calls;
use super::node::{Bound, Names, Node, TimeColumn};
use crate::Error;
use crate::document::At;
use crate::lookup::{FileTable, Rows, Table};
use crate::spec::{Op, StepSpec, Window};

/// Nanoseconds of a millisecond.
const MILLISECOND_NS: u64 = 1_000_000;

/// Suffix of a column of the second input of a join whose name the first input has as well, as of the joins of tables.
const RIGHT_SUFFIX: &str = "_right";

/// Binds a step behind a node.
///
/// # Errors
/// If an expression or a column does not fit the input, or the step needs event times that there are not.
pub(super) fn bind(step: &StepSpec, input: usize, names: &Names<'_>, nodes: &[Node]) -> Result<Node, Error> {
    let (schema, time) = (nodes[input].schema.clone(), nodes[input].time);
    let name = step.name.value.clone();
    let node = |schema, time, bound| Node { name: name.clone(), inputs: vec![input], schema, time, bound };
    let made = match &step.op {
        Op::Filter { condition } => {
            let bound = at(condition, Expression::condition(&condition.value, &schema))?;
            node(schema, time, Bound::Filter(bound))
        }
        Op::Select { columns } => {
            let bound = at(columns, Projection::parse(&columns.value, &schema))?;
            let place = |column| bound.expressions().iter().position(|item| item.as_column() == Some(column));
            let time = time.map(|time| TimeColumn { column: time.column.and_then(place), ..time });
            node(bound.schema(), time, Bound::Select(bound))
        }
        Op::Append { .. } => node(schema, time, Bound::Append),
        Op::Aggregate { by, window, compute } => {
            let window = timed(window.as_ref(), time)?;
            let (fields, time, bound) = aggregate(&schema, by.as_ref(), window, compute, time)?;
            node(unique(fields, compute)?, time, bound)
        }
        Op::Top { k, by, per, window } => {
            let window = timed(window.as_ref(), time)?;
            if let Some(Window::Session { .. }) = window {
                return Err(step.name.error("top does not support session windows; use tumbling windows"));
            }
            let score = at(by, Expression::parse(&by.value, &schema))?;
            let keys = per.as_ref().map(|per| at(per, Projection::parse(&per.value, &schema))).transpose()?;
            // Results of windows are ranked among those of the same end.
            let results = time.filter(|time| time.is_window).map(|_| Window::Tumbling { size_ns: 1 });
            let window = window.or(results);
            let mut fields = vec![Arc::new(Field::new("rank", DataType::Int64, false))];
            fields.extend(schema.fields().iter().cloned());
            let time =
                window.and(time).map(|time| TimeColumn { column: None, unit_ns: 1, is_window: true, ..time });
            let keys = keys.map_or_else(Vec::new, |keys| keys.expressions().to_vec());
            let k = usize::try_from(*k).unwrap_or(usize::MAX);
            node(unique(fields, by)?, time, Bound::Top { k, score, keys, window })
        }
        Op::Distinct { by, window, keys_max } => {
            let window_ns = match timed(window.as_ref(), time)? {
                None => None,
                Some(Window::Tumbling { size_ns }) => Some(size_ns),
                Some(_) => {
                    return Err(step
                        .name
                        .error("distinct supports only tumbling windows; write tumbling:1min"));
                }
            };
            let keys = match by {
                None => (0..schema.fields().len()).collect(),
                Some(by) => column_list(by, &by.value, &schema)?,
            };
            let keys_max = usize::try_from(*keys_max).unwrap_or(usize::MAX);
            node(schema, time, Bound::Distinct { keys, window_ns, keys_max })
        }
        Op::Join { with, on, within_ns } => join(step, [input, names.find(with)?], on, *within_ns, nodes)?,
        Op::Lookup { table, on, required } => {
            let found = Table::columns(table, &name)?;
            let keys = key_pairs(on, [&schema, &found])?;
            let (fields, columns) = beside(&schema, &found, &keys);
            let [keys, table_keys] = keys;
            let width = schema.fields().len();
            let table = match table.access {
                None => Rows::Memory(Arc::new(Table::read(table, &name, found, &table_keys)?)),
                Some(access) => {
                    Rows::File(Arc::new(FileTable::read(table, access, &name, found, table_keys)?))
                }
            };
            let bound = Bound::Lookup { keys, width, columns, table, is_required: *required };
            node(unique(fields, on)?, time, bound)
        }
    };
    check_key(step, &made.bound)?;
    Ok(made)
}

/// Refuses replicas of a step whose key is computed: rows are divided before the step.
fn check_key(step: &StepSpec, bound: &Bound) -> Result<(), Error> {
    let (Some(replicas), Bound::Aggregate { keys, .. } | Bound::Top { keys, .. }) = (&step.replicas, bound)
    else {
        return Ok(());
    };
    match keys.iter().all(|key| key.as_column().is_some()) {
        true => Ok(()),
        false => {
            Err(replicas
                .error("the key must be a column; compute it in an earlier select, and name that column"))
        }
    }
}

/// Returns the value, or an error at the place of a text.
fn at<T>(text: &At<String>, result: Result<T, sakiyomi_expression::Error>) -> Result<T, Error> {
    result.map_err(|error| text.error(error.to_string()))
}

/// Returns a window, if the rows have event times.
fn timed(window: Option<&At<Window>>, time: Option<TimeColumn>) -> Result<Option<Window>, Error> {
    match (window, time) {
        (Some(window), None) => {
            Err(window.error("the rows have no event time; write event_time = \"COLUMN\" in their source"))
        }
        (window, _) => Ok(window.map(|window| window.value)),
    }
}

/// Returns a schema, if no two columns have one name.
fn unique(fields: Vec<Arc<Field>>, text: &At<String>) -> Result<SchemaRef, Error> {
    let mut names = BTreeSet::new();
    match fields.iter().find(|field| !names.insert(field.name().as_str())) {
        Some(field) => {
            Err(text.error(format!("two columns of the result are named {}; rename one by AS", field.name())))
        }
        None => Ok(Arc::new(Schema::new(fields))),
    }
}

/// Fields, event time and node of an aggregate.
type Aggregated = (Vec<Arc<Field>>, Option<TimeColumn>, Bound);

fn aggregate(
    schema: &Schema,
    by: Option<&At<String>>,
    window: Option<Window>,
    compute: &At<String>,
    time: Option<TimeColumn>,
) -> Result<Aggregated, Error> {
    let by = by.map(|by| at(by, Projection::parse(&by.value, schema))).transpose()?;
    let calls = calls::parse(&compute.value, schema).map_err(|problem| compute.error(problem))?;
    let unit = window.zip(time).map(|(window, time)| window_unit(window, time));
    let mut fields = Vec::new();
    if let Some(unit) = unit {
        for name in ["window_start", "window_end"] {
            fields.push(Arc::new(Field::new(name, DataType::Timestamp(unit, None), false)));
        }
    }
    fields.extend(by.iter().flat_map(|by| by.schema().fields().iter().cloned().collect::<Vec<_>>()));
    fields.extend(calls.iter().map(|call| Arc::new(Field::new(&call.name, call.data_type.clone(), true))));
    let time = window.and(time);
    if time.is_some_and(|time| time.lateness_ns > 0) {
        fields.push(Arc::new(Field::new("is_update", DataType::Boolean, false)));
    }
    let keys = by.map_or_else(Vec::new, |by| by.expressions().to_vec());
    let window_unit_ns = unit.map(|unit| if unit == TimeUnit::Millisecond { MILLISECOND_NS } else { 1 });
    let bound = Bound::Aggregate { keys, calls, window, window_unit_ns };
    Ok((fields, time.map(|time| TimeColumn { column: None, unit_ns: 1, is_window: true, ..time }), bound))
}

/// Milliseconds, if they are exact.
fn window_unit(window: Window, time: TimeColumn) -> TimeUnit {
    let lengths = match window {
        Window::Tumbling { size_ns } => [size_ns, size_ns],
        Window::Sliding { size_ns, step_ns } => [size_ns, step_ns],
        Window::Session { gap_ns } => [gap_ns, time.unit_ns],
    };
    let is_exact = lengths.iter().all(|length| length.is_multiple_of(MILLISECOND_NS));
    if is_exact { TimeUnit::Millisecond } else { TimeUnit::Nanosecond }
}

/// Returns the columns that a list names.
fn column_list(text: &At<String>, list: &str, schema: &Schema) -> Result<Vec<usize>, Error> {
    let find = |name: &str| {
        let name = name.trim();
        let is_quoted = name.len() > 1 && name.starts_with('"') && name.ends_with('"');
        at(text, columns::find(name.trim_matches('"'), is_quoted, schema))
    };
    list.split(',').map(find).collect()
}

fn join(
    step: &StepSpec,
    inputs: [usize; 2],
    on: &At<String>,
    within_ns: u64,
    nodes: &[Node],
) -> Result<Node, Error> {
    let schemas = inputs.map(|input| nodes[input].schema.clone());
    let keys = key_pairs(on, [&schemas[0], &schemas[1]])?;
    let times = inputs.map(|input| nodes[input].time);
    let [Some(time), Some(other)] = times else {
        return Err(on.error("both inputs need event times; write event_time = \"COLUMN\" in their sources"));
    };
    let all = (0..schemas[0].fields().len()).collect();
    let (fields, kept) = beside(&schemas[0], &schemas[1], &keys);
    let lateness_ns = time.lateness_ns.max(other.lateness_ns);
    let time = Some(TimeColumn { column: None, unit_ns: 1, lateness_ns, is_window: false });
    let bound = Bound::Join { keys, columns: [all, kept], within_ns };
    Ok(Node {
        name: step.name.value.clone(),
        inputs: inputs.to_vec(),
        schema: unique(fields, on)?,
        time,
        bound,
    })
}

/// Returns the columns of `left = right, …` in two schemas. Those of a pair have one type.
fn key_pairs(on: &At<String>, schemas: [&SchemaRef; 2]) -> Result<[Vec<usize>; 2], Error> {
    let mut keys: [Vec<usize>; 2] = Default::default();
    for pair in on.value.split(',') {
        let Some((left, right)) = pair.split_once('=') else {
            return Err(on.error(format!("\"{}\" is not a pair of columns; write left = right", pair.trim())));
        };
        for ((side, schema), keys) in [left, right].into_iter().zip(schemas).zip(&mut keys) {
            keys.extend(column_list(on, side.trim_start_matches('='), schema)?);
        }
        let [one, other] = [0, 1].map(|side| schemas[side].field(*keys[side].last().unwrap_or(&0)));
        if one.data_type() != other.data_type() {
            return Err(on.error(format!(
                "{} is {} and {} is {}; cast one of them in a select before",
                one.name(),
                one.data_type(),
                other.name(),
                other.data_type()
            )));
        }
    }
    Ok(keys)
}

/// Returns the fields of a left schema and those of a right one that are not the same keys, and the columns of these.
fn beside(left: &Schema, right: &Schema, keys: &[Vec<usize>; 2]) -> (Vec<Arc<Field>>, Vec<usize>) {
    let mut fields: Vec<Arc<Field>> = left.fields().iter().cloned().collect();
    let mut kept = Vec::new();
    for (column, field) in right.fields().iter().enumerate() {
        let is_same =
            |(&one, &other): (&usize, &usize)| other == column && left.field(one).name() == field.name();
        if keys[0].iter().zip(&keys[1]).any(is_same) {
            continue;
        }
        let is_taken = left.fields().iter().any(|other| other.name() == field.name());
        let name = if is_taken { format!("{}{RIGHT_SUFFIX}", field.name()) } else { field.name().clone() };
        fields.push(Arc::new(field.as_ref().clone().with_name(name).with_nullable(true)));
        kept.push(column);
    }
    (fields, kept)
}
