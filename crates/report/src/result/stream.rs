//! Streams of records on cores: a run, a plan, and the topology used by the planner.

mod plan;
mod run;
mod sim;
mod topology;

pub use plan::{StreamCut, StreamGroup, StreamPlanResult, StreamRate, StreamShortfall};
pub use run::{
    StreamChange, StreamFailure, StreamOperator, StreamRunResult, StreamSink, StreamSnapshots, StreamSource,
    StreamWindow,
};
pub use sim::{StreamSimPoint, StreamSimResult};
pub use topology::{StreamCore, StreamHop, StreamTopologyResult};

/// Rounds a time to whole nanoseconds for display.
fn whole_ns(ns: f64) -> u64 {
    ns.round().max(0.0) as u64
}
