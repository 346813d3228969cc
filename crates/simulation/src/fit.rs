//! A drive identified from a measured trace, and judged on the part of the trace that was not used.

use std::cmp::Ordering;
use std::ops::Range;

use sakiyomi_drive::Drive;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_identify::{Decision, Estimate, Identified, Obstacle, Step, Unit, fit};
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_report::number::{duration, percent, plural};
use sakiyomi_validate::{Accuracy, anchored_while, free_while, judge, part};
use serde::Serialize;

use crate::measurement::Measurement;
use crate::{Error, MeasuredTrace, Steps};

/// Schema of the document whose `result` is a [`FitResult`].
pub const FIT_SCHEMA: &str = "sakiyomi.drive-fit/3";
/// Relative change of the rms error from which a change is significant.
const GAIN_MIN_RATIO: f64 = 1e-3;

/// Coherence of the spindle's phase from which the times are taken to be those of a disk: well above that by chance,
/// which is less than 0.1 from [`SPINDLE_ACCESSES_MIN`] accesses on.
const COHERENCE_DISK_MIN: f64 = 0.2;
/// Accesses to the medium from which their coherence says something about the spindle.
const SPINDLE_ACCESSES_MIN: u64 = 100;

/// The result of a fit.
#[derive(Clone, Debug, Serialize)]
pub struct FitResult {
    /// The name of the trace.
    pub trace: String,
    /// The name of the drive that the fit began with.
    pub drive: String,
    /// End of the part that was fitted to.
    pub fit_until_ns: u64,
    /// Requests that were fitted to.
    pub fitted: usize,
    /// Requests that judge the fit.
    pub judged: usize,
    /// Replays of the trace that it took.
    pub replays: u64,
    /// The accepted step: `given` if every step was refused, else `skew`, `policies`, `parameters` or
    /// `policies_and_parameters`.
    pub accepted: &'static str,
    /// The steps, judged on the last part of the fitted requests.
    pub trials: Vec<FitTrial>,
    /// Whether the fitted drive has smaller errors than the original on the part that judges.
    pub is_gain: bool,
    /// The policies, and whether the trace identifies them.
    pub policies: Vec<FitPolicy>,
    /// The parameters, and whether the trace identifies them.
    pub parameters: Vec<FitParameter>,
    /// The settings that differ from the drive that the fit began with.
    pub changes: Vec<FitChange>,
    /// Mean measured time of the requests that judge.
    pub measured_mean_ns: u64,
    /// The drive as given, on them.
    pub before: FitErrors,
    /// The fitted drive, on them.
    pub after: FitErrors,
    /// Coherence of the phase of the fitted drive's spindle with the measured times: 1 if they follow it, near 0 by chance.
    pub spindle_coherence: f64,
    /// Requests that the fitted drive serves from the medium, of which the coherence is.
    pub spindle_accesses: u64,
}

/// A step of the fit, on requests from which it was not identified.
#[derive(Clone, Debug, Serialize)]
pub struct FitTrial {
    /// The step.
    pub step: &'static str,
    /// Requests that judged it.
    pub requests: usize,
    /// Mean loss of a request.
    pub loss_nats: f64,
    /// Root mean square of the differences of the distributions.
    pub rms_ns: u64,
}

/// A policy, and whether the trace identifies it. Values are written as in a drive's file.
#[derive(Clone, Debug, Serialize)]
pub struct FitPolicy {
    /// Its key in a file of a drive.
    pub key: &'static str,
    /// The value that was given.
    pub from: String,
    /// The value after the fit.
    pub to: String,
    /// Whether the trace identifies it.
    pub identified: bool,
    /// Alternatives that explain the trace as well.
    pub rivals: Vec<String>,
    /// Logarithm of the ratio of its likelihood to that of the best alternative.
    pub margin_nats: f64,
    /// Number of requests whose time depends on it.
    pub samples: u64,
    /// The reason why it is not identified, and the requests to add.
    pub reason: Option<String>,
}

/// A parameter, and what the trace says about it. Values are written as in a drive's file, with their units.
#[derive(Clone, Debug, Serialize)]
pub struct FitParameter {
    /// Its key in a file of a drive.
    pub key: String,
    /// The value that was given.
    pub from: String,
    /// The value after the fit.
    pub to: String,
    /// Whether the trace identifies it.
    pub identified: bool,
    /// Bounds at a nominal level of 95 %; too narrow where parameters compensate for each other.
    pub low: Option<String>,
    /// The upper bound.
    pub high: Option<String>,
    /// Number of requests whose time depends on it.
    pub samples: u64,
    /// The reason why it is not identified, and the requests to add.
    pub reason: Option<String>,
}

