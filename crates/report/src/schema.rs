//! What `--json` prints, and what every report is made from.
//!
//! Keys end in their base unit (`_ns`, `_bytes`, `_ratio`; counts are bare). `result` holds the same bytes for the same
//! input in virtual time; `run` holds what differs from run to run. Keys that a reader does not know are ignored.

mod iorate;
mod job;
mod mount;
mod probe;
mod regulation;
mod run;
mod scenario;
mod sim;
mod sweep;
mod top;
mod validate;

use serde::{Deserialize, Serialize};

pub use iorate::{IorateBypass, IorateDevice, IorateOwner, IorateProgram, IorateResult, IorateTarget};
pub use job::{ScenarioJob, ScenarioJobRun};
pub use mount::{MountClass, MountRates, MountResult, MountTimes, MountWindow};
pub use probe::{ProbeCase, ProbeChoice, ProbeLatency, ProbeRange, ProbeResult, ProbeTarget, ProbeVerdict};
pub use regulation::{AllowancePoint, RegulatedProgram, RegulationPoint};
pub use run::{RunAdvice, RunIdle, RunPoint, RunReading, RunReason, RunResult};
pub use scenario::{DistancePoint, ScenarioPoint, ScenarioProcess, ScenarioResult};
pub use sim::{
    ChunkMode, ChunkPoint, Chunking, ClassBreakdown, CurvePoint, DiskTime, HistogramBin, HostQueue,
    ReadCounts, ResponseSummary, Seeks, SimResult, Spread,
};
pub use sweep::{SweepLimit, SweepPoint, SweepResult};
pub use top::{TopResult, TopShare, TopWindow};
pub use validate::{
    Accuracy, ErrorBin, Kind, KindError, LabelAgreement, Labels, QuantilePoint, RequestError, ValidateResult,
};

/// The name and version of a [`SimResult`] document.
pub const SIM_SCHEMA: &str = "sakiyomi.sim/1";

/// The name and version of a [`SweepResult`] document.
pub const SWEEP_SCHEMA: &str = "sakiyomi.sweep/1";

/// The name and version of a [`ValidateResult`] document.
pub const VALIDATE_SCHEMA: &str = "sakiyomi.validate/1";

/// The name and version of a [`ProbeResult`] document.
pub const PROBE_SCHEMA: &str = "sakiyomi.probe/1";

/// The name and version of a [`RunResult`] document.
pub const RUN_SCHEMA: &str = "sakiyomi.run/1";

/// The name and version of an [`IorateResult`].
pub const IORATE_SCHEMA: &str = "sakiyomi.iorate/1";

/// The name and version of a [`MountResult`].
pub const MOUNT_SCHEMA: &str = "sakiyomi.mount/1";

/// The name and version of a [`TopResult`] document.
pub const TOP_SCHEMA: &str = "sakiyomi.iorate_top/1";

/// The name and version of a [`ScenarioResult`] document.
pub const SCENARIO_SCHEMA: &str = "sakiyomi.scenario/1";

/// One result with what is known about the run that made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document<R> {
    /// Name and version of the result's schema, such as [`SIM_SCHEMA`].
    pub schema: String,
    /// How, when and where the result was made.
    pub run: Run,
    /// The result itself.
    pub result: R,
}

impl Document<SimResult> {
    /// A document of one simulation.
    #[must_use]
    pub fn sim(run: Run, result: SimResult) -> Self {
        Document { schema: SIM_SCHEMA.to_owned(), run, result }
    }
}

impl Document<SweepResult> {
    /// A document of one exploration of parameters.
    #[must_use]
    pub fn sweep(run: Run, result: SweepResult) -> Self {
        Document { schema: SWEEP_SCHEMA.to_owned(), run, result }
    }
}

impl Document<ValidateResult> {
    /// A document of one comparison with a measured drive.
    #[must_use]
    pub fn validate(run: Run, result: ValidateResult) -> Self {
        Document { schema: VALIDATE_SCHEMA.to_owned(), run, result }
    }
}

impl Document<ProbeResult> {
    /// A document of one measurement of methods of I/O.
    #[must_use]
    pub fn probe(run: Run, result: ProbeResult) -> Self {
        Document { schema: PROBE_SCHEMA.to_owned(), run, result }
    }
}

impl Document<RunResult> {
    /// A document of one program that was run with reading ahead.
    #[must_use]
    pub fn run(run: Run, result: RunResult) -> Self {
        Document { schema: RUN_SCHEMA.to_owned(), run, result }
    }
}

impl Document<MountResult> {
    /// A document of one mount.
    #[must_use]
    pub fn mount(run: Run, result: MountResult) -> Self {
        Document { schema: MOUNT_SCHEMA.to_owned(), run, result }
    }
}

impl Document<TopResult> {
    /// A document of the observation of a regulated device.
    #[must_use]
    pub fn top(run: Run, result: TopResult) -> Self {
        Document { schema: TOP_SCHEMA.to_owned(), run, result }
    }
}

impl Document<ScenarioResult> {
    /// A document of one experiment in virtual time.
    #[must_use]
    pub fn scenario(run: Run, result: ScenarioResult) -> Self {
        Document { schema: SCENARIO_SCHEMA.to_owned(), run, result }
    }
}

