//! `merge`: the shards of a run as the result of the whole.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use super::scenario::{self, ScenarioDefinition};
use super::sweep::{self, SweepDefinition};
use crate::console::Common;
use crate::output::Overwrite;
use crate::shard::{Definition, Reproducible, ShardSet};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi sweep trace.csv.gz --drive deskstar-7k250 --vary queue.depth=1,8,32 \\
      --shard 1/2 --out shards
  sakiyomi sweep trace.csv.gz --drive deskstar-7k250 --vary queue.depth=1,8,32 \\
      --shard 2/2 --out shards
  sakiyomi merge shards --out sweep
";

/// Join the shards of a run.
#[derive(Debug, Args)]
pub(crate) struct Merge {
    /// The shard files of a run, in any order, or directories of shard files
    #[arg(required = true, value_name = "PATH")]
    shards: Vec<PathBuf>,
    /// Write the files of the whole run to this directory, as the command itself would
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    #[command(flatten)]
    reproducible: Reproducible,
}

impl Merge {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let parts = [SweepDefinition::PARTS, ScenarioDefinition::PARTS].concat();
        let shards = ShardSet::open(&self.shards, &parts)?;
        let (out, reproducible) = ((self.out.as_deref(), self.overwrite), self.reproducible);
        match shards.command() {
            SweepDefinition::COMMAND => sweep::merge(shards, out, reproducible, common)?,
            ScenarioDefinition::COMMAND => scenario::merge(shards, out, reproducible, common)?,
            other => {
                bail!("these are shards of `{other}`, a command that this version of sakiyomi does not have")
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
