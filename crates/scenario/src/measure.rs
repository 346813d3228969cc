//! Measurement of the accuracy of I/O times, and of the throughput of all programs.
//!
//! The start of the final interval that is not counted is known only at the end, so recent I/Os are kept until they are
//! older than that interval.

use std::collections::VecDeque;

use sakiyomi_model::{Completion, Nanos};
use sakiyomi_regulate::{Rate, Requested, Timing};

use crate::outcome::{Allowance, AllowanceSource, RateAccuracy, Regulation};
use crate::spec::RunSpec;

/// Minimum time without I/O after which the next I/O counts as the first after a pause.
const PAUSE_MIN: Nanos = Nanos(500_000_000);

#[derive(Debug)]
pub(crate) struct Measure {
    warm_up: Nanos,
    cool_down: Nanos,
    decided_by: AllowanceSource,
    /// Regulated programs, by the number of the program.
    owners: Vec<Option<RatedProgram>>,
    /// Recent I/Os: end time, and duration of those without a rate.
    recent: VecDeque<(Nanos, Nanos)>,
    ios: u64,
    longest_other: Nanos,
    /// Changes of the allowance: number of regulated I/Os before, and the new value.
    changes: Vec<(u64, u32)>,
    regulated: u64,
}

/// A program with a rate.
#[derive(Debug)]
struct RatedProgram {
    name: String,
    rate: Rate,
    timings: Vec<Timing>,
}

impl Measure {
    pub(crate) fn new(run: &RunSpec, decided_by: AllowanceSource) -> Measure {
        Measure {
            warm_up: run.warm_up,
            cool_down: run.cool_down,
            decided_by,
            owners: Vec::new(),
            recent: VecDeque::new(),
            ios: 0,
            longest_other: Nanos::ZERO,
            changes: Vec::new(),
            regulated: 0,
        }
    }

    /// Adds the next program, in order.
    pub(crate) fn add(&mut self, name: &str, rate: Option<Requested>) {
        self.owners.push(rate.map(|Requested { rate, .. }| RatedProgram {
            name: name.to_owned(),
            rate,
            timings: Vec::new(),
        }));
    }

    /// Records the completion of an I/O.
    pub(crate) fn ended(&mut self, completion: &Completion) {
        let is_regulated = self.owners[completion.request.stream.0 as usize].is_some();
        let took = if is_regulated { Nanos::ZERO } else { completion.device_time() };
        self.recent.push_back((completion.finish, took));
        self.settle(completion.finish);
    }

    /// Records the completion of regulated I/Os, and the allowance at that time.
    pub(crate) fn answered(&mut self, timings: &mut Vec<Timing>, allowance: u32) {
        if self.changes.last().is_none_or(|(_, last)| *last != allowance) {
            self.changes.push((self.regulated, allowance));
        }
        for timing in timings.drain(..) {
            self.regulated += 1;
            let owned = self.owners.get_mut(timing.owner.0 as usize).and_then(Option::as_mut);
            owned.expect("a regulated program has a rate").timings.push(timing);
        }
    }

    /// Counts the I/Os that are older than the final interval before `end`.
    fn settle(&mut self, end: Nanos) {
        let Some(until) = end.0.checked_sub(self.cool_down.0) else { return };
        while let Some((finish, took)) = self.recent.front().copied().filter(|(finish, _)| finish.0 < until) {
            self.recent.pop_front();
            if finish >= self.warm_up {
                self.ios += 1;
                self.longest_other = self.longest_other.max(took);
            }
        }
    }

    /// Returns the measurements for a first program that ended at `end`, on a device with a mean service time of
    /// `service`. Figures without measurements are NaN.
    pub(crate) fn outcome(mut self, end: Nanos, service: Nanos) -> Regulation {
        self.settle(end);
        let until = end.saturating_sub(self.cool_down);
        let measured = until.saturating_sub(self.warm_up);
        let owners = self.owners.iter().flatten().map(|owned| kept(owned, self.warm_up, until));
        let allowance = Allowance::over(&self.changes, self.regulated);
        Regulation {
            measured,
            iops: self.ios as f64 / measured.as_secs_f64(),
            longest_other: self.longest_other,
            owners: owners.collect(),
            decided_by: self.decided_by,
            formula: formula(self.owners.iter().flatten().map(|owned| times(owned.rate, service))),
            regulated_ios: self.regulated,
            reached: vec![allowance.reached],
            allowance,
        }
    }
}

/// Returns the number of I/Os of the device per I/O of an owner: `100/P`.
fn times(rate: Rate, service: Nanos) -> f64 {
    match rate {
        Rate::Percent(percent) => 100.0 / f64::from(percent.get()),
        Rate::Every(time) => time.0 as f64 / service.0.max(1) as f64,
    }
}

/// Returns the allowance of section 4.2: `max(1, min over i of 100/P_i - sum of f(i, j) - 1)`, where `f(i, j)` is 1 for
/// every other j with at least the same rate; at most the depth of a device.
fn formula(times: impl Iterator<Item = f64>) -> u32 {
    let times: Vec<f64> = times.collect();
    let of = times.iter().map(|one| {
        let ahead = times.iter().filter(|other| *other <= one).count();
        (one.min(1e6) as u32).saturating_sub(ahead as u32)
    });
    of.min().unwrap_or(0).clamp(1, 32)
}

/// Returns the accuracy of one program's I/O times from `from` until `until`.
fn kept(owned: &RatedProgram, from: Nanos, until: Nanos) -> RateAccuracy {
    let ends = |timing: &Timing| timing.arrived + timing.took;
    let is_measured =
        |timing: &&Timing| !timing.ideal.is_zero() && timing.arrived >= from && ends(timing) < until;
    let timings: Vec<&Timing> = owned.timings.iter().filter(is_measured).collect();
    let count = timings.len() as f64;
    let mean = |of: &dyn Fn(&Timing) -> f64| timings.iter().map(|timing| of(timing)).sum::<f64>() / count;
    let took = mean(&|timing| timing.took.0 as f64);
    let variance = mean(&|timing| (timing.took.0 as f64 - took).powi(2));
    let mut ratios: Vec<f64> = timings.iter().map(|timing| ratio(timing)).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| ratios.get((ratios.len() * percent / 100).min(ratios.len().max(1) - 1));
    let paused = timings.windows(2).filter(|pair| pair[1].arrived >= ends(pair[0]) + PAUSE_MIN);
    let paused: Vec<f64> = paused.map(|pair| ratio(pair[1])).collect();
    RateAccuracy {
        name: owned.name.clone(),
        rate: owned.rate,
        ios: timings.len() as u64,
        accuracy: mean(&ratio),
        cov: variance.sqrt() / took,
        p99: at(99).copied().unwrap_or(f64::NAN),
        late: mean(&|timing| f64::from(u8::from(timing.took > timing.ideal))),
        took: Nanos(took as u64),
        ideal: Nanos(mean(&|timing| timing.ideal.0 as f64) as u64),
        after_pause: (!paused.is_empty()).then(|| paused.iter().sum::<f64>() / paused.len() as f64),
        quantiles: (0..=100).filter_map(|percent| at(percent).copied()).collect(),
    }
}

fn ratio(timing: &Timing) -> f64 {
    timing.took.0 as f64 / timing.ideal.0 as f64
}
