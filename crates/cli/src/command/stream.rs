//! `stream`: pipelines of records on cores with low latency: run, planned, and the machine that they run on.

mod cores;
mod export;
mod plan;
mod rate;
mod result;
mod run;
mod sim;
mod topology;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::args::HELP;
use crate::console::Common;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi stream run alerts.toml
  tail -F access.log | sakiyomi stream run top-paths.toml
  sakiyomi stream plan alerts.toml --rate 200k
  sakiyomi stream sim alerts.toml --cores 4x8 --rate 800k
  sakiyomi stream export alerts.toml --to flink alerts-flink
  sakiyomi stream topology
";

/// Pipelines of records on cores, with low latency.
#[derive(Debug, Subcommand)]
pub(crate) enum Stream {
    /// Run a pipeline from a file, moving its operators between cores as the rate changes
    #[command(help_template = HELP, before_help = run::EXAMPLES)]
    Run(run::Run),
    /// Plan which operators share a core at an input rate: latency, utilization, and the highest rate that the cores sustain
    #[command(help_template = HELP, before_help = plan::EXAMPLES)]
    Plan(plan::Plan),
    /// Simulate a pipeline on machines with more and more cores: latency, overflow, and the planner's choice
    #[command(help_template = HELP, before_help = sim::EXAMPLES)]
    Sim(sim::Sim),
    /// Export a pipeline, with the state of a snapshot, to be continued by another engine
    #[command(help_template = HELP, before_help = export::EXAMPLES)]
    Export(export::Export),
    /// Measure the cost of passing a tuple between cores, for plans
    #[command(help_template = HELP, before_help = topology::EXAMPLES)]
    Topology(topology::Topology),
}

impl Stream {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        match self {
            Stream::Run(run) => run.run(common),
            Stream::Plan(plan) => plan.run(common),
            Stream::Sim(sim) => sim.run(common),
            Stream::Export(export) => export.run(common),
            Stream::Topology(topology) => topology.run(common),
        }
    }
}
