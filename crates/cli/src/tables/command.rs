//! Interface of the commands on tables, for planning and execution.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use sakiyomi_query::statement::Destination;
use sakiyomi_tables::{Operation, Request};

use super::args::{InputArgs, InputFormatArgs, OutputArgs, ReportArgs};
use super::resources::JobArgs;

/// The tables of a command, and the options common to all commands.
pub(crate) struct CommandArgs<'a> {
    /// Files of each table.
    pub(crate) tables: Vec<&'a [PathBuf]>,
    /// Format of all tables.
    pub(crate) format: InputFormatArgs,
    /// Result and resources.
    pub(crate) shared: &'a SharedArgs,
}

/// Options of all commands on tables.
#[derive(Clone, Debug, Args)]
pub(crate) struct SharedArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

impl<'a> CommandArgs<'a> {
    /// Returns the arguments of a command on one table.
    pub(crate) fn of_table(input: &'a InputArgs, shared: &'a SharedArgs) -> CommandArgs<'a> {
        CommandArgs { tables: vec![input.files()], format: input.format(), shared }
    }
}

/// A command on tables.
pub(crate) trait TableCommand {
    /// Returns the operation.
    ///
    /// # Errors
    /// If the options ask for nothing.
    fn operation(&self) -> Result<Operation>;

    /// Returns its tables, and the options common to all commands.
    fn args(&self) -> CommandArgs<'_>;

    /// Returns the output file, or a preview if the command shows one.
    ///
    /// # Errors
    /// If the options contradict each other.
    fn destination(&self) -> Result<Destination> {
        self.args().shared.output.file_or_preview()
    }

    /// Returns the statement as the options state it.
    ///
    /// # Errors
    /// Returns the errors of the operation and of the resources.
    fn request(&self) -> Result<Request> {
        let CommandArgs { tables, format, shared } = self.args();
        Ok(Request {
            operation: self.operation()?,
            tables: tables.into_iter().map(<[PathBuf]>::to_vec).collect(),
            format: format.format(),
            resources: shared.job.resources(),
        })
    }
}
