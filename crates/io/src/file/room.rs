//! Free space of file systems, and detection of file systems in memory.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{StatVfs, fstatfs, statfs, statvfs};
use rustix::process::{Resource, getrlimit};

/// Type of a tmpfs (`TMPFS_MAGIC`, linux/magic.h).
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Type of a ramfs (`RAMFS_MAGIC`, linux/magic.h).
const RAMFS_MAGIC: u64 = 0x8584_58f6;

/// Returns whether a regular file lies in memory, so that the page cache is its only storage. The node of a device
/// does not tell where the device's data is.
#[must_use]
pub fn lies_in_memory(file: &File) -> bool {
    let is_file = file.metadata().is_ok_and(|found| found.is_file());
    is_file && fstatfs(file).is_ok_and(|found| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&(found.f_type as u64)))
}

/// Returns whether a directory is on a tmpfs.
#[must_use]
pub fn is_tmpfs(directory: &Path) -> bool {
    statfs(directory).is_ok_and(|found| found.f_type as u64 == TMPFS_MAGIC)
}

/// Returns the free space of a file system in bytes; [`u64::MAX`] if it is unlimited, as a tmpfs of size 0, which
/// reports no blocks at all.
/// blocks at all.
///
/// # Errors
/// Returns the errors of `statvfs`.
pub fn free_bytes(directory: &Path) -> io::Result<u64> {
    Ok(free_of(&statvfs(directory)?).unwrap_or(u64::MAX))
}

/// Returns the free space of a file system in bytes; `None` if it is unlimited.
pub(crate) fn free_of(found: &StatVfs) -> Option<u64> {
    (found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

/// Returns the largest file that this process may write, in bytes (`ulimit -f`). A write beyond it raises `SIGXFSZ`.
#[must_use]
pub fn file_size_max() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}
