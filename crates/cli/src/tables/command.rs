//! Commands on tables, as planning and execution see them.

use std::path::PathBuf;

use anyhow::Result;
use sakiyomi_query::statement::{Destination, Statement};
use sakiyomi_query::table::Table;

use super::args::{InputFormatArgs, OutputArgs, ReportArgs};
use super::resources::JobArgs;

/// Opens a table of files.
pub(crate) type Open<'a> = &'a mut dyn FnMut(&[PathBuf]) -> Result<Table>;

/// A command on tables.
pub(crate) trait TableCommand {
    /// Name of the operation in results.
    fn operation(&self) -> &'static str;

    /// Parameters in words.
    fn description(&self) -> String;

    /// Files of each table.
    fn tables(&self) -> Vec<&[PathBuf]>;

    /// Format of all tables.
    fn format(&self) -> InputFormatArgs;

    /// Resources.
    fn job(&self) -> &JobArgs;

    /// File of the result.
    fn output(&self) -> &OutputArgs;

    /// Report of the run.
    fn report(&self) -> &ReportArgs;

    /// The output file, or a preview if the command shows one.
    fn destination(&self) -> Result<Destination>;

    /// The statement, with its tables opened by `open`.
    fn statement(&self, open: Open<'_>) -> Result<Statement>;
}
