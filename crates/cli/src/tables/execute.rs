//! Execution of commands on tables.

use std::process::ExitCode;

use anyhow::Result;
use sakiyomi_query::Job;
use sakiyomi_query::statement::{Destination, Outcome};
use sakiyomi_query::table::Table;
use sakiyomi_report::result::QueryFile;
use sakiyomi_tables::{Figures, Planned, Request, inputs, plan};

use super::command::TableCommand;
use super::job::run;
use super::resources::keep_memory;
use super::result::Command;
use crate::console::Common;

/// An executed statement.
pub(crate) struct Executed {
    pub(crate) job: Job,
    pub(crate) inputs: Vec<QueryFile>,
    pub(crate) outcome: Outcome,
}

/// Runs a statement, by a plan or by the options of the command line.
///
/// # Errors
/// Returns the errors of the statement; an interruption.
pub(crate) fn execute(
    request: &Request,
    planned: &Planned,
    destination: &Destination,
    common: &Common,
) -> Result<Executed> {
    keep_memory(request.resources.memory.0);
    let job = request.resources.job(planned.plan.as_ref())?;
    let options = request.open_options(planned);
    let (mut tables, mut files) = (Vec::new(), Vec::new());
    for paths in &request.tables {
        let (owned, options) = (paths.clone(), options.clone());
        // May block on the standard input.
        let table = run(&job, common, move |_| Table::open(&owned, &options))?;
        files.extend(inputs(paths, &table));
        tables.push(table);
    }
    let statement = request.operation.clone().statement(tables);
    let (plan, to) = (planned.plan.clone(), destination.clone());
    let outcome = run(&job, common, move |job| statement.run(job, &to, plan.as_ref()))?;
    Ok(Executed { job, inputs: files, outcome })
}

/// Plans and runs a command, and prints its result.
///
/// # Errors
/// Returns the errors of its options and of the statement; an interruption.
pub(crate) fn run_command(command: &dyn TableCommand, common: &Common) -> Result<ExitCode> {
    let begun = Command::begin(command.args().shared.report.directory()?);
    let (destination, request) = (command.destination()?, command.request()?);
    keep_memory(request.resources.memory.0);
    let planned = plan(&request, &destination)?;
    let Executed { job, inputs, outcome } = execute(&request, &planned, &destination, common)?;
    let figures = Figures::of(&request, inputs, planned, &destination, &outcome);
    begun.finish(figures, &job, &outcome, common)
}
