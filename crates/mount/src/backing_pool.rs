//! The threads that perform the backing directory's I/O.

use std::io;
use std::sync::Arc;

use sakiyomi_io::thread_pool::{Job, JobPool};

use crate::live::{Dispatched, Perform};

/// Threads: more than a drive's queue is deep.
pub(crate) const BACKING_THREADS: usize = 40;

/// Requests that wait for a thread; a further one blocks its submitter.
const QUEUE_MAX: usize = 1024;

pub(crate) type BackingPool = JobPool<BackingJob>;

/// Backing I/O that is due.
#[derive(Debug)]
pub(crate) enum BackingJob {
    /// Beside the drive, as soon as a thread is free.
    Immediate(Arc<dyn Perform>),
    /// Submitted by the regulator.
    Dispatched(Dispatched),
}

impl Job for BackingJob {
    fn perform(self) {
        match self {
            BackingJob::Immediate(request) => {
                request.perform(false);
            }
            BackingJob::Dispatched(request) => request.perform(),
        }
    }
}

/// A pool of `threads`.
///
/// # Errors
/// If they cannot be started.
pub(crate) fn start(threads: usize) -> io::Result<BackingPool> {
    JobPool::new("backing", threads, QUEUE_MAX)
}
