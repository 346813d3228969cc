//! The threads that perform backing I/O.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use sakiyomi_io::thread_pool::{Job, JobPool};
use sakiyomi_model::RequestId;

/// Number of threads: more than the depth of a drive's queue.
pub const BACKING_THREADS: usize = 40;

/// Maximum number of requests queued for a thread; a further one blocks its submitter.
const QUEUE_MAX: usize = 1024;

/// The threads.
pub type BackingPool = JobPool<BackingJob>;

/// All of a request.
pub const WHOLE_REQUEST: Range<u64> = 0..u64::MAX;

/// The backing I/O of a request.
pub trait Perform: Send + Sync {
    /// Performs a part of it, in bytes from its start, and returns whether that succeeded. The parts follow each other,
    /// one at a time; the last one ends at the end of the request or beyond. With `durable`, a write must reach the
    /// medium.
    fn perform(&self, part: Range<u64>, durable: bool) -> bool;
}

/// Receives the completions of I/O that a device has dispatched.
pub trait OnPerformed: Send + Sync {
    /// Called on a thread of the pool.
    fn on_performed(&self, id: RequestId, succeeded: bool);
}

/// Backing I/O to be performed.
pub enum BackingJob {
    /// Outside the drive's time, as soon as a thread is free.
    Immediate(Arc<dyn Perform>),
    /// Dispatched by the regulator.
    Dispatched {
        /// The I/O.
        request: Arc<dyn Perform>,
        /// The part of it.
        part: Range<u64>,
        /// Whether a write must reach the medium.
        durable: bool,
        /// The request to the device.
        id: RequestId,
        /// The device.
        device: Arc<dyn OnPerformed>,
    },
}

impl Job for BackingJob {
    fn perform(self) {
        match self {
            BackingJob::Immediate(request) => {
                request.perform(WHOLE_REQUEST, false);
            }
            BackingJob::Dispatched { request, part, durable, id, device } => {
                device.on_performed(id, request.perform(part, durable));
            }
        }
    }
}

/// Starts a pool of `threads` threads.
///
/// # Errors
/// If they cannot be started.
pub fn start_pool(threads: usize) -> io::Result<BackingPool> {
    JobPool::new("backing", threads, QUEUE_MAX)
}
