//! Tuples as operators see them.

use std::fmt;

/// An operator of a stream: its number in the order in which the builder added it, sources included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperatorId(pub usize);

impl fmt::Display for OperatorId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.0)
    }
}

/// A value with its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple<T> {
    /// The value.
    pub value: T,
    /// Scheduled arrival of the latest input that contributed to the value, in nanoseconds of the stream's
    /// clock. A source that is late does not change it, so that latencies include the delay.
    pub arrival_ns: u64,
    /// Number of the tuple on its edge, from 0 without gaps. Watermarks and the end are numbered as well. A stream
    /// that resumes from a snapshot continues with the numbers of the snapshot.
    pub sequence: u64,
}
