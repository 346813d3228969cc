//! A sweep: one trace on a drive with all combinations of some settings.

pub(crate) mod table;

use std::collections::BTreeMap;

use sakiyomi_drive::observe::Chunking;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::Nanos;
use sakiyomi_report::SweepResult;
use sakiyomi_report::result::{SweepLimit, SweepPoint};

use crate::simulate::Progress;
use crate::vary::combinations;
use crate::{Error, PointsTable, Varied, Workload, simulate};

/// The combinations of a sweep. A point depends on no other one.
#[derive(Clone, Debug)]
pub struct Sweep {
    varied: Varied,
    /// The values of each point, and its drive.
    points: Vec<(Vec<String>, DriveSpec)>,
}

/// One combination, simulated.
#[derive(Clone, Debug)]
pub struct SimulatedPoint {
    /// Its figures, not yet compared with those of other points.
    pub point: SweepPoint,
    /// The commands that were simulated.
    pub commands: u64,
    /// The simulated time.
    pub simulated: Nanos,
}

impl Sweep {
    /// Returns the combinations of `varied` on `spec`, the last key varying fastest.
    ///
    /// # Errors
    /// If a setting is not one, a combination is impossible, two values of a key are equivalent, or there are more than
    /// 100,000 combinations.
    pub fn new(spec: &DriveSpec, varied: Varied) -> Result<Sweep, Error> {
        let sweep = Sweep::unchecked(spec, varied)?;
        for (values, _) in &sweep.points {
            let keys = sweep.varied.iter().map(|(key, _)| key.as_str());
            spec.with_settings(keys.zip(values.iter().map(String::as_str)))?;
        }
        Ok(sweep)
    }

    /// As [`Sweep::new`] for combinations that were checked before: those of shards that have been run.
    ///
    /// # Errors
    /// As [`Sweep::new`], but impossible combinations are not found.
    pub fn unchecked(spec: &DriveSpec, varied: Varied) -> Result<Sweep, Error> {
        let points = combinations(spec, &varied, |drive, key, value| Ok(drive.set(key, value)?))?;
        Ok(Sweep { varied, points })
    }

    /// The varied keys with their values.
    #[must_use]
    pub fn varied(&self) -> &Varied {
        &self.varied
    }

    /// The values of each point, and its drive.
    #[must_use]
    pub fn points(&self) -> &[(Vec<String>, DriveSpec)] {
        &self.points
    }

    /// Returns the result of all points, compared with each other. `settings` are those that differ from the drive's own
    /// file at every point.
    #[must_use]
    pub fn result(&self, trace: &str, settings: &[String], mut points: Vec<SweepPoint>) -> SweepResult {
        mark_same_drives(&mut points, &self.points, &self.varied);
        let mut result = SweepResult {
            trace: trace.to_owned(),
            drive: self.points.first().map(|(_, drive)| drive.name.clone()).unwrap_or_default(),
            settings: settings.to_vec(),
            varied: self.varied.iter().map(|(key, _)| key.clone()).collect(),
            points,
        };
        result.mark_undominated();
        result
    }

    /// Returns the points of the result of this sweep as a table.
    #[must_use]
    pub fn table<'a>(&self, result: &'a SweepResult) -> PointsTable<'a> {
        PointsTable::new(result, &self.points)
    }
}

/// Simulates one combination: `values`, of which `spec` is the drive. `progress` is that of
/// [`simulate`](crate::simulate()).
///
/// # Errors
/// Those of [`simulate`](crate::simulate()).
pub fn sweep_point(
    workload: &Workload,
    values: &[String],
    spec: &DriveSpec,
    progress: Progress<'_>,
) -> Result<SimulatedPoint, Error> {
    // Chunks are not shown: one covers the whole run.
    let whole = Chunking::Commands(u64::MAX);
    let summary = simulate(workload, spec, whole, None, progress)?.summary;
    let response = summary.tally.response(|_| true);
    let simulated = summary.end - summary.start;
    let point = SweepPoint {
        values: values.to_vec(),
        hit_ratio: summary.tally.counts.hit_ratio(),
        response_mean_ns: response.mean().0,
        response_p99_ns: response.quantile(0.99).0,
        response_max_ns: response.max().0,
        seeks: summary.usage.seeks.total(),
        idle_ratio: summary.usage.time.idle.0 as f64 / simulated.0.max(1) as f64,
        ..SweepPoint::default()
    };
    Ok(SimulatedPoint { point, commands: summary.tally.counts.commands, simulated })
}

/// Records for each point the first earlier point with the same effective drive, if any, and the varied settings whose
/// effective values differ from the written ones.
fn mark_same_drives(
    points: &mut [SweepPoint],
    drives: &[(Vec<String>, DriveSpec)],
    varied: &[(String, Vec<String>)],
) {
    let mut first_of: BTreeMap<String, u64> = BTreeMap::new();
    for (number, (point, (_, drive))) in (0..).zip(points.iter_mut().zip(drives)) {
        let first = *first_of.entry(drive.effective().to_toml()).or_insert(number);
        point.same_drive_as_point = Some(first).filter(|first| *first != number);
        let limits =
            drive.limits().into_iter().filter(|limit| varied.iter().any(|(key, _)| *key == limit.key));
        point.limits = limits
            .map(|limit| SweepLimit {
                key: limit.key,
                value: limit.value,
                acts_as: limit.acts_as,
                limited_by: limit.limited_by.into_iter().map(str::to_owned).collect(),
            })
            .collect();
    }
}
