//! Accuracy of the I/O times of regulated programs, and the throughput meanwhile.

use sakiyomi_model::Nanos;
use sakiyomi_regulate::Rate;

/// Result of one run, or the medians of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Regulation {
    /// Measured time.
    pub measured: Nanos,
    /// I/Os per second of all programs.
    pub iops: f64,
    /// Maximum duration of an I/O of a program without a rate.
    pub longest_other: Nanos,
    /// Programs with a rate.
    pub owners: Vec<RateAccuracy>,
    /// Allowance: number of requests permitted in the device.
    pub allowance: Allowance,
    /// Mechanism that determined it.
    pub decided_by: AllowanceSource,
    /// Allowance of the formula (section 4.2); rates by time are converted with the device's final mean service time.
    pub formula: u32,
    /// Number of regulated I/Os of the whole run.
    pub regulated_ios: u64,
    /// `allowance.reached` of each run.
    pub reached: Vec<u32>,
}

/// Mechanisms that determine the number of requests permitted in the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowanceSource {
    /// A given number.
    Fixed,
    /// The formula.
    Formula,
    /// The formula, corrected downwards.
    Corrected,
    /// The formula, corrected in both directions.
    BothWays,
    /// The profile of the device; the allowance is then the number of requests at which the rates are kept.
    Profile,
    /// Deadlines; the allowance is then the number of requests that still meets the next one.
    Deadlines,
}

/// Accuracy of one program's I/O times in the measured time.
#[derive(Clone, Debug, PartialEq)]
pub struct RateAccuracy {
    /// Name of the program.
    pub name: String,
    /// Requested rate.
    pub rate: Rate,
    /// Number of I/Os.
    pub ios: u64,
    /// Mean of actual over ideal time (section 6.2).
    pub accuracy: f64,
    /// Standard deviation of the I/O time over its mean.
    pub cov: f64,
    /// 99th percentile of actual over ideal time.
    pub p99: f64,
    /// Share of I/Os that took longer than the ideal time.
    pub late: f64,
    /// Mean I/O time.
    pub took: Nanos,
    /// Mean ideal time.
    pub ideal: Nanos,
    /// Accuracy of I/Os that arrived half a second or more after the previous one; `None` if there are none.
    pub after_pause: Option<f64>,
    /// Percentiles 0 to 100 of actual over ideal time.
    pub quantiles: Vec<f64>,
}

/// Allowance over the regulated I/Os of the whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allowance {
    /// Changes: number of regulated I/Os before, and the new value; thinned out for a chart.
    pub course: Vec<(u64, u32)>,
    /// Most frequent value in the second half.
    pub reached: u32,
    /// Number of regulated I/Os before it first had this value.
    pub settled: u64,
}

impl Allowance {
    /// Maximum number of points of the curve; beyond it the curve is thinned out.
    const POINTS_MAX: usize = 400;

    /// Evaluates `changes`, in order, among `ios` I/Os.
    pub(crate) fn over(changes: &[(u64, u32)], ios: u64) -> Allowance {
        let half = ios / 2;
        let ends = changes.iter().skip(1).map(|&(at, _)| at).chain([ios]);
        let mut held: Vec<u64> = Vec::new();
        for (&(from, allowance), to) in changes.iter().zip(ends) {
            let index = allowance as usize;
            held.resize(held.len().max(index + 1), 0);
            held[index] += to.saturating_sub(from.max(half));
        }
        let reached = (0..held.len()).max_by_key(|&allowance| held[allowance]).unwrap_or(0) as u32;
        let settled = changes.iter().find(|(_, allowance)| *allowance == reached).map_or(0, |(at, _)| *at);
        let stride = changes.len().div_ceil(Self::POINTS_MAX).max(1);
        Allowance { course: changes.iter().copied().step_by(stride).collect(), reached, settled }
    }
}

