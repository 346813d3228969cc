//! Errors of inputs, with remedies.

/// An error in the input of the planner.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A topology has no cores.
    #[error("a topology needs at least one cache domain, and each domain at least one core")]
    NoCores,
    /// A figure is out of range.
    #[error("{what} is {value}; it must be {range}")]
    Value {
        /// Its meaning and unit.
        what: &'static str,
        /// The figure.
        value: f64,
        /// Allowed values.
        range: &'static str,
    },
    /// A pipeline is inconsistent.
    #[error("the pipeline cannot be planned: {0}")]
    Pipeline(PipelineFault),
    /// A placement does not fit its pipeline or topology.
    #[error("the placement is invalid: {0}")]
    Placement(PlacementFault),
    /// No order of changes was found from one placement to another.
    #[error(
        "no order of changes leads from one placement to the other, as pinned operators leave too few cores; \
         drain the pipeline and restart it"
    )]
    Moves,
    /// A stage is slower than its input.
    #[error(
        "stage {stage} is guaranteed {served_per_s:.0} tuples/s and {arriving_per_s:.0} may arrive, so its ring \
         can overflow; lower the declared rate or give the stage less work"
    )]
    Overflow {
        /// Index of the stage.
        stage: usize,
        /// Tuples per second that it serves at least.
        served_per_s: f64,
        /// Tuples per second that may arrive in the long run.
        arriving_per_s: f64,
    },
}

/// Faults of a pipeline.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineFault {
    /// The pipeline has no operators.
    #[error("it has no operators; add one")]
    Empty,
    /// The number of selectivities does not match the number of links of a chain.
    #[error("a chain of {operators} operators has one link fewer; give one selectivity for each link")]
    Links {
        /// Operators of the chain.
        operators: usize,
    },
    /// An edge does not lead from an operator to a later one.
    #[error(
        "the edge from operator {from} to {to} is not to a later operator; number operators topologically"
    )]
    Edge {
        /// Index of the sender.
        from: usize,
        /// Index of the receiver.
        to: usize,
    },
    /// Two edges join the same operators.
    #[error(
        "operators {from} and {to} are connected by two edges; write one edge with the sum of their selectivities"
    )]
    Parallel {
        /// Index of the sender.
        from: usize,
        /// Index of the receiver.
        to: usize,
    },
    /// An operator receives nothing.
    #[error("operator {0} receives no tuples; add an edge or an entry to it")]
    Unreached(usize),
    /// An operator's key is not in the list of keys.
    #[error("operator {0} has a key that is not in the list of keys")]
    Key(usize),
}

/// Faults of a placement.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementFault {
    /// An operator is in no group, or in several.
    #[error("operator {0} must be in exactly one group")]
    Operator(usize),
    /// A core is unknown, or has several groups.
    #[error("core {0} must exist, have one group at most, and not be reserved")]
    Core(usize),
    /// A group has no core or no operator.
    #[error("group {0} needs a core and an operator")]
    Empty(usize),
    /// A group cannot have this number of replicas.
    #[error(
        "group {0} cannot be replicated so: its operators need one key with a measured share for that many \
         replicas, cores of one cache domain, and other operators before and after them"
    )]
    Replicas(usize),
    /// A pinned operator is not on its core, or is replicated.
    #[error("operator {operator} must stay on core {core}, which must not be reserved, and without replicas")]
    Pinned {
        /// Index of the operator.
        operator: usize,
        /// Its core.
        core: usize,
    },
    /// Groups send to each other in a cycle.
    #[error("groups send tuples to each other in a cycle, which can deadlock with bounded rings")]
    Circle,
}
