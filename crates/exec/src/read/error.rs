//! Errors of a blocked read.

use std::io;
use std::path::PathBuf;

use crate::executor::Failure;

/// An error of a blocked read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// The path that was given.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] sakiyomi_io::Error),
    /// A small file, or one without offsets such as a pipe, cannot be read.
    #[error("cannot read {}", path.display())]
    Stream {
        /// The path that was given.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A record exceeds the limit.
    #[error("a record of {} is longer than {most} bytes", path.display())]
    LongRecord {
        /// The file.
        path: PathBuf,
        /// The longest possible record, in bytes.
        most: u64,
    },
    /// The mapping function has failed.
    #[error(transparent)]
    Task(#[from] Failure),
    /// The result cannot be written.
    #[error("cannot write the result")]
    Write(#[source] io::Error),
}
