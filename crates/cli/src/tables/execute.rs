//! Execution of commands on tables.

use std::process::ExitCode;

use anyhow::Result;
use sakiyomi_io::Access;
use sakiyomi_query::Job;
use sakiyomi_query::cost::Plan;
use sakiyomi_query::statement::{Destination, Outcome};
use sakiyomi_query::table::Table;
use sakiyomi_report::result::QueryFile;

use super::command::{CommandArgs, SharedArgs, TableCommand};
use super::job::run;
use super::plan::plan;
use super::result::{Asked, Command, inputs};
use crate::console::Common;

/// An executed statement.
pub(crate) struct Executed {
    pub(crate) job: Job,
    pub(crate) inputs: Vec<QueryFile>,
    pub(crate) outcome: Outcome,
}

/// Runs the statement of a command, by a plan or by the options of the command line.
///
/// # Errors
/// Returns the errors of the statement; an interruption.
pub(crate) fn execute(
    command: &dyn TableCommand,
    plan: Option<&Plan>,
    destination: &Destination,
    common: &Common,
) -> Result<Executed> {
    let CommandArgs { format, shared: SharedArgs { job: args, .. }, .. } = command.args();
    let job = args.open_for(plan)?;
    let access = plan.map_or(args.access(), Plan::access);
    let mut files = Vec::new();
    let statement = command.statement(&mut |paths| {
        let (owned, options) = (paths.to_owned(), format.options(args, access));
        // May block on the standard input.
        let table = run(&job, common, move |_| Table::open(&owned, &options))?;
        files.extend(inputs(paths, &table));
        Ok(table)
    })?;
    let (plan, to) = (plan.cloned(), destination.clone());
    let outcome = run(&job, common, move |job| statement.run(job, &to, plan.as_ref()))?;
    Ok(Executed { job, inputs: files, outcome })
}

/// Plans and runs a command, and prints its result.
///
/// # Errors
/// Returns the errors of its options and of the statement; an interruption.
pub(crate) fn run_command(command: &dyn TableCommand, common: &Common) -> Result<ExitCode> {
    let begun = Command::begin(command.args().shared.report.directory()?);
    let destination = command.destination()?;
    let planned = plan(command, &destination)?;
    let executed = execute(command, planned.plan.as_ref(), &destination, common)?;
    let asked = Asked {
        operation: command.operation(),
        description: command.description(),
        inputs: executed.inputs,
        is_direct: planned.access(&command.args().shared.job) == Access::Direct,
        planned,
    };
    begun.finish(asked, &executed.job, &executed.outcome, &destination, common)
}
