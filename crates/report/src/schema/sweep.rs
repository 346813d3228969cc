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
    /// The first point, by its number from 0, whose drive is the same once limits are applied; none for a drive of its
    /// own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_drive_as_point: Option<u64>,
    /// Varied settings whose effective values differ from the written ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<SweepLimit>,
}

/// A setting whose effective value differs from the written one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SweepLimit {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The effective value; none if the setting has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acts_as: Option<String>,
    /// The keys that limit it.
    pub limited_by: Vec<String>,
}

impl SweepLimit {
    /// The limit as a sentence without its end.
    pub(crate) fn describe(&self) -> String {
        let SweepLimit { key, value, acts_as, limited_by } = self;
        let (keys, limit) =
            (limited_by.join(" and "), if limited_by.len() == 1 { "limits" } else { "limit" });
        match acts_as {
            Some(other) => format!("{key} = {value} acts as {other}: {keys} {limit} it"),
            None => format!("{key} = {value} has no effect because of {keys}"),
        }
    }
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
    /// All limits, each once, in order.
    pub(crate) fn limits(&self) -> Vec<&SweepLimit> {
        let all: std::collections::BTreeSet<&SweepLimit> =
            self.points.iter().flat_map(|point| &point.limits).collect();
        all.into_iter().collect()
    }

    /// Values of the earlier point with the same drive as `point`, if any.
    pub(crate) fn same_drive(&self, point: &SweepPoint) -> Option<String> {
        let number = usize::try_from(point.same_drive_as_point?).ok()?;
        self.points.get(number).map(|first| first.values.join(", "))
    }

    /// How many points have the drive of an earlier one.
    pub(crate) fn repeated(&self) -> usize {
        self.points.iter().filter(|point| point.same_drive_as_point.is_some()).count()
    }

    /// Works out [`SweepPoint::undominated`] for every point.
    pub fn mark_undominated(&mut self) {
        let objectives: Vec<Objectives> = self.points.iter().map(SweepPoint::objectives).collect();
        for (point, undominated) in self.points.iter_mut().zip(crate::pareto::undominated(&objectives)) {
            point.undominated = undominated;
        }
    }
}
