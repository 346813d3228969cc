//! Errors of this crate: the fault, its place, and a remedy.

use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The description of the pipeline is at fault.
    #[error("{origin}:{line}: {}{problem}", if key.is_empty() { String::new() } else { format!("{key}: ") })]
    Spec {
        /// Name of the description, as that of its file.
        origin: String,
        /// Line of the fault, from 1.
        line: usize,
        /// The keys from the root with dots between; empty for the whole.
        key: String,
        /// The fault and the remedy.
        problem: String,
    },
    /// An input or output cannot be opened, read or written.
    #[error("{name}: cannot {action} {target}: {source}")]
    Io {
        /// The source, step or sink: `source.log`.
        name: String,
        /// The attempted action: `open`.
        action: &'static str,
        /// The file or address.
        target: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A record cannot be read, and its source is to stop then.
    #[error(
        "{name}: at byte {offset} of {target}: {reason}; bad = \"skip\" counts such records and continues"
    )]
    Record {
        /// The source.
        name: String,
        /// The file or address.
        target: String,
        /// Offset of the record in the input, in bytes.
        offset: u64,
        /// The fault.
        reason: String,
    },
    /// A value cannot be computed, and its step is to stop then.
    #[error("{name}: {reason}; bad = \"skip\" counts such rows and continues")]
    Row {
        /// The step.
        name: String,
        /// The fault.
        reason: String,
    },
    /// An input in a format of Arrow is damaged or does not fit.
    #[error("{name}: {}: {reason}", target.display())]
    Table {
        /// The source or step.
        name: String,
        /// The file.
        target: PathBuf,
        /// The fault.
        reason: String,
    },
    /// An operator has no equivalent in the other engine, or its state is damaged.
    #[error("{name}: {reason}")]
    Export {
        /// The source, step or sink.
        name: String,
        /// The part without a counterpart, and a remedy, if any.
        reason: String,
    },
    /// The stream cannot be built.
    #[error(transparent)]
    Stream(#[from] sakiyomi_stream::Error),
    /// The pipeline cannot be planned.
    #[error(transparent)]
    Placement(#[from] sakiyomi_placement::Error),
}
