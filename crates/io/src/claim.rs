//! Files that one process at a time may write, under whatever name it will have written them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

use crate::file::destination::destination_of;

/// The right to write a file, which other processes that claim it do not get: until it is dropped, or the process ends.
///
/// A claim is a lock (`flock`) on a hidden, empty file beside the claimed one, which need not exist; `kill -9` leaves that
/// file, without its lock. A file that exists already can be [locked itself](Claim::hold) as well: two users may be allowed to
/// append to a file in whose directory they cannot make others. A file system without locks leaves it to the user to run
/// one process.
#[derive(Debug)]
pub struct Claim {
    marker: Option<(File, PathBuf)>,
    held: Option<File>,
}

/// Times that a claim meets a file that its last owner has just removed; each of them is an owner that has come and gone.
const RETRIES_MAX: usize = 100;

impl Claim {
    /// Claims the file at `target`, after all symbolic links. Devices and pipes are not claimed.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] if another claim has it.
    pub fn new(target: impl AsRef<Path>) -> io::Result<Claim> {
        let target = target.as_ref();
        let found = fs::metadata(target).ok();
        let mut claim = Claim { marker: None, held: None };
        if found.as_ref().is_some_and(|found| !found.is_file()) {
            return Ok(claim);
        }
        // Whatever keeps its directory from being found or written keeps the file from being opened, which tells it better.
        let Some(marker) = destination_of(target, found.is_some()).ok().and_then(|path| marker_of(&path))
        else {
            return Ok(claim);
        };
        for _ in 0..RETRIES_MAX {
            let Ok(file) = open_marker(&marker) else { return Ok(claim) };
            lock(&file)?;
            if file.metadata()?.nlink() > 0 {
                claim.marker = Some((file, marker));
                return Ok(claim);
            }
        }
        Err(busy())
    }

    /// Claims an existing directory by locking it. For directories that their process removes at its end: a directory
    /// without a lock was left by a killed process.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] if another process holds the claim; other errors if the path is not a
    /// directory, has just been removed, or is on a file system without locks.
    pub fn of_directory(path: impl AsRef<Path>) -> io::Result<Claim> {
        let path = path.as_ref();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let directory = File::from(openat(CWD, path, flags, Mode::empty())?);
        flock(&directory, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => io::Error::new(io::ErrorKind::ResourceBusy, "another process uses it"),
            other => other.into(),
        })?;
        // Its last owner may have removed it between the two calls.
        let (locked, now) = (directory.metadata()?, fs::symlink_metadata(path)?);
        if (locked.dev(), locked.ino()) != (now.dev(), now.ino()) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Claim { marker: None, held: Some(directory) })
    }

    /// Locks the claimed file itself, of a process that appends to it; once is enough.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] if another process has locked it; if it cannot be opened.
    pub fn hold(&mut self, path: impl AsRef<Path>) -> io::Result<()> {
        if self.held.is_none() {
            let file = OpenOptions::new().append(true).open(path)?;
            lock(&file)?;
            self.held = Some(file);
        }
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.marker {
            // While it is locked: whoever has opened it meanwhile sees that it is gone.
            let _ = fs::remove_file(path);
        }
        // A child process that another thread starts holds the locks until it executes its program.
        let files = self.marker.iter().map(|(file, _)| file).chain(&self.held);
        files.for_each(unlock);
    }
}

/// Locks an open file. A file system without locks lets every process have it.
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`] if it is locked through another opening of it.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(busy()),
        _ => Ok(()),
    }
}

/// Unlocks an open file.
pub(crate) fn unlock(file: &File) {
    // It fails where locking has failed.
    let _ = flock(file, FlockOperation::Unlock);
}

fn busy() -> io::Error {
    let reason = "another process writes it; wait for its end, or write another file";
    io::Error::new(io::ErrorKind::ResourceBusy, reason)
}

/// Returns the path of the file that is locked for another one.
fn marker_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy();
    Some(path.with_file_name(format!(".{name}.sakiyomi-lock")))
}

/// Opens a marker for reading, as it may belong to another user.
fn open_marker(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(File::from(openat(CWD, path, flags, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH)?))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use sakiyomi_testing::Scratch;

    use super::*;

    #[test]
    fn a_file_has_one_claim_whatever_its_name_and_nothing_is_left_of_it() {
        let scratch = Scratch::new("claim");
        let path = scratch.path("out");
        std::os::unix::fs::symlink("out", scratch.path("link")).unwrap();
        for exists in [false, true] {
            let claim = Claim::new(&path).unwrap();
            for name in ["out", "link"] {
                let refused = Claim::new(scratch.path(name)).unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy, "{name}, {exists}");
            }
            drop(Claim::new(scratch.path("other")).unwrap());
            drop(claim);
            drop(Claim::new(&path).unwrap());
            assert_eq!(scratch.entries(), 1 + usize::from(exists));
            fs::write(&path, "").unwrap();
        }
        // Neither of these can be claimed, and all are told when they are opened.
        for path in ["/dev/null", "", "/"] {
            let claims = [Claim::new(path).unwrap(), Claim::new(path).unwrap()];
            assert!(claims.iter().all(|claim| claim.marker.is_none()), "{path}");
        }
        drop(Claim::new(scratch.path("no/out")).unwrap());
        // The longest name has no room for the end of a marker's.
        drop(Claim::new(scratch.path(&"n".repeat(255))).unwrap());
    }

    #[test]
    fn a_directory_has_one_claim() {
        let scratch = Scratch::new("claim_directory");
        let path = scratch.path("directory");
        assert_eq!(Claim::of_directory(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::symlink("directory", scratch.path("link")).unwrap();
        assert!(Claim::of_directory(scratch.path("link")).is_err(), "a link is not followed");
        let claim = Claim::of_directory(&path).unwrap();
        assert_eq!(Claim::of_directory(&path).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        drop(claim);
        let claim = Claim::of_directory(&path).unwrap();
        fs::remove_dir(&path).unwrap();
        fs::create_dir(&path).unwrap();
        Claim::of_directory(&path).expect("another directory of that name has a claim of its own");
        drop(claim);
    }

    #[test]
    fn a_file_that_is_held_is_refused_also_where_no_marker_tells_it() {
        let scratch = Scratch::new("claim_held");
        let path = scratch.file("log", "");
        let mut claim = Claim::new(&path).unwrap();
        claim.hold(&path).unwrap();
        let mut unmarked = Claim { marker: None, held: None };
        assert_eq!(unmarked.hold(&path).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        drop(claim);
        unmarked.hold(&path).unwrap();
    }

    #[test]
    fn of_many_threads_that_claim_and_release_one_has_it_at_a_time() {
        let scratch = Scratch::new("claim_threads");
        let path = scratch.path("out");
        let (owners, claims) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let Ok(claim) = Claim::new(&path) else { continue };
                        assert_eq!(owners.fetch_add(1, Ordering::SeqCst), 0);
                        claims.fetch_add(1, Ordering::SeqCst);
                        assert_eq!(owners.fetch_sub(1, Ordering::SeqCst), 1);
                        drop(claim);
                    }
                });
            }
        });
        assert!(claims.into_inner() > 0);
        assert_eq!(scratch.entries(), 0);
    }
}
