//! `drive fit`: figures that datasheets omit, estimated from a measured trace; judged on the part that was not fitted
//! to.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use comfy_table::{Table, presets};
use sakiyomi_drive::Drive;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::Nanos;
use sakiyomi_report::number::{count, duration, percent, plural};
use sakiyomi_validate::{Accuracy, Determined, Fitted, Verdict, fit, free, judge, part};
use serde::Serialize;

use crate::args::MeasurementArgs;
use crate::console::{Common, print_error, print_result, print_text};
use crate::measurement::Measurement;
use crate::output::OutFile;
use crate::progress::Progress;
use crate::simulation::trace_size;

pub(super) const EXAMPLES: &str = "Examples:
  sakiyomi drive fit measured.trace.gz --drive deskstar-p7k500 --out mine.toml
  sakiyomi drive fit hplajw.csv.gz --device 0 --drive hp.toml --fit-until 2d --out fitted.toml
";

/// Relative change of the rms error from which a change is significant.
const GAIN_MIN_RATIO: f64 = 1e-3;

/// Estimate, from a measured trace, the drive parameters that its datasheet omits.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Fits overheads, link rates, settle time, head switch time, lost revolutions and the seek curve. Also \
        determines whether transfers overlap, how far the drive reads ahead, and whether it caches writes. \
        Of the geometry, only the skew is fitted, if the trace determines it. The rotational speed is kept."
)]
pub(crate) struct Fit {
    #[command(flatten)]
    measurement: MeasurementArgs,
    /// Write the fitted drive to this file
    #[arg(long, value_name = "FILE.toml")]
    out: PathBuf,
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
    /// Whether the fitted drive has smaller errors than the original on the part that judges.
    is_gain: bool,
    /// The state of each figure.
    figures: Vec<Figure>,
    changes: Vec<Change>,
    measured_mean_ns: u64,
    before: Judged,
    after: Judged,
}

