//! The checked pipeline: which step follows which, the columns of each, and which of them are used.
//!
//! Names are bound to columns from the sources to the sinks; then the used columns are found from the sinks back, so that
//! sources parse only values that are used. Rows have the used columns only, in the order of the schema, and
//! after them
//! the event time if a later step needs it and it is not a used column.

mod bind;
mod calls;
mod graph;
mod layout;
mod node;
mod step;

use std::path::Path;
use std::sync::Arc;

use sakiyomi_expression::Expression;

use crate::Error;
use crate::spec::{Op, SinkSpec, SourceSpec, Spec, StepSpec, Target};

pub(crate) use calls::BoundCall;
pub(crate) use graph::{Graph, MERGE, PARTITIONS, Part};
pub(crate) use layout::{Layout, TimeCell};
pub(crate) use node::{Bound, Node};

/// The nodes of a pipeline: sources, steps, sinks, in this order.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) sources: Vec<SourceSpec>,
    pub(crate) steps: Vec<StepSpec>,
    pub(crate) sinks: Vec<SinkSpec>,
    pub(crate) ring_slots: usize,
    /// All that decides on its results, to compare it with that of a snapshot.
    pub(crate) definition: Arc<[String]>,
    pub(crate) nodes: Vec<Node>,
    /// The columns of the rows of each node.
    pub(crate) layouts: Vec<Layout>,
}

/// Kind of a node, and its index among that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Source(usize),
    Step(usize),
    Sink(usize),
}

impl Plan {
    /// Checks a pipeline as a whole.
    ///
    /// # Errors
    /// If a name is used twice or is unknown, or an expression does not fit the columns of its input.
    pub(crate) fn new(spec: Spec) -> Result<Plan, Error> {
        let Spec { sources, steps, sinks, ring_slots, definition } = spec;
        let nodes = bind::bind(&sources, &steps, &sinks)?;
        let layouts = layout::layouts(&nodes, &sources, &steps, &sinks)?;
        Ok(Plan { sources, steps, sinks, ring_slots, definition: definition.into(), nodes, layouts })
    }

    /// Returns the kind and index of a node.
    pub(crate) fn role(&self, node: usize) -> Role {
        let (sources, steps) = (self.sources.len(), self.steps.len());
        if node < sources {
            Role::Source(node)
        } else if node < sources + steps {
            Role::Step(node - sources)
        } else {
            Role::Sink(node - sources - steps)
        }
    }

    /// Returns the files to which sinks and steps append rows.
    pub(crate) fn appended(&self) -> impl Iterator<Item = &Path> {
        let sinks = self.sinks.iter().filter_map(|sink| match &sink.target.value {
            Target::File { path, append: true } => Some(path.as_path()),
            _ => None,
        });
        let steps = self.steps.iter().filter_map(|step| match &step.op {
            Op::Append { path, .. } => Some(path.as_path()),
            _ => None,
        });
        sinks.chain(steps)
    }

    /// Returns the largest number of replicas of a node, if it may have several, with the columns of the key of each
    /// input.
    pub(crate) fn division(&self, node: usize) -> Option<(usize, Vec<Vec<usize>>)> {
        let Role::Step(index) = self.role(node) else { return None };
        let replicas = self.steps[index].replicas.as_ref()?.value as usize;
        let columns = |keys: &[Expression]| keys.iter().filter_map(Expression::as_column).collect();
        let keys = match &self.nodes[node].bound {
            Bound::Aggregate { keys, .. } | Bound::Top { keys, .. } => vec![columns(keys)],
            Bound::Distinct { keys, .. } => vec![keys.clone()],
            Bound::Join { keys, .. } => keys.to_vec(),
            _ => return None,
        };
        Some((replicas, keys))
    }

    /// Returns how long the windows of a node keep accepting late rows, in nanoseconds.
    pub(crate) fn lateness_ns(&self, node: usize) -> u64 {
        self.nodes[node].time.map_or(0, |time| time.lateness_ns)
    }

    /// Mean CPU time per row for the planner, in nanoseconds: declared, or what such an operator usually takes.
    pub(crate) fn cost_ns(&self, node: usize) -> f64 {
        match self.role(node) {
            Role::Source(index) => self.sources[index].cost_ns.unwrap_or(SOURCE_COST_NS),
            Role::Step(index) => {
                self.steps[index].cost_ns.unwrap_or_else(|| usual_cost_ns(&self.steps[index].op))
            }
            Role::Sink(index) => {
                let is_discarded = self.sinks[index].target.value == Target::Discard;
                let usual = if is_discarded { DISCARD_COST_NS } else { SINK_COST_NS };
                self.sinks[index].cost_ns.unwrap_or(usual)
            }
        }
    }

    /// Approximate bytes of a row of a node.
    fn row_bytes(&self, node: usize) -> f64 {
        let (schema, layout) = (&self.nodes[node].schema, &self.layouts[node]);
        let width = |&column: &usize| {
            let data_type = schema.field(column).data_type();
            data_type.primitive_width().map_or(TEXT_BYTES, |width| width as f64)
        };
        layout.columns.iter().map(width).sum()
    }

    /// Mean number of rows per row that comes in, for the planner.
    pub(crate) fn selectivity(&self, node: usize) -> f64 {
        match self.role(node) {
            Role::Step(index) => {
                self.steps[index].selectivity.unwrap_or_else(|| usual_selectivity(&self.steps[index].op))
            }
            Role::Source(_) | Role::Sink(_) => 1.0,
        }
    }
}

/// Bytes of a text: a path or a name, with its length.
const TEXT_BYTES: f64 = 24.0;

/// A line of a web server's log, of which four fields are used.
const SOURCE_COST_NS: f64 = 300.0;
/// Four values as text.
const SINK_COST_NS: f64 = 150.0;
/// A call.
const DISCARD_COST_NS: f64 = 10.0;

/// Approximate time of an operator for a row of a few columns, until it is measured.
fn usual_cost_ns(op: &Op) -> f64 {
    match op {
        Op::Filter { .. } => 60.0,
        // The record is parsed here, after another thread has read it.
        Op::Lookup { table, .. } if table.access.is_some() => 600.0,
        Op::Select { .. } | Op::Distinct { .. } | Op::Lookup { .. } => 120.0,
        Op::Aggregate { .. } | Op::Top { .. } | Op::Append { .. } => 150.0,
        Op::Join { .. } => 300.0,
    }
}

/// Approximate selectivity of an operator, until it is measured.
fn usual_selectivity(op: &Op) -> f64 {
    match op {
        Op::Filter { .. } => 0.5,
        Op::Distinct { .. } => 0.1,
        Op::Aggregate { .. } | Op::Top { .. } => 0.01,
        Op::Select { .. } | Op::Lookup { .. } | Op::Append { .. } | Op::Join { .. } => 1.0,
    }
}
