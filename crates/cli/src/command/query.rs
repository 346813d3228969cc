//! `query`: TPC-H tables and query 1, the costs of operators on this machine, and plans with their predicted times.

mod generate;
mod q1;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::args::HELP;
use crate::console::Common;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi query gen --sf 1 --tables lineitem,orders --shuffle 1 -o tpch
  sakiyomi query q1 tpch/lineitem.parquet
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
}

impl Query {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        match self {
            Query::Gen(generate) => generate.run(common),
            Query::Q1(q1) => q1.run(common),
        }
    }
}
