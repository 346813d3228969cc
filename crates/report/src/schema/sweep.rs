//! The result of an exploration of parameters.

use serde::{Deserialize, Serialize};

use crate::pareto::Objectives;

/// One trace on one drive with many settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepResult {
    /// The name of the trace.
    pub trace: String,
    /// The name of the drive.
    pub drive: String,
    /// What was set differently from the drive's own file at every point.
    #[serde(default)]
    pub settings: Vec<String>,
    /// The keys that were varied.
    pub varied: Vec<String>,
    /// One point for each combination of values.
    pub points: Vec<SweepPoint>,
}

/// One combination of values and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// The values, in the order of [`SweepResult::varied`].
    pub values: Vec<String>,
    /// Full and active hits over reads.
    pub hit_ratio: f64,
    /// Mean response of all commands.
    pub response_mean_ns: u64,
    /// 99 % of the commands took no longer.
    pub response_p99_ns: u64,
    /// The worst response.
    pub response_max_ns: u64,
    /// All positionings of the head.
    pub seeks: u64,
    /// Share of the time in which the disk had nothing to do.
    pub idle_ratio: f64,
    /// No other point is at least as good in every objective and better in one.
    pub undominated: bool,
}

impl SweepPoint {
    /// What the point is judged by.
    #[must_use]
    pub(crate) fn objectives(&self) -> Objectives {
        Objectives {
            hit_ratio: self.hit_ratio,
            response_mean_ns: self.response_mean_ns,
            response_max_ns: self.response_max_ns,
        }
    }
}

impl SweepResult {
    /// Works out [`SweepPoint::undominated`] for every point.
    pub fn mark_undominated(&mut self) {
        let objectives: Vec<Objectives> = self.points.iter().map(SweepPoint::objectives).collect();
        for (point, undominated) in self.points.iter_mut().zip(crate::pareto::undominated(&objectives)) {
            point.undominated = undominated;
        }
    }
}
