//! Errors of predictions, with remedies.

use sakiyomi_probe::calibration::EstimateError;

use super::operators::{Codec, FileFormat, ValueKind};

/// Errors of the prediction of a plan.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CostError {
    /// No engine has measurements of all operations that a plan needs.
    #[error(
        "no engine can be predicted on {target}: {reason}; run `sakiyomi probe DIR --op read,write --method \
         pread:4,uring:8 --block 64KiB,256KiB,1MiB --direct --buffered` with a directory on that device"
    )]
    Device {
        /// The device's target in the calibration.
        target: String,
        /// The first missing measurement.
        reason: EstimateError,
    },
    /// An operator was not measured.
    #[error(
        "{operation} {kind:?} values in {format:?} files was not measured; run `sakiyomi query calibrate`"
    )]
    Operator {
        /// `decoding`, `encoding`.
        operation: &'static str,
        /// The format.
        format: FileFormat,
        /// The kind of values.
        kind: ValueKind,
    },
    /// A compression was not measured.
    #[error("compression by {codec:?} was not measured; run `sakiyomi query calibrate`")]
    Codec {
        /// The compression.
        codec: Codec,
    },
    /// No plan keeps the memory limit.
    #[error(
        "each plan needs {needed_bytes} bytes of memory at least, and the limit is {limit_bytes}; raise --memory"
    )]
    Memory {
        /// Bytes that the smallest plan needs.
        needed_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// No plan keeps the memory limit, of which spilled rows take a part.
    #[error(
        "the spill directory lies in memory (tmpfs), so that each plan needs {needed_bytes} bytes of memory at least, and \
         the limit is {limit_bytes}; choose a directory on disk with --spill, or raise --memory"
    )]
    SpillMemory {
        /// Bytes that the smallest plan needs.
        needed_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The task is inconsistent.
    #[error("this cannot be planned: {0}")]
    Task(&'static str),
}

impl CostError {
    pub(crate) fn operator(operation: &'static str, format: FileFormat, kind: ValueKind) -> CostError {
        CostError::Operator { operation, format, kind }
    }
}
