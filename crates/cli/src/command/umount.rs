//! `umount`: ends a mount, even if its program has already ended.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi umount /mnt/disk
  sakiyomi umount /mnt/disk --lazy
";

/// Unmount a directory mounted by sakiyomi.
#[derive(Debug, Args)]
pub(crate) struct Umount {
    /// The mount point, or a symbolic link to it
    dir: PathBuf,
    /// Unmount even if files are open; they stay usable until they are closed
    #[arg(long)]
    lazy: bool,
}

impl Umount {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        sakiyomi_mount::unmount(&self.dir, self.lazy)?;
        Ok(ExitCode::SUCCESS)
    }
}
