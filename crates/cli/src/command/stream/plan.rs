//! `stream plan`: which operators share a core at a rate.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use sakiyomi_pipeline::Pipeline;
use sakiyomi_placement::{Arrivals, Planner, Settings};
use sakiyomi_report::Document;

use super::cores::{Cores, here};
use super::rate::Rate;
use super::result;
use crate::console::Common;
use crate::output::Overwrite;
use crate::provenance;

pub(super) const EXAMPLES: &str = "Examples:
  sakiyomi stream plan alerts.toml --rate 200k
  sakiyomi stream plan alerts.toml --rate 1.5M --cores 4x8
";

/// Plan which operators share a core at an input rate: latency, utilization, and the highest rate that the cores sustain.
#[derive(Debug, Args)]
#[command(
    after_help = "Service times are those that the file declares as `cost`, or typical ones. Costs between cores come \
        from `sakiyomi stream topology` if saved, else they are measured now; with --cores, missing ones are \
        those of a Xeon. The plan uses the fewest cores with which the latency is within 5 % of the best. If no \
        plan sustains the rate, the command exits with 1 and names the cheapest edge to cut: the operators \
        before it stay here, and those after it move to a larger engine."
)]
pub(crate) struct Plan {
    /// The pipeline, as TOML
    file: PathBuf,
    /// Mean rate of the input in records per second: 5000, 200k, 1.5M
    #[arg(long, value_name = "RATE")]
    rate: Rate,
    /// Cores of another machine: a number, or cache domains and the cores of each, such as 4x8
    #[arg(long, value_name = "N|DxN")]
    cores: Option<Cores>,
    /// Maximum utilization of a core, from 0 to 1
    #[arg(long, alias = "utilisation", value_name = "RATIO", default_value_t = Settings::default().utilization_max)]
    utilization: f64,
    /// Burstiness: variance over mean of the arrivals per interval; 0 evenly spaced, 1 Poisson, more for bursts
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    dispersion: f64,
    /// Write result.json, report.html and report.md to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// The lowest rate of the table of plans over the highest that is held: below it one core is enough, or the least
/// that pins allow.
const TABLE_RATES_RATIO: f64 = 1e-3;

/// CPU time of handing a row to another engine, as of a sink that writes some values as text.
const SEND_COST_NS: f64 = 150.0;

impl Plan {
    pub(super) fn run(&self, common: &Common) -> Result<ExitCode> {
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        let begun = Instant::now();
        let pipeline = Pipeline::read(&self.file)?;
        let topology = self.cores.map_or_else(|| here(None), Cores::elsewhere)?;
        let graph = pipeline.planner()?;
        let settings = Settings::default().with_utilization_max(self.utilization);
        let planner = Planner::new(&graph, &topology, settings)?;
        let arrivals = Arrivals::new(self.rate.0, self.dispersion)?;
        let planned = planner.plan(arrivals);
        let highest = match &planned {
            // Far beyond what any core holds.
            Ok(_) => planner.plan(Arrivals::new(self.rate.0.max(1.0) * 1e9, self.dispersion)?).err(),
            Err(shortfall) => Some(*shortfall),
        };
        let held_per_s = highest.map_or(self.rate.0, |shortfall| shortfall.held_per_s);
        let table = planner.table(arrivals, held_per_s * TABLE_RATES_RATIO..=held_per_s).ok();
        let operators: Vec<&str> = pipeline.operators().collect();
        let name = self.file.display().to_string();
        let cut = planner.cheapest_cut(arrivals, &pipeline.row_bytes(), SEND_COST_NS);
        let cut = cut.as_ref().filter(|_| planned.is_err());
        let found = result::Found { planned: &planned, table: table.as_ref(), cut };
        let result = result::plan(&name, &operators, &topology, settings, arrivals, found);
        let document = Document::new(provenance::run(begun.elapsed()), result);
        if let Some(out) = out {
            out.write_report(&document)?;
            common.note(&out.report());
        }
        common.present(&document)?;
        Ok(if planned.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
