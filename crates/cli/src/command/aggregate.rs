//! `aggregate`: sums, means, extremes and counts of groups of rows, within a memory limit.

use anyhow::Result;
use clap::Args;
use sakiyomi_tables::{AggregateLists, Operation};

use crate::tables::{CommandArgs, InputArgs, RowsArgs, SharedArgs, TableCommand};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi aggregate lineitem.parquet --by l_returnflag,l_linestatus --sum l_quantity --avg l_discount --count
  sakiyomi aggregate lineitem.parquet --by l_orderkey --count --memory 64MiB -o orders.parquet
  sakiyomi aggregate logs/ --by host --count --max bytes --where 'status = 404' --json
";

/// Compute sums, means, extremes and counts of groups of rows, within a memory limit.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --by, all rows form one group. Nulls of a --by column form one group; sums, means, extremes \
        and counts of a column ignore nulls. Sums of integers and decimals are exact. Without --output, the \
        first 1000 groups are printed. --where refers to the columns of the file, the other options to those \
        of --select."
)]
pub(crate) struct Aggregate {
    #[command(flatten)]
    input: InputArgs,
    /// Columns whose values form the groups
    #[arg(long, value_name = "COLUMNS")]
    by: Option<String>,
    /// Sum these columns
    #[arg(long, value_name = "COLUMNS")]
    sum: Vec<String>,
    /// Average these columns
    #[arg(long, value_name = "COLUMNS")]
    avg: Vec<String>,
    /// Compute the minimum of these columns
    #[arg(long, value_name = "COLUMNS")]
    min: Vec<String>,
    /// Compute the maximum of these columns
    #[arg(long, value_name = "COLUMNS")]
    max: Vec<String>,
    /// Count the distinct values of these columns
    #[arg(long, value_name = "COLUMNS")]
    distinct: Vec<String>,
    /// Count the rows
    #[arg(long)]
    count: bool,
    #[command(flatten)]
    rows: RowsArgs,
    #[command(flatten)]
    shared: SharedArgs,
}

impl TableCommand for Aggregate {
    fn operation(&self) -> Result<Operation> {
        let lists = AggregateLists {
            by: self.by.clone(),
            sum: self.sum.clone(),
            avg: self.avg.clone(),
            min: self.min.clone(),
            max: self.max.clone(),
            distinct: self.distinct.clone(),
            count: self.count,
        };
        Ok(Operation::Aggregate(self.rows.options(), lists.aggregate()?))
    }

    fn args(&self) -> CommandArgs<'_> {
        CommandArgs::of_table(&self.input, &self.shared)
    }
}
