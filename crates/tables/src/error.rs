//! Errors, each with the sentence of the commands.

use std::io;
use std::path::PathBuf;

use sakiyomi_query::calibrate::LoadError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option has a wrong value, or contradicts another.
    #[error("{0}")]
    Option(String),
    /// The costs of a device or of operators are not known; says how to measure them.
    #[error("{0}")]
    Uncalibrated(String),
    /// A table is not a regular file, and cannot be planned.
    #[error("{0}")]
    Unplannable(String),
    /// The device of a file cannot be found.
    #[error("cannot open {}", path.display())]
    Device {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file of costs cannot be loaded.
    #[error(transparent)]
    Calibration(#[from] LoadError),
    /// The statement failed.
    #[error(transparent)]
    Query(#[from] sakiyomi_query::Error),
}
