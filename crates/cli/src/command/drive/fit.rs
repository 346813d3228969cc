//! `drive fit`: a drive identified from a measured trace; judged on the part that was not used.

use std::cmp::Ordering;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use comfy_table::{Table, presets};
use sakiyomi_drive::Drive;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_identify::{Decision, Estimate, Identified, Obstacle, Step, Unit, fit};
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_report::number::{count, duration, percent, plural};
use sakiyomi_validate::{Accuracy, free, judge, part};
use serde::Serialize;

use crate::args::MeasurementArgs;
use crate::console::{Common, print_error, print_result, print_text};
use crate::measurement::Measurement;
use crate::output::OutFile;
use crate::progress::Progress;
use crate::simulation::trace_size;

pub(super) const EXAMPLES: &str = "Examples:
  sakiyomi drive fit measured.trace.gz --drive deskstar-p7k500 -o mine.toml
  sakiyomi drive fit cheetah9LP.trace.gz --drive cheetah9LP.diskspecs -o fitted.toml
  sakiyomi drive fit hplajw.csv.gz --device 0 --drive hp.toml --fit-until 2d -o fitted.toml
";

/// Relative change of the rms error from which a change is significant.
const GAIN_MIN_RATIO: f64 = 1e-3;

/// Identify a drive from a measured trace.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Decides the policies of the buffer (read-ahead, segments, write cache) and of the queue by the \
        likelihood of the times, and estimates rotation, overheads, link rates, settle and head switch times and the \
        seek curve, with intervals of a nominal level of 95 %, which are too narrow where parameters compensate for \
        each other. What the trace does not identify keeps its value, with the \
        reason. Of the geometry, only the skew is identified. The last quarter of the part that is fitted to accepts \
        or refuses the result; if it is refused, no drive is written."
)]
pub(crate) struct Fit {
    #[command(flatten)]
    measurement: MeasurementArgs,
    /// Write the identified drive to this file
    #[arg(long, short = 'o', value_name = "FILE.toml")]
    out: Option<PathBuf>,
    /// Fit to this fraction of the trace's time, from its start; the rest is held out to judge the fit
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.5,
        conflicts_with = "fit_until",
        allow_negative_numbers = true
    )]
    fit_share: f64,
    /// Fit to the requests issued before this time; the rest is held out to judge the fit
    #[arg(long, value_name = "TIME")]
    fit_until: Option<Nanos>,
    /// Exit with 1, and write no drive, unless the fitted drive has smaller errors on the held-out part
    #[arg(long)]
    require_gain: bool,
}

/// The result of a fit.
#[derive(Serialize)]
struct FitResult {
    trace: String,
    drive: String,
    fit_until_ns: u64,
    fitted: usize,
    judged: usize,
    replays: u64,
    /// The accepted step: `given` if every step was refused, else `skew`, `policies`, `parameters` or
    /// `policies_and_parameters`.
    accepted: &'static str,
    /// The steps, judged on the last part of the fitted requests.
    trials: Vec<Trial>,
    /// Whether the fitted drive has smaller errors than the original on the part that judges.
    is_gain: bool,
    policies: Vec<Policy>,
    parameters: Vec<Parameter>,
    changes: Vec<Change>,
    measured_mean_ns: u64,
    before: Judged,
    after: Judged,
}

/// A step of the fit, on requests from which it was not identified.
#[derive(Serialize)]
struct Trial {
    step: &'static str,
    requests: usize,
    loss_nats: f64,
    rms_ns: u64,
}

/// A policy, and whether the trace identifies it. Values are written as in a drive's file.
#[derive(Serialize)]
pub(super) struct Policy {
    key: &'static str,
    from: String,
    to: String,
    identified: bool,
    /// Alternatives that explain the trace as well.
    rivals: Vec<String>,
    /// Logarithm of the ratio of its likelihood to that of the best alternative.
    margin_nats: f64,
    /// Number of requests whose time depends on it.
    samples: u64,
    /// The reason why it is not identified, and the requests to add.
    reason: Option<String>,
}

/// A parameter, and what the trace says about it. Values are written as in a drive's file, with their units.
#[derive(Serialize)]
pub(super) struct Parameter {
    key: String,
    from: String,
    to: String,
    identified: bool,
    /// Bounds at a nominal level of 95 %; too narrow where parameters compensate for each other.
    low: Option<String>,
    high: Option<String>,
    /// Number of requests whose time depends on it.
    samples: u64,
    /// The reason why it is not identified, and the requests to add.
    reason: Option<String>,
}

