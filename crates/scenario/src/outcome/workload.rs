//! The result of a workload of any kind.

use sakiyomi_model::Nanos;

/// What came of one workload. Times of several threads add up: they may be longer than it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadOutcome {
    /// Its name.
    pub name: String,
    /// From the first time that it asked for to its end.
    pub elapsed: Nanos,
    /// Time on a core, hops included.
    pub ran: Nanos,
    /// Time on a core for hops between cores, and for waking one up.
    pub hops: Nanos,
    /// Time in which its threads wanted a core and shared it.
    pub queued: Nanos,
    /// Time in which its threads waited for what they read or touched.
    pub waited_read: Nanos,
    /// Time in which its threads could not write because too much was dirty.
    pub waited_write: Nanos,
    /// Time in which its threads slept.
    pub slept: Nanos,
    /// What it read by calls, in bytes.
    pub read_bytes: u64,
    /// What it wrote, in bytes.
    pub written_bytes: u64,
}
