//! How well I/O times were kept in an experiment in virtual time.

use serde::{Deserialize, Serialize};

/// One point of an experiment with regulated programs. Every figure is the median over the runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegulationPoint {
    /// How long was measured in each run.
    pub measured_ns: u64,
    /// I/Os of all programs in a second.
    pub ios_per_s: f64,
    /// The longest that an I/O of a program without a rate took.
    pub longest_other_ns: u64,
    /// The programs with a rate.
    pub owners: Vec<RegulatedProgram>,
    /// What decided how many may be in the device: `formula`, `fixed`, `corrected`, `both-ways`, `deadlines`.
    pub decided_by: String,
    /// The formula's allowance (section 4.2).
    pub formula_allowance: u32,
    /// The allowance of most of the second half.
    pub allowance: u32,
    /// The same in each run.
    pub allowances: Vec<u32>,
    /// After how many regulated I/Os it was that first.
    pub settled_ios: u64,
    /// Regulated I/Os of the first run.
    pub regulated_ios: u64,
    /// When it became what, in the first run.
    pub allowance_course: Vec<AllowancePoint>,
    /// The published best allowance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_best_allowance: Option<u32>,
    /// What else was published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<String>,
}

/// How well one program's I/O time was kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegulatedProgram {
    /// Its name.
    pub name: String,
    /// What it asked for: so many percent of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_percent: Option<u32>,
    /// What it asked for: an I/O each so many nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_every_ns: Option<u64>,
    /// Its I/Os that were measured.
    pub ios: u64,
    /// Mean of actual over ideal time.
    pub accuracy_ratio: f64,
    /// Standard deviation of the I/O time over its mean.
    pub cov_ratio: f64,
    /// Actual over ideal time, which 99 % of the I/Os do not exceed.
    pub p99_ratio: f64,
    /// The share that took longer than the ideal time.
    pub late_ratio: f64,
    /// Mean I/O time.
    pub mean_ns: u64,
    /// Mean ideal time.
    pub ideal_ns: u64,
    /// The accuracy of the I/Os that came half a second or more after the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_pause_ratio: Option<f64>,
    /// Actual over ideal time at 0 %, 1 % … 100 % of the I/Os of the first run.
    pub quantile_ratios: Vec<f64>,
}

/// The allowance from so many regulated I/Os on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowancePoint {
    /// Regulated I/Os that had ended.
    pub ios: u64,
    /// How many might be in the device.
    pub allowance: u32,
}

impl RegulationPoint {
    /// The accuracy of the program that is furthest from its ideal time.
    #[must_use]
    pub fn worst_accuracy(&self) -> f64 {
        let far = |owner: &&RegulatedProgram| (owner.accuracy_ratio - 1.0).abs();
        let worst = self.owners.iter().max_by(|a, b| far(a).total_cmp(&far(b)));
        worst.map_or(f64::NAN, |owner| owner.accuracy_ratio)
    }

    /// The widest spread of the I/O time.
    #[must_use]
    pub fn worst_cov(&self) -> f64 {
        self.owners.iter().map(|owner| owner.cov_ratio).fold(f64::NAN, f64::max)
    }
}
