//! `join`: pairs of rows of two tables with equal keys, by sorting or hashing, within a memory limit.

use std::path::PathBuf;
use std::slice;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use sakiyomi_query::join::{JoinKind, JoinMethod};
use sakiyomi_query::statement::{self, Destination};
use sakiyomi_tables::Operation;

use crate::tables::{CommandArgs, InputFormatArgs, RowsArgs, SharedArgs, TableCommand};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi join lineitem.parquet orders.parquet --on l_orderkey=o_orderkey -o joined.parquet
  sakiyomi join a.csv b.csv --on id --kind left --memory 128MiB -o joined.csv
  sakiyomi join orders.parquet returned.parquet --on id,line --kind anti -o kept.parquet
";

/// Join two tables on equal columns, within a memory limit.
#[derive(Debug, Args)]
#[command(
    after_help = "A condition is LEFT=RIGHT, or one name that both tables have; several are separated by commas. A name that \
contains `=` or `,` is written in double quotes. Null keys never join; NaN equals NaN. A column of the right table with the name of a left one gets the suffix _right.
--where and --select apply to the joined rows. The result is in ascending order of the key, with null keys last, if \
both tables are sorted and merged, and in no order if the smaller one is loaded into a hash table, as it is by default if \
it takes little of the memory. --ordered always sorts."
)]
pub(crate) struct Join {
    /// The left table: a file or a directory; `-` is standard input
    #[arg(value_name = "FILE")]
    left: PathBuf,
    /// The right table
    #[arg(value_name = "FILE")]
    right: PathBuf,
    /// Columns that are equal in joined rows
    #[arg(long, value_name = "CONDITION")]
    on: String,
    /// Kind of join
    #[arg(long, value_enum, value_name = "KIND", default_value = "inner")]
    kind: Kind,
    /// Return the rows in the order of the key, even if a hash join would be faster
    #[arg(long)]
    ordered: bool,
    #[command(flatten)]
    format: InputFormatArgs,
    #[command(flatten)]
    rows: RowsArgs,
    #[command(flatten)]
    shared: SharedArgs,
}

/// Values of `--kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Joined rows only.
    Inner,
    /// Joined rows, and rows of the left table without a match.
    Left,
    /// Joined rows, and rows of the right table without a match.
    Right,
    /// Joined rows, and rows of both tables without a match.
    Full,
    /// Rows of the left table with a match, once each.
    Semi,
    /// Rows of the left table without a match.
    Anti,
}

impl Kind {
    fn kind(self) -> JoinKind {
        match self {
            Kind::Inner => JoinKind::Inner,
            Kind::Left => JoinKind::Left,
            Kind::Right => JoinKind::Right,
            Kind::Full => JoinKind::Full,
            Kind::Semi => JoinKind::Semi,
            Kind::Anti => JoinKind::Anti,
        }
    }
}

impl TableCommand for Join {
    fn operation(&self) -> Result<Operation> {
        Ok(Operation::Join(statement::Join {
            on: self.on.clone(),
            kind: self.kind.kind(),
            filter: self.rows.filter.clone(),
            select: self.rows.select.clone(),
            method: self.ordered.then_some(JoinMethod::Merge),
        }))
    }

    fn args(&self) -> CommandArgs<'_> {
        CommandArgs {
            tables: vec![slice::from_ref(&self.left), slice::from_ref(&self.right)],
            format: self.format,
            shared: &self.shared,
        }
    }

    fn destination(&self) -> Result<Destination> {
        self.shared
            .output
            .destination()?
            .context("no output for the joined rows; name a file with --output (`-` is standard output)")
    }
}
