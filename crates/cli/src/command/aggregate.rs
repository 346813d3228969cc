//! `aggregate`: sums, means, extremes and counts of groups of rows, within a memory limit.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;
use sakiyomi_query::aggregate::Function;
use sakiyomi_query::statement::{self, Destination, explain_aggregate};

use super::sort::SHOWN_ROWS_MAX;
use crate::console::Common;
use crate::tables::{
    Asked, Command, InputArgs, JobArgs, OutputArgs, ReportArgs, RowsArgs, inputs, plan, run,
};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi aggregate lineitem.parquet --by l_returnflag,l_linestatus --sum l_quantity --avg l_discount --count
  sakiyomi aggregate lineitem.parquet --by l_orderkey --count --memory 64MiB -o orders.parquet
  sakiyomi aggregate logs/ --by host --count --max bytes --where 'status = 404' --json
";

/// Sums, means, extremes and counts of groups of rows, within a memory limit.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --by, all rows are one group. Nulls of a --by column form one group; sums, means, \
extremes and counts of a column leave nulls out. Sums of whole numbers and decimals are exact. Without --output, \
the first 1000 groups are shown. --where refers to the columns of the file, the other options to those of --select."
)]
pub(crate) struct Aggregate {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Columns whose values form the groups
    #[arg(long, value_name = "COLUMNS")]
    by: Option<String>,
    /// Sum these columns
    #[arg(long, value_name = "COLUMNS")]
    sum: Vec<String>,
    /// Average these columns
    #[arg(long, value_name = "COLUMNS")]
    avg: Vec<String>,
    /// Find the least value of these columns
    #[arg(long, value_name = "COLUMNS")]
    min: Vec<String>,
    /// Find the greatest value of these columns
    #[arg(long, value_name = "COLUMNS")]
    max: Vec<String>,
    /// Count the different values of these columns
    #[arg(long, value_name = "COLUMNS")]
    distinct: Vec<String>,
    /// Count the rows
    #[arg(long)]
    count: bool,
    #[command(flatten)]
    pub(crate) rows: RowsArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    report: ReportArgs,
}

impl Aggregate {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let command = Command::begin(self.report.directory()?);
        let shown = Destination::Preview { rows_max: SHOWN_ROWS_MAX as usize };
        let destination = self.output.destination()?.unwrap_or(shown);
        let statement = self.statement()?;
        let first: Vec<&PathBuf> = self.input.files().iter().take(1).collect();
        let planned = plan(&self.job, &first, &destination, |job, calibrated| {
            let input = self.rows.input(self.input.open_at_once(&self.job)?);
            Ok(explain_aggregate(job, input, &statement, calibrated)?)
        });
        let job = planned.job.open()?;
        let table = self.input.open(&planned.job, &job, common)?;
        let by = self.by.as_ref().map_or("all rows".to_owned(), |by| format!("by {}", by.replace(',', ", ")));
        let asked = Asked {
            operation: "aggregate",
            description: format!("{by}{}", self.rows.describe()),
            inputs: inputs(self.input.files(), &table),
            planned,
        };
        let (input, to) = (self.rows.input(table), destination.clone());
        let outcome = run(&job, common, move |job| statement::aggregate(job, input, &statement, &to))?;
        command.finish(asked, &job, &outcome, &destination, common)
    }

    pub(crate) fn statement(&self) -> Result<statement::Aggregate> {
        let of = |function, lists: &[String]| {
            lists.iter().map(|list| (function, list.clone())).collect::<Vec<_>>()
        };
        let functions = [
            of(Function::Sum, &self.sum),
            of(Function::Avg, &self.avg),
            of(Function::Min, &self.min),
            of(Function::Max, &self.max),
            of(Function::CountDistinct, &self.distinct),
        ];
        let functions: Vec<(Function, String)> = functions.into_iter().flatten().collect();
        ensure!(
            self.count || self.by.is_some() || !functions.is_empty(),
            "no aggregate to compute; give --by, --sum, --avg, --min, --max, --distinct or --count"
        );
        Ok(statement::Aggregate { by: self.by.clone(), functions, count: self.count })
    }
}
