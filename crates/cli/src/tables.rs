//! What the commands on tables have in common: options of files and resources, running a job with progress and Ctrl-C, and
//! the result of it.

mod args;
mod calibrations;
mod job;
mod plan;
mod result;
mod rows;

pub(crate) use args::{
    InputArgs, InputFormatArgs, JobArgs, OutputArgs, OutputFormat, ReportArgs, RowsArgs, format_name,
};
pub(crate) use calibrations::Calibrations;
pub(crate) use job::run;
pub(crate) use plan::{Planned, calibrated, describe, plan};
pub(crate) use result::{Asked, Command, file, inputs};
