//! `iorate list`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use sakiyomi_iorate::Control;
use sakiyomi_iorate::protocol::{Owner, Target};
use sakiyomi_os::process::Process;
use sakiyomi_report::{Reported, text};

use super::emit;
use crate::console::Common;

pub(super) const EXAMPLES: &str = "Examples:
  sakiyomi iorate list /mnt/disk
  sakiyomi iorate list /mnt/disk --all --json
";

/// List the rates of a mount, and how well they are kept.
#[derive(Debug, Args)]
#[command(
    after_help = "ideal: time that each I/O is to take. mean, CoV: mean and coefficient of variation of the last I/O times. \
        accuracy: actual over ideal time; 1 is exact. late: I/Os that the device did not complete in time. \
        queue: outstanding requests."
)]
pub(crate) struct List {
    /// Any file or directory of the mount
    dir: PathBuf,
    /// Also list processes without a rate that have done I/O on the mount
    #[arg(long)]
    all: bool,
}

impl List {
    pub(super) fn run(&self, common: &Common) -> Result<()> {
        let mut view = Control::open(&self.dir)?.view(self.all)?;
        view.owners.retain(is_there);
        let result = super::result::result(&self.dir, &view, None);
        emit(&result, common, |result| text::render(&result.report(), common.color.style()))
    }
}

/// Returns whether the process still exists: the mount remembers ended processes without a rate for a while.
fn is_there(owner: &Owner) -> bool {
    match owner.target {
        Target::Process { pid } if owner.rate.is_none() => Process::open(pid).is_ok(),
        _ => true,
    }
}
