//! Identification of a drive from a measured trace.
//!
//! The trace is divided: what is identified from the first three quarters is compared on the last one with the drive as
//! it was. A step that is not better there is refused; those that are, are repeated on all requests.

use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_validate::{Measured, Pace, demerit};

use crate::decide::{Decision, decide, decisions};
use crate::estimate::estimate;
use crate::interval::{Estimate, intervals, widen};
use crate::likelihood::losses;
use crate::skew::skewed;
use crate::training::{Budget, Replays, Training};

/// Share of the requests from which the steps are tried; the rest accepts or refuses them.
const TRIAL_RATIO: f64 = 0.75;
/// Fall of the loss on the rest, in nats, from which a step is accepted.
const GAIN_MIN_NATS: f64 = 3.0;

/// A step of an identification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The drive as it was given.
    Given,
    /// The skew of tracks, by the phase of the spindle.
    Skew,
    /// Policies.
    Policies,
    /// Continuous parameters, with the policies as given.
    Parameters,
    /// Policies, then continuous parameters.
    PoliciesAndParameters,
}

/// A step, judged on the part of the trace from which it was not identified.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The step.
    pub step: Step,
    /// Negative composite log-likelihood of that part, in nats: lower is better.
    pub loss_nats: f64,
    /// Demerit on that part, in nanoseconds.
    pub rms_ns: f64,
}

/// An identified drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Identified {
    /// The drive; as given, if all steps were refused.
    pub spec: DriveSpec,
    /// The accepted step; [`Step::Given`] if all were refused.
    pub accepted: Step,
    /// All steps, the drive as given first.
    pub trials: Vec<Trial>,
    /// Number of requests from which the steps were tried, and on which they were judged.
    pub tried: [usize; 2],
    /// Evidence of the trace about each policy.
    pub policies: Vec<Decision>,
    /// Evidence of the trace about each parameter.
    pub parameters: Vec<Estimate>,
    /// Number of replays.
    pub replays: u64,
    /// Whether the search was stopped early.
    pub stopped: bool,
}

