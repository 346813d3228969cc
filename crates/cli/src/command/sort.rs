//! `sort`: a table ordered by columns, within a memory limit.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;
use sakiyomi_query::statement::{self, Destination, explain_sort};
use sakiyomi_query::table::Table;

use crate::console::Common;
use crate::tables::{
    Asked, Command, InputArgs, JobArgs, OutputArgs, Planned, ReportArgs, RowsArgs, inputs, plan, run,
};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi sort lineitem.parquet --by l_partkey,l_suppkey:desc --memory 512MiB -o sorted.parquet
  sakiyomi sort lineitem.parquet --by l_extendedprice:desc --limit 10
  sakiyomi sort logs/ --by time --where 'status >= 500' --select 'time, path' -o errors.csv
";

/// Maximum number of rows shown without an output file.
pub(crate) const SHOWN_ROWS_MAX: u64 = 1000;

/// Sort a table by columns, within a memory limit.
#[derive(Debug, Args)]
#[command(
    after_help = "Keys: NAME[:asc|:desc][:nulls-first|:nulls-last], separated by commas; a name that contains `:` or \
`,` is written in double quotes. Nulls are last by default; NaN is greater than all numbers.
Tables: Parquet, Arrow IPC (files and streams), CSV with a header. The result file appears when it is complete, and \
may replace the input. --where refers to the columns of the file, --by to those of --select."
)]
pub(crate) struct Sort {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Columns to order by, the most significant first
    #[arg(long, value_name = "COLUMNS", required = true)]
    pub(crate) by: String,
    /// Keep only the first N rows; without --output, up to 1000 are shown
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Keep the input order of rows with equal keys
    #[arg(long)]
    stable: bool,
    #[command(flatten)]
    pub(crate) rows: RowsArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    report: ReportArgs,
}

impl Sort {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let command = Command::begin(self.report.directory()?);
        let destination = self.destination()?;
        let planned = plan(&self.job, &self.first_file(), &destination, |job, calibrated| {
            let input = self.rows.input(self.input.open_at_once(&self.job)?);
            Ok(explain_sort(job, input, &self.statement(), &destination, calibrated)?)
        });
        let job = planned.job.open()?;
        let table = self.input.open(&planned.job, &job, common)?;
        let asked = self.asked(&table, planned);
        let input = self.rows.input(table);
        let (sort, to) = (self.statement(), destination.clone());
        let outcome = run(&job, common, move |job| statement::sort(job, input, &sort, &to))?;
        command.finish(asked, &job, &outcome, &destination, common)
    }

    /// The output file, or a preview if `--limit` allows one.
    fn destination(&self) -> Result<Destination> {
        if let Some(destination) = self.output.destination()? {
            return Ok(destination);
        }
        ensure!(
            self.limit.is_some_and(|limit| limit <= SHOWN_ROWS_MAX),
            "no output for the sorted rows; name a file with --output (`-` is standard output), or give --limit N up \
             to {SHOWN_ROWS_MAX} to see the first ones"
        );
        Ok(Destination::Preview { rows_max: SHOWN_ROWS_MAX as usize })
    }

    pub(crate) fn first_file(&self) -> Vec<&PathBuf> {
        self.input.files().iter().take(1).collect()
    }

    pub(crate) fn statement(&self) -> statement::Sort {
        statement::Sort { by: self.by.clone(), limit: self.limit, stable: self.stable }
    }

    fn asked(&self, table: &Table, planned: Planned) -> Asked {
        let limit = self.limit.map_or_else(String::new, |limit| format!(", the first {limit} rows"));
        Asked {
            operation: "sort",
            description: format!(
                "by {}{limit}{}",
                self.by.replace(',', ", ").replace(':', " "),
                self.rows.describe()
            ),
            inputs: inputs(self.input.files(), table),
            planned,
        }
    }
}
