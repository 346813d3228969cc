//! `validate`: compares a simulated drive with a measured one.

mod result;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use sakiyomi_drive::Drive;
use sakiyomi_model::Nanos;
use sakiyomi_report::number::duration;
use sakiyomi_report::{Document, ValidateResult};
use sakiyomi_validate::{free, part};

use crate::args::MeasurementArgs;
use crate::console::Common;
use crate::measurement::Measurement;
use crate::output::Overwrite;
use crate::progress::Progress;
use crate::provenance::simulation_run;
use crate::simulation::trace_size;
use result::{BothReplays, judged};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi validate cheetah9LP.trace.gz --drive cheetah.toml --out report
  sakiyomi validate hplajw.csv.gz --device 0 --drive hp.toml --from 2d
  sakiyomi validate cheetah9LP.trace.gz --drive cheetah9LP.diskspecs --set servo.write_settle=1ms
";

/// Compare a simulated drive with a measured one.
#[derive(Debug, Args)]
pub(crate) struct Validate {
    #[command(flatten)]
    measurement: MeasurementArgs,
    /// Compare only requests issued at this time or later; earlier ones are replayed to warm up the drive
    #[arg(long, value_name = "TIME", default_value = "0")]
    from: Nanos,
    /// Compare only requests issued before this time
    #[arg(long, value_name = "TIME")]
    until: Option<Nanos>,
    /// Write result.json, report.html, report.md and the charts to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

impl Validate {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let document = self.document(common)?;
        common.present(&document)?;
        Ok(ExitCode::SUCCESS)
    }

    fn document(&self, common: &Common) -> Result<Document<ValidateResult>> {
        let begun = Instant::now();
        if let Some(until) = self.until {
            let (from, bound) = (duration(self.from.0), duration(until.0));
            ensure!(
                self.from < until,
                "--from ({from}) is not before --until ({bound}): no request is issued between them"
            );
        }
        let args = &self.measurement;
        let spec = args.drive.spec(common)?;
        let drive = || Drive::new(&spec);
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        let mut progress = Progress::new(trace_size(&args.trace), common.quiet);
        let mut measurement = Measurement::read(args, &drive()?, &mut progress)?;
        let size = trace_size(&args.trace).unwrap_or_default();
        let count = measurement.requests.len();
        let mut step = |what: &str| progress.set(size, || format!("{count} requests, {what}"));
        step("replayed at their times")?;
        let anchored = measurement.anchor(|| Ok(drive()?))?;
        let requests = &measurement.requests;
        let part = part(requests, self.from, self.until.unwrap_or(Nanos::MAX));
        let end = measurement.end();
        ensure!(
            !part.is_empty(),
            "{}: no request was issued between --from and --until; the last one ended {} after the start",
            measurement.trace,
            duration(end.0)
        );
        step("replayed freely")?;
        let free = free(drive()?, requests, measurement.pace);
        step("judged")?;
        let figures = judged(&BothReplays { measured: requests, free, anchored }, part);
        drop(progress);
        let result = ValidateResult {
            trace: measurement.trace.clone(),
            drive: spec.name,
            settings: args.drive.set.clone(),
            replay: args.describe(measurement.describe()),
            from_ns: self.from.0,
            until_ns: self.until.map(|until| until.0),
            ..figures
        };
        // Both replays cover the whole trace.
        let document = Document::new(simulation_run(begun.elapsed(), 2 * result.requests, end * 2), result);
        if let Some(out) = &out {
            out.write_report(&document)?;
            common.note(&out.report());
        }
        Ok(document)
    }
}
