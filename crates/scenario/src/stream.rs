//! A placed pipeline of a stream in virtual time: operators on cores that run each tuple to completion, bounded rings
//! between them, and the controller that moves them (issue "Low-latency streams on cores", simulation).
//!
//! ```text
//! ArrivalPattern ─► entry ─► core: segment ─ring─► core: segment ─► results: latency from the intended arrival
//!                              │    ▲                    ▲
//!                     LookUp   ▼    │ completion         │ Move: move, split, fuse, repartition
//!                    page cache, device        placement::Controller, Planner::moves
//! ```
//!
//! - A core that has finished a tuple takes the one that has been ready for longest from the rings into its segment. It
//!   computes by the distributions of its operators, pays for receiving and sending by distance, and for waking up receivers
//!   that are parked.
//! - A ring has slots. An output that finds none is kept, and its segment takes no tuple until it has been sent: no
//!   thread waits for room, as in the runtime. At the entry tuples wait in the source, or are shed and counted.
//! - Replicas take tuples by key, and their outputs continue in the order of the inputs.
//! - Changes follow the protocol of the runtime: a segment continues elsewhere after a hand-over between two tuples; a
//!   ring that becomes a call is worked down first; a new replica begins after the old ones have passed the marker.
//! - A tuple's whole way through its segment is drawn when its burst begins, so there are about two events for each tuple
//!   and segment. A pipeline without look-ups is run by its own event loop; one with look-ups is a
//!   [`Workload`](crate::Workload) whose reads go through the page cache and the device of the experiment.
//!
//! Not simulated: the costs of moving a segment's state through the caches, the skew of single keys (replicas other than the
//! busiest have equal shares), and bins of keys that move between replicas that stay.
//!
//! | file | what |
//! |---|---|
//! | `spec.rs`, `arrivals.rs`, `service.rs` | what is simulated; times of arrivals; service times |
//! | `outcome.rs` | figures |
//! | `engine.rs` | the state, and what is next |
//! | `engine/burst.rs`, `engine/send.rs` | a tuple on a core; a tuple to another core |
//! | `engine/relocate.rs`, `engine/control.rs` | changes of the placement; when, by the controller |
//! | `engine/figures.rs` | CPU time, parts of the run, the outcome |
//! | `ring.rs`, `order.rs` | rings; outputs of replicas in order |
//! | `workload.rs` | look-ups as reads of a workload |
//! | `time.rs`, `random.rs` | picoseconds; random figures that are the same everywhere |

mod arrivals;
mod engine;
mod order;
mod outcome;
mod random;
mod ring;
mod service;
mod spec;
mod time;
mod workload;

pub use arrivals::{ArrivalPattern, RatePiece, Spacing};
pub use outcome::{CoreFigures, IntervalFigures, LatencyFigures, Relocation, RingFigures, StreamOutcome};
pub use service::Service;
pub use spec::{Control, LookUp, OverloadPolicy, Stall, StreamSettings, StreamSpec};
pub use workload::StreamWorkload;

use engine::Engine;

/// Why a stream was not simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The pipeline, topology or placement is not possible.
    #[error(transparent)]
    Placement(#[from] sakiyomi_placement::Error),
    /// A figure out of range.
    #[error("{what} is {value}; it must be {range}")]
    Value {
        /// Its meaning and unit.
        what: &'static str,
        /// The figure.
        value: f64,
        /// Allowed values.
        range: &'static str,
    },
    /// An operator that the pipeline does not have.
    #[error("operator {operator} does not exist; the pipeline has {operators}, counted from 0")]
    Operator {
        /// The operator.
        operator: usize,
        /// Operators of the pipeline.
        operators: usize,
    },
    /// A look-up with a key.
    #[error(
        "operator {0} looks tuples up in a file and has a key; take the key away, as look-ups have no replicas"
    )]
    KeyedLookUp(usize),
    /// A look-up without a page cache and a device.
    #[error("operator {0} looks tuples up in a file; simulate the stream as a workload of an experiment")]
    NoDevice(usize),
}

/// Simulates a stream without look-ups.
///
/// # Errors
/// If the stream is not possible, or has operators that read files.
pub fn simulate(spec: &StreamSpec<'_>) -> Result<StreamOutcome, StreamError> {
    spec.check()?;
    if let Some((&operator, _)) = spec.look_ups.first_key_value() {
        return Err(StreamError::NoDevice(operator));
    }
    let mut engine = Engine::new(spec);
    while engine.step() {}
    Ok(engine.outcome())
}