/// A figure, and whether the trace determines it. Values are written as in a drive's file, with their units.
#[derive(Serialize)]
struct Figure {
    key: &'static str,
    from: String,
    to: String,
    /// `fitted` or `kept`.
    state: &'static str,
    /// The reason why it was kept.
    reason: Option<String>,
    /// Number of requests that depend on it.
    samples: u64,
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

impl Fit {
    pub(super) fn run(&self, common: &Common) -> Result<ExitCode> {
        let args = &self.measurement;
        let start = args.drive.spec(common)?;
        ensure!(
            self.fit_share > 0.0 && self.fit_share < 1.0,
            "--fit-share {}: expected a share between 0 and 1, with some of the trace left to judge the fit on",
            self.fit_share
        );
        let out = OutFile::create(&self.out)?;
        let mut progress = Progress::new(trace_size(&args.trace), common.quiet);
        let mut measurement = Measurement::read(args, &Drive::new(&start)?, &mut progress)?;
        drop(progress);
        measurement.anchor(|| Ok(Drive::new(&start)?))?;
        let requests = &measurement.requests;
        let last = requests.last().map_or(Nanos::ZERO, |request| request.issued);
        let until =
            self.fit_until.unwrap_or_else(|| Nanos::from_secs_f64(last.as_secs_f64() * self.fit_share));
        let fitted_to = part(requests, Nanos::ZERO, until);
        let rest = part(requests, until, Nanos::MAX);
        let trace = &measurement.trace;
        ensure!(
            !fitted_to.is_empty() && !rest.is_empty(),
            "{trace}: all {} requests lie on one side of {}; a fit needs requests on both sides; \
             change --fit-until or --fit-share",
            requests.len(),
            duration(until.0)
        );

        let mut progress = Progress::new(None, common.quiet);
        let mut interrupted = None;
        let mut go_on = |replays: u64, error: f64| {
            let told = progress.set(replays, || format!("{replays} replays, {} off", duration(error as u64)));
            interrupted = told.err();
            interrupted.is_none()
        };
        let found = fit(&start, &requests[fitted_to.clone()], measurement.pace, &mut go_on);
        drop(progress);
        if let Some(interrupted) = interrupted {
            return Err(interrupted.into());
        }
        let found = found.with_context(|| {
            format!("{trace} reaches beyond the end of {}: give a drive that holds it, or --wrap", start.name)
        })?;

        let judged = |spec: &DriveSpec| -> Result<Accuracy> {
            let simulated = free(Drive::new(spec)?, requests, measurement.pace);
            Ok(judge(requests, &simulated, rest.clone()))
        };
        let (before, after) = (judged(&start)?, judged(&found.spec)?);
        let is_gain = after.rms_ns < before.rms_ns * (1.0 - GAIN_MIN_RATIO);
        let fails = self.require_gain && !is_gain;
        if !fails {
            out.write(found.spec.to_toml().as_bytes())?;
            common.note(&format!("written: {}", self.out.display()));
        }
        let result = FitResult {
            trace: trace.clone(),
            drive: start.name.clone(),
            fit_until_ns: until.0,
            fitted: fitted_to.len(),
            judged: rest.len(),
            replays: found.replays,
            is_gain,
            figures: found.figures.iter().map(Figure::from).collect(),
            changes: changes(&start, &found),
            measured_mean_ns: before.all.measured_mean_ns.round() as u64,
            before: Judged::from(&before),
            after: Judged::from(&after),
        };
        if common.json {
            print_result("sakiyomi.drive-fit/2", &result)?
        } else {
            print_text(&describe(&result, common))?
        }
        if fails {
            print_error(&format!(
                "--require-gain: {}; {} is not written",
                headline(&result),
                self.out.display()
            ));
            return Ok(ExitCode::from(1));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl From<&Determined> for Figure {
    fn from(figure: &Determined) -> Figure {
        let samples = figure.samples as u64;
        let reason = match figure.verdict {
            Verdict::Fitted => None,
            Verdict::TooFew if samples == 0 => Some(format!("there is no {}", figure.sample)),
            Verdict::TooFew => {
                let only = if samples == 1 { "is" } else { "are" };
                Some(format!("there {only} only {}", plural(samples, figure.sample)))
            }
            Verdict::Flat => Some("another value fits as well".to_owned()),
        };
        Figure {
            key: figure.key,
            from: figure.from.clone(),
            to: figure.to.clone(),
            state: if reason.is_none() { "fitted" } else { "kept" },
            reason,
            samples,
        }
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

fn changes(start: &DriveSpec, found: &Fitted) -> Vec<Change> {
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

/// Returns the first paragraph: whether the fit is a gain, and how many figures the trace does not determine.
fn verdict(result: &FitResult) -> String {
    let headline = headline(result).replacen("the", "The", 1);
    let mut sentences = vec![format!("{headline}.")];
    if !result.is_gain {
        sentences.push("Keep the original drive.".to_owned());
    }
    let kept = result.figures.iter().filter(|figure| figure.state == "kept").count();
    match (kept, result.figures.len()) {
        (0, _) => {}
        (kept, all) if kept == all => {
            sentences.push("The trace determines none of the figures; all keep their values.".to_owned())
        }
        (1, all) => {
            sentences.push(format!("The trace does not determine 1 of {all} figures, which keeps its value."))
        }
        (kept, all) => {
            sentences.push(format!(
                "The trace does not determine {kept} of {all} figures, which keep their values."
            ));
        }
    }
    sentences.join(" ")
}

fn describe(result: &FitResult, common: &Common) -> String {
    let mut figures = Table::new();
    figures.load_preset(presets::NOTHING).set_header(["figure", "before", "fitted"]);
    for Figure { key, from, to, reason, .. } in &result.figures {
        let fitted = match reason {
            Some(reason) => format!("kept: {reason}"),
            None if from == to => "the same".to_owned(),
            None => super::short(to),
        };
        figures.add_row([(*key).to_owned(), super::short(from), fitted]);
    }
    // Settings without a figure, such as the skew of zones.
    let told = |key: &str| result.figures.iter().any(|figure| key.starts_with(figure.key));
    for Change { key, from, to } in result.changes.iter().filter(|change| !told(&change.key)) {
        let shown = |value: &Option<String>| super::short(value.as_deref().unwrap_or("by default"));
        figures.add_row([key.clone(), shown(from), shown(to)]);
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
        "{}\n\n{}\n\n{figures}\n\n{}\n\n{judged}",
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
