//! A regulated device and the owners of I/O on it.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::document::Machine;
use crate::glossary;
use crate::number::{count, duration, per_second, times, whole_percent};
use crate::rows::Rows;
use crate::section::{Emphasis, Fact, Finding, Glossary, Present, Report, Reported, Section, Table};
use crate::value::Value;
use crate::words::one_line;

/// The state of a mount at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IorateResult {
    /// The requested file or directory.
    pub mount: String,
    /// The device's time since the mount, in nanoseconds.
    pub at_ns: u64,
    /// The device.
    pub device: IorateDevice,
    /// The requested owners of I/O.
    pub owners: Vec<IorateOwner>,
    /// The program that was run with a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<IorateProgram>,
}

/// The device behind a mount.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IorateDevice {
    /// Its name.
    pub name: String,
    /// The policy of its regulator: `deadline` or `thesis`.
    pub policy: String,
    /// Measured service time of one I/O in nanoseconds.
    pub service_ns: u64,
    /// Unregulated requests that may be in the device when a regulated one arrives.
    pub allowance: u32,
    /// Measured number of requests that it serves in parallel.
    pub parallel_ratio: f64,
    /// Requests in the device.
    pub in_device: u64,
    /// Requests that wait for admission.
    pub waiting: u64,
    /// Requests answered since the mount.
    pub requests: u64,
    /// Time in nanoseconds for which it was busy since the mount; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ns: Option<u64>,
    /// Requests answered per second since the previous poll; absent at the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_s: Option<f64>,
    /// Share of the time for which it was busy since the previous poll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ratio: Option<f64>,
    /// Traffic that bypasses the mount, while it is detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bypass: Option<IorateBypass>,
}

/// Traffic that bypasses the mount, so that no rate can be guaranteed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IorateBypass {
    /// The name of the block device.
    pub device: String,
    /// Requests per second that did not come through the mount.
    pub requests_per_s: f64,
    /// Their share of all requests of the device.
    pub share_ratio: f64,
}

/// The processes that share one rate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum IorateTarget {
    /// A process with all its threads.
    Process {
        /// Its PID.
        pid: u32,
    },
    /// A process and all of its descendants.
    Tree {
        /// PID of the root process.
        pid: u32,
    },
    /// The processes of a control group and of those below it.
    Group {
        /// Path from the root of the hierarchy.
        path: String,
    },
}

/// An owner of I/O on the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IorateOwner {
    /// Its number, from 1, in order of arrival.
    pub number: u64,
    /// Its processes.
    #[serde(flatten)]
    pub target: IorateTarget,
    /// The name of the process's program; of a group, its path.
    pub name: String,
    /// The requested rate, in percent of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_percent: Option<u32>,
    /// The requested rate, as the time between I/Os in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ns: Option<u64>,
    /// Whether the rate is accepted even if it cannot be guaranteed.
    pub best_effort: bool,
    /// Present ideal time of an I/O in nanoseconds; absent without a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ideal_ns: Option<u64>,
    /// Mean time of the most recent I/Os in nanoseconds; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ns: Option<u64>,
    /// Mean of actual over ideal time of the most recent I/Os.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_ratio: Option<f64>,
    /// Coefficient of variation of the time of the most recent I/Os.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cov_ratio: Option<f64>,
    /// I/Os that have ended since the rate was set, or since it was first seen.
    pub ios: u64,
    /// Number of these that the device had not completed in time.
    pub late: u64,
    /// Requests not yet answered.
    pub unanswered: u64,
    /// I/Os that have ended per second since the previous poll; absent at the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ios_per_s: Option<f64>,
}

impl IorateOwner {
    /// Returns whether a rate was requested.
    #[must_use]
    pub fn has_rate(&self) -> bool {
        self.rate_percent.is_some() || self.every_ns.is_some()
    }
}

/// A program that was run with a rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IorateProgram {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Its exit code; absent if a signal killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// The signal that killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i64>,
    /// Elapsed time in nanoseconds.
    pub elapsed_ns: u64,
}

impl Present for IorateResult {
    const SCHEMA: &'static str = "sakiyomi.iorate/2";

    fn title(&self) -> String {
        self.mount.clone()
    }

    fn verdict(&self) -> Vec<Finding> {
        let finding = |sentence| Finding { sentences: vec![sentence], ..Finding::default() };
        let nobody =
            self.owners.is_empty().then(|| finding("No process has a rate on this mount.".to_owned()));
        let bypass = self.device.bypass.as_ref().map(IorateBypass::describe);
        let device = self.device.describe().map(finding).into_iter();
        device
            .chain(bypass.map(|bypass| Finding { is_alarm: true, ..finding(bypass) }))
            .chain(nobody)
            .collect()
    }

