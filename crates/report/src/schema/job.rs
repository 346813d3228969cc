//! Jobs of tasks in an experiment in virtual time.

use serde::{Deserialize, Serialize};

/// What came of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioJob {
    /// Its name.
    pub name: String,
    /// How the parts of its file came into memory.
    pub method: String,
    /// Threads that compute.
    pub threads: u64,
    /// Its runs, in their order.
    pub runs: Vec<ScenarioJobRun>,
}

/// One run of a job. Times of several threads add up: they may be longer than it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioJobRun {
    /// From its start to its end.
    pub elapsed_ns: u64,
    /// Time that threads computed on a core.
    pub computing_ns: u64,
    /// Time that threads copied from the page cache on a core.
    pub copied_ns: u64,
    /// Time on a core for hops between cores, and for waking one up; none if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops_ns: Option<u64>,
    /// Time in which threads wanted a core and shared it.
    pub queued_ns: u64,
    /// Time in which threads waited for what they read or touched.
    pub io_wait_ns: u64,
    /// Time in which threads that compute had no task.
    pub idle_ns: u64,
    /// Time in which reads of its file were outstanding.
    pub reading_ns: u64,
    /// What was read into buffers.
    pub read_bytes: u64,
    /// What was computed on.
    pub computed_bytes: u64,
    /// What was asked of the drive.
    pub fetched_bytes: u64,
}

impl ScenarioJobRun {
    /// Neither reading nor computing, on so many threads, can be done in less.
    #[must_use]
    pub fn bound_ns(&self, threads: u64) -> u64 {
        self.reading_ns.max(self.computing_ns / threads.max(1))
    }
}
