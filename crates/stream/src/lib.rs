//! Streams of tuples: operators that run on cores, and move between cores while tuples flow (Ueda et al., IEICE
//! Trans. D 96(5), 2013; the report of 2013, section 4 (3)).
//!
//! Operators on one core call each other directly; between cores there is a ring. Which operators share a core is
//! planned by `sakiyomi-placement` and changes with the rate of the input, without a stop, and without a tuple that
//! is lost, doubled or out of order.
//!
//! ```text
//!  source ─ then ─ split ─┬─ then ─ sink      builder: the graph, typed
//!                         └─ join ─ sink
//!
//!  worker 0                     worker 1      one pinned thread a core
//!  ┌ segment ──────────┐  ring  ┌ segment ─┐
//!  │ source ► a ► b ───┼──▒▒▒▒──┼► c ► sink│   ► a call
//!  └───────────────────┘        └──────────┘
//!
//!  MOVE   a worker gives a segment to another one, with its state and its ends of all rings
//!  SPLIT  a call becomes a ring                            } between two tuples,
//!  FUSE   a ring becomes a call, after it has been drained } when nothing is in progress
//! ```
//!
//! | what | where |
//! |---|---|
//! | operators, joins, sources, sinks, and what they declare | [`Operator`], [`Join`], [`Source`], [`Sink`] |
//! | graphs | [`StreamBuilder`], [`Flow`] |
//! | replicas of keyed operators | [`Flow::by_key`], [`Replicated`], [`Running::divide`] |
//! | windows, joins, keyed state, event time | [`operators`] |
//! | operators that wait for files or other threads | [`AsyncOperator`], [`Wakeup`] |
//! | running, moving, splitting, fusing, counters | [`Running`] |
//! | snapshots, and resuming from them | [`Running::begin_snapshot`], [`Snapshot`], [`Stream::start_from`], [`Stream::start_adaptive_from`] |
//! | state as bytes | [`SaveState`], [`Encode`], [`Decode`] |
//! | a placement that follows the load | [`adapt`] |
//!
//! | file | what |
//! |---|---|
//! | `stage.rs`, `tree.rs` | stages and edges without their types; what concerns a whole segment |
//! | `nodes/`, `port.rs`, `fed.rs` | operators in their places; an edge; a segment that a ring feeds |
//! | `ring.rs`, `waker.rs`, `mailbox.rs` | what threads share: rings, parking, hand-over |
//! | `run_length.rs` | tuples that pass the operators of a segment in one go |
//! | `replicas.rs`, `replicas/` | operators that run as several replicas, by the bins of a key |
//! | `wakeup.rs`, `wait_budget.rs` | input from threads that are not workers: wake-ups, polling and naps within a share of a core |
//! | `reorder.rs` | requests in flight, whose results leave in the order of their submission |
//! | `operators/` | operators that most streams are made of |
//! | `state.rs`, `state/` | state as bytes: kind, version, length, checksum; values and keys |
//! | `guard.rs`, `input.rs`, `samples.rs` | panics, times of calls, numbers of tuples |
//! | `barrier.rs`, `snapshot.rs` | snapshots: the cut through all edges; the data |
//! | `worker.rs` | the loop of a thread: it runs segments, and moves, splits and fuses them |
//! | `runtime.rs` | the stream from outside |
//!
//! # Why nothing is lost or out of order
//!
//! A segment is a linear value: it is `Send`, not `Clone`, and is handed over by the lock of a mailbox, so one
//! thread runs it and sees all that was done before. The order in a ring does not depend on the popping thread. The producer's
//! end of an output ring travels with the state, so outputs of the old worker precede those of the new one. A segment
//! is handed over between tuples, so none is half done. Each edge numbers its tuples, and each operator checks the
//! numbers.
//!
//! # Runs
//!
//! Operators and rings take the tuples that are due in runs (`run_length.rs`), which costs less than one tuple at a time. An
//! operator is called for all tuples of a run before the next operator is. A run never waits for tuples, and is short
//! enough that messages, which are read between runs, wait for microseconds.
//!
//! # Snapshots
//!
//! A snapshot is the state of all operators at one cut through the edges, which barriers mark (`barrier.rs`). It is plain
//! data, which the caller writes to a file. A stream that resumes from it ends with the states of one that was never
//! interrupted, if its sources return to their positions. Sinks receive the tuples since the snapshot again; if no join,
//! idle time or shedding is upstream, with the same numbers.
//!
//! # Back-pressure
//!
//! No thread waits for room in a ring. A segment whose ring is full keeps the outputs of its run and is passed over
//! until they have been sent; the worker continues with its other segments. This holds back the segments before it, up
//! to the source, whose tuples wait or are shed ([`Overload`]).

pub mod adapt;
mod async_operator;
mod barrier;
mod board;
mod builder;
mod counters;
mod error;
mod fed;
mod guard;
mod input;
mod item;
mod latency;
mod mailbox;
#[cfg(all(test, loom))]
mod model;
mod nodes;
mod operator;
pub mod operators;
mod port;
mod relocations;
mod reorder;
mod replicas;
mod ring;
mod run_length;
mod runtime;
mod samples;
mod shape;
mod snapshot;
mod stage;
mod state;
mod sync;
mod tree;
mod tuple;
mod wait_budget;
mod waker;
mod wakeup;
mod worker;

pub use adapt::{AdaptSettings, Adaptive};
pub use async_operator::AsyncOperator;
pub use barrier::PendingSnapshot;
pub use builder::{Flow, Replicated, Stream, StreamBuilder};
pub use counters::OperatorReport;
pub use error::{Error, Failure};
pub use latency::{Latency, LatencyBin};
pub use nodes::async_operator_state;
pub use operator::{
    DueValues, Each, Emitter, Join, Next, OnPanic, Operator, Overload, Pause, Recover, Sink, Source, each,
};
pub use relocations::Relocations;
pub use replicas::{Replicas, states_of_bins};
pub use runtime::{Report, Running, Settings};
pub use shape::OperatorKind;
pub use snapshot::{InputProgress, OperatorSnapshot, Progress, SNAPSHOT_VERSION, Snapshot};
pub use state::{Decode, Decoder, Encode, Frame, SaveState, StateError};
pub use tuple::{OperatorId, Tuple};
pub use wakeup::Wakeup;
