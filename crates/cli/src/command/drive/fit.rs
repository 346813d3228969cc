//! `drive fit`: figures that no datasheet tells, from a measured trace; judged on the part that was not used.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use comfy_table::{Table, presets};
use sakiyomi_drive::Drive;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::Nanos;
use sakiyomi_report::number::{duration, percent};
use sakiyomi_validate::{Accuracy, Fitted, fit, free, judge, part};
use serde::Serialize;

use crate::args::MeasurementArgs;
use crate::console::{Common, say, say_result};
use crate::measurement::Measurement;
use crate::output::OutFile;
use crate::progress::Progress;
use crate::simulation::trace_size;

pub(super) const EXAMPLES: &str = "Examples:
  sakiyomi drive fit measured.trace.gz --drive deskstar-p7k500 --out mine.toml
  sakiyomi drive fit hplajw.csv.gz --device 0 --drive hp.toml --fit-until 2d --out fitted.toml
";

/// Estimate what a datasheet leaves out from a measured trace.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Fits overheads, link rates, settling, head switch, lost turns and the seek curve, and whether transfers overlap, \
        how far the drive reads ahead, and whether it caches writes. Of the geometry, only the skew is fitted, if the times \
        determine it. The rotational speed is kept."
)]
pub(crate) struct Fit {
    #[command(flatten)]
    measurement: MeasurementArgs,
    /// Write the fitted drive to this file
    #[arg(long, value_name = "FILE.toml")]
    out: PathBuf,
    /// Fit to this share of the trace's time, from its start; the rest judges the fit
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.5,
        conflicts_with = "fit_until",
        allow_negative_numbers = true
    )]
    fit_share: f64,
    /// Fit to the requests issued before this time; the rest judges the fit
    #[arg(long, value_name = "TIME")]
    fit_until: Option<Nanos>,
}

/// What came of a fit.
#[derive(Serialize)]
struct FitResult {
    trace: String,
    drive: String,
    fit_until_ns: u64,
    fitted: usize,
    judged: usize,
    replays: u64,
    changes: Vec<Change>,
    measured_mean_ns: u64,
    before: Judged,
    after: Judged,
}

#[derive(Serialize)]
struct Change {
    key: String,
    from: Option<String>,
    to: Option<String>,
}

/// On the part that was not fitted to.
#[derive(Serialize)]
struct Judged {
    simulated_mean_ns: u64,
    rms_ns: u64,
    rms_ratio: f64,
    request_error_median_ns: u64,
}

impl Fit {
    pub(super) fn run(&self, common: &Common) -> Result<()> {
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
            "{trace}: all {} requests lie on one side of {}; a fit needs some to fit to, and others to be judged on: \
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
        out.write(found.spec.to_toml().as_bytes())?;
        common.note(&format!("written: {}", self.out.display()));
        let result = FitResult {
            trace: trace.clone(),
            drive: start.name.clone(),
            fit_until_ns: until.0,
            fitted: fitted_to.len(),
            judged: rest.len(),
            replays: found.replays,
            changes: changes(&start, &found),
            measured_mean_ns: before.all.measured_mean_ns.round() as u64,
            before: Judged::from(&before),
            after: Judged::from(&after),
        };
        if common.json { say_result("sakiyomi.drive_fit/1", &result) } else { say(&in_words(&result)) }
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

fn in_words(result: &FitResult) -> String {
    let mut figures = Table::new();
    figures.load_preset(presets::NOTHING).set_header(["key", "before", "fitted"]);
    for Change { key, from, to } in &result.changes {
        let shown = |value: &Option<String>| super::short(value.as_deref().unwrap_or("by default"));
        figures.add_row([key.clone(), shown(from), shown(to)]);
    }
    let mut judged = Table::new();
    judged.load_preset(presets::NOTHING).set_header(["on the rest", "before", "fitted"]);
    let mut row = |name: &str, of: &dyn Fn(&Judged) -> String| {
        judged.add_row([name.to_owned(), of(&result.before), of(&result.after)]);
    };
    row("mean", &|of| duration(of.simulated_mean_ns));
    row("rms", &|of| duration(of.rms_ns));
    row("of the measured mean", &|of| percent(of.rms_ratio));
    row("error of a request, median", &|of| duration(of.request_error_median_ns));
    format!(
        "{} fitted to {}: {} requests, issued before {}, in {} replays\n\n{figures}\n\n\
         judged on the other {}, whose measured mean is {}\n\n{judged}",
        result.drive,
        result.trace,
        result.fitted,
        duration(result.fit_until_ns),
        result.replays,
        result.judged,
        duration(result.measured_mean_ns),
    )
}
