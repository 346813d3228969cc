//! `query calibrate`: the CPU time of operators on this machine.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::console::Common;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi query calibrate
  sakiyomi query calibrate --calibration operators.json --json
";