/// Identifies a drive from the requests of `measured`, which are [in order](sakiyomi_validate::in_order) and replayed at
/// `pace`, beginning at `start`. `progress` is called after each replay, and often during them, with the number of replays
/// that are done; if it returns false, the search ends with what it has. Returns `None` if `start` is impossible or too small for the requests.
pub fn fit(
    start: &DriveSpec,
    measured: &[Measured],
    pace: Pace,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Option<Identified> {
    let cut = ((measured.len() as f64 * TRIAL_RATIO) as usize).clamp(1, measured.len().max(1));
    let budget = Budget::new(progress);
    let all = Training::new(measured, pace, start.servo.rpm, &budget);
    all.replay(start)?;
    let mut trials = Vec::new();
    let mut best: Option<Trial> = None;
    let steps = steps(&all.part(0..cut), start);
    for (step, spec) in &steps {
        let Some(trial) = trial(&all, *step, spec, cut) else { continue };
        trials.push(trial);
        let needed = if *step == Step::Given { 0.0 } else { GAIN_MIN_NATS };
        if best.is_none_or(|best| trial.loss_nats < best.loss_nats - needed) {
            best = Some(trial);
        }
    }
    let accepted = best.map_or(Step::Given, |best| best.step);
    let spec = repeated(&all, start, accepted).unwrap_or_else(|| start.clone());
    let policies = decisions(&all, start, &spec).unwrap_or_default();
    let mut parameters = intervals(&all, start, &spec).unwrap_or_default();
    let part = steps.iter().find(|(step, _)| *step == accepted).map(|(_, spec)| spec);
    if let Some(part) = part.filter(|_| accepted != Step::Given) {
        widen(&mut parameters, part);
    }
    Some(Identified {
        spec,
        accepted,
        trials,
        tried: [cut, measured.len() - cut],
        policies,
        parameters,
        replays: budget.replays(),
        stopped: all.is_stopped(),
    })
}

/// Returns the drive after each step.
fn steps(training: &Training<'_>, start: &DriveSpec) -> Vec<(Step, DriveSpec)> {
    let mut steps = vec![(Step::Given, start.clone())];
    let skewed = skewed(start, training.measured, &|| training.check());
    steps.extend(skewed.iter().map(|spec| (Step::Skew, spec.clone())));
    let base = skewed.as_ref().unwrap_or(start);
    let policies = decide(training, base).filter(|spec| spec != base);
    steps.extend(policies.iter().map(|spec| (Step::Policies, spec.clone())));
    let estimated = estimate(training, base);
    steps.extend(estimated.map(|found| (Step::Parameters, found.spec)));
    if let Some(policies) = policies {
        let estimated = estimate(training, &policies);
        steps.extend(estimated.map(|found| (Step::PoliciesAndParameters, found.spec)));
    }
    steps
}

/// Repeats a step on all requests.
fn repeated(training: &Training<'_>, start: &DriveSpec, step: Step) -> Option<DriveSpec> {
    if step == Step::Given {
        return Some(start.clone());
    }
    let base = skewed(start, training.measured, &|| training.check()).unwrap_or_else(|| start.clone());
    match step {
        Step::Given | Step::Skew => Some(base),
        Step::Policies => decide(training, &base),
        Step::Parameters => estimate(training, &base).map(|found| found.spec),
        Step::PoliciesAndParameters => {
            let policies = decide(training, &base)?;
            estimate(training, &policies).map(|found| found.spec)
        }
    }
}

/// Judges a drive on the requests from `cut` on, after a replay of all.
fn trial(all: &Training<'_>, step: Step, spec: &DriveSpec, cut: usize) -> Option<Trial> {
    let replays = all.replay(spec)?;
    let rest: Replays = replays.iter().map(|replay| replay[cut..].to_vec()).collect();
    let part = all.part(cut..all.measured.len());
    let real = part.measured.iter().map(|request| request.response).collect();
    let own = rest.iter().flatten().map(|own| own.response).collect();
    Some(Trial { step, loss_nats: losses(&part, &rest)?.iter().sum(), rms_ns: demerit(&real, &own) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Obstacle;
    use crate::sample::{self, read};
    use sakiyomi_model::{Nanos, Op};
    use sakiyomi_validate::follow_on;

    const SMALL: &str = r#"
        name = "small"
        queue.depth = 1
        cache = { size = "128KiB", segments = { count = 4 }, read_ahead = { mode = "segment", max = "32KiB" }, write = { limit = "64KiB" } }
        [geometry]
        sector = "512B"
        heads = 4
        zones = [{ cylinders = 1000, sectors_per_track = 200 }]
        [servo]
        rpm = 7200
        head_switch = "1ms"
        seek = { curve = "datasheet", track_to_track = "1ms", average = "8ms", full_stroke = "16ms" }
    "#;

    fn with(settings: &[(&str, &str)]) -> DriveSpec {
        sample::spec(SMALL, settings)
    }

    /// A multiplicative generator: the high bits of its products are as good as random.
    fn chance(number: u64) -> u64 {
        number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
    }

    /// Random requests and runs of sequential ones, as a drive serves them, with the noise of a timer.
    fn measured_on(spec: &DriveSpec, count: u64, noise_ns: u64) -> Vec<Measured> {
        let mut place = 0;
        let mut requests = sample::served(spec, count, |number| {
            let starts = number % 6 == 0;
            place = if starts { chance(number) % 780_000 } else { place + 8 };
            let op = if number % 12 < 4 { Op::Write } else { Op::Read };
            Measured { op, think: Nanos(chance(number + 7_777) % 15_000_000), ..read(place, 8, 0) }
        });
        for (number, request) in (0..).zip(&mut requests) {
            request.response.0 += chance(number + 99_999) % noise_ns;
        }
        follow_on(&mut requests);
        requests
    }

    fn found(start: &DriveSpec, measured: &[Measured]) -> Identified {
        fit(start, measured, Pace::Closed, &mut |_| true).unwrap()
    }

    #[test]
    fn policies_and_parameters_that_were_changed_are_found_again() {
        let real = with(&[
            ("cache.read_ahead.after_sequential", "1"),
            ("cache.write.enabled", "false"),
            ("interface.overhead.write_miss", "1.5ms"),
            ("interface.overhead.read_hit", "0.3ms"),
        ]);
        let found = found(&with(&[]), &measured_on(&real, 600, 10_000));
        assert_eq!(found.accepted, Step::PoliciesAndParameters);
        let policy = |key: &str| found.policies.iter().find(|policy| policy.key == key).unwrap();
        for (key, value) in [("cache.read_ahead.after_sequential", "1"), ("cache.write.enabled", "false")] {
            assert!(policy(key).to == value && policy(key).is_identified(), "{:?}", policy(key));
        }
        let rotation = found.parameters.iter().find(|parameter| parameter.key == "servo.rpm").unwrap();
        // One of two thousand: with the noise of ten microseconds, fifteen seconds of requests tell no more.
        assert!((rotation.to - 7200.0).abs() < 3.6, "{rotation:?}");
        assert!(found.trials.iter().any(|trial| trial.step == Step::Given));
        let rms = |step| found.trials.iter().find(|trial| trial.step == step).unwrap().rms_ns;
        assert!(rms(Step::PoliciesAndParameters) < rms(Step::Given) / 2.0);
    }

    #[test]
    fn a_drive_that_is_right_stays_as_it_is_because_every_step_is_refused() {
        let spec = with(&[]);
        let measured = measured_on(&spec, 240, 1);
        let found = found(&spec, &measured);
        assert_eq!((found.accepted, &found.spec), (Step::Given, &spec));
    }

    #[test]
    fn a_trace_of_one_place_identifies_almost_nothing() {
        let spec = with(&[("cache.read_ahead.mode", "off"), ("cache.segments.consumed", "discard")]);
        let same = |number: u64| Measured { think: Nanos(chance(number) % 15_000_000), ..read(4_000, 8, 0) };
        let found = found(&spec, &sample::served(&spec, 100, same));
        assert!(
            found.policies.iter().filter(|policy| policy.is_identified()).count() <= 6,
            "{:#?}",
            found.policies
        );
        let parameter = |key: &str| found.parameters.iter().find(|parameter| parameter.key == key).unwrap();
        for key in
            ["servo.seek.average", "servo.head_switch", "interface.overhead.write_hit", "servo.write_settle"]
        {
            assert_eq!(parameter(key).obstacle, Some(Obstacle::TooFew), "{key}");
        }
    }

    /// Returns the number of calls of `progress` if it stops the search in the call number `last`.
    fn calls_until(measured: &[Measured], last: usize) -> usize {
        let mut calls = 0;
        let mut progress = |_| {
            calls += 1;
            calls < last
        };
        drop(fit(&with(&[]), measured, Pace::Closed, &mut progress));
        calls
    }

    #[test]
    fn a_search_that_is_stopped_has_a_drive_and_a_drive_that_is_too_small_has_none() {
        let measured = measured_on(&with(&[]), 60, 1);
        let stopped = fit(&with(&[]), &measured, Pace::Closed, &mut |replays| replays < 20).unwrap();
        assert!(stopped.stopped && stopped.replays <= 20 && stopped.spec == with(&[]));
        // Wherever it is stopped, it is at once.
        let all = calls_until(&measured, usize::MAX);
        for last in (1..all).step_by(all / 50) {
            assert_eq!(calls_until(&measured, last), last);
        }
        let small = with(&[("geometry.sectors", "1000")]);
        assert_eq!(fit(&small, &measured, Pace::Closed, &mut |_| true), None);
    }
}
