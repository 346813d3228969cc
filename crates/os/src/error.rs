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
    /// A system call failed.
    #[error("cannot {what}")]
    System {
        /// The operation, as it completes "cannot ...".
        what: String,
        /// The error of the system call.
        source: io::Error,
    },
}
