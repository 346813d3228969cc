//! A directory for the files of live experiments.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use sakiyomi_io::file::{create_unnamed, lies_in_memory};
use sakiyomi_io::{Access, Claim};
use sakiyomi_os::process::is_killed;
use sakiyomi_os::rights;
use sakiyomi_query::job::spill_directory;

use crate::console::note;

/// Beginning of the name; the number of the process and a counter follow.
const PREFIX: &str = "sakiyomi-reproduce-";
/// Name of the mount point within the directory.
pub(super) const MOUNT_POINT: &str = "drive";

/// Time for a killed process to end once its mount answers its requests with errors.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two checks for its end.
const END_POLL_PERIOD: Duration = Duration::from_millis(20);

/// A new directory, removed on drop. A lock on it tells other processes that it is in use.
pub(super) struct Scratch {
    parent: PathBuf,
    directory: PathBuf,
    /// `None` on a file system without locks, on which no process removes what others have left.
    _claim: Option<Claim>,
}

impl Scratch {
    /// Creates the directory where queries have their temporary files, on a writable disk if there is one. Removes
    /// directories that killed processes have left there.
    pub(super) fn find() -> Result<Scratch> {
        let parent = spill_directory();
        let found = fs::canonicalize(&parent).and_then(|parent| {
            remove_left(&parent);
            Scratch::create(&parent)
        });
        found.map_err(|error| {
            anyhow!("{} cannot be written to ({error}); set TMPDIR to a directory that can", parent.display())
        })
    }

    /// Removes what killed processes have left where [`Scratch::find`] creates the directory.
    pub(super) fn remove_leftovers() {
        if let Ok(parent) = fs::canonicalize(spill_directory()) {
            remove_left(&parent);
        }
    }

    /// Creates a directory that did not exist: another process of this number may have left one.
    fn create(parent: &Path) -> io::Result<Scratch> {
        let mut number = 0;
        loop {
            let directory = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            number += 1;
            match DirBuilder::new().mode(0o700).create(&directory) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let claim = match Claim::of_directory(&directory) {
                // Another process removed it as a leftover before it was locked.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::NotFound) =>
                {
                    continue;
                }
                claim => claim.ok(),
            };
            return Ok(Scratch { parent: parent.to_owned(), directory, _claim: claim });
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.directory
    }

    /// Checks that files here are on this machine's storage.
    ///
    /// # Errors
    /// If the directory is in memory, as on a tmpfs.
    pub(super) fn on_storage(&self) -> Result<()> {
        let in_memory =
            create_unnamed(&self.directory, Access::Buffered).is_ok_and(|file| lies_in_memory(&file));
        ensure!(
            !in_memory,
            "{} lies in memory (tmpfs), which is not this machine's storage; set TMPDIR to a directory on a disk",
            self.parent.display()
        );
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Each experiment has removed its files. A directory that something is still mounted in stays.
        if fs::remove_dir(&self.directory).is_err() && self.directory.exists() {
            let directory = self.directory.display();
            let is_mounted = self.directory.join(MOUNT_POINT).symlink_metadata().is_ok();
            let unmount = if is_mounted {
                format!("`sakiyomi umount --lazy {directory}/{MOUNT_POINT}`, then ")
            } else {
                String::new()
            };
            note(&format!("{directory} could not be removed; remove it with {unmount}`rm -r {directory}`"));
        }
    }
}

/// Removes the directories in `parent` whose processes were killed.
fn remove_left(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten().filter(|entry| is_one(&entry.file_name().to_string_lossy())) {
        let path = entry.path();
        // Links and directories of other users are skipped, because `parent` may be world-writable.
        let is_own =
            fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir() && found.uid() == rights::user());
        if !is_own {
            continue;
        }
        // While a process lives it holds the claim.
        match Claim::of_directory(&path) {
            Ok(_claim) => remove_one(&path),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => remove_stuck(&path),
            Err(_) => {}
        }
    }
}

