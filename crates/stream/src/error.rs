//! Errors and failures.

use thiserror::Error;

use crate::state::StateError;
use crate::tuple::OperatorId;

/// Reasons why a stream cannot be built, started or changed.
#[derive(Debug, Error)]
pub enum Error {
    /// A flow was dropped before a sink was attached.
    #[error("the output of operator {0} has no consumer: end each flow with `sink`, `split` or `join`")]
    Open(String),
    /// The policy of an operator is to restart, and `snapshot` returned none.
    #[error("operator {0} should restart after a panic, but has no snapshot: implement `Recover::snapshot`")]
    NoSnapshot(String),
    /// A placement has another number of operators than the stream.
    #[error("the placement has {given} operators and the stream has {operators}")]
    Operators {
        /// Operators of the placement.
        given: usize,
        /// Operators of the stream.
        operators: usize,
    },
    /// A worker that does not exist.
    #[error("worker {worker} does not exist: the stream has {workers}")]
    Worker {
        /// The requested worker.
        worker: usize,
        /// Number of workers.
        workers: usize,
    },
    /// An operator that is not the first of a segment, or cannot become it or cease to be it.
    #[error("operator {operator} {reason}")]
    Segment {
        /// The operator.
        operator: OperatorId,
        /// The reason.
        reason: &'static str,
    },
    /// A group with more cores than its operators may have replicas.
    #[error("the group of operator {0} has more cores than the operator may have replicas")]
    Replicas(OperatorId),
    /// Another number of bins than the operator has.
    #[error("{given} bins were given, and the operators after operator {operator} have {bins}")]
    Bins {
        /// The partition.
        operator: OperatorId,
        /// Bins that were given.
        given: usize,
        /// Bins of its operators.
        bins: usize,
    },
    /// A replica that does not exist.
    #[error("replica {replica} does not exist: the operators after operator {operator} have {replicas}")]
    Replica {
        /// The partition.
        operator: OperatorId,
        /// The replica that was given a bin.
        replica: usize,
        /// Number of replicas.
        replicas: usize,
    },
    /// A replica has stopped after a panic.
    #[error("the bins of operator {0} cannot be moved, because it has stopped after a panic")]
    ReplicaStopped(String),
    /// A thread cannot be pinned to its CPU.
    #[error(transparent)]
    System(#[from] sakiyomi_os::Error),
    /// Settings or costs of hops with which no plan can be made.
    #[error(transparent)]
    Planning(#[from] sakiyomi_placement::Error),
    /// No plan was found even for the lowest rate.
    #[error(transparent)]
    NoPlan(#[from] sakiyomi_placement::Shortfall),
    /// A thread cannot be started.
    #[error("cannot start a worker thread")]
    Thread(#[source] std::io::Error),
    /// An operator reported at a barrier that it has no state to resume from.
    #[error("no snapshot was taken: operator {name} {reason}")]
    Snapshot {
        /// The operator.
        name: String,
        /// The event.
        reason: String,
    },
    /// The stream was stopped while a snapshot was taken.
    #[error("no snapshot was taken: the stream was stopped before the barrier had passed all operators")]
    Stopped,
    /// A snapshot of another stream, or a damaged one.
    #[error("cannot resume from the snapshot: {0}")]
    Resume(String),
    /// The state of an operator cannot be loaded.
    #[error("cannot resume from the snapshot: operator {name} cannot load its state")]
    State {
        /// The operator.
        name: String,
        /// The reason.
        source: StateError,
    },
    /// A worker thread has ended by a panic outside of any operator.
    #[error("worker {worker} panicked outside of any operator, which is a bug of the runtime: {message}")]
    WorkerLost {
        /// The worker.
        worker: usize,
        /// Message of the panic.
        message: String,
    },
}

/// An operator that was stopped by a panic.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("operator {name} stopped at {}: {message}", match .tuple { Some(tuple) => format!("tuple {tuple}"), None => "a watermark or the end".to_owned() })]
pub struct Failure {
    /// The operator.
    pub operator: OperatorId,
    /// Its name.
    pub name: String,
    /// Number of the tuple on the operator's input edge; none if it stopped at a watermark or the end.
    pub tuple: Option<u64>,
    /// Message of the panic.
    pub message: String,
}