#[derive(Serialize)]
struct Change {
    key: String,
    from: Option<String>,
    to: Option<String>,
}

/// Errors on the part that was not fitted to.
#[derive(Serialize)]
struct Judged {
    simulated_mean_ns: u64,
    rms_ns: u64,
    rms_ratio: f64,
    request_error_median_ns: u64,
}

/// A measured trace, and its division into requests to fit to and others to judge the fit on.
struct Divided {
    measurement: Measurement,
    until: Nanos,
    fitted_to: Range<usize>,
    rest: Range<usize>,
}

impl Fit {
    pub(super) fn run(&self, common: &Common) -> Result<ExitCode> {
        let start = self.measurement.drive.spec(common)?;
        ensure!(
            self.fit_share > 0.0 && self.fit_share < 1.0,
            "--fit-share {}: expected a share between 0 and 1, with some of the trace left to judge the fit on",
            self.fit_share
        );
        let out = self.out.as_deref().map(OutFile::create).transpose()?;
        let divided = self.read(&start, common)?;
        let found = divided.fit(&start, common)?;
        let result = divided.result(&start, &found)?;
        let is_refused = found.accepted == Step::Given;
        let fails = is_refused || self.require_gain && !result.is_gain;
        if let (Some(out), Some(path), false) = (out, &self.out, fails) {
            out.write(found.spec.to_toml().as_bytes())?;
            common.note(&format!("written: {}", path.display()));
        }
        if common.json {
            print_result("sakiyomi.drive-fit/3", &result)?
        } else {
            print_text(&describe(&result, common))?
        }
        if !fails {
            return Ok(ExitCode::SUCCESS);
        }
        let rest =
            self.out.as_ref().map_or_else(String::new, |out| format!("; {} is not written", out.display()));
        print_error(&if is_refused {
            format!("the fit is refused: {}{rest}", refusal(&result))
        } else {
            format!("--require-gain: {}{rest}", headline(&result))
        });
        Ok(ExitCode::from(1))
    }

    /// Reads the trace.
    fn read(&self, start: &DriveSpec, common: &Common) -> Result<Divided> {
        let args = &self.measurement;
        let mut progress = Progress::new(trace_size(&args.trace), common.quiet);
        let mut measurement = Measurement::read(args, &Drive::new(start)?, &mut progress)?;
        drop(progress);
        let until = self.until(&measurement);
        // The part that judges decides nothing, not even how the delays are read.
        let count = part(&measurement.requests, Nanos::ZERO, until).end;
        measurement.orient(|| Ok(Drive::new(start)?), count)?;
        let until = self.until(&measurement);
        let requests = &measurement.requests;
        let fitted_to = part(requests, Nanos::ZERO, until);
        let rest = part(requests, until, Nanos::MAX);
        ensure!(
            !fitted_to.is_empty() && !rest.is_empty(),
            "{}: all {} requests lie on one side of {}; a fit needs requests on both sides; \
             change --fit-until or --fit-share",
            measurement.trace,
            requests.len(),
            duration(until.0)
        );
        Ok(Divided { measurement, until, fitted_to, rest })
    }

    /// Returns the end of the part that is fitted to.
    fn until(&self, measurement: &Measurement) -> Nanos {
        let last = measurement.requests.last().map_or(Nanos::ZERO, |request| request.issued);
        self.fit_until.unwrap_or_else(|| Nanos::from_secs_f64(last.as_secs_f64() * self.fit_share))
    }
}

impl Divided {
    /// Identifies the drive, beginning at `start`.
    fn fit(&self, start: &DriveSpec, common: &Common) -> Result<Identified> {
        let mut progress = Progress::new(None, common.quiet);
        let mut interrupted = None;
        let mut go_on = |replays: u64| {
            let told = progress.set(replays, || format!("{replays} replays"));
            interrupted = told.err();
            interrupted.is_none()
        };
        let Measurement { requests, pace, trace, .. } = &self.measurement;
        let found = fit(start, &requests[self.fitted_to.clone()], *pace, &mut go_on);
        drop(progress);
        if let Some(interrupted) = interrupted {
            return Err(interrupted.into());
        }
        found.with_context(|| {
            format!("{trace} reaches beyond the end of {}: give a drive that holds it, or --wrap", start.name)
        })
    }

