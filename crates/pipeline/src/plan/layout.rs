//! Column pruning: the columns that the rows of each node carry.
//!
//! A row has one cell for each column that a later node uses, so that unused columns are neither parsed nor copied. The
//! search for used columns goes from the sinks to the sources.

use std::collections::BTreeSet;

use super::node::{Bound, Node};
use sakiyomi_expression::Expression;

use crate::Error;
use crate::row::is_supported;
use crate::spec::{SinkSpec, SourceSpec, StepSpec, Target};

/// The cells of a node's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The column of the schema that each cell holds.
    pub(crate) columns: Vec<usize>,
    /// The event time, if a later step needs it.
    pub(crate) time: Option<TimeCell>,
}

/// The cell that holds the event time: that of a column, or an additional one after the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeCell {
    pub(crate) cell: usize,
    /// The unit of the cell's number, in nanoseconds.
    pub(crate) unit_ns: u64,
}

impl Layout {
    /// Makes a layout of these columns.
    fn of(columns: impl IntoIterator<Item = usize>) -> Layout {
        Layout { columns: columns.into_iter().collect(), time: None }
    }

    /// Returns the cell of a column.
    ///
    /// # Panics
    /// If the column is not used, which is a bug of the search for used columns.
    pub(crate) fn cell(&self, column: usize) -> usize {
        self.columns.iter().position(|&other| other == column).expect("the columns that a step uses are kept")
    }

    /// Returns the cells of some columns.
    pub(crate) fn cells(&self, columns: &[usize]) -> Vec<usize> {
        columns.iter().map(|&column| self.cell(column)).collect()
    }
}

/// Returns the layouts of all nodes.
///
/// # Errors
/// If a used column has a type that cells do not support.
pub(super) fn layouts(
    nodes: &[Node],
    sources: &[SourceSpec],
    steps: &[StepSpec],
    sinks: &[SinkSpec],
) -> Result<Vec<Layout>, Error> {
    let (used, needs_time) = used_columns(nodes, sinks);
    let mut layouts: Vec<Layout> = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let of_used = Layout::of(used[index].iter().copied());
        let input = node.inputs.first().map(|&input| layouts[input].clone());
        let mut layout = match (&node.bound, input) {
            (Bound::Filter(_) | Bound::Distinct { .. } | Bound::Append | Bound::Sink, Some(input)) => input,
            _ => of_used,
        };
        if layout.time.is_none()
            && needs_time[index]
            && let Some(time) = node.time
        {
            let known =
                time.column.and_then(|column| layout.columns.iter().position(|&other| other == column));
            let cell = known.unwrap_or(layout.columns.len());
            layout.time = Some(TimeCell { cell, unit_ns: time.unit_ns });
        }
        for &column in &layout.columns {
            let field = node.schema.field(column);
            if !is_supported(field.data_type()) {
                let place = place_of(index, sources, steps, sinks);
                return Err(place.error(format!(
                    "column {} is {}, which pipelines do not support; exclude or cast it",
                    field.name(),
                    field.data_type()
                )));
            }
        }
        layouts.push(layout);
    }
    Ok(layouts)
}

/// Returns where the node stands in the pipeline's file, for errors.
fn place_of(
    node: usize,
    sources: &[SourceSpec],
    steps: &[StepSpec],
    sinks: &[SinkSpec],
) -> crate::document::Place {
    let (source, step) =
        (sources.get(node), node.checked_sub(sources.len()).and_then(|step| steps.get(step)));
    match (source, step) {
        (Some(source), _) => source.place.place.clone(),
        (_, Some(step)) => step.name.place.clone(),
        _ => sinks[node - sources.len() - steps.len()].place.place.clone(),
    }
}

/// Returns for each node the columns of its output that later nodes use, and whether one of them needs the event time.
fn used_columns(nodes: &[Node], sinks: &[SinkSpec]) -> (Vec<BTreeSet<usize>>, Vec<bool>) {
    let mut used: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); nodes.len()];
    let mut needs_time = vec![false; nodes.len()];
    let all = |node: &Node| (0..node.schema.fields().len()).collect::<BTreeSet<usize>>();
    for (index, node) in nodes.iter().enumerate().rev() {
        match &node.bound {
            Bound::Source => {}
            Bound::Sink => {
                let sink = &sinks[index + sinks.len() - nodes.len()];
                if sink.target.value != Target::Discard {
                    used[node.inputs[0]].append(&mut all(&nodes[node.inputs[0]]));
                }
            }
            Bound::Append => {
                used[index] = all(node);
                used[node.inputs[0]].append(&mut all(node));
                needs_time[node.inputs[0]] |= needs_time[index];
            }
            Bound::Filter(condition) => {
                let mut both = used[index].clone();
                both.extend(condition.columns());
                used[node.inputs[0]].append(&mut both);
                needs_time[node.inputs[0]] |= needs_time[index];
            }
            Bound::Select(projection) => {
                let items = projection.expressions();
                let mut columns: BTreeSet<usize> =
                    used[index].iter().flat_map(|&item| items[item].columns()).collect();
                used[node.inputs[0]].append(&mut columns);
                needs_time[node.inputs[0]] |= needs_time[index];
            }
            Bound::Aggregate { keys, calls, window, .. } => {
                used[index] = all(node);
                let arguments = calls.iter().filter_map(|call| call.argument.as_ref());
                used[node.inputs[0]].extend(keys.iter().chain(arguments).flat_map(Expression::columns));
                needs_time[node.inputs[0]] |= window.is_some();
            }
            Bound::Top { window, .. } => {
                used[index] = all(node);
                used[node.inputs[0]].append(&mut all(&nodes[node.inputs[0]]));
                needs_time[node.inputs[0]] |= window.is_some();
            }
            Bound::Distinct { keys, window_ns, .. } => {
                let mut both = used[index].clone();
                both.extend(keys);
                used[node.inputs[0]].append(&mut both);
                needs_time[node.inputs[0]] |= needs_time[index] || window_ns.is_some();
            }
            Bound::Lookup { keys, width, .. } => {
                let mut both: BTreeSet<usize> = used[index].range(..width).copied().collect();
                both.extend(keys);
                used[node.inputs[0]].append(&mut both);
                needs_time[node.inputs[0]] |= needs_time[index];
            }
            Bound::Join { .. } => {
                used[index] = all(node);
                for &input in &node.inputs {
                    used[input].append(&mut all(&nodes[input]));
                    needs_time[input] = true;
                }
            }
        }
    }
    (used, needs_time)
}
