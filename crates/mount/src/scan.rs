//! Allocates places for the files that exist when a mount begins, as copying the directory to an empty drive would:
//! directory by directory, in order of names. Files with places from an earlier mount keep them up to their current
//! size; bytes added since then get new ones. A file that appears in the backing directory later, or cannot be read
//! now, gets its places when it is opened.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

use crate::Error;
use crate::frontend::Frontend;
use crate::fs::content::place_data;
use crate::layout::{BLOCK_BYTES, FileId};

/// Places every file below `root`, and frees the places of files that no longer exist.
pub(crate) fn place_all(
    backing: &Path,
    root: &OwnedFd,
    frontend: &Frontend,
    go_on: fn() -> bool,
) -> Result<(), Error> {
    let asked = || if go_on() { Ok(()) } else { Err(Error::Interrupted) };
    let stat = rustix::fs::fstat(root).map_err(|error| failed(backing, error.into()))?;
    let mut scan = Scan { frontend, device: stat.st_dev, there: BTreeSet::new() };
    // Directories to read; the next one is last.
    let mut left = vec![PathBuf::new()];
    let mut found = Vec::new();
    // All files are found first, so that the places of missing files are free for new ones.
    while let Some(path) = left.pop() {
        asked()?;
        match scan.directory(root, &path, &mut found) {
            Ok(mut below) => left.append(&mut below),
            Err((at, error)) if !at.as_os_str().is_empty() && is_passed_over(&error) => {}
            Err((at, error)) => return Err(failed(&below(backing, &at), error)),
        }
    }
    frontend.layout().change().retain(&scan.there);
    for (path, id) in found {
        asked()?;
        scan.place(root, &path, id).map_err(|error| scan.told(backing, &path, error))?;
    }
    Ok(())
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Scan { path: path.to_owned(), source }
}

/// Returns whether a directory can be skipped: it has been removed, is not readable for this user, or its path is too
/// long.
fn is_passed_over(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | PermissionDenied | InvalidFilename)
}

struct Scan<'a> {
    frontend: &'a Frontend,
    device: u64,
    there: BTreeSet<FileId>,
}

impl Scan<'_> {
    /// Adds a directory's files to `found` and frees the blocks beyond the end of known ones. Returns its
    /// subdirectories, the first one last; an error comes with its path.
    fn directory(
        &mut self,
        root: &OwnedFd,
        path: &Path,
        found: &mut Vec<(PathBuf, FileId)>,
    ) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
        let failed = |error| (path.to_owned(), error);
        let directory = open_below(root, path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        self.meet(&rustix::fs::fstat(&directory).map_err(|error| failed(error.into()))?);
        let mut below = Vec::new();
        for name in names(&directory).map_err(failed)? {
            let here = path.join(std::ffi::OsStr::from_bytes(name.as_bytes()));
            let stat = match rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // The entry has been removed meanwhile, or is a mount point whose FUSE daemon has ended.
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTCONN) => continue,
                Err(error) => return Err((here, error.into())),
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => below.push(here),
                FileType::RegularFile => {
                    let id = self.meet(&stat);
                    if self.there.insert(id) {
                        self.frontend.layout().change().truncate(id, stat.st_size.max(0) as u64);
                        found.push((here, id));
                    }
                }
                _ => {}
            }
        }
        below.reverse();
        Ok(below)
    }

    fn meet(&self, stat: &Stat) -> FileId {
        let id =
            FileId { device: if stat.st_dev == self.device { 0 } else { stat.st_dev }, inode: stat.st_ino };
        self.frontend.metadata(|metadata| metadata.meet(id));
        id
    }

    fn place(&self, root: &OwnedFd, path: &Path, id: FileId) -> io::Result<()> {
        match open_below(root, path, OFlags::RDONLY | OFlags::NOFOLLOW) {
            Ok(file) => {
                let stat = rustix::fs::fstat(&file)?;
                place_data(self.frontend, id, &File::from(file), &stat)
            }
            // The file is gone, or not readable for this user: it gets its places when it is opened.
            Err(_) => Ok(()),
        }
    }

    fn told(&self, backing: &Path, path: &Path, error: io::Error) -> Error {
        if error.raw_os_error() == Some(rustix::io::Errno::NOSPC.raw_os_error()) {
            let capacity = self.frontend.layout().read().blocks() * BLOCK_BYTES;
            return Error::TooLarge { path: backing.to_owned(), capacity };
        }
        failed(&below(backing, path), error)
    }
}

/// Returns the full path of a path in the backing directory, which itself is the empty one.
fn below(backing: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { backing.to_owned() } else { backing.join(path) }
}

/// Returns the names in a directory in ascending order.
fn names(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_owned();
        if name.as_bytes() != b"." && name.as_bytes() != b".." {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn open_below(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    Ok(rustix::fs::openat(root.as_fd(), path, flags | OFlags::CLOEXEC, Mode::empty())?)
}
