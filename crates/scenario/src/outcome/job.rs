//! What came of a job of tasks.

use sakiyomi_model::Nanos;

use crate::spec::ReadMethod;

/// The result of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOutcome {
    /// Its name.
    pub name: String,
    /// How the parts of its file came into memory.
    pub method: ReadMethod,
    /// Threads that compute.
    pub threads: u32,
    /// Its runs, in their order.
    pub runs: Vec<JobRun>,
}

/// One run of a job. Times of several threads add up: they may be longer than it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobRun {
    /// From its start to its end.
    pub elapsed: Nanos,
    /// Time that threads computed on a core.
    pub computed: Nanos,
    /// Time that threads copied from the page cache on a core.
    pub copied: Nanos,
    /// Time on a core for hops between cores, and for waking one up.
    pub hops: Nanos,
    /// Time in which threads wanted a core and shared it.
    pub queued: Nanos,
    /// Time in which threads waited for what they read or touched.
    pub waited: Nanos,
    /// Time in which threads had no task.
    pub idle: Nanos,
    /// Time in which reads of its file were outstanding.
    pub reading: Nanos,
    /// What was read into the buffer, in bytes.
    pub read_bytes: u64,
    /// What was computed on, in bytes.
    pub computed_bytes: u64,
    /// What was asked of the drive for it, in bytes.
    pub fetched_bytes: u64,
}

impl JobOutcome {
    /// From its start to its last end.
    #[must_use]
    pub fn elapsed(&self) -> Nanos {
        self.runs.iter().map(|run| run.elapsed).sum()
    }
}
