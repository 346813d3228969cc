//! Errors of this crate: the fault, its place, and a remedy.

use std::path::PathBuf;

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read as a table, or as part of one.
    #[error("{}: {reason}", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// The fault and the remedy.
        reason: String,
    },
    /// A column, an expression or an order does not fit the table.
    #[error("{0}")]
    Query(String),
    /// The job does not fit into its memory limit.
    #[error("{what} needs {needed} bytes of memory, and the limit leaves {available}; raise --memory")]
    Memory {
        /// The operation: `sorting a row of 52,428,800 bytes`.
        what: String,
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that it may use.
        available: u64,
    },
    /// The rows in use fill all buffers of the job.
    #[error("rows in use fill all buffers of the memory limit ({bytes} bytes); raise --memory")]
    BuffersFull {
        /// Bytes of all buffers.
        bytes: u64,
    },
    /// Reading, writing or spilling failed.
    #[error(transparent)]
    Io(sakiyomi_io::Error),
    /// All spill directories are full.
    #[error(
        "the spill files have {spilled_bytes} bytes, at least {needed_bytes} more are needed, and no room is left in {}; free some, or name directories with more room by --spill DIR",
        list(directories)
    )]
    SpillFull {
        /// Bytes that are spilled now.
        spilled_bytes: u64,
        /// Bytes of the next write.
        needed_bytes: u64,
        /// The directories.
        directories: Vec<PathBuf>,
    },
    /// Spilled data was not read back as it was written.
    #[error(
        "a spill file in {} has other bytes at {offset} than were written there: the disk or the memory is faulty; check them, or name another directory by --spill DIR", directory.display()
    )]
    SpillDamaged {
        /// The directory of the file.
        directory: PathBuf,
        /// Where the damaged chunk begins, in bytes from the file's start.
        offset: u64,
    },
    /// A file's contents are damaged, or a computation failed.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// A Parquet file is damaged, or uses an unsupported feature.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// A plan cannot be predicted.
    #[error(transparent)]
    Cost(#[from] crate::cost::CostError),
    /// The job was cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl From<sakiyomi_io::Error> for Error {
    fn from(error: sakiyomi_io::Error) -> Error {
        match error {
            sakiyomi_io::Error::AllHeld { budget } => Error::BuffersFull { bytes: budget },
            other => Error::Io(other),
        }
    }
}

impl From<sakiyomi_expression::Error> for Error {
    fn from(error: sakiyomi_expression::Error) -> Error {
        match error {
            sakiyomi_expression::Error::Arrow(error) => Error::Arrow(error),
            other => Error::Query(other.to_string()),
        }
    }
}

/// Paths as an enumeration.
fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
