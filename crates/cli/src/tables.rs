//! Shared parts of the table commands: options of files and resources, job execution with progress and Ctrl-C,
//! results.

mod args;
mod calibrations;
mod command;
mod execute;
mod job;
mod plan;
mod resources;
mod result;
mod rows;

pub(crate) use args::{
    InputArgs, InputFormatArgs, OutputFormat, ReportArgs, RowsArgs, SHOWN_ROWS_MAX, format_name,
};
pub(crate) use calibrations::{Calibrations, DeviceCalibrations};
pub(crate) use command::{CommandArgs, Open, SharedArgs, TableCommand};
pub(crate) use execute::{execute, run_command};
pub(crate) use job::run;
pub(crate) use plan::{Planned, describe, explain};
pub(crate) use resources::{JobArgs, keep_memory};
pub(crate) use result::{Asked, Command, file};
