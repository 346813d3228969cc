//! `query`: TPC-H tables and query 1, the costs of operators on this machine, and plans with their predicted times.

mod calibrate;
mod explain;
mod generate;
mod q1;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::args::HELP;
use crate::console::Common;
use crate::tables::run_command;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi query gen --sf 1 --tables lineitem,orders --shuffle 1 -o tpch
  sakiyomi query q1 tpch/lineitem.parquet
  sakiyomi query calibrate
  sakiyomi query explain sort lineitem.parquet --by l_partkey --memory 128MiB
";

/// Generate TPC-H tables, run query 1, calibrate and explain operators.
#[derive(Debug, Subcommand)]
pub(crate) enum Query {
    /// Generate tables of TPC-H, at any scale factor in bounded memory
    #[command(help_template = HELP, before_help = generate::EXAMPLES)]
    Gen(generate::Generate),
    /// Run query 1 of TPC-H on LINEITEM
    #[command(help_template = HELP, before_help = q1::EXAMPLES)]
    Q1(q1::Q1),
    /// Measure the CPU time of operators on this machine, for predictions
    #[command(help_template = HELP, before_help = calibrate::EXAMPLES)]
    Calibrate(calibrate::Calibrate),
    /// Print the plan of a command with predicted times, and the plans that it rejected
    #[command(help_template = HELP, before_help = explain::EXAMPLES)]
    Explain(explain::Explain),
}

impl Query {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        match self {
            Query::Gen(generate) => generate.run(common),
            Query::Q1(q1) => run_command(q1, common),
            Query::Calibrate(calibrate) => calibrate.run(common),
            Query::Explain(explain) => explain.run(common),
        }
    }
}
