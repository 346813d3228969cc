//! Backing files as a [`Device`], for a front end that regulates without an emulated drive.
//!
//! The device's thread calls [`Backing::submit`], which hands the request's job to the pool. A thread of the pool
//! performs the I/O, records its completion and wakes the device's thread, which takes it in [`Backing::advance`]. So
//! the regulator sees real files as it sees a simulated drive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sakiyomi_model::{
    Bytes, Completion, Device, Extent, Full, Lba, Nanos, Outcome, Request, RequestId, Sectors,
    UNLIMITED_DEPTH,
};

use super::timeline::Timeline;
use crate::backing_pool::{BackingJob, BackingPool, OnPerformed, Perform};

pub(crate) type Job = Arc<dyn Perform>;

/// Wakes the device's thread, which then processes due events.
pub(crate) type Waker = Box<dyn Fn() + Send + Sync>;

/// Sector size of the backing files, the unit of their addresses in a trace.
pub const BACKING_SECTOR: Bytes = Bytes(512);

/// The device: real files, of which only the times of submission and completion are known.
pub(crate) struct Backing {
    capacity: Sectors,
    pool: Arc<BackingPool>,
    completed: Arc<Completed>,
    jobs: Jobs,
    /// Submitted requests that have not completed, each with its time of submission.
    outstanding: BTreeMap<RequestId, (Request, Nanos)>,
    /// Total time with outstanding requests, up to `busy_since` if there are any now.
    busy: Nanos,
    busy_since: Nanos,
    /// Buffer for jobs taken from `completed`; empty between calls.
    due: Vec<CompletedJob>,
}

/// Jobs of requests of which some part has not been issued to a [`Backing`] yet, with the ends of their extents. A job
/// is inserted before its request arrives, because the request may be queued in the regulator.
#[derive(Clone, Default)]
pub(crate) struct Jobs(Arc<Mutex<BTreeMap<RequestId, (Job, Lba)>>>);

impl Jobs {
    pub(super) fn insert(&self, id: RequestId, job: Job, extent: Extent) {
        self.lock().insert(id, (job, extent.end()));
    }

    /// Returns a job for a part of its request, and removes it if that is the last one.
    fn part(&self, id: RequestId, part: Extent) -> Option<Job> {
        let mut jobs = self.lock();
        let (_, end) = jobs.get(&id)?;
        if part.end() >= *end { jobs.remove(&id).map(|(job, _)| job) } else { Some(Arc::clone(&jobs[&id].0)) }
    }

    /// Removes a job whose request has ended before all parts were issued.
    pub(super) fn discard(&self, id: RequestId) {
        self.lock().remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RequestId, (Job, Lba)>> {
        // No operation under this lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Completed jobs that the device's thread has not processed yet.
struct Completed {
    jobs: Mutex<Vec<CompletedJob>>,
    timeline: Timeline,
    waker: Waker,
}

#[derive(Clone, Copy, Debug)]
struct CompletedJob {
    at: Nanos,
    id: RequestId,
    succeeded: bool,
}

impl Completed {
    fn lock(&self) -> MutexGuard<'_, Vec<CompletedJob>> {
        // No operation under this lock can panic half-way.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OnPerformed for Completed {
    fn on_performed(&self, id: RequestId, succeeded: bool) {
        self.lock().push(CompletedJob { at: self.timeline.now(), id, succeeded });
        (self.waker)();
    }
}

impl std::fmt::Debug for Backing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backing").field("outstanding", &self.outstanding).finish_non_exhaustive()
    }
}

impl Backing {
    /// Makes a device of `capacity` whose jobs run on `pool`; `waker` is called when one completes.
    pub(crate) fn new(capacity: Bytes, timeline: Timeline, pool: Arc<BackingPool>, waker: Waker) -> Backing {
        let completed = Arc::new(Completed { jobs: Mutex::default(), timeline, waker });
        Backing {
            capacity: Sectors(capacity.0 / BACKING_SECTOR.0),
            pool,
            completed,
            jobs: Jobs::default(),
            outstanding: BTreeMap::new(),
            busy: Nanos::ZERO,
            busy_since: Nanos::ZERO,
            due: Vec::new(),
        }
    }

    /// Returns whether a request is outstanding.
    pub(crate) fn is_busy(&self) -> bool {
        !self.outstanding.is_empty()
    }

    /// Returns the collection into which jobs are inserted.
    pub(crate) fn jobs(&self) -> Jobs {
        self.jobs.clone()
    }
}

impl Device for Backing {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        let job = self.jobs.part(request.id, request.extent).expect("its job was inserted before it arrived");
        if self.outstanding.is_empty() {
            self.busy_since = now;
        }
        self.outstanding.insert(request.id, (request, now));
        let (durable, id, device) = (request.fua, request.id, self.completed.clone());
        // A request begins at sector 0, wherever the file has its bytes.
        let bytes = |at: Lba| at.0 * BACKING_SECTOR.0;
        let part = bytes(request.extent.start)..bytes(request.extent.end());
        self.pool.submit(BackingJob::Dispatched { request: job, part, durable, id, device });
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        self.completed.lock().iter().map(|job| job.at).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        let mut due = std::mem::take(&mut self.due);
        due.extend(self.completed.lock().extract_if(.., |job| job.at <= now));
        due.sort_unstable_by_key(|job| (job.at, job.id));
        for CompletedJob { at, id, succeeded } in due.drain(..) {
            let (request, submitted) = self.outstanding.remove(&id).expect("it was submitted");
            if self.outstanding.is_empty() {
                self.busy += at.saturating_sub(self.busy_since);
            }
            let finish = at.max(submitted);
            done.push(Completion {
                request,
                submitted,
                finish,
                outcome: if succeeded { Outcome::Done } else { Outcome::Error },
                detail: None,
            });
        }
        self.due = due;
    }

    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn sector(&self) -> Bytes {
        BACKING_SECTOR
    }

    fn depth(&self) -> u32 {
        UNLIMITED_DEPTH
    }

    fn busy(&self, now: Nanos) -> Nanos {
        let since = if self.outstanding.is_empty() { now } else { self.busy_since };
        self.busy + now.saturating_sub(since)
    }
}
