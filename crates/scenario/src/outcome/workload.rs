//! Result of a workload of any kind.

use sakiyomi_model::Nanos;

/// Result of one workload. Times are sums over threads and may exceed the elapsed time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadOutcome {
    /// Name.
    pub name: String,
    /// Time from the first instant that it requested to its end.
    pub elapsed: Nanos,
    /// CPU time, hops included.
    pub ran: Nanos,
    /// CPU time of hops between cores, and of wake-ups.
    pub hops: Nanos,
    /// Time in which its threads were ready to run but shared their core.
    pub queued: Nanos,
    /// Time in which its threads waited for reads or page faults.
    pub waited_read: Nanos,
    /// Time in which its threads were throttled because of too much dirty data.
    pub waited_write: Nanos,
    /// Time in which its threads slept.
    pub slept: Nanos,
    /// Bytes read by calls.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}