/// A setting that the fit has changed.
#[derive(Clone, Debug, Serialize)]
pub struct FitChange {
    /// Its key in a file of a drive.
    pub key: String,
    /// The value that was given.
    pub from: Option<String>,
    /// The value after the fit.
    pub to: Option<String>,
}

/// Errors on the part that was not fitted to.
#[derive(Clone, Debug, Serialize)]
pub struct FitErrors {
    /// Mean simulated time.
    pub simulated_mean_ns: u64,
    /// Root mean square of the differences of the distributions.
    pub rms_ns: u64,
    /// `rms_ns` over the measured mean.
    pub rms_ratio: f64,
    /// Median error of a request.
    pub request_error_median_ns: u64,
}

/// The part of a trace that a drive is fitted to; the rest is held out to judge the fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FitPart {
    /// This share of the trace's time, from its start.
    Share(f64),
    /// The requests issued before this time.
    Until(Nanos),
}

/// A measured trace, and its division into requests to fit to and others to judge the fit on.
pub struct FitTrace {
    measurement: Measurement,
    until: Nanos,
    fitted_to: Range<usize>,
    rest: Range<usize>,
}

impl std::fmt::Debug for FitTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { until, fitted_to, rest, .. } = self;
        f.debug_struct("FitTrace")
            .field("trace", &self.measurement.trace)
            .field("until", until)
            .field("fitted_to", fitted_to)
            .field("rest", rest)
            .finish_non_exhaustive()
    }
}

impl FitTrace {
    /// Reads a trace for a fit that begins at `start`.
    ///
    /// # Errors
    /// If the share is not between 0 and 1, one of the two parts is empty, the trace has no measured times or does not fit
    /// the drive, or `progress` returned false ([`Error::Stopped`]).
    pub fn read(
        trace: &MeasuredTrace,
        start: &DriveSpec,
        of: FitPart,
        progress: Steps<'_>,
    ) -> Result<FitTrace, Error> {
        if let FitPart::Share(share) = of
            && !(share > 0.0 && share < 1.0)
        {
            return Err(Error::Option(format!(
                "--fit-share {share}: expected a share between 0 and 1, with some of the trace left to judge the fit on"
            )));
        }
        let drive = || Drive::new(start).map_err(Error::from);
        let mut measurement = Measurement::read(trace, &drive()?, progress)?;
        // The part that judges decides nothing, not even how the delays are read.
        let count = part(&measurement.requests, Nanos::ZERO, until(of, &measurement)).end;
        let requests = measurement.requests.len();
        let mut go_on = || progress(crate::Step::Replaying { requests, what: "replayed at their times" });
        measurement.orient(drive, count, &mut go_on)?;
        let until = until(of, &measurement);
        let requests = &measurement.requests;
        let fitted_to = part(requests, Nanos::ZERO, until);
        let rest = part(requests, until, Nanos::MAX);
        if fitted_to.is_empty() || rest.is_empty() {
            return Err(Error::Option(format!(
                "{}: all {} requests lie on one side of {}; a fit needs requests on both sides; \
                 change --fit-until or --fit-share",
                measurement.trace,
                requests.len(),
                duration(until.0)
            )));
        }
        Ok(FitTrace { measurement, until, fitted_to, rest })
    }