/// What differs from run to run.
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
    /// The build of sakiyomi, as reports name it: `0.1.0 (1a2b3c4d5e)`, or the version alone.
    pub(crate) fn build(&self) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use proptest::prelude::*;

    #[test]
    fn keys_of_a_simulation_are_stable() {
        let mut document = sample::document("long");
        document.result.chunks.truncate(1);
        document.result.response_curve.truncate(1);
        document.result.response_histogram.truncate(1);
        document.result.breakdown_mean_ns.truncate(1);
        insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
    }

    #[test]
    fn a_run_names_the_commit_where_it_is_known() {
        let built = Run { commit: Some("1a2b3c4d5e".to_owned()), ..sample::run() };
        assert_eq!(serde_json::to_value(&built).unwrap()["commit"], "1a2b3c4d5e");
        assert_eq!(built.build(), "0.1.0 (1a2b3c4d5e)");
        // Of results that an older sakiyomi, or one from a source archive, has left.
        let unknown = serde_json::to_value(sample::run()).unwrap();
        assert!(unknown.get("commit").is_none());
        let read: Run = serde_json::from_value(unknown).unwrap();
        assert_eq!((read.commit.as_deref(), read.build().as_str()), (None, "0.1.0"));
    }

    #[test]
    fn keys_of_a_validation_are_stable() {
        let mut document = sample::validation();
        document.result.quantile_curve.truncate(1);
        document.result.error_histogram.truncate(1);
        document.result.free.kinds.truncate(1);
        document.result.anchored.kinds.clear();
        insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
    }

    #[test]
    fn keys_of_a_probe_are_stable() {
        let mut document = sample::probe();
        document.result.targets.truncate(1);
        document.result.cases.truncate(1);
        document.result.choices.truncate(1);
        insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
    }

    #[test]
    fn keys_of_a_run_are_stable_and_read_back() {
        let mut document = sample::followed();
        document.result.readings[0].points.truncate(1);
        let text = serde_json::to_string_pretty(&document).unwrap();
        assert_eq!(serde_json::from_str::<Document<RunResult>>(&text).unwrap(), document);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn keys_of_a_scenario_are_stable() {
        let mut document = sample::scenario();
        document.result.points.truncate(1);
        document.result.points[0].processes[0].distance.truncate(1);
        insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
    }

    #[test]
    fn keys_of_a_regulated_device_are_stable_and_read_back() {
        let mut result = sample::iorate();
        result.device.bypass =
            Some(IorateBypass { device: "sda".to_owned(), requests_per_s: 1.5, share_ratio: 0.25 });
        result.program = Some(IorateProgram {
            words: vec!["true".to_owned()],
            exit_code: Some(0),
            signal: None,
            elapsed_ns: 7,
        });
        let text = serde_json::to_string_pretty(&result).unwrap();
        assert_eq!(serde_json::from_str::<IorateResult>(&text).unwrap(), result);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn keys_of_a_regulated_experiment_are_stable_and_read_back() {
        let mut document = sample::regulated();
        document.result.points = vec![document.result.points.swap_remove(1)];
        let regulation = document.result.points[0].regulation.as_mut().unwrap();
        regulation.owners.truncate(1);
        regulation.owners[0].quantile_ratios.truncate(1);
        let text = serde_json::to_string_pretty(&document).unwrap();
        assert_eq!(serde_json::from_str::<Document<ScenarioResult>>(&text).unwrap(), document);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn keys_of_a_mount_are_stable_and_read_back() {
        let mut document = Document::mount(Run::default(), sample::live::mount());
        document.result.windows.drain(..60);
        document.result.windows.truncate(1);
        let text = serde_json::to_string_pretty(&document).unwrap();
        assert_eq!(serde_json::from_str::<Document<MountResult>>(&text).unwrap(), document);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn keys_of_a_watched_device_are_stable_and_read_back() {
        let mut document = Document::top(Run::default(), sample::live::top());
        document.result.windows.truncate(1);
        document.result.owners.truncate(1);
        let text = serde_json::to_string_pretty(&document).unwrap();
        assert_eq!(serde_json::from_str::<Document<TopResult>>(&text).unwrap(), document);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn unknown_keys_are_ignored() {
        let text = r#"{"kernel":"k","cpu":"c","cores":1,"memory_bytes":2,"colour":"red"}"#;
        assert_eq!(serde_json::from_str::<Machine>(text).unwrap().cores, 1);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_and_writes_the_same_bytes(mut result in sample::any_result(), share in 0u16..) {
            // serde_json reads a fraction of up to 15 digits exactly, and longer ones to the last bit but one.
            result.hit_ratio = f64::from(share) / 1024.0;
            result.response_curve.iter_mut().for_each(|point| point.share_ratio = f64::from(share) / 1024.0);
            let document = Document::sim(Run::default(), result);
            let text = serde_json::to_string(&document).unwrap();
            let read: Document<SimResult> = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }

        #[test]
        fn a_validation_reads_back(mut result in sample::any_validation(), share in 0u16..) {
            let ratio = f64::from(share) / 1024.0;
            sample::set_ratios(&mut result, ratio);
            let text = serde_json::to_string(&result).unwrap();
            prop_assert_eq!(serde_json::from_str::<ValidateResult>(&text).unwrap(), result);
        }

        #[test]
        fn a_probe_reads_back(result in sample::any_probe()) {
            let text = serde_json::to_string(&result).unwrap();
            prop_assert_eq!(serde_json::from_str::<ProbeResult>(&text).unwrap(), result);
        }
    }
}
