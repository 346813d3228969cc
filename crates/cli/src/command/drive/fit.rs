//! `drive fit`: a drive identified from a measured trace; judged on the part that was not used.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use comfy_table::{Table, presets};
use sakiyomi_model::Nanos;
use sakiyomi_report::number::{count, duration, percent, plural};
use sakiyomi_simulation::{
    FIT_SCHEMA, FitChange, FitErrors, FitParameter, FitPart, FitPolicy, FitResult, FitTrace,
};

use crate::args::MeasurementArgs;
use crate::console::{Common, print_error, print_result, print_text};
use crate::output::OutFile;
use crate::progress::Progress;
use crate::simulation::{of_simulation, shown, trace_size};

pub(super) const EXAMPLES: &str = "Examples:
  sakiyomi drive fit measured.trace.gz --drive deskstar-p7k500 -o mine.toml
  sakiyomi drive fit cheetah9LP.trace.gz --drive cheetah9LP.diskspecs -o fitted.toml
  sakiyomi drive fit hplajw.csv.gz --device 0 --drive hp.toml --fit-until 2d -o fitted.toml
";

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
    #[arg(short, long, alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
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

impl Fit {
    pub(super) fn run(&self, common: &Common) -> Result<ExitCode> {
        let start = self.measurement.drive.spec(common)?;
        let part = self.fit_until.map_or(FitPart::Share(self.fit_share), FitPart::Until);
        let out = self.output.as_deref().map(OutFile::create).transpose()?;
        let trace = self.measurement.trace()?;
        let size = trace_size(&self.measurement.trace);
        let mut progress = Progress::new(size, common.quiet);
        let read = FitTrace::read(&trace, &start, part, &mut shown(&mut progress, size));
        drop(progress);
        let read = read.map_err(of_simulation)?;
        let mut progress = Progress::new(None, common.quiet);
        let found =
            read.fit(&start, &mut |replays| progress.set(replays, || format!("{replays} replays")).is_ok());
        let judged = found.and_then(|found| {
            let mut go_on = || progress.set(found.replays, || "judging".to_owned()).is_ok();
            Ok((read.result(&start, &found, &mut go_on)?, found))
        });
        drop(progress);
        let (result, found) = judged.map_err(of_simulation)?;
        let fails = result.is_refused() || self.require_gain && !result.is_gain;
        if let (Some(out), Some(path), false) = (out, &self.output, fails) {
            out.write(found.spec.to_toml().as_bytes())?;
            common.note(&format!("written: {}", path.display()));
        }
        if common.json {
            print_result(FIT_SCHEMA, &result)?
        } else {
            print_text(&describe(&result, common))?
        }
        if !fails {
            return Ok(ExitCode::SUCCESS);
        }
        let rest = self
            .output
            .as_ref()
            .map_or_else(String::new, |out| format!("; {} is not written", out.display()));
        print_error(&if result.is_refused() {
            format!("the fit is refused: {}{rest}", result.refusal())
        } else {
            format!("--require-gain: {}{rest}", result.headline())
        });
        Ok(ExitCode::from(1))
    }
}

/// Returns a table of what is known of each policy.
pub(super) fn policy_table(policies: &[FitPolicy]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["policy", "before", "identified"]);
    for FitPolicy { key, from, to, reason, .. } in policies {
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
pub(super) fn parameter_table(parameters: &[FitParameter]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["parameter", "before", "estimate", "interval"]);
    for FitParameter { key, from, to, low, high, reason, .. } in parameters {
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
    let is_listed = |key: &str| {
        result.policies.iter().any(|policy| policy.key == key)
            || result.parameters.iter().any(|parameter| {
                let own = parameter.key.split(" (").next().unwrap_or_default();
                key.starts_with(own) || own.starts_with(key)
            })
    };
    for FitChange { key, from, to } in result.changes.iter().filter(|change| !is_listed(&change.key)) {
        let written = |value: &Option<String>| super::short(value.as_deref().unwrap_or("by default"));
        parameters.add_row([key.clone(), written(from), written(to), String::new()]);
    }
    let mut judged = Table::new();
    judged.load_preset(presets::NOTHING).set_header(["held-out part", "before", "fitted"]);
    let mut row = |name: &str, of: &dyn Fn(&FitErrors) -> String| {
        judged.add_row([name.to_owned(), of(&result.before), of(&result.after)]);
    };
    row("mean", &|of| duration(of.simulated_mean_ns));
    row("rms", &|of| duration(of.rms_ns));
    row("of the measured mean", &|of| percent(of.rms_ratio));
    row("median error of a request", &|of| duration(of.request_error_median_ns));
    let style = common.color.style();
    format!(
        "{}\n\n{}\n\n{policies}\n\n{parameters}\n\n{}\n\n{judged}",
        style.wrap(&result.verdict()),
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
