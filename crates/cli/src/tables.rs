//! Shared parts of the table commands: options of files and resources, job execution with progress and Ctrl-C,
//! results.

mod args;
mod command;
mod execute;
mod job;
mod resources;
mod result;

pub(crate) use args::{InputArgs, InputFormatArgs, OutputFormat, ReportArgs, RowsArgs, SHOWN_ROWS_MAX};
pub(crate) use command::{CommandArgs, SharedArgs, TableCommand};
pub(crate) use execute::{execute, run_command};
pub(crate) use job::run;
pub(crate) use resources::{JobArgs, keep_memory};
pub(crate) use result::Command;
