//! Results: each type is the JSON of `--json`, and its [`Present`](crate::Present) describes the report.
//!
//! Keys end in their base unit (`_ns`, `_bytes`, `_ratio`; counts are bare). For the same input in virtual time
//! `result` is identical to the byte; `run` holds the values that vary between runs. Readers ignore unknown keys.

mod daemon;
mod explain;
mod iorate;
mod mount;
mod pareto;
mod probe;
mod query;
mod reproduce;
mod run;
mod scenario;
mod serve;
mod sim;
mod stream;
mod sweep;
mod top;
mod validate;
mod waits;

pub use crate::document::{Document, Machine, Run};
pub use daemon::{DaemonProcess, DaemonStatus};
pub use explain::{
    ExplainInterval, ExplainKind, ExplainPrediction, ExplainResult, ExplainStorage, ExplainTerm, WhatifResult,
};
pub use iorate::{IorateBypass, IorateDevice, IorateOwner, IorateProgram, IorateResult, IorateTarget};
pub use mount::{MountClass, MountRates, MountResult, MountTimes, MountWindow};
pub use probe::{ProbeCase, ProbeChoice, ProbeLatency, ProbeRange, ProbeResult, ProbeTarget, ProbeVerdict};
pub use query::{
    QueryBound, QueryCell, QueryColumn, QueryFile, QueryPhase, QueryResult, QueryRows, SpillLevel,
};
pub use reproduce::{ReproduceResult, ReproducedCurve, ReproducedFigure, ReproducedPaper, ReproducedValue};
pub use run::{RunAdvice, RunIdle, RunLearned, RunPoint, RunReading, RunReason, RunResult};
pub use scenario::{
    AllowancePoint, DistancePoint, RegulatedProgram, RegulationPoint, ScenarioJob, ScenarioJobRun,
    ScenarioPoint, ScenarioProcess, ScenarioResult,
};
pub use serve::ServeResult;
pub use sim::{
    ChunkMode, ChunkPoint, Chunking, ClassBreakdown, CurvePoint, DiskTime, HistogramBin, HostQueue,
    ReadCounts, ResponseSummary, Seeks, SimResult, Spread, curve_shares,
};
pub use stream::{
    StreamChange, StreamCore, StreamCut, StreamFailure, StreamGroup, StreamHop, StreamOperator,
    StreamPlanResult, StreamRate, StreamRunResult, StreamShortfall, StreamSimPoint, StreamSimResult,
    StreamSink, StreamSnapshots, StreamSource, StreamTopologyResult, StreamWindow,
};
pub use sweep::{SweepLimit, SweepPoint, SweepResult};
pub use top::{TopResult, TopShare, TopWindow};
pub use validate::{
    Accuracy, ErrorBin, Kind, KindError, LabelAgreement, Labels, QuantilePoint, RequestError, ValidateResult,
};
pub use waits::{FileWaits, WaitsResult};

pub(crate) use iorate::owners;
pub(crate) use probe::{Group, groups, limit_name};
pub(crate) use scenario::{points, regulation};
pub(crate) use sim::chart::compare as compare_charts;
pub(crate) use sim::{compare, same_workload};
pub(crate) use sweep::point_name;
