//! Errors: the operation, its object, the cause and the remedy.

use std::io;
use std::path::PathBuf;

use sakiyomi_drive::spec::SpecError;
use sakiyomi_regulate::RateError;
use sakiyomi_trace::TraceError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is neither content nor a drive.
    #[error("there is nothing to serve: name a file or a block device, or a drive to emulate")]
    Nothing,
    /// The file or the device cannot be used.
    #[error(transparent)]
    Content(#[from] sakiyomi_io::Error),
    /// The specification of the drive is invalid.
    #[error(transparent)]
    Drive(#[from] SpecError),
    /// The content does not fit onto the drive.
    #[error("{} has {size} bytes, and the drive {capacity}; take a larger drive", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The drive's size in bytes.
        capacity: u64,
    },
    /// The speed is out of range.
    #[error("a speed of {0} is not possible; give 0.001 to 1000000")]
    Speed(f64),
    /// Two exports have the same name, or there are too many.
    #[error("the export {0:?} is named twice")]
    ExportTwice(String),
    /// The name of an export is too long for clients.
    #[error("the name of an export is longer than 4096 bytes")]
    ExportName,
    /// An export was named by a rate, but does not exist.
    #[error("a rate names {0:?}, which is not an export")]
    NoExport(String),
    /// The rate of an export cannot be kept.
    #[error("the rate of the export {name:?}: {source}")]
    Rate {
        /// The export.
        name: String,
        /// The reason, with the best rate that can be kept.
        source: RateError,
    },
    /// The address is malformed.
    #[error("{0:?} is not an address: give the path of a socket, a port of this machine, or ADDRESS:PORT")]
    Address(String),
    /// Another process listens there.
    #[error("another program listens on {0} already; end it, or name another address")]
    InUse(String),
    /// A file that is not a socket is there.
    #[error("{} is there already and is not a socket; name another path", .0.display())]
    NotASocket(PathBuf),
    /// The address cannot be used.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Another system call failed.
    #[error("cannot {what}")]
    System {
        /// The operation, which completes the sentence "cannot ...".
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
}
