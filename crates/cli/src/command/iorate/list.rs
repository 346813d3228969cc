//! `iorate list`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use sakiyomi_iorate::Control;
use sakiyomi_report::text;

use super::tell;
use crate::args::Common;
use crate::outcome;

pub(super) const EXAMPLES: &str = "Examples:
  sakiyomi iorate list /mnt/disk
  sakiyomi iorate list /mnt/disk --all --json
";

/// Who has a rate, and how well it is kept.
#[derive(Debug, Args)]
#[command(
    after_help = "ideal: how long an I/O is to take. mean, CoV: what the last ones took, and their standard deviation over \
        it. accuracy: actual over ideal time; 1 is exact. late: I/Os that the device had not done in time. \
        queue: requests that have not been answered."
)]
pub(crate) struct List {
    /// Any file or directory of the mount
    dir: PathBuf,
    /// Also those who have no rate
    #[arg(long)]
    all: bool,
}

impl List {
    pub(super) fn run(&self, common: &Common) -> Result<()> {
        let view = Control::open(&self.dir)?.look(self.all)?;
        let result = outcome::iorate::result(&self.dir, &view, None);
        tell(&result, common, |result| text::iorate(result, common.color.style()))
    }
}
