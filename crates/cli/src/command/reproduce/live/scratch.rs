//! A directory for the files of live experiments.

use std::fs::{self, DirBuilder};
use std::io;
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
        fs::canonicalize(&parent).and_then(|parent| Scratch::create(&parent)).map_err(|error| {
            anyhow!("{} cannot be written to ({error}); set TMPDIR to a directory that can", parent.display())
        })
    }

    /// Creates a directory that did not exist: another process of this number may have left one.
    fn create(parent: &Path) -> io::Result<Scratch> {
        let mut number = 0;
        loop {
            let directory = parent.join(format!("sakiyomi-reproduce-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&directory) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                made => return made.map(|()| Scratch { directory }),
            }
        }
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
