//! `sort`: a table ordered by columns, within a memory limit.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;

use crate::console::Common;
use crate::query::{Input, JobArgs, OutputArgs, ReportArgs, RowsArgs};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi sort lineitem.parquet --by l_partkey,l_suppkey:desc --memory 512MiB -o sorted.parquet
  sakiyomi sort lineitem.parquet --by l_extendedprice:desc --limit 10
  sakiyomi sort logs/ --by time --where \"status >= 500\" --select time,path -o errors.csv
";

/// Sort a table by columns, within a memory limit.
#[derive(Debug, Args)]
#[command(
    after_help = "Keys: NAME[:asc|:desc][:nulls-first|:nulls-last], separated by commas; a name that holds `:` or `,` is \
written \"in quotes\". Nulls are last unless it says otherwise, and NaN is after all numbers.
Tables: Parquet, Arrow IPC (files and streams) and CSV with a header; several files, or all of a directory, are one table; \
`-` is standard input. The result appears under its name when it is whole, and may replace the input."
)]
pub(crate) struct Sort {
    #[command(flatten)]
    input: Input,
    /// Columns to order by, the most significant first
    #[arg(long, value_name = "COLUMNS", required = true)]
    by: String,
    /// Keep only the first N rows
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Keep the input's order of rows with equal keys
    #[arg(long)]
    stable: bool,
    #[command(flatten)]
    rows: RowsArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    report: ReportArgs,
}
