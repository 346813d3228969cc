//! The graph of a stream, and where its segments begin.

use std::fmt;
use std::sync::Arc;

use crate::counters::Counters;
use crate::replicas::Group;
use crate::tuple::OperatorId;

/// Kind of an operator, by its inputs and outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorKind {
    /// A [`Source`](crate::Source).
    Source,
    /// An [`Operator`](crate::Operator).
    Operator,
    /// Two outputs for one input.
    Split,
    /// Divides its input among the replicas that follow, by a key.
    Partition,
    /// Makes the outputs of replicas one.
    Merge,
    /// A [`Join`](crate::Join).
    Join,
    /// A [`Sink`](crate::Sink).
    Sink,
}

impl OperatorKind {
    /// All kinds.
    pub const ALL: [OperatorKind; 7] = [
        OperatorKind::Source,
        OperatorKind::Operator,
        OperatorKind::Split,
        OperatorKind::Partition,
        OperatorKind::Merge,
        OperatorKind::Join,
        OperatorKind::Sink,
    ];

    /// Its name: a word in lower case, which the kind is displayed as.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OperatorKind::Source => "source",
            OperatorKind::Operator => "operator",
            OperatorKind::Split => "split",
            OperatorKind::Partition => "partition",
            OperatorKind::Merge => "merge",
            OperatorKind::Join => "join",
            OperatorKind::Sink => "sink",
        }
    }

    /// Returns the kind of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<OperatorKind> {
        OperatorKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the number of inputs in a snapshot, where all replicas are one operator.
    pub(crate) fn inputs(self) -> usize {
        match self {
            OperatorKind::Source => 0,
            OperatorKind::Join => 2,
            _ => 1,
        }
    }

    /// Returns the number of outputs in a snapshot.
    pub(crate) fn outputs(self) -> usize {
        match self {
            OperatorKind::Split => 2,
            OperatorKind::Sink => 0,
            _ => 1,
        }
    }
}

impl fmt::Display for OperatorKind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// Initial value of FNV-1a with 64 bits (Fowler, Noll and Vo; draft-eastlake-fnv, section 5).
const FNV_OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;

/// Its multiplier.
const FNV_PRIME: u64 = 0x0000_0100_0000_01B3;

fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}

/// The operators of a stream.
#[derive(Default)]
pub(crate) struct Shape {
    pub(crate) operators: Vec<Outline>,
    /// Number of sinks.
    pub(crate) sinks: usize,
    /// Operators that run as replicas, each from its partition to its merge.
    pub(crate) groups: Vec<Group>,
}

/// An operator, from outside.
pub(crate) struct Outline {
    pub(crate) name: String,
    pub(crate) kind: OperatorKind,
    /// Snapshots have all of its state: it saves it, or its type has no fields.
    pub(crate) is_saved: bool,
    /// The operator that sends to its first input; none for a source.
    pub(crate) parent: Option<OperatorId>,
    /// The operators that send to its other inputs.
    pub(crate) side_parents: Vec<OperatorId>,
    /// Its place among replicas; none for an operator that is not one.
    pub(crate) replica: Option<Place>,
    pub(crate) counters: Arc<Counters>,
}

/// A replica of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Index of its group.
    pub(crate) group: usize,
    /// Number of the operator in the chain from the partition to the merge.
    pub(crate) stage: usize,
    /// Number of the replica.
    pub(crate) replica: usize,
}

impl Outline {
    /// Returns whether it is the only replica of its operator, or the first.
    fn is_first(&self) -> bool {
        self.replica.is_none_or(|place| place.replica == 0)
    }
}

impl Shape {
    pub(crate) fn parent(&self, operator: OperatorId) -> Option<OperatorId> {
        self.operators[operator.0].parent
    }

    /// Returns the sources.
    pub(crate) fn sources(&self) -> impl Iterator<Item = OperatorId> + '_ {
        (0..self.operators.len()).map(OperatorId).filter(|&operator| self.parent(operator).is_none())
    }

    /// Returns the operators, all replicas of one as their first: what snapshots and planners number.
    pub(crate) fn logical(&self) -> impl Iterator<Item = &Outline> {
        self.operators.iter().filter(|operator| operator.is_first())
    }

    /// For each operator its number among the logical ones, which its replicas share.
    pub(crate) fn logical_numbers(&self) -> Vec<usize> {
        // The replicas of an operator follow each other.
        let numbers = self.operators.iter().scan(0, |next, operator| {
            *next += usize::from(operator.is_first());
            Some(*next - 1)
        });
        numbers.collect()
    }

    /// A hash of names, kinds and edges (FNV-1a, 64 bits), the same on all machines and for any number of replicas.
    pub(crate) fn fingerprint(&self) -> u64 {
        let numbers = self.logical_numbers();
        // No operator has the number that stands for none.
        let number = |id: Option<OperatorId>| id.map_or(u64::MAX, |id| numbers[id.0] as u64).to_le_bytes();
        self.logical().fold(FNV_OFFSET_BASIS, |hash, operator| {
            let hash = fnv1a(hash, &(operator.name.len() as u64).to_le_bytes());
            let hash = fnv1a(hash, operator.name.as_bytes());
            let hash = fnv1a(hash, operator.kind.name().as_bytes());
            let side = operator.side_parents.first().filter(|_| operator.kind == OperatorKind::Join);
            fnv1a(fnv1a(hash, &number(operator.parent)), &number(side.copied()))
        })
    }

    /// Returns whether an operator begins a segment where each is on the worker that `worker_of` names.
    pub(crate) fn is_cut(&self, operator: OperatorId, worker_of: &[usize]) -> bool {
        self.parent(operator).is_none_or(|parent| worker_of[parent.0] != worker_of[operator.0])
    }

    /// Returns the first operator of the segment with `operator`, where segments begin as `is_head` says.
    pub(crate) fn head(&self, operator: OperatorId, is_head: impl Fn(OperatorId) -> bool) -> OperatorId {
        let mut at = operator;
        while let Some(parent) = self.parent(at).filter(|_| !is_head(at)) {
            at = parent;
        }
        at
    }
}
