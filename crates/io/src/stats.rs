//! Counters of a stream.

use std::time::Duration;

/// Counters of a stream's operations so far, of reading or writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStats {
    /// Bytes transferred, those of gaps between ranges included.
    pub bytes: u64,
    /// System calls that have completed.
    pub calls: u64,
    /// Service time: the sum of the durations of those calls, which exceeds the elapsed time if they were concurrent.
    pub service: Duration,
    /// Time for which the caller has waited for operations or for memory.
    pub waiting: Duration,
}
