//! Nodes: sources, steps and sinks with their columns, and what each does.

use std::collections::BTreeSet;

use arrow_schema::SchemaRef;
use sakiyomi_expression::{Expression, Projection};
use sakiyomi_model::suggest::{did_you_mean, similar};

use crate::Error;
use crate::document::At;
use crate::lookup::Rows;
use crate::spec::Window;

use super::calls::BoundCall;

/// A source, step or sink.
#[derive(Debug)]
pub(crate) struct Node {
    /// Name of the operator: `source.log`, the step's own, `sink.out`.
    pub(crate) name: String,
    /// Nodes whose output it takes.
    pub(crate) inputs: Vec<usize>,
    /// All columns of its output.
    pub(crate) schema: SchemaRef,
    /// The event time of its rows.
    pub(crate) time: Option<TimeColumn>,
    pub(crate) bound: Bound,
}

/// The event times of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeColumn {
    /// The column; none if no column has them.
    pub(crate) column: Option<usize>,
    /// Nanoseconds of its unit.
    pub(crate) unit_ns: u64,
    /// How long windows keep accepting late rows, in nanoseconds.
    pub(crate) lateness_ns: u64,
    /// Whether it is the last time of the window of which the row is a result.
    pub(crate) is_window: bool,
}

/// The task of a node, with its names resolved.
#[derive(Debug)]
pub(crate) enum Bound {
    Source,
    Filter(Expression),
    Select(Projection),
    Aggregate {
        keys: Vec<Expression>,
        calls: Vec<BoundCall>,
        window: Option<Window>,
        /// Nanoseconds of the unit of the window's columns; none if there are none.
        window_unit_ns: Option<u64>,
    },
    Top {
        k: usize,
        score: Expression,
        keys: Vec<Expression>,
        window: Option<Window>,
    },
    Distinct {
        /// Columns.
        keys: Vec<usize>,
        /// Size of tumbling windows in nanoseconds.
        window_ns: Option<u64>,
        keys_max: usize,
    },
    Join {
        /// Columns of each input.
        keys: [Vec<usize>; 2],
        /// Columns of each input that the output has.
        columns: [Vec<usize>; 2],
        within_ns: u64,
    },
    Lookup {
        /// Columns of the input.
        keys: Vec<usize>,
        /// Columns of the input, which come first.
        width: usize,
        /// Columns of the table that the output has after them.
        columns: Vec<usize>,
        table: Rows,
        is_required: bool,
    },
    /// Writes its rows and passes them on.
    Append,
    Sink,
}

/// Nodes by the names that a description uses for them.
pub(super) struct Names<'a> {
    pub(super) known: Vec<&'a str>,
    /// Names of later steps, for the error.
    pub(super) later: BTreeSet<&'a str>,
}

impl Names<'_> {
    /// Returns the node of a name.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn find(&self, name: &At<String>) -> Result<usize, Error> {
        if let Some(node) = self.known.iter().position(|known| *known == name.value) {
            return Ok(node);
        }
        if self.later.contains(name.value.as_str()) {
            return Err(name.error(format!("step {} comes later; move it before this one", name.value)));
        }
        let near = similar(&name.value, self.known.iter().copied());
        let rest = match near.is_empty() {
            true => format!("; there are {}", self.known.join(", ")),
            false => did_you_mean(&near),
        };
        Err(name.error(format!("no source or step is named {}{rest}", name.value)))
    }
}
