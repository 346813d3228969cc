//! Errors of preparing or measuring a target.

use std::io;
use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call on a file failed.
    #[error(transparent)]
    Io(#[from] sakiyomi_io::Error),
    /// Another system call failed.
    #[error(transparent)]
    System(#[from] sakiyomi_os::Error),
    /// A write failed.
    #[error("cannot write {length} bytes at {offset} of {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes.
        length: usize,
        /// The error of the system call.
        source: io::Error,
    },
    /// Writes are measured only on files created here.
    #[error(
        "{} would be overwritten; name a directory for a test file, or use --on tmpfs or --on loop",
        .0.display()
    )]
    NotOurs(PathBuf),
    /// The file is empty.
    #[error("{} is empty; name a file with data, or a directory for a test file", .0.display())]
    Empty(PathBuf),
    /// No test file can be created in the directory.
    #[error(
        "cannot create a test file in {}; name a writable directory, or a file to read", path.display()
    )]
    TestFile {
        /// The directory.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The file system has too little free space for the test file.
    #[error(
        "a test file of {wanted} bytes does not fit into {}, which has {free} bytes free; give a smaller --size or free some space",
        path.display()
    )]
    NoRoom {
        /// The directory.
        path: PathBuf,
        /// Size of the test file in bytes.
        wanted: u64,
        /// Free bytes of the file system.
        free: u64,
    },
    /// The process's file size limit does not allow the test file.
    #[error(
        "a test file of {wanted} bytes is not allowed: files may have {limit} (ulimit -f); give a smaller --size"
    )]
    FileLimit {
        /// Size of the test file in bytes.
        wanted: u64,
        /// The largest file that is allowed, in bytes (`RLIMIT_FSIZE`).
        limit: u64,
    },
    /// The directory is not on a tmpfs.
    #[error("{} is not a file system in memory (tmpfs); mount one there to use --on", .0.display())]
    NoTmpfs(PathBuf),
    /// The file is smaller than the smallest block.
    #[error("{} has {size} bytes, and the smallest block wanted {block}; name a larger file or give smaller blocks", path.display())]
    TooSmall {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The block size in bytes.
        block: usize,
    },
    /// Some pages of the file cannot be evicted from the page cache.
    #[error("{cached} bytes of {} cannot be evicted from the page cache: another program has mapped them, or the file system is in memory", path.display())]
    NotCold {
        /// The file.
        path: PathBuf,
        /// Bytes that stay in the page cache.
        cached: u64,
    },
    /// This user may not query the residency of the file's pages.
    #[error(
        "only its owner and users with write permission can query whether {} is in the page cache; name \
         a file of your own, or measure it with --direct or --cached",
        .0.display()
    )]
    Unseen(PathBuf),
    /// The caller has interrupted the measurement.
    #[error("interrupted")]
    Interrupted,
}
