//! `validate`: compares a simulated drive with a measured one.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use sakiyomi_model::Nanos;
use sakiyomi_report::{Document, ValidateResult};
use sakiyomi_simulation::{Judged, validate};

use crate::args::MeasurementArgs;
use crate::console::Common;
use crate::output::Overwrite;
use crate::progress::Progress;
use crate::provenance::simulation_run;
use crate::simulation::{of_simulation, shown, trace_size};

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
        let args = &self.measurement;
        let spec = args.drive.spec(common)?;
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        let (trace, size) = (args.trace()?, trace_size(&args.trace));
        let mut progress = Progress::new(size, common.quiet);
        let judged = Judged { from: self.from, until: self.until };
        let validated = validate(&trace, &spec, &args.drive.set, judged, &mut shown(&mut progress, size));
        drop(progress);
        let validated = validated.map_err(of_simulation)?;
        let run = simulation_run(begun.elapsed(), validated.commands, validated.simulated);
        let document = Document::new(run, validated.result);
        if let Some(out) = &out {
            out.write_report(&document)?;
            common.note(&out.report());
        }
        Ok(document)
    }
}
