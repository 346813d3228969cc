//! `query q1`: query 1 of TPC-H, which reads seven columns of LINEITEM and computes eight aggregates of four groups.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use sakiyomi_query::statement::{self, Destination, explain_q1};

use crate::command::sort::SHOWN_ROWS_MAX;
use crate::console::Common;
use crate::tables::{Asked, Command, InputArgs, JobArgs, OutputArgs, ReportArgs, inputs, plan, run};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi query q1 tpch/lineitem.parquet
  sakiyomi query q1 tpch/lineitem.arrow --direct --method uring:8 --block 1MiB --json
";

/// Run query 1 of TPC-H on LINEITEM.
#[derive(Debug, Args)]
#[command(
    after_help = "select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - \
l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), \
avg(l_discount), count(*) from lineitem where l_shipdate <= date '1998-09-02' group by 1, 2 order by 1, 2"
)]
pub(crate) struct Q1 {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    report: ReportArgs,
}

impl Q1 {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let command = Command::begin(self.report.directory()?);
        let shown = Destination::Preview { rows_max: SHOWN_ROWS_MAX as usize };
        let destination = self.output.destination()?.unwrap_or(shown);
        let first: Vec<&PathBuf> = self.input.files().iter().take(1).collect();
        let planned = plan(&self.job, &first, &destination, |job, calibrated| {
            Ok(explain_q1(job, self.input.open_at_once(&self.job)?, calibrated)?)
        });
        let job = planned.job.open()?;
        let table = self.input.open(&planned.job, &job, common)?;
        let asked = Asked {
            operation: "q1",
            description: String::new(),
            inputs: inputs(self.input.files(), &table),
            planned,
        };
        let to = destination.clone();
        let outcome = run(&job, common, move |job| statement::q1(job, table, &to))?;
        command.finish(asked, &job, &outcome, &destination, common)
    }
}
