//! Errors: the operation, its object, the cause, and the remedy.

use std::io;
use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// Not a file that can be read at an offset.
    #[error("{} is {what}; a regular file or a block device is needed", path.display())]
    NotAFile {
        /// The path that was given.
        path: PathBuf,
        /// The kind of object at the path: `a directory`.
        what: &'static str,
    },
    /// A file or device that is to be written is in use.
    #[error("{} is in use, for example mounted or served: end that first, or open it read-only", path.display())]
    InUse {
        /// The file or device.
        path: PathBuf,
    },
    /// The file system does not support direct I/O.
    #[error("{} cannot be opened for direct I/O: its file system does not support it; use buffered I/O", path.display())]
    NoDirect {
        /// The file.
        path: PathBuf,
    },
    /// Direct I/O requires another block size.
    #[error(
        "blocks of {block} bytes are not possible for direct I/O on {}: they must be a multiple of {alignment} bytes", path.display()
    )]
    Unaligned {
        /// The file.
        path: PathBuf,
        /// The block size that was requested, in bytes.
        block: usize,
        /// The alignment that the file requires, in bytes.
        alignment: usize,
    },
    /// Part of a file could not be read.
    #[error("cannot read {length} bytes at {offset} of {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Offset in bytes from the file's start.
        offset: u64,
        /// Bytes that were requested.
        length: usize,
        /// The error of the system call.
        source: io::Error,
    },
    /// The file was made shorter while it was read.
    #[error(
        "{} shrank while it was read: it has no data at offset {at}, and it had {expected} bytes; another program has truncated it", path.display()
    )]
    Shrunk {
        /// The file.
        path: PathBuf,
        /// The first offset with no data.
        at: u64,
        /// Its size when it was opened, in bytes.
        expected: u64,
    },
    /// Not enough memory for the buffers.
    #[error(
        "cannot allocate {bytes} bytes for buffers: {available} are available; use smaller blocks or less depth"
    )]
    Memory {
        /// Bytes requested.
        bytes: u64,
        /// Bytes available.
        available: u64,
    },
    /// The blocks that the caller holds fill the budget, so that no memory is left to read into. The stream continues
    /// when some of them are dropped.
    #[error(
        "all memory for buffers is in use ({budget} bytes), and only the caller can release some; drop some blocks, or give a larger budget"
    )]
    AllHeld {
        /// Bytes of the budget.
        budget: u64,
    },
    /// A budget of memory is too small.
    #[error(
        "{wanted} bytes of buffers are needed, and {left} of the budget of {budget} are left; give a larger budget or open fewer streams"
    )]
    Budget {
        /// Bytes wanted.
        wanted: u64,
        /// Bytes neither in use nor guaranteed to others.
        left: u64,
        /// Bytes of the budget.
        budget: u64,
    },
    /// The system does not support an engine.
    #[error("the method {method} cannot be used here ({hint})")]
    Method {
        /// Name of the engine.
        method: String,
        /// A possible reason.
        hint: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
    /// Part of a file could not be written.
    #[error("cannot write {length} bytes at {offset} of {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Offset in bytes from the file's start.
        offset: u64,
        /// Bytes that were to be written.
        length: usize,
        /// The error of the system call.
        source: io::Error,
    },
    /// A sync failed: none of the data is known to be durable.
    #[error("cannot sync {} to the medium", path.display())]
    Sync {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The file system has too little free space for the file.
    #[error("{} needs {needed} bytes, and its file system has {free} bytes free; free some space or write elsewhere", path.display())]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// Bytes that the file needs.
        needed: u64,
        /// Free bytes of its file system.
        free: u64,
    },
    /// The file system has become full during a write.
    #[error(
        "no room for {} beyond its first {offset} bytes: it needs {needed} more, and its file system has {free} left; free some or write elsewhere", path.display()
    )]
    Full {
        /// The file.
        path: PathBuf,
        /// Bytes that fit, counted from the file's start.
        offset: u64,
        /// Bytes needed beyond that, as far as they are known.
        needed: u64,
        /// Free bytes of the file system.
        free: u64,
    },
    /// A system call failed.
    #[error("cannot {what}")]
    System {
        /// The operation, as it completes "cannot ...".
        what: String,
        /// The error of the system call.
        source: io::Error,
    },
}

/// Copies an error: `io::Error` cannot be cloned.
pub(crate) fn same_error(error: &io::Error) -> io::Error {
    error
        .raw_os_error()
        .map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}

/// Preserves the error kind, for callers that examine it.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match &error {
            Error::Full { .. } | Error::NoRoom { .. } => io::ErrorKind::StorageFull,
            Error::NoDirect { .. } => io::ErrorKind::Unsupported,
            Error::Write { source, .. }
            | Error::Read { source, .. }
            | Error::Open { source, .. }
            | Error::Sync { source, .. }
            | Error::System { source, .. } => source.kind(),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
