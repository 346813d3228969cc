//! The graph of a stream, and where its segments begin.

use std::sync::Arc;

use crate::counters::Counters;
use crate::tuple::OperatorId;

/// The operators of a stream.
#[derive(Default)]
pub(crate) struct Shape {
    pub(crate) operators: Vec<Outline>,
    /// Number of sinks.
    pub(crate) sinks: usize,
}

/// An operator, from outside.
pub(crate) struct Outline {
    pub(crate) name: String,
    /// The operator that sends to its first input; none for a source.
    pub(crate) parent: Option<OperatorId>,
    pub(crate) counters: Arc<Counters>,
}

impl Shape {
    pub(crate) fn parent(&self, operator: OperatorId) -> Option<OperatorId> {
        self.operators[operator.0].parent
    }

    /// Whether an operator begins a segment where each is on the worker that `worker_of` names.
    pub(crate) fn is_cut(&self, operator: OperatorId, worker_of: &[usize]) -> bool {
        self.parent(operator).is_none_or(|parent| worker_of[parent.0] != worker_of[operator.0])
    }

    /// The first operator of the segment with `operator`, where segments begin as `is_head` says.
    pub(crate) fn head(&self, operator: OperatorId, is_head: impl Fn(OperatorId) -> bool) -> OperatorId {
        let mut at = operator;
        while let Some(parent) = self.parent(at).filter(|_| !is_head(at)) {
            at = parent;
        }
        at
    }
}