    /// Judges the drive that was found on the part that was not used.
    fn result(&self, start: &DriveSpec, found: &Identified) -> Result<FitResult> {
        let Measurement { requests, pace, trace, .. } = &self.measurement;
        let judged = |spec: &DriveSpec| -> Result<Accuracy> {
            let simulated = free(Drive::new(spec)?, requests, *pace);
            Ok(judge(requests, &simulated, self.rest.clone()))
        };
        let (before, after) = (judged(start)?, judged(&found.spec)?);
        Ok(FitResult {
            trace: trace.clone(),
            drive: start.name.clone(),
            fit_until_ns: self.until.0,
            fitted: self.fitted_to.len(),
            judged: self.rest.len(),
            replays: found.replays,
            accepted: name(found.accepted),
            trials: found.trials.iter().map(|trial| Trial::new(trial, found.tried[1])).collect(),
            is_gain: after.rms_ns < before.rms_ns * (1.0 - GAIN_MIN_RATIO),
            policies: found.policies.iter().map(Policy::from).collect(),
            parameters: found.parameters.iter().map(Parameter::from).collect(),
            changes: changes(start, found),
            measured_mean_ns: before.all.measured_mean_ns.round() as u64,
            before: Judged::from(&before),
            after: Judged::from(&after),
        })
    }
}

/// Returns the name of a step in JSON.
pub(super) fn name(step: Step) -> &'static str {
    match step {
        Step::Given => "given",
        Step::Skew => "skew",
        Step::Policies => "policies",
        Step::Parameters => "parameters",
        Step::PoliciesAndParameters => "policies_and_parameters",
    }
}

impl Trial {
    fn new(trial: &sakiyomi_identify::Trial, requests: usize) -> Trial {
        Trial {
            step: name(trial.step),
            requests,
            loss_nats: trial.loss_nats,
            rms_ns: trial.rms_ns.round() as u64,
        }
    }
}

