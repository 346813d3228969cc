//! Results of a job of tasks.

use sakiyomi_model::Nanos;

use crate::spec::ReadMethod;

/// Result of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOutcome {
    /// Name.
    pub name: String,
    /// Read method.
    pub method: ReadMethod,
    /// Number of compute threads.
    pub threads: u32,
    /// Runs, in order.
    pub runs: Vec<JobRun>,
}

/// One run of a job. Times are sums over threads and may exceed the elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobRun {
    /// Time from its start to its end.
    pub elapsed: Nanos,
    /// CPU time of computing.
    pub computed: Nanos,
    /// CPU time of copying from the page cache.
    pub copied: Nanos,
    /// CPU time of hops between cores, and of wake-ups.
    pub hops: Nanos,
    /// Time in which threads were ready to run but shared their core.
    pub queued: Nanos,
    /// Time in which threads waited for reads or page faults.
    pub waited: Nanos,
    /// Time in which threads had no task.
    pub idle: Nanos,
    /// Time in which reads of its file were outstanding.
    pub reading: Nanos,
    /// Bytes read into the buffer.
    pub read_bytes: u64,
    /// Bytes computed on.
    pub computed_bytes: u64,
    /// Bytes requested from the drive for it.
    pub fetched_bytes: u64,
}

impl JobOutcome {
    /// Returns the total time of all runs.
    #[must_use]
    pub fn elapsed(&self) -> Nanos {
        self.runs.iter().map(|run| run.elapsed).sum()
    }
}