    fn settings(&self) -> Vec<Fact> {
        Vec::new()
    }

    fn sections(&self) -> Vec<Section> {
        vec![Section::Table(owners(&self.owners))]
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        Vec::new()
    }

    fn glossary(&self) -> Glossary {
        glossary::TOP
    }
}

impl Reported for IorateResult {
    fn report(&self) -> Report<'_> {
        self.alone()
    }

    fn charts(&self) -> Vec<Chart> {
        Vec::new()
    }
}

impl IorateDevice {
    /// Describes its kind and its activity in two sentences.
    pub(crate) fn describe(&self) -> [String; 2] {
        let mut is = format!("{}: ", one_line(&self.name));
        let _ = match self.service_ns {
            0 => write!(is, "no I/O measured yet"),
            service => write!(is, "an I/O takes {}", duration(service)),
        };
        if self.parallel_ratio > 1.05 {
            let _ = write!(is, ", {} in parallel", times(self.parallel_ratio));
        }
        let _ = write!(is, "; allowance {}, policy {}", self.allowance, one_line(&self.policy));
        let mut does = String::new();
        if let Some(busy) = self.busy_ratio {
            let _ = write!(does, "busy {}, ", whole_percent(busy));
        }
        if let Some(rate) = self.requests_per_s {
            let _ = write!(does, "{} requests/s, ", per_second(rate));
        }
        let _ = write!(
            does,
            "{} in it, {} waiting, {} answered",
            count(self.in_device),
            count(self.waiting),
            count(self.requests)
        );
        [is, does]
    }
}

impl IorateBypass {
    /// Describes in a sentence that rates cannot be guaranteed.
    #[must_use]
    pub fn describe(&self) -> String {
        format!(
            "BYPASSED: {} requests/s ({}) to {} bypass the mount; no rate can be guaranteed",
            per_second(self.requests_per_s),
            whole_percent(self.share_ratio),
            one_line(&self.device)
        )
    }
}

/// Deviation of an accuracy from 1 from which it is highlighted.
const ACCURACY_TOLERANCE: f64 = 0.1;

/// Returns the table of a device's owners.
pub(crate) fn owners(owners: &[IorateOwner]) -> Table {
    let exact = |ratio| Value::Number(ratio, 3);
    let rate = |owner: &IorateOwner| {
        let mark = if owner.best_effort { " *" } else { "" };
        Value::known(owner.rate(), |rate| (rate + mark).into())
    };
    let best_effort = owners.iter().any(|owner| owner.best_effort);
    Rows::new("owners", "Users of the device", owners)
        .text("who", |owner| owner.who())
        .figure("rate", |owner| rate(owner))
        .figure("ideal", |owner| Value::known(owner.ideal_ns, Value::Time))
        .spare(4)
        .figure("mean", |owner| Value::known(owner.mean_ns, Value::Time))
        .figure("accuracy", |owner| Value::known(owner.accuracy_ratio, exact))
        .figure("CoV", |owner| Value::known(owner.cov_ratio, exact))
        .spare(5)
        .when(owners.iter().any(|owner| owner.ios_per_s.is_some()), |rows| {
            rows.figure("I/Os/s", |owner| Value::known(owner.ios_per_s, Value::PerSecond)).spare(2)
        })
        .figure("I/Os", |owner| Value::Count(owner.ios))
        .spare(7)
        .figure("late", |owner| Value::known(owner.has_rate().then_some(owner.late), Value::Count))
        .spare(6)
        .figure("queue", |owner| Value::Count(owner.unanswered))
        .spare(3)
        .emphasis(|owner| if owner.is_off() { Emphasis::Off } else { Emphasis::None })
        .legend(if best_effort { "* best effort: without a guarantee" } else { "" })
        .table()
}

impl IorateOwner {
    /// Returns `4711 tar`, or `group /batch`.
    pub(crate) fn who(&self) -> String {
        let name = one_line(&self.name);
        match &self.target {
            IorateTarget::Process { pid } => format!("{pid} {name}"),
            IorateTarget::Tree { pid } => format!("{pid} {name} and children"),
            IorateTarget::Group { path } => format!("group {}", one_line(path)),
        }
    }

    /// Returns the requested rate.
    pub(crate) fn rate(&self) -> Option<String> {
        let percent = self.rate_percent.map(|percent| format!("{percent} %"));
        percent.or_else(|| self.every_ns.map(|every| format!("every {}", duration(every))))
    }

    /// Returns whether its I/O takes clearly longer or shorter than it should.
    fn is_off(&self) -> bool {
        self.accuracy_ratio.is_some_and(|accuracy| (accuracy - 1.0).abs() > ACCURACY_TOLERANCE)
    }
}
