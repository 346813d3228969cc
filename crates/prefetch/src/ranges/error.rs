//! Errors of ranges: the file, the range, and the remedy.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

/// An error of prefetched ranges or of a mapped reader.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened, or is not a file that can be read at an offset.
    #[error(transparent)]
    File(#[from] sakiyomi_io::Error),
    /// A range ends before it begins.
    #[error(
        "range {index} ends at byte {end}, before it begins at byte {start}; give the smaller offset first"
    )]
    Reversed {
        /// Its index in the list, counted from 0.
        index: usize,
        /// Its first byte.
        start: u64,
        /// The byte after its last one.
        end: u64,
    },
    /// The window is too small.
    #[error(
        "a window of {bytes} bytes is too small for prefetching; give at least {min_bytes} bytes of memory"
    )]
    Memory {
        /// Bytes of the window.
        bytes: u64,
        /// The smallest window.
        min_bytes: u64,
    },
    /// The list has no range with this index.
    #[error("range {index} of {} does not exist: its list has {count}, counted from 0", path.display())]
    NoRange {
        /// The file.
        path: PathBuf,
        /// The index that was given.
        index: usize,
        /// Number of ranges in the list.
        count: usize,
    },
    /// Bytes that the mapped file does not have.
    #[error(
        "bytes {} to {} of {} cannot be accessed: it had {size} bytes when it was opened; give a range within them", range.start, range.end, path.display()
    )]
    Outside {
        /// The file.
        path: PathBuf,
        /// The bytes that were requested.
        range: Range<u64>,
        /// Size of the file when it was opened, in bytes.
        size: u64,
    },
    /// The bytes cannot be read.
    #[error("cannot read bytes {} to {} of {}", range.start, range.end, path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The bytes that were requested.
        range: Range<u64>,
        /// The error of the system call.
        source: io::Error,
    },
    /// The file cannot be mapped.
    #[error("cannot map {} into memory; read it instead", path.display())]
    Map {
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The file was made shorter while it was mapped.
    #[error("{} shrank while it was mapped: it had {expected} bytes; another program has truncated it", path.display())]
    Shrunk {
        /// The file.
        path: PathBuf,
        /// Its size when it was opened, in bytes.
        expected: u64,
    },
}
