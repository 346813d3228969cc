//! `query explain`: the plan of a command with predicted times, and rejected plans. `--analyze` adds measured times.

mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use sakiyomi_os::cpu;
use sakiyomi_query::cost::{Explanation, Measured};
use sakiyomi_query::job::Job;
use sakiyomi_query::statement::{
    self, Destination, Outcome, explain_aggregate, explain_join, explain_q1, explain_sort,
};

use super::q1::Q1;
use crate::args::HELP;
use crate::command::aggregate::Aggregate;
use crate::command::join::Join;
use crate::command::sort::{self, Sort};
use crate::console::{Common, say, say_result};
use crate::provenance::nanos;
use crate::tables::{Calibrations, JobArgs, calibrated, run};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi query explain sort lineitem.parquet --by l_partkey --memory 128MiB
  sakiyomi query explain join lineitem.parquet orders.parquet --on l_orderkey=o_orderkey
  sakiyomi query explain --analyze q1 tpch/lineitem.parquet
";

/// Schema of the JSON output.
const SCHEMA: &str = "sakiyomi.explain/1";

/// Print the plan of a command with predicted times, and the plans that it rejected.
#[derive(Debug, Args)]
#[command(
    after_help = "Predictions need measured costs. `sakiyomi probe DIR` measures those of the storage, once for each \
device; `sakiyomi query calibrate` measures those of the operators, once for a machine."
)]
pub(crate) struct Explain {
    /// Also run the command and print measured times beside the predicted ones
    #[arg(long)]
    analyze: bool,
    /// Load the costs of the storage from this file of `probe` instead of the default location
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Load the costs of operators from this file of `query calibrate` instead of the default location
    #[arg(long, value_name = "FILE")]
    operators: Option<PathBuf>,
    #[command(subcommand)]
    command: Explained,
}

/// Command to explain.
#[derive(Debug, Subcommand)]
enum Explained {
    /// Explain a sort
    #[command(help_template = HELP, before_help = "Examples:
  sakiyomi query explain sort lineitem.parquet --by l_partkey --memory 128MiB
")]
    Sort(Box<Sort>),
    /// Explain a join
    #[command(help_template = HELP, before_help = "Examples:
  sakiyomi query explain join lineitem.parquet orders.parquet --on l_orderkey=o_orderkey
")]
    Join(Box<Join>),
    /// Explain an aggregation
    #[command(help_template = HELP, before_help = "Examples:
  sakiyomi query explain aggregate lineitem.parquet --by l_orderkey --count
")]
    Aggregate(Box<Aggregate>),
    /// Explain query 1 of TPC-H
    #[command(help_template = HELP, before_help = "Examples:
  sakiyomi query explain q1 tpch/lineitem.parquet
")]
    Q1(Box<Q1>),
}

impl Explain {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let calibrations = Calibrations::load(self.calibration.as_deref(), self.operators.as_deref())?;
        let job = self.job_args().open()?;
        let destination = self.destination()?;
        let mut explanation = self.explain(&calibrations, &job, &destination, common)?;
        if self.analyze {
            let measured = self.measure(&destination, common)?;
            explanation = explanation.analyzed(measured);
        }
        if common.json {
            say_result(SCHEMA, &explanation)?;
        } else {
            say(&text::describe(&explanation, &calibrations))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn job_args(&self) -> &JobArgs {
        match &self.command {
            Explained::Sort(sort) => &sort.job,
            Explained::Join(join) => &join.job,
            Explained::Aggregate(aggregate) => &aggregate.job,
            Explained::Q1(q1) => &q1.job,
        }
    }

    /// The output file of the command, or a preview.
    fn destination(&self) -> Result<Destination> {
        let output = match &self.command {
            Explained::Sort(sort) => &sort.output,
            Explained::Join(join) => &join.output,
            Explained::Aggregate(aggregate) => &aggregate.output,
            Explained::Q1(q1) => &q1.output,
        };
        let shown = Destination::Preview { rows_max: sort::SHOWN_ROWS_MAX as usize };
        Ok(output.destination()?.unwrap_or(shown))
    }

    /// The first file of each table.
    fn inputs(&self) -> Vec<&PathBuf> {
        match &self.command {
            Explained::Sort(sort) => sort.input.files().iter().take(1).collect(),
            Explained::Join(join) => join.sides().to_vec(),
            Explained::Aggregate(aggregate) => aggregate.input.files().iter().take(1).collect(),
            Explained::Q1(q1) => q1.input.files().iter().take(1).collect(),
        }
    }

    fn explain(
        &self,
        calibrations: &Calibrations,
        job: &Job,
        destination: &Destination,
        common: &Common,
    ) -> Result<Explanation> {
        let args = self.job_args();
        let calibrated = calibrated(calibrations, args, job, &self.inputs(), destination)?;
        let explained = match &self.command {
            Explained::Sort(sort) => {
                let input = sort.rows.input(sort.input.open(args, job, common)?);
                explain_sort(job, input, &sort.statement(), destination, calibrated)
            }
            Explained::Join(join) => {
                let (left, right) = join.open(args, job, common)?;
                explain_join(job, left, right, &join.statement(), destination, calibrated)
            }
            Explained::Aggregate(aggregate) => {
                let input = aggregate.rows.input(aggregate.input.open(args, job, common)?);
                explain_aggregate(job, input, &aggregate.statement()?, calibrated)
            }
            Explained::Q1(q1) => explain_q1(job, q1.input.open(args, job, common)?, calibrated),
        };
        Ok(explained?)
    }

    /// Runs the command with the options of the command line and measures it.
    fn measure(&self, destination: &Destination, common: &Common) -> Result<Measured> {
        let args = self.job_args();
        let job = args.open()?;
        let (begun, cpu) = (std::time::Instant::now(), cpu::user_and_system_of_this_process());
        let to = destination.clone();
        let _: Outcome = match &self.command {
            Explained::Sort(sort) => {
                let input = sort.rows.input(sort.input.open(args, &job, common)?);
                let statement = sort.statement();
                run(&job, common, move |job| statement::sort(job, input, &statement, &to))
            }
            Explained::Join(join) => {
                let ((left, right), statement) = (join.open(args, &job, common)?, join.statement());
                run(&job, common, move |job| statement::join(job, left, right, &statement, &to))
            }
            Explained::Aggregate(aggregate) => {
                let input = aggregate.rows.input(aggregate.input.open(args, &job, common)?);
                let statement = aggregate.statement()?;
                run(&job, common, move |job| statement::aggregate(job, input, &statement, &to))
            }
            Explained::Q1(q1) => {
                let table = q1.input.open(args, &job, common)?;
                run(&job, common, move |job| statement::q1(job, table, &to))
            }
        }
        .context("the explained command failed")?;
        let elapsed = begun.elapsed();
        let (user, system) = cpu::user_and_system_of_this_process();
        Ok(Measured {
            phases: job.phases().list(),
            elapsed_ns: nanos(elapsed),
            user_ns: nanos(user.saturating_sub(cpu.0)),
            system_ns: nanos(system.saturating_sub(cpu.1)),
            threads: job.options().threads,
        })
    }
}
