//! Why a blocked read has no result.

use std::io;
use std::path::PathBuf;

use crate::executor::Failure;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was named cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// What was named.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] sakiyomi_io::Error),
    /// What is small, or has no offsets, as a pipe, cannot be read.
    #[error("cannot read {}", path.display())]
    Stream {
        /// What was named.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A record has no end within what the buffers hold.
    #[error(
        "a record of {} is longer than {most} bytes, which is all that is read ahead; use larger blocks", path.display()
    )]
    LongRecord {
        /// The file.
        path: PathBuf,
        /// What there is room for, in bytes.
        most: u64,
    },
    /// The function that maps has failed.
    #[error(transparent)]
    Task(#[from] Failure),
    /// The result cannot be written.
    #[error("cannot write the result")]
    Write(#[source] io::Error),
}