/// Removes a directory in use if its process was killed while it waited for its own mount, and so cannot end.
fn remove_stuck(directory: &Path) {
    let name = directory.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let is_stuck = process_of(&name).is_some_and(is_killed);
    if !is_stuck || sakiyomi_mount::abort(&directory.join(MOUNT_POINT)).is_err() {
        return;
    }
    let begun = Instant::now();
    while begun.elapsed() < END_TIMEOUT {
        if let Ok(_claim) = Claim::of_directory(directory) {
            return remove_one(directory);
        }
        thread::sleep(END_POLL_PERIOD);
    }
}

/// Returns whether the name is that of a scratch directory.
fn is_one(name: &str) -> bool {
    process_of(name).is_some()
}

/// Returns the process number in the name of a scratch directory.
fn process_of(name: &str) -> Option<u32> {
    let (process, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
    number.parse::<u32>().ok()?;
    process.parse().ok()
}

/// Removes a directory that was left, unless something is still mounted in it.
fn remove_one(directory: &Path) {
    let mount_point = directory.join(MOUNT_POINT);
    // Fails if nothing is mounted there. The directory of a mount whose program was killed cannot be looked at.
    let _ = sakiyomi_mount::unmount(&mount_point, true);
    // Fails while something is mounted on it; nothing else is in it.
    match fs::remove_dir(&mount_point) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {}
        _ => {
            // The next process tries again if something cannot be removed.
            let _ = fs::remove_dir_all(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use sakiyomi_testing::Scratch as TestScratch;

    use super::*;

    #[test]
    fn directories_of_processes_that_were_killed_are_removed_and_no_others() {
        let test = TestScratch::new("reproduce_left");
        let parent = test.path("");
        for name in
            ["sakiyomi-reproduce-1-0", "sakiyomi-reproduce-2-0", "sakiyomi-reproduce-x-0", "other-1-0"]
        {
            fs::create_dir_all(test.path(name).join("files")).unwrap();
        }
        for name in ["drive", "tables"] {
            fs::create_dir(test.path("sakiyomi-reproduce-1-0").join(name)).unwrap();
        }
        std::os::unix::fs::symlink("other-1-0", test.path("sakiyomi-reproduce-3-0")).unwrap();
        let used = Scratch::create(&parent).unwrap();
        let claim = Claim::of_directory(test.path("sakiyomi-reproduce-2-0")).unwrap();
        remove_left(&parent);
        assert!(!test.path("sakiyomi-reproduce-1-0").exists());
        for name in
            ["sakiyomi-reproduce-2-0", "sakiyomi-reproduce-x-0", "sakiyomi-reproduce-3-0", "other-1-0/files"]
        {
            assert!(test.path(name).exists(), "{name}");
        }
        assert!(used.path().exists(), "one that is in use stays");
        drop(claim);
        remove_left(&parent);
        assert!(!test.path("sakiyomi-reproduce-2-0").exists());
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_whose_drive_is_not_empty_is_not_touched() {
        // As a mount whose program lives would look, which is not to be unmounted by removing its files.
        let test = TestScratch::new("reproduce_not_empty");
        let left = test.path("sakiyomi-reproduce-1-0");
        fs::create_dir_all(left.join("drive/file")).unwrap();
        fs::create_dir_all(left.join("files")).unwrap();
        remove_left(&test.path(""));
        assert!(left.join("files").exists() && left.join("drive/file").exists());
    }

    #[test]
    fn storage_is_told_from_memory() {
        let memory = Path::new("/dev/shm");
        let Ok(scratch) = Scratch::create(memory) else { return };
        if sakiyomi_io::file::is_tmpfs(memory) {
            let said = scratch.on_storage().unwrap_err().to_string();
            assert!(said.starts_with("/dev/shm lies in memory (tmpfs)"), "{said}");
        }
    }
}
