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
    /// A record exceeds the buffers.
    #[error(
        "a record of {} is longer than {most} bytes, which is all that is read ahead; use larger blocks", path.display()
    )]
    LongRecord {
        /// The file.
        path: PathBuf,
        /// The longest possible record, in bytes.
        most: u64,
    },
    /// A function of the caller's has panicked, or no thread could be started.
    #[error(transparent)]
    Task(#[from] Failure),
    /// The mapping function returned an error ([`BlockedRead::try_map`](super::BlockedRead::try_map)).
    #[error("the block at offset {offset} of {} could not be processed", path.display())]
    Function {
        /// The file.
        path: PathBuf,
        /// Offset of the block in bytes: the lowest one, if several have failed.
        offset: u64,
        /// The error that was returned.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The read was cancelled ([`Cancel`](super::Cancel)).
    #[error("reading was cancelled")]
    Cancelled,
    /// The result cannot be written.
    #[error("cannot write the result")]
    Write(#[source] io::Error),
    /// The file of the results cannot be written.
    #[error("cannot write {}", path.display())]
    WriteFile {
        /// The file, which is as it was before.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}