impl Regulation {
    /// Returns the median of each figure; curves and quantiles are those of the first run. `None` without runs.
    #[must_use]
    pub fn medians(runs: &[&Regulation]) -> Option<Regulation> {
        let first = *runs.first()?;
        let time = |of: &dyn Fn(&Regulation) -> Nanos| Nanos(median(runs.iter().map(|run| of(run).0)));
        let owners = first.owners.iter().enumerate().map(|(index, owner)| {
            let all: Vec<&RateAccuracy> = runs.iter().filter_map(|run| run.owners.get(index)).collect();
            RateAccuracy::medians(owner, &all)
        });
        Some(Regulation {
            measured: time(&|run| run.measured),
            iops: median_f64(runs.iter().map(|run| run.iops)),
            longest_other: time(&|run| run.longest_other),
            owners: owners.collect(),
            allowance: Allowance {
                course: first.allowance.course.clone(),
                reached: median(runs.iter().map(|run| run.allowance.reached)),
                settled: median(runs.iter().map(|run| run.allowance.settled)),
            },
            decided_by: first.decided_by,
            formula: first.formula,
            regulated_ios: first.regulated_ios,
            reached: runs.iter().map(|run| run.allowance.reached).collect(),
        })
    }
}

impl RateAccuracy {
    fn medians(first: &RateAccuracy, runs: &[&RateAccuracy]) -> RateAccuracy {
        let figure = |of: fn(&RateAccuracy) -> f64| median_f64(runs.iter().map(|run| of(run)));
        let pauses: Vec<f64> = runs.iter().filter_map(|run| run.after_pause).collect();
        RateAccuracy {
            ios: median(runs.iter().map(|run| run.ios)),
            accuracy: figure(|run| run.accuracy),
            cov: figure(|run| run.cov),
            p99: figure(|run| run.p99),
            late: figure(|run| run.late),
            took: Nanos(median(runs.iter().map(|run| run.took.0))),
            ideal: Nanos(median(runs.iter().map(|run| run.ideal.0))),
            after_pause: (!pauses.is_empty()).then(|| median_f64(pauses.into_iter())),
            ..first.clone()
        }
    }
}

/// Returns the upper median.
fn median<T: Ord + Copy + Default>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn median_f64(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_is_what_it_was_for_most_of_the_second_half() {
        let changes = [(0, 9), (100, 8), (400, 7), (900, 8), (950, 7)];
        let allowance = Allowance::over(&changes, 1000);
        assert_eq!((allowance.reached, allowance.settled), (7, 400));
        assert_eq!(allowance.course, changes);
        assert_eq!(Allowance::over(&[], 0), Allowance::default());
        let many: Vec<(u64, u32)> = (0..10_000).map(|at| (at, 1 + (at % 2) as u32)).collect();
        assert!(Allowance::over(&many, 10_000).course.len() <= Allowance::POINTS_MAX);
    }

    #[test]
    fn medians_are_of_each_figure_by_itself() {
        let run = |accuracy: f64, iops: f64, reached: u32| Regulation {
            measured: Nanos::SECOND,
            iops,
            longest_other: Nanos(7),
            owners: vec![RateAccuracy {
                name: "p".to_owned(),
                rate: Rate::Every(Nanos::MILLISECOND * 40),
                ios: 5,
                accuracy,
                cov: 0.1,
                p99: 1.2,
                late: 0.0,
                took: Nanos(1),
                ideal: Nanos(1),
                after_pause: None,
                quantiles: Vec::new(),
            }],
            allowance: Allowance { reached, ..Allowance::default() },
            decided_by: AllowanceSource::Corrected,
            formula: 4,
            regulated_ios: 5,
            reached: vec![reached],
        };
        let runs = [run(1.0, 30.0, 4), run(1.2, 10.0, 5), run(1.1, 20.0, 4)];
        let medians = Regulation::medians(&runs.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((medians.owners[0].accuracy, medians.iops, medians.allowance.reached), (1.1, 20.0, 4));
        assert_eq!(medians.reached, [4, 5, 4]);
        assert_eq!(Regulation::medians(&[]), None);
    }
}
