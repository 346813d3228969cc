//! `sort`: a table ordered by columns, within a memory limit.

use anyhow::{Result, ensure};
use clap::Args;
use sakiyomi_query::statement::{self, Destination};
use sakiyomi_tables::Operation;

use crate::tables::{CommandArgs, InputArgs, RowsArgs, SHOWN_ROWS_MAX, SharedArgs, TableCommand};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi sort lineitem.parquet --by l_partkey,l_suppkey:desc --memory 512MiB -o sorted.parquet
  sakiyomi sort lineitem.parquet --by l_extendedprice:desc --limit 10
  sakiyomi sort logs/ --by time --where 'status >= 500' --select 'time, path' -o errors.csv
";

/// Sort a table by columns, within a memory limit.
#[derive(Debug, Args)]
#[command(
    after_help = "Keys: NAME[:asc|:desc][:nulls-first|:nulls-last], separated by commas; a name that contains `:` or \
`,` is written in double quotes. Nulls are last by default; NaN is greater than all numbers.
Tables: Parquet, Arrow IPC (files and streams), CSV with a header. The result file appears when it is complete, and \
may replace the input. --where uses columns of the file; --by uses columns of the result of --select."
)]
pub(crate) struct Sort {
    #[command(flatten)]
    input: InputArgs,
    /// Columns to order by, the most significant first
    #[arg(long, value_name = "COLUMNS", required = true)]
    by: String,
    /// Keep the first N rows; up to 1000 can be shown instead of written
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Keep the input order of rows with equal keys
    #[arg(long)]
    stable: bool,
    #[command(flatten)]
    rows: RowsArgs,
    #[command(flatten)]
    shared: SharedArgs,
}

impl TableCommand for Sort {
    fn operation(&self) -> Result<Operation> {
        let sort = statement::Sort { by: self.by.clone(), limit: self.limit, stable: self.stable };
        Ok(Operation::Sort(self.rows.options(), sort))
    }

    fn args(&self) -> CommandArgs<'_> {
        CommandArgs::of_table(&self.input, &self.shared)
    }

    /// Returns the output file, or a preview if `--limit` permits one.
    fn destination(&self) -> Result<Destination> {
        let destination = self.shared.output.file_or_preview()?;
        ensure!(
            matches!(destination, Destination::File { .. })
                || self.limit.is_some_and(|limit| limit <= SHOWN_ROWS_MAX),
            "no output for the sorted rows; name a file with --output (`-` is standard output), or give --limit N up \
             to {SHOWN_ROWS_MAX} to see the first ones"
        );
        Ok(destination)
    }
}