    /// Identifies the drive, beginning at `start`. `go_on` learns of the number of replays, and returns whether to go on.
    ///
    /// # Errors
    /// If the trace reaches beyond the end of the drive, or `go_on` returned false ([`Error::Stopped`]).
    pub fn fit(&self, start: &DriveSpec, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Identified, Error> {
        let mut is_stopped = false;
        let mut go_on = |replays: u64| {
            is_stopped = !go_on(replays);
            !is_stopped
        };
        let Measurement { requests, pace, trace, .. } = &self.measurement;
        let found = fit(start, &requests[self.fitted_to.clone()], *pace, &mut go_on);
        if is_stopped {
            return Err(Error::Stopped);
        }
        found.ok_or_else(|| {
            Error::Input(format!(
                "{trace} reaches beyond the end of {}: give a drive that holds it, or --wrap",
                start.name
            ))
        })
    }

    /// Judges the drive that was found on the part that was not used, while `go_on` returns true.
    ///
    /// # Errors
    /// If a drive is impossible, or `go_on` returned false ([`Error::Stopped`]).
    pub fn result(
        &self,
        start: &DriveSpec,
        found: &Identified,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<FitResult, Error> {
        let Measurement { requests, pace, trace, .. } = &self.measurement;
        let mut judged = |spec: &DriveSpec| -> Result<Accuracy, Error> {
            let simulated = free_while(Drive::new(spec)?, requests, *pace, go_on).ok_or(Error::Stopped)?;
            Ok(judge(requests, &simulated, self.rest.clone()))
        };
        let (before, after) = (judged(start)?, judged(&found.spec)?);
        let anchored = anchored_while(Drive::new(&found.spec)?, requests, go_on).ok_or(Error::Stopped)?;
        Ok(FitResult {
            trace: trace.clone(),
            drive: start.name.clone(),
            fit_until_ns: self.until.0,
            fitted: self.fitted_to.len(),
            judged: self.rest.len(),
            replays: found.replays,
            accepted: step_name(found.accepted),
            trials: found.trials.iter().map(|trial| FitTrial::new(trial, found.tried[1])).collect(),
            is_gain: after.rms_ns < before.rms_ns * (1.0 - GAIN_MIN_RATIO),
            policies: found.policies.iter().map(FitPolicy::from).collect(),
            parameters: found.parameters.iter().map(FitParameter::from).collect(),
            changes: changes(start, found),
            measured_mean_ns: before.all.measured_mean_ns.round() as u64,
            before: FitErrors::from(&before),
            after: FitErrors::from(&after),
            spindle_coherence: anchored.coherence,
            spindle_accesses: anchored.accesses,
        })
    }
}

/// Returns the end of the part that is fitted to.
fn until(of: FitPart, measurement: &Measurement) -> Nanos {
    let last = measurement.requests.last().map_or(Nanos::ZERO, |request| request.issued);
    match of {
        FitPart::Until(time) => time,
        FitPart::Share(share) => Nanos::from_secs_f64(last.as_secs_f64() * share),
    }
}

/// Returns the name of a step in JSON.
#[must_use]
pub fn step_name(step: Step) -> &'static str {
    match step {
        Step::Given => "given",
        Step::Skew => "skew",
        Step::Policies => "policies",
        Step::Parameters => "parameters",
        Step::PoliciesAndParameters => "policies_and_parameters",
    }
}

impl FitTrial {
    fn new(trial: &sakiyomi_identify::Trial, requests: usize) -> FitTrial {
        FitTrial {
            step: step_name(trial.step),
            requests,
            loss_nats: trial.loss_nats,
            rms_ns: trial.rms_ns.round() as u64,
        }
    }
}

impl From<&Decision> for FitPolicy {
    fn from(decision: &Decision) -> FitPolicy {
        let samples = decision.samples as u64;
        let identified = decision.is_identified();
        let reason = if samples == 0 {
            "no request depends on it".to_owned()
        } else {
            let depend = if samples == 1 { "depends" } else { "depend" };
            format!(
                "{} {depend} on it, which does not exclude {}",
                plural(samples, "request"),
                some(&decision.rivals)
            )
        };
        FitPolicy {
            key: decision.key,
            from: decision.from.clone(),
            to: decision.to.clone(),
            identified,
            rivals: decision.rivals.clone(),
            margin_nats: decision.margin_nats,
            samples,
            reason: (!identified).then(|| format!("{reason}; add {}", decision.advice)),
        }
    }
}

/// Returns the first values of a list.
fn some(values: &[String]) -> String {
    /// Values that are shown.
    const SHOWN_MAX: usize = 3;
    let shown = values.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join(", ");
    if values.len() > SHOWN_MAX { format!("{shown}, …") } else { shown }
}

impl From<&Estimate> for FitParameter {
    fn from(estimate: &Estimate) -> FitParameter {
        let samples = estimate.samples as u64;
        let obstacle = estimate.obstacle.as_ref().map(|obstacle| match obstacle {
            Obstacle::TooFew if samples == 0 => "no request depends on it".to_owned(),
            Obstacle::TooFew => format!("only {} depend on it", plural(samples, "request")),
            Obstacle::Flat => "other values explain the trace as well".to_owned(),
            Obstacle::Confounded(other) => format!("it is known only together with {other}"),
        });
        let shown = |value| shown(value, estimate.unit);
        FitParameter {
            key: estimate.key.clone(),
            from: shown(estimate.from),
            to: shown(estimate.to),
            identified: obstacle.is_none(),
            low: estimate.interval.map(|[low, _]| shown(low)),
            high: estimate.interval.map(|[_, high]| shown(high)),
            samples,
            reason: obstacle.map(|obstacle| format!("{obstacle}; add {}", estimate.advice)),
        }
    }
}

/// Returns a value as a drive's file has it.
fn shown(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => {
            let sign = if value <= -0.5 { "-" } else { "" };
            format!("{sign}{}", Nanos(value.abs().round() as u64))
        }
        Unit::BytesPerSecond => Bytes(value.round() as u64).to_string(),
        Unit::Share => format!("{:.4}", value),
        Unit::RevolutionsPerMinute => format!("{:.3}", value),
    }
}

