//! The result of an experiment in virtual time: programs, page cache, prefetching and a drive together.

mod chart;
pub(crate) mod job;
pub(crate) mod points;
mod programs;
pub(crate) mod regulation;

use serde::{Deserialize, Serialize};

use super::DiskTime;
use crate::chart::Chart;
use crate::document::Machine;
use crate::glossary;
use crate::section::{Fact, Finding, Glossary, Present, Section};
use crate::value::Value;

pub use job::{ScenarioJob, ScenarioJobRun};
pub use regulation::{AllowancePoint, RegulatedProgram, RegulationPoint};

/// An experiment with all combinations of the varied values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioResult {
    /// Its name.
    pub name: String,
    /// The name of the drive.
    pub drive: String,
    /// Runs of each point; the shortest time counts, and the medians of regulated figures.
    pub repetitions: u32,
    /// The varied keys.
    pub varied: Vec<String>,
    /// One point for each combination of values.
    pub points: Vec<ScenarioPoint>,
}

/// One combination of values and its figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioPoint {
    /// The values, in the order of [`ScenarioResult::varied`].
    pub values: Vec<String>,
    /// Limit of prefetching: `off`, `auto`, or a size.
    pub limit: String,
    /// The limit in bytes, if it is a size.
    pub limit_bytes: Option<u64>,
    /// Time in nanoseconds from the beginning until the last program has ended.
    pub elapsed_ns: u64,
    /// Elapsed time without prefetching, in nanoseconds.
    pub plain_elapsed_ns: u64,
    /// Elapsed time without prefetching over that with it, less one.
    pub speedup_ratio: f64,
    /// The published time for this point, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_elapsed_ns: Option<u64>,
    /// The published speed-up for this point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_speedup_ratio: Option<f64>,
    /// The programs.
    pub processes: Vec<ScenarioProcess>,
    /// The jobs of tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<ScenarioJob>,
    /// The time of the drive's mechanism by activity; `None` for a device without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_time_ns: Option<DiskTime>,
    /// Accuracy of I/O times; `None` without regulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regulation: Option<RegulationPoint>,
}

/// The outcome of one program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioProcess {
    /// Its name.
    pub name: String,
    /// Elapsed time in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time in nanoseconds, including hops.
    pub computing_ns: u64,
    /// CPU time in nanoseconds of hops between cores, and of wake-ups; `None` if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops_ns: Option<u64>,
    /// Time in nanoseconds for which it was ready to run and shared a core.
    pub queued_ns: u64,
    /// Time in nanoseconds for which it waited for its reads.
    pub io_wait_read_ns: u64,
    /// Time in nanoseconds for which it could not write because of too many dirty pages.
    pub io_wait_write_ns: u64,
    /// Time in nanoseconds for which it paused.
    pub paused_ns: u64,
    /// Time in nanoseconds of reads that overlapped with its other activity.
    pub hidden_ns: u64,
    /// Bytes that it read.
    pub read_bytes: u64,
    /// Bytes that it wrote.
    pub written_bytes: u64,
    /// Bytes prefetched for it.
    pub prefetched_bytes: u64,
    /// Prefetched bytes that were evicted before the program reached them.
    pub wasted_bytes: u64,
    /// Longest distance of the prefetcher ahead of the program.
    pub distance_max_bytes: u64,
    /// Its distance over time.
    pub distance: Vec<DistancePoint>,
    /// The prefetcher's decision at the end; empty without one.
    pub prefetcher: String,
}

/// Maximum distance of the prefetcher from an instant on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DistancePoint {
    /// The instant, in nanoseconds.
    pub at_ns: u64,
    /// The distance in bytes.
    pub bytes: u64,
}

impl ScenarioProcess {
    /// Returns the I/O wait in nanoseconds.
    #[must_use]
    pub fn io_wait_ns(&self) -> u64 {
        self.io_wait_read_ns.saturating_add(self.io_wait_write_ns)
    }
}

impl Present for ScenarioResult {
    const SCHEMA: &'static str = "sakiyomi.scenario/1";

    fn title(&self) -> String {
        self.name.clone()
    }

    fn verdict(&self) -> Vec<Finding> {
        Finding::whole(programs::verdict(self))
    }

    fn settings(&self) -> Vec<Fact> {
        let figures = if regulation::is_regulated(self) {
            "the figures are medians"
        } else {
            "of which the shortest time counts"
        };
        let repetitions = (self.repetitions > 1).then(|| format!("{}, {figures}", self.repetitions));
        let varied = (!self.varied.is_empty()).then(|| Fact::new("Varied", Value::Keys(self.varied.clone())));
        std::iter::once(Fact::new("Drive", self.drive.as_str()))
            .chain(varied)
            .chain(repetitions.map(|text| Fact::new("Repetitions", text)))
            .collect()
    }

    fn sections(&self) -> Vec<Section> {
        let points = (!programs::is_of_jobs_alone(self)).then(|| programs::table(self));
        let tables = regulation::best_table(self).into_iter().chain(job::table(self)).chain(points);
        tables.map(Section::Table).collect()
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        let mut charts = chart::regulation::charts(self);
        // With guaranteed I/O times, the division of time says little.
        if charts.is_empty() {
            charts = chart::charts(self);
        }
        charts.extend(chart::job::charts(self));
        charts
    }

    fn glossary(&self) -> Glossary {
        match (regulation::is_regulated(self), programs::is_of_jobs_alone(self)) {
            (true, _) => glossary::REGULATED,
            (false, true) => glossary::JOBS,
            (false, false) => glossary::PROGRAMS,
        }
    }
}
