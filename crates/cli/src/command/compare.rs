//! `compare`: two simulations side by side.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use sakiyomi_report::{Comparison, Reported as _, text};
use sakiyomi_simulation::{COMPARE_SCHEMA, Check, failed_checks, load_result};

use crate::console::{Common, Envelope, print_error};
use crate::output::Overwrite;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi sim pc.csv --drive deskstar-7k250 --set cache.read_ahead.max=64KiB --out short
  sakiyomi sim pc.csv --drive deskstar-7k250 --set cache.read_ahead.max=1MiB --out long
  sakiyomi compare short long --out comparison
  sakiyomi compare before after --fail-if 'response_ns.p99>+5%' --fail-if 'hit_ratio<-1%'
";

/// Compare two simulations.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// The first result: the directory that `sim --out` made, or its result.json
    a: PathBuf,
    /// The second result
    b: PathBuf,
    /// Write result.json, report.html, report.md and the charts to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Exit with 1 if the relative change of a figure of result.json is above (KEY>+N%) or below (KEY<-N%) a limit; may be repeated
    #[arg(long, value_name = "CHECK")]
    fail_if: Vec<Check>,
}

impl Compare {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let (a, b) = (load_result(&self.a)?, load_result(&self.b)?);
        let failures = failed_checks(&self.fail_if, &a.result, &b.result)?;
        let comparison = Comparison { a: &a, b: &b };
        let document = Envelope { schema: COMPARE_SCHEMA, result: comparison };
        if let Some(out) = self.overwrite.out(self.out.as_deref(), &[])? {
            out.write_result(&document, &comparison)?;
            common.note(&out.report());
        }
        common.emit(&document, |style| text::render(&comparison.report(), style))?;
        failures.iter().for_each(|failure| print_error(failure));
        Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}