impl From<&Accuracy> for FitErrors {
    fn from(accuracy: &Accuracy) -> FitErrors {
        FitErrors {
            simulated_mean_ns: accuracy.all.simulated_mean_ns.round() as u64,
            rms_ns: accuracy.rms_ns.round() as u64,
            rms_ratio: accuracy.rms_ratio,
            request_error_median_ns: accuracy.all.median_ns,
        }
    }
}

fn changes(start: &DriveSpec, found: &Identified) -> Vec<FitChange> {
    let (before, after) = (start.entries(), found.spec.entries());
    let value = |entries: &[(String, String)], key: &str| {
        entries.iter().find(|entry| entry.0 == key).map(|entry| entry.1.clone())
    };
    let mut keys: Vec<&String> = after.iter().chain(&before).map(|entry| &entry.0).collect();
    let mut seen = std::collections::HashSet::new();
    keys.retain(|key| seen.insert(key.as_str()));
    keys.into_iter()
        .map(|key| FitChange { key: key.clone(), from: value(&before, key), to: value(&after, key) })
        .filter(|change| change.from != change.to)
        .collect()
}

impl FitResult {
    /// Describes whether the fit is an improvement, as a clause.
    #[must_use]
    pub fn headline(&self) -> String {
        let [before, after] = [&self.before, &self.after].map(|judged| duration(judged.rms_ns));
        let change = self.after.rms_ns.abs_diff(self.before.rms_ns) as f64 / self.before.rms_ns.max(1) as f64;
        let rest = "on the held-out part of the trace";
        let order = if change < GAIN_MIN_RATIO {
            Ordering::Equal
        } else {
            self.after.rms_ns.cmp(&self.before.rms_ns)
        };
        match order {
            Ordering::Less => format!(
                "the fitted drive is more accurate {rest}: rms {after} instead of {before} (−{})",
                percent(change)
            ),
            Ordering::Equal => format!("the fitted drive is as accurate as before {rest}: rms {after}"),
            Ordering::Greater => {
                format!(
                    "the fitted drive is LESS ACCURATE {rest}: rms {after} instead of {before} (+{})",
                    percent(change)
                )
            }
        }
    }

    /// Describes why a fit is refused, as a clause.
    #[must_use]
    pub fn refusal(&self) -> String {
        let requests = self.trials.first().map_or(0, |trial| trial.requests) as u64;
        format!("no step explains the last {} better than the drive as given", plural(requests, "request"))
    }

    /// Returns the first paragraph: whether the fit is a gain, and how much the trace does not identify.
    #[must_use]
    pub fn verdict(&self) -> String {
        let mut sentences = Vec::new();
        if self.accepted == step_name(Step::Given) {
            sentences.push(format!("The fit is refused: {}.", self.refusal()));
            sentences.push("Keep the original drive.".to_owned());
        } else {
            sentences.push(format!("{}.", self.headline().replacen("the", "The", 1)));
            if !self.is_gain {
                sentences.push("Keep the original drive.".to_owned());
            }
        }
        if self.spindle_accesses >= SPINDLE_ACCESSES_MIN && self.spindle_coherence < COHERENCE_DISK_MIN {
            sentences.push(
                "The times do not follow the phase of this drive's spindle: its tracks or its speed differ, or the \
                 device is not a disk, which `sakiyomi drive measure` finds out by reads of its own."
                    .to_owned(),
            );
        }
        for (what, unknown, all) in [
            (
                "policies",
                self.policies.iter().filter(|policy| !policy.identified).count(),
                self.policies.len(),
            ),
            (
                "parameters",
                self.parameters.iter().filter(|one| !one.identified).count(),
                self.parameters.len(),
            ),
        ] {
            if all > 0 && unknown == all {
                sentences.push(format!("The trace identifies none of the {all} {what}."));
            } else if unknown > 0 {
                sentences.push(format!("The trace does not identify {unknown} of {all} {what}."));
            }
        }
        sentences.join(" ")
    }

    /// Returns whether every step was refused, so that the drive stays as it was given.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.accepted == step_name(Step::Given)
    }
}
