//! Directories that a program scans: their entries in the order of `getdents`, and files in them.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir, openat};

/// A regular file in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name there.
    pub name: OsString,
    /// The inode number.
    pub inode: u64,
}

/// Returns the regular files of a directory in the order of `getdents`, including entries whose type the file system
/// does not report.
///
/// # Errors
/// If it cannot be read.
pub fn entries(directory: &OwnedFd) -> io::Result<Vec<Entry>> {
    // An open file of its own, with a separate offset.
    let own = openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = vec![MaybeUninit::uninit(); 32 << 10];
    let mut all = RawDir::new(own, &mut buffer);
    let mut entries = Vec::new();
    while let Some(entry) = all.next() {
        let entry = entry?;
        if matches!(entry.file_type(), FileType::RegularFile | FileType::Unknown) {
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            entries.push(Entry { name, inode: entry.ino() });
        }
    }
    Ok(entries)
}

/// Opens a directory as a base of relative paths.
///
/// # Errors
/// If it does not exist.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens a regular file for reading by its path, and returns its attributes. Another kind of file is not opened, because
/// that can have side effects.
///
/// # Errors
/// If the file does not exist, cannot be read, or is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let place = File::from(openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?);
    let about = place.metadata()?;
    if !about.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let reopened = format!("/proc/self/fd/{}", place.as_raw_fd());
    Ok((open_beside(&place.into(), Path::new(&reopened))?, about))
}

/// Opens a file for reading by its name relative to a directory, without blocking on anything but its file system.
///
/// # Errors
/// If it does not exist or is not readable.
pub fn open_beside(directory: &OwnedFd, name: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    // Only the file's owner may request `O_NOATIME`.
    let quiet = openat(directory, name, flags | OFlags::NOATIME, Mode::empty());
    Ok(File::from(quiet.or_else(|_| openat(directory, name, flags, Mode::empty()))?))
}
