//! `umount`: the end of a mount, also of one whose program has ended.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi umount /mnt/disk
  sakiyomi umount /mnt/disk --lazy
";

/// Take a mount away.
#[derive(Debug, Args)]
pub(crate) struct Umount {
    /// Where it is mounted
    dir: PathBuf,
    /// Now, although files of it are open: those stay usable until they are closed
    #[arg(long)]
    lazy: bool,
}

impl Umount {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        sakiyomi_mount::unmount(&self.dir, self.lazy)?;
        Ok(ExitCode::SUCCESS)
    }
}
