//! Results: each type is the JSON of `--json`, and its [`Present`] describes the report.
//!
//! Keys end in their base unit (`_ns`, `_bytes`, `_ratio`; counts are bare). `result` holds the same bytes for the same
//! input in virtual time; `run` holds what differs from run to run. Keys that a reader does not know are ignored.

mod iorate;
mod mount;
mod pareto;
mod probe;
mod run;
mod scenario;
mod sim;
mod sweep;
mod top;
mod validate;

use serde::{Deserialize, Serialize};

use crate::number::{bytes, duration, plural, round_count, times};
use crate::section::Present;

pub use iorate::{IorateBypass, IorateDevice, IorateOwner, IorateProgram, IorateResult, IorateTarget};
pub use mount::{MountClass, MountRates, MountResult, MountTimes, MountWindow};
pub use probe::{ProbeCase, ProbeChoice, ProbeLatency, ProbeRange, ProbeResult, ProbeTarget, ProbeVerdict};
pub use run::{RunAdvice, RunIdle, RunPoint, RunReading, RunReason, RunResult};
pub use scenario::{
    AllowancePoint, DistancePoint, RegulatedProgram, RegulationPoint, ScenarioJob, ScenarioJobRun,
    ScenarioPoint, ScenarioProcess, ScenarioResult,
};
pub use sim::{
    ChunkMode, ChunkPoint, Chunking, ClassBreakdown, CurvePoint, DiskTime, HistogramBin, HostQueue,
    ReadCounts, ResponseSummary, Seeks, SimResult, Spread, curve_shares,
};
pub use sweep::{SweepLimit, SweepPoint, SweepResult};
pub use top::{TopResult, TopShare, TopWindow};
pub use validate::{
    Accuracy, ErrorBin, Kind, KindError, LabelAgreement, Labels, QuantilePoint, RequestError, ValidateResult,
};

pub(crate) use iorate::owners;
pub(crate) use probe::{Group, groups, limit_name};
pub(crate) use scenario::{points, regulation};
pub(crate) use sim::{compare, same_workload};
pub(crate) use sweep::point_name;

/// One result with what is known about the run that made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document<R> {
    /// Name and version of the result's schema: [`Present::SCHEMA`].
    pub schema: String,
    /// How, when and where the result was made.
    pub run: Run,
    /// The result itself.
    pub result: R,
}

impl<R: Present> Document<R> {
    /// A document of a result.
    #[must_use]
    pub fn new(run: Run, result: R) -> Self {
        Document { schema: R::SCHEMA.to_owned(), run, result }
    }
}

/// Circumstances of a run, which differ from run to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The command line.
    pub command: Vec<String>,
    /// The version of sakiyomi.
    pub version: String,
    /// The commit that sakiyomi was built from, abbreviated; none for a build outside a git checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// How long it took.
    pub wall_ns: u64,
    /// Where it ran.
    pub machine: Machine,
    /// Commands simulated in a second of wall time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands_per_s: Option<f64>,
    /// Simulated time over wall time: 130 means 130 times as fast as the drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_per_wall_ratio: Option<f64>,
}

impl Run {
    /// How long it took, where, and by which build: `took 7.70 s, 130 × real time`, `Example CPU, 4 cores, 16.0 GiB` …
    pub(crate) fn origin(&self) -> Vec<String> {
        let ratio = self.simulated_per_wall_ratio.map(|ratio| format!("{} × real time", times(ratio)));
        let rate = self.commands_per_s.map(|rate| format!("{} commands/s", round_count(rate.round())));
        let took = [Some(format!("took {}", duration(self.wall_ns))), ratio, rate];
        let Machine { kernel, cpu, cores, memory_bytes } = &self.machine;
        let hardware = format!("{cpu}, {}, {}", plural(*cores, "core"), bytes(*memory_bytes));
        let parts = [
            took.into_iter().flatten().collect::<Vec<String>>().join(", "),
            if cpu.is_empty() { String::new() } else { hardware },
            kernel.clone(),
            if self.version.is_empty() { String::new() } else { format!("sakiyomi {}", self.build()) },
        ];
        parts.into_iter().filter(|part| !part.is_empty()).collect()
    }

    /// The build of sakiyomi, as reports name it: `0.1.0 (1a2b3c4d5e)`, or the version alone.
    #[must_use]
    pub fn build(&self) -> String {
        match &self.commit {
            Some(commit) => format!("{} ({commit})", self.version),
            None => self.version.clone(),
        }
    }
}

/// The machine that a run was made on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name and release of the kernel.
    pub kernel: String,
    /// The processor's model.
    pub cpu: String,
    /// How many processors were usable.
    pub cores: u64,
    /// Main memory.
    pub memory_bytes: u64,
}