impl From<&Decision> for Policy {
    fn from(decision: &Decision) -> Policy {
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
        Policy {
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

impl From<&Estimate> for Parameter {
    fn from(estimate: &Estimate) -> Parameter {
        let samples = estimate.samples as u64;
        let obstacle = estimate.obstacle.as_ref().map(|obstacle| match obstacle {
            Obstacle::TooFew if samples == 0 => "no request depends on it".to_owned(),
            Obstacle::TooFew => format!("only {} depend on it", plural(samples, "request")),
            Obstacle::Flat => "other values explain the trace as well".to_owned(),
            Obstacle::Confounded(other) => format!("it is known only together with {other}"),
        });
        let shown = |value| shown(value, estimate.unit);
        Parameter {
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

impl From<&Accuracy> for Judged {
    fn from(accuracy: &Accuracy) -> Judged {
        Judged {
            simulated_mean_ns: accuracy.all.simulated_mean_ns.round() as u64,
            rms_ns: accuracy.rms_ns.round() as u64,
            rms_ratio: accuracy.rms_ratio,
            request_error_median_ns: accuracy.all.median_ns,
        }
    }
}

fn changes(start: &DriveSpec, found: &Identified) -> Vec<Change> {
    let (before, after) = (start.entries(), found.spec.entries());
    let value = |entries: &[(String, String)], key: &str| {
        entries.iter().find(|entry| entry.0 == key).map(|entry| entry.1.clone())
    };
    let mut keys: Vec<&String> = after.iter().chain(&before).map(|entry| &entry.0).collect();
    let mut seen = std::collections::HashSet::new();
    keys.retain(|key| seen.insert(key.as_str()));
    keys.into_iter()
        .map(|key| Change { key: key.clone(), from: value(&before, key), to: value(&after, key) })
        .filter(|change| change.from != change.to)
        .collect()
}

/// Describes whether the fit is an improvement, as a clause.
fn headline(result: &FitResult) -> String {
    let [before, after] = [&result.before, &result.after].map(|judged| duration(judged.rms_ns));
    let change =
        result.after.rms_ns.abs_diff(result.before.rms_ns) as f64 / result.before.rms_ns.max(1) as f64;
    let rest = "on the held-out part of the trace";
    let order = if change < GAIN_MIN_RATIO {
        Ordering::Equal
    } else {
        result.after.rms_ns.cmp(&result.before.rms_ns)
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
fn refusal(result: &FitResult) -> String {
    let requests = result.trials.first().map_or(0, |trial| trial.requests) as u64;
    format!("no step explains the last {} better than the drive as given", plural(requests, "request"))
}

/// Returns the first paragraph: whether the fit is a gain, and how much the trace does not identify.
fn verdict(result: &FitResult) -> String {
    let mut sentences = Vec::new();
    if result.accepted == name(Step::Given) {
        sentences.push(format!("The fit is refused: {}.", refusal(result)));
        sentences.push("Keep the original drive.".to_owned());
    } else {
        sentences.push(format!("{}.", headline(result).replacen("the", "The", 1)));
        if !result.is_gain {
            sentences.push("Keep the original drive.".to_owned());
        }
    }
    for (what, unknown, all) in [
        (
            "policies",
            result.policies.iter().filter(|policy| !policy.identified).count(),
            result.policies.len(),
        ),
        (
            "parameters",
            result.parameters.iter().filter(|one| !one.identified).count(),
            result.parameters.len(),
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

/// Returns a table of what is known of each policy.
pub(super) fn policy_table(policies: &[Policy]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["policy", "before", "identified"]);
    for Policy { key, from, to, reason, .. } in policies {
        let identified = match reason {
            Some(reason) if from == to => format!("not identified: {reason}"),
            Some(reason) => format!("{to}, not certain: {reason}"),
            None if from == to => "the same".to_owned(),
            None => to.clone(),
        };
        table.add_row([(*key).to_owned(), from.clone(), identified]);
    }
    table
}

/// Returns a table of what is known of each parameter.
pub(super) fn parameter_table(parameters: &[Parameter]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["parameter", "before", "estimate", "interval"]);
    for Parameter { key, from, to, low, high, reason, .. } in parameters {
        let interval = match (low, high, reason) {
            (Some(low), Some(high), None) => format!("{low} to {high}"),
            (Some(low), Some(high), Some(reason)) => format!("{low} to {high}; not identified: {reason}"),
            (_, _, reason) => {
                format!("not identified: {}", reason.as_deref().unwrap_or("the curvature is singular"))
            }
        };
        let to = if from == to { "the same".to_owned() } else { to.clone() };
        table.add_row([key.clone(), from.clone(), to, interval]);
    }
    table
}

fn describe(result: &FitResult, common: &Common) -> String {
    let (policies, mut parameters) = (policy_table(&result.policies), parameter_table(&result.parameters));
    // Settings that are neither, such as the skew of zones.
    let told = |key: &str| {
        result.policies.iter().any(|policy| policy.key == key)
            || result.parameters.iter().any(|parameter| {
                let own = parameter.key.split(" (").next().unwrap_or_default();
                key.starts_with(own) || own.starts_with(key)
            })
    };
    for Change { key, from, to } in result.changes.iter().filter(|change| !told(&change.key)) {
        let shown = |value: &Option<String>| super::short(value.as_deref().unwrap_or("by default"));
        parameters.add_row([key.clone(), shown(from), shown(to), String::new()]);
    }
    let mut judged = Table::new();
    judged.load_preset(presets::NOTHING).set_header(["held-out part", "before", "fitted"]);
    let mut row = |name: &str, of: &dyn Fn(&Judged) -> String| {
        judged.add_row([name.to_owned(), of(&result.before), of(&result.after)]);
    };
    row("mean", &|of| duration(of.simulated_mean_ns));
    row("rms", &|of| duration(of.rms_ns));
    row("of the measured mean", &|of| percent(of.rms_ratio));
    row("median error of a request", &|of| duration(of.request_error_median_ns));
    let style = common.color.style();
    format!(
        "{}\n\n{}\n\n{policies}\n\n{parameters}\n\n{}\n\n{judged}",
        style.wrap(&verdict(result)),
        style.wrap(&format!(
            "{} fitted to {}: {}, issued before {}, in {}",
            result.drive,
            result.trace,
            plural(result.fitted as u64, "request"),
            duration(result.fit_until_ns),
            plural(result.replays, "replay"),
        )),
        style.wrap(&format!(
            "judged on the held-out {}, whose measured mean is {}",
            count(result.judged as u64),
            duration(result.measured_mean_ns)
        )),
    )
}
