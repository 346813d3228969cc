//! `query explain`: the plan of a command with predicted times, and rejected plans. `--analyze` adds measured times.

mod text;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use sakiyomi_os::cpu;
use sakiyomi_query::cost::Measured;
use sakiyomi_query::statement::Destination;
use sakiyomi_tables::{Calibrations, Planned, Request, explain};

use super::q1::Q1;
use crate::args::HELP;
use crate::command::aggregate::Aggregate;
use crate::command::join::Join;
use crate::command::sort::Sort;
use crate::console::{Common, print_result, print_text};
use crate::provenance::nanos;
use crate::tables::{TableCommand, execute, keep_memory};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi query explain sort lineitem.parquet --by l_partkey --memory 128MiB
  sakiyomi query explain join lineitem.parquet orders.parquet --on l_orderkey=o_orderkey
  sakiyomi query explain --analyze q1 tpch/lineitem.parquet
";

/// Schema of the JSON output.
const SCHEMA: &str = "sakiyomi.explain/2";

/// Print the plan of a command with predicted times, and the plans that it rejected.
#[derive(Debug, Args)]
#[command(
    after_help = "Predictions need measured costs. `sakiyomi probe DIR` measures those of the storage, once for each \
device; after it `sakiyomi query calibrate` measures those of the operators, once for a machine, and corrects predictions by jobs. \
About two thirds of these jobs were within the uncertainty that is printed behind a corrected time."
)]
pub(crate) struct Explain {
    /// Also run the command and print measured times beside the predicted ones
    #[arg(long)]
    analyze: bool,
    /// Load the costs of the storage from this file of `probe` instead of the default location
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Load the costs of operators from this file of `query calibrate` instead of the default location
    #[arg(long, value_name = "FILE")]
    operators: Option<PathBuf>,
    #[command(subcommand)]
    command: Explained,
}

/// Command to explain.
#[derive(Debug, Subcommand)]
enum Explained {
    /// Explain a sort
    #[command(help_template = HELP, before_help = "Examples:
  sakiyomi query explain sort lineitem.parquet --by l_partkey --memory 128MiB
")]
    Sort(Box<Sort>),
    /// Explain a join
    #[command(help_template = HELP, before_help = "Examples:
  sakiyomi query explain join lineitem.parquet orders.parquet --on l_orderkey=o_orderkey
")]
    Join(Box<Join>),
    /// Explain an aggregation
    #[command(help_template = HELP, before_help = "Examples:
  sakiyomi query explain aggregate lineitem.parquet --by l_orderkey --count
")]
    Aggregate(Box<Aggregate>),
    /// Explain query 1 of TPC-H
    #[command(help_template = HELP, before_help = "Examples:
  sakiyomi query explain q1 tpch/lineitem.parquet
")]
    Q1(Box<Q1>),
}

impl Explain {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let calibrations = Calibrations::load(self.calibration.as_deref(), self.operators.as_deref())?;
        let command = self.command.command();
        let destination = command.args().shared.output.file_or_preview()?;
        let request = command.request()?;
        keep_memory(request.resources.memory.0);
        let mut explanation = explain(&request, &calibrations, &destination)?;
        if self.analyze {
            let planned = Planned { plan: Some(explanation.choice.plan.clone()), ..Planned::default() };
            let measured = measure(&request, &planned, &destination, common)?;
            explanation = explanation.analyzed(measured);
        }
        if common.json {
            print_result(SCHEMA, &explanation)?;
        } else {
            print_text(&text::describe(&explanation, &calibrations))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Explained {
    fn command(&self) -> &dyn TableCommand {
        match self {
            Explained::Sort(sort) => &**sort,
            Explained::Join(join) => &**join,
            Explained::Aggregate(aggregate) => &**aggregate,
            Explained::Q1(q1) => &**q1,
        }
    }
}

/// Runs a plan and measures it.
fn measure(
    request: &Request,
    planned: &Planned,
    destination: &Destination,
    common: &Common,
) -> Result<Measured> {
    let (begun, cpu) = (Instant::now(), cpu::user_and_system_of_this_process());
    let executed = execute(request, planned, destination, common).context("the explained command failed")?;
    let elapsed = begun.elapsed();
    let (user, system) = cpu::user_and_system_of_this_process();
    Ok(Measured {
        phases: executed.job.phases().list(),
        elapsed_ns: nanos(elapsed),
        user_ns: nanos(user.saturating_sub(cpu.0)),
        system_ns: nanos(system.saturating_sub(cpu.1)),
        threads: executed.job.options().threads,
    })
}
