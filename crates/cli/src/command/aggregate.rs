//! `aggregate`: sums, means, extremes and counts of groups of rows, within a memory limit.

use anyhow::{Result, ensure};
use clap::Args;
use sakiyomi_query::aggregate::Function;
use sakiyomi_query::statement::{self, Statement};

use crate::tables::{CommandArgs, InputArgs, Open, RowsArgs, SharedArgs, TableCommand};

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
    fn operation(&self) -> &'static str {
        "aggregate"
    }

    fn description(&self) -> String {
        let by = self.by.as_ref().map_or("all rows".to_owned(), |by| format!("by {}", by.replace(',', ", ")));
        format!("{by}{}", self.rows.describe())
    }

    fn args(&self) -> CommandArgs<'_> {
        CommandArgs::of_table(&self.input, &self.shared)
    }

    fn statement(&self, open: Open<'_>) -> Result<Statement> {
        let aggregate = self.aggregate()?;
        Ok(Statement::Aggregate(self.rows.input(open(self.input.files())?), aggregate))
    }
}

impl Aggregate {
    fn aggregate(&self) -> Result<statement::Aggregate> {
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
