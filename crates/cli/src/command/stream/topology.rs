//! `stream topology`: the cores that streams may use, and what a tuple costs from one to another.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use sakiyomi_report::Document;

use super::cores::{CoreCosts, cpus, default_path, make_directory};
use super::result;
use crate::console::Common;
use crate::output::{OutFile, Overwrite};
use crate::provenance;

pub(super) const EXAMPLES: &str = "Examples:
  sakiyomi stream topology
  taskset -c 2-5 sakiyomi stream topology --json
";

/// Measure the cost of passing a tuple between cores, for plans.
#[derive(Debug, Args)]
#[command(
    after_help = "Measures one pair of CPUs for each distance, for two tenths of a second: a cache line from core to core while \
the receiver polls, and the wake-up of a sleeping receiver. The costs are saved, and `stream run` and `stream plan` use them. \
Only CPUs that the process may use count, one of each core; `taskset` narrows them. Measure on a quiet machine: a busy one \
gives costs that are too high."
)]
pub(crate) struct Topology {
    /// Save the costs to this file instead of the default location
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Write result.json, report.html and report.md to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

impl Topology {
    pub(super) fn run(&self, common: &Common) -> Result<ExitCode> {
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        let file = self.file()?;
        let begun = Instant::now();
        let costs = CoreCosts::measure()?;
        let topology = costs.topology(&cpus()?)?;
        if let Some(file) = file {
            file.write(costs.to_json().as_bytes())?;
        }
        let result = result::topology(&topology, &costs.costs);
        let document = Document::new(provenance::run(begun.elapsed()), result);
        if let Some(out) = out {
            out.write_report(&document)?;
            common.note(&out.report());
        }
        common.present(&document)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The file to save the costs in, opened before the measurement; none where no place for it is known.
    fn file(&self) -> Result<Option<OutFile>> {
        let path = match &self.calibration {
            Some(path) => Some(path.clone()),
            None => default_path().filter(|path| make_directory(path).is_ok()),
        };
        path.map(|path| OutFile::create(&path)).transpose()
    }
}
