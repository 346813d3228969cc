//! A regulated device and those who use it.

use serde::{Deserialize, Serialize};

/// How things are on a mount, at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IorateResult {
    /// The file or directory that was asked about.
    pub mount: String,
    /// The device's time since it was mounted.
    pub at_ns: u64,
    /// The device.
    pub device: IorateDevice,
    /// Those who use it, as far as they were asked about.
    pub owners: Vec<IorateOwner>,
    /// The program that was run with a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<IorateProgram>,
}

/// The device behind a mount.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IorateDevice {
    /// What it is.
    pub name: String,
    /// How it is regulated: `ours` or `thesis`.
    pub policy: String,
    /// What one I/O takes it, as measured.
    pub service_ns: u64,
    /// How many unregulated requests may be in it when a regulated one comes.
    pub allowance: u32,
    /// How many it serves side by side, as measured.
    pub parallel_ratio: f64,
    /// Requests in it.
    pub in_device: u64,
    /// Requests that wait to be let in.
    pub waiting: u64,
    /// Requests answered since the mount.
    pub requests: u64,
    /// Time that it was busy since the mount; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ns: Option<u64>,
    /// Requests answered in a second, since the look before; absent at the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_s: Option<f64>,
    /// The share of the time that it was busy, since the look before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_ratio: Option<f64>,
    /// Traffic beside the mount, as long as it is seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bypass: Option<IorateBypass>,
}

/// Somebody uses the device past the mount, so that no rate can be kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IorateBypass {
    /// Which block device.
    pub device: String,
    /// Requests a second that did not come through the mount.
    pub requests_per_s: f64,
    /// The share of them in all its requests.
    pub share_ratio: f64,
}

/// Whose I/O shares one rate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum IorateTarget {
    /// A process with all its threads.
    Process {
        /// Its number.
        pid: u32,
    },
    /// A process and all that it starts, and they start.
    Tree {
        /// The number of the first.
        pid: u32,
    },
    /// The processes of a control group and of those below it.
    Group {
        /// From the root of the hierarchy on.
        path: String,
    },
}

/// Somebody who uses the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IorateOwner {
    /// In order of their coming, from 1.
    pub number: u64,
    /// Who.
    #[serde(flatten)]
    pub target: IorateTarget,
    /// The name of the process's program; of a group, its path.
    pub name: String,
    /// What was asked for: so many percent of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_percent: Option<u32>,
    /// What was asked for: an I/O each so many nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ns: Option<u64>,
    /// It is kept only as well as can be.
    pub best_effort: bool,
    /// How long an I/O is to take now; absent without a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ideal_ns: Option<u64>,
    /// What the last ones took, in the mean; absent where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ns: Option<u64>,
    /// The mean of actual over ideal time of the last ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_ratio: Option<f64>,
    /// The standard deviation of the last ones' time over its mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cov_ratio: Option<f64>,
    /// I/Os that have ended since the rate was set, or since it was first seen.
    pub ios: u64,
    /// Those that the device had not done in time.
    pub late: u64,
    /// Requests that have not been answered.
    pub unanswered: u64,
    /// I/Os that have ended in a second, since the look before; absent at the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ios_per_s: Option<f64>,
}

impl IorateOwner {
    /// Whether it was asked for a rate.
    #[must_use]
    pub fn has_rate(&self) -> bool {
        self.rate_percent.is_some() || self.every_ns.is_some()
    }
}

/// A program that was run with a rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IorateProgram {
    /// It and its arguments.
    pub words: Vec<String>,
    /// What it returned; absent where it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// The signal that killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i64>,
    /// From its start to its end.
    pub elapsed_ns: u64,
}
