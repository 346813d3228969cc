//! `join`: pairs of rows of two tables with equal keys, by sorting or hashing, within a memory limit.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use sakiyomi_query::Job;
use sakiyomi_query::join::JoinKind;
use sakiyomi_query::statement::{self, explain_join};
use sakiyomi_query::table::Table;

use crate::console::Common;
use crate::tables::{
    Asked, Command, InputFormatArgs, JobArgs, OutputArgs, ReportArgs, RowsArgs, inputs, plan, run,
};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi join lineitem.parquet orders.parquet --on l_orderkey=o_orderkey -o joined.parquet
  sakiyomi join a.csv b.csv --on id --kind left --memory 128MiB -o joined.csv
  sakiyomi join orders.parquet returned.parquet --on id,line --kind anti -o kept.parquet
";

/// Join two tables on equal columns, within a memory limit.
#[derive(Debug, Args)]
#[command(
    after_help = "A condition is LEFT=RIGHT, or one name that both tables have; several are separated by commas. Null keys \
never join; NaN equals NaN. A column of the right table with the name of a left one gets the suffix _right.
--where and --select apply to the joined rows. The result is ordered by the key only if both tables are sorted for it."
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
    #[command(flatten)]
    format: InputFormatArgs,
    #[command(flatten)]
    rows: RowsArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    report: ReportArgs,
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

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

impl Join {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let command = Command::begin(self.report.directory()?);
        let destination = self
            .output
            .destination()?
            .context("no output for the joined rows; name a file with --output (`-` is standard output)")?;
        let planned = plan(&self.job, &self.sides(), &destination, |job, calibrated| {
            let open =
                |path: &PathBuf| Table::open(std::slice::from_ref(path), &self.format.options(&self.job));
            let (left, right) = (open(&self.left)?, open(&self.right)?);
            Ok(explain_join(job, left, right, &self.statement(), &destination, calibrated)?)
        });
        let job = planned.job.open()?;
        let (left, right) = self.open(&planned.job, &job, common)?;
        let mut asked = Asked {
            operation: "join",
            description: format!(
                "{} on {}{}",
                self.kind.name(),
                self.on.replace(',', ", "),
                self.rows.describe()
            ),
            inputs: inputs(std::slice::from_ref(&self.left), &left),
            planned,
        };
        asked.inputs.extend(inputs(std::slice::from_ref(&self.right), &right));
        let (join, to) = (self.statement(), destination.clone());
        let outcome = run(&job, common, move |job| statement::join(job, left, right, &join, &to))?;
        command.finish(asked, &job, &outcome, &destination, common)
    }

    /// The files of both tables.
    pub(crate) fn sides(&self) -> [&PathBuf; 2] {
        [&self.left, &self.right]
    }

    /// Opens both tables.
    pub(crate) fn open(&self, args: &JobArgs, job: &Job, common: &Common) -> Result<(Table, Table)> {
        let open = |path: &PathBuf| self.format.open(std::slice::from_ref(path), args, job, common);
        Ok((open(&self.left)?, open(&self.right)?))
    }

    pub(crate) fn statement(&self) -> statement::Join {
        statement::Join {
            on: self.on.clone(),
            kind: self.kind.kind(),
            filter: self.rows.filter.clone(),
            select: self.rows.select.clone(),
        }
    }
}
