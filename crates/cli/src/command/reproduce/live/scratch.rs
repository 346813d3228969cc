//! A directory for the files of live experiments.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use sakiyomi_query::job::spill_directory;

/// A new directory, removed on drop.
pub(super) struct Scratch {
    directory: PathBuf,
}

impl Scratch {
    /// Creates it where temporary files of queries lie: on a disk if there is one that can be written to.
    pub(super) fn find() -> Result<Scratch> {
        let parent = spill_directory();
        let named = fs::canonicalize(&parent).map(|parent| {
            let directory = parent.join(format!("sakiyomi-reproduce-{}", std::process::id()));
            DirBuilder::new().mode(0o700).create(&directory).map(|()| Scratch { directory })
        });
        named.and_then(|made| made).map_err(|error| {
            anyhow!("{} cannot be written to ({error}); set TMPDIR to a directory that can", parent.display())
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Each experiment has removed its files. A directory that something is still mounted in stays.
        let _ = fs::remove_dir(&self.directory);
    }
}
