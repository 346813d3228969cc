//! `grep`: the lines that a pattern matches.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::args::{Common, ReadingArgs};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi grep -c 'error|warning' log.txt
";

/// Print the lines that a pattern matches, or count them, on all cores while reading
#[derive(Debug, Args)]
pub(crate) struct Grep {
    #[command(flatten)]
    reading: ReadingArgs,
}

impl Grep {
    pub(crate) fn run(&self, _common: &Common) -> Result<ExitCode> {
        let _ = &self.reading;
        Ok(ExitCode::SUCCESS)
    }
}
