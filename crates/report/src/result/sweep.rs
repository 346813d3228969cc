//! The result of a parameter sweep.

mod chart;

use serde::{Deserialize, Serialize};

use super::pareto::{Objectives, undominated};
use crate::chart::Chart;
use crate::document::Machine;
use crate::glossary;
use crate::number::{duration, percent};
use crate::rows::Rows;
use crate::section::{Emphasis, Fact, Finding, Glossary, Notes, Present, Section, changed};
use crate::value::Value;

/// One trace on one drive with many settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepResult {
    /// The name of the trace.
    pub trace: String,
    /// The name of the drive.
    pub drive: String,
    /// Settings that differ from the drive's own file at every point.
    #[serde(default)]
    pub settings: Vec<String>,
    /// The varied keys.
    pub varied: Vec<String>,
    /// One point for each combination of values.
    pub points: Vec<SweepPoint>,
}

/// One combination of values and its figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// The values, in the order of [`SweepResult::varied`].
    pub values: Vec<String>,
    /// Full and active hits over reads.
    pub hit_ratio: f64,
    /// Mean response of all commands in nanoseconds.
    pub response_mean_ns: u64,
    /// 99th percentile of the response, in nanoseconds.
    pub response_p99_ns: u64,
    /// The worst response in nanoseconds.
    pub response_max_ns: u64,
    /// All positionings of the head.
    pub seeks: u64,
    /// Share of the time for which the disk was idle.
    pub idle_ratio: f64,
    /// Whether no other point is at least as good in every objective and better in one.
    pub undominated: bool,
    /// Index of the first point whose drive is the same once limits are applied; `None` if no earlier point has this
    /// drive.
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
    /// The effective value; `None` if the setting has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acts_as: Option<String>,
    /// The keys that limit it.
    pub limited_by: Vec<String>,
}

impl SweepLimit {
    /// Describes the limit as a sentence without its final full stop.
    fn describe(&self) -> String {
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
    /// Returns the objectives of the point.
    #[must_use]
    fn objectives(&self) -> Objectives {
        Objectives {
            hit_ratio: self.hit_ratio,
            response_mean_ns: self.response_mean_ns,
            response_max_ns: self.response_max_ns,
        }
    }
}

impl SweepResult {
    /// Returns the distinct limits, in order.
    fn limits(&self) -> Vec<&SweepLimit> {
        let all: std::collections::BTreeSet<&SweepLimit> =
            self.points.iter().flat_map(|point| &point.limits).collect();
        all.into_iter().collect()
    }

    /// Returns the values of the earlier point with the same drive as `point`, if any.
    fn same_drive(&self, point: &SweepPoint) -> Option<String> {
        let number = usize::try_from(point.same_drive_as_point?).ok()?;
        self.points.get(number).map(|first| first.values.join(", "))
    }

    /// Returns the number of points that have the drive of an earlier one.
    fn repeated(&self) -> usize {
        self.points.iter().filter(|point| point.same_drive_as_point.is_some()).count()
    }

    /// Determines [`SweepPoint::undominated`] of every point.
    pub fn mark_undominated(&mut self) {
        let objectives: Vec<Objectives> = self.points.iter().map(SweepPoint::objectives).collect();
        for (point, undominated) in self.points.iter_mut().zip(undominated(&objectives)) {
            point.undominated = undominated;
        }
    }
}

impl Present for SweepResult {
    const SCHEMA: &'static str = "sakiyomi.sweep/1";

    fn title(&self) -> String {
        format!("{} on {}: settings explored", self.trace, self.drive)
    }

    fn verdict(&self) -> Vec<Finding> {
        Finding::whole(verdict(self))
    }

    fn settings(&self) -> Vec<Fact> {
        let varied = Fact::new("Varied", Value::Keys(self.varied.clone()));
        changed(&self.settings).chain([varied]).collect()
    }

    fn sections(&self) -> Vec<Section> {
        let limits = self.limits().into_iter().map(SweepLimit::describe);
        let limits = Notes::plain("Settings that are limited by others", limits);
        vec![self.table(), limits]
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        vec![chart::chart(self)]
    }

    fn glossary(&self) -> Glossary {
        glossary::SIM
    }
}

impl SweepResult {
    /// Returns the table, the undominated points first.
    fn table(&self) -> Section {
        let mut points: Vec<&SweepPoint> = self.points.iter().collect();
        points.sort_by_key(|point| !point.undominated);
        let mark = |point: &&SweepPoint| if point.undominated { "●" } else { "" };
        let emphasis = |point: &&SweepPoint| match point.undominated {
            true => Emphasis::Best,
            false => Emphasis::None,
        };
        let mut rows = Rows::new("points", "All points", points).text("", mark).emphasis(emphasis);
        // A point may have more or fewer values than there are keys; rows and header are still aligned.
        let keys = self.points.iter().map(|point| point.values.len()).fold(self.varied.len(), usize::max);
        for key in 0..keys {
            let name = self.varied.get(key).cloned().unwrap_or_default();
            rows = rows.text(name, |point| point.values.get(key).map_or("", String::as_str));
        }
        rows.figure("hit rate", |point| Value::Share(point.hit_ratio))
            .figure("mean", |point| Value::Time(point.response_mean_ns))
            .figure("p99", |point| Value::Time(point.response_p99_ns))
            .figure("longest", |point| Value::Time(point.response_max_ns))
            .figure("seeks", |point| Value::Count(point.seeks))
            .figure("idle", |point| Value::Share(point.idle_ratio))
            .when(self.repeated() > 0, |rows| {
                rows.figure("same drive as", |point| self.same_drive(point).unwrap_or_default())
            })
            .legend("● undominated; these come first.")
            .section()
    }
}

/// Returns sentences about a sweep.
fn verdict(result: &SweepResult) -> Vec<String> {
    let front: Vec<&SweepPoint> = result.points.iter().filter(|point| point.undominated).collect();
    let Some(first) = front.first() else {
        return vec!["No settings were simulated.".to_owned()];
    };
    let are = if front.len() == 1 { "is" } else { "are" };
    let mut sentences =
        vec![format!("{} of {} combinations {are} undominated.", front.len(), result.points.len())];
    match result.repeated() {
        0 => {}
        1 => sentences.push("One combination has the same effective drive as an earlier one.".to_owned()),
        more => {
            sentences.push(format!("{more} combinations have the same effective drive as an earlier one."))
        }
    }
    let hits =
        front.iter().fold(first, |best, point| if point.hit_ratio > best.hit_ratio { point } else { best });
    let mean = front.iter().min_by_key(|point| point.response_mean_ns).unwrap_or(first);
    let worst = front.iter().min_by_key(|point| point.response_max_ns).unwrap_or(first);
    sentences.push(format!(
        "The highest hit rate is {}, with {}.",
        percent(hits.hit_ratio),
        point_name(hits)
    ));
    sentences.push(format!(
        "The shortest mean response is {}, with {}.",
        duration(mean.response_mean_ns),
        point_name(mean)
    ));
    sentences.push(format!(
        "The shortest worst response is {}, with {}.",
        duration(worst.response_max_ns),
        point_name(worst)
    ));
    sentences
}

/// Returns the values of a point as one name.
pub(crate) fn point_name(point: &SweepPoint) -> String {
    if point.values.is_empty() { "the defaults".to_owned() } else { point.values.join(" · ") }
}
