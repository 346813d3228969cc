//! The backing files as a device: what it is given is done by a thread, which says when it was done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sakiyomi_model::{
    Bytes, Completion, Device, Full, Nanos, Outcome, Request, RequestId, Sectors, UNLIMITED_DEPTH,
};

use super::timeline::Timeline;
use crate::workers::Workers;

/// The I/O of a request; says whether it went well. It is told whether what it writes must be on the medium then.
pub(crate) type Job = Box<dyn FnOnce(bool) -> bool + Send>;

/// Wakes the device's thread, which then looks whether something is due.
pub(crate) type Waker = Box<dyn Fn() + Send + Sync>;

/// The unit of the backing files' addresses.
pub(crate) const BACKING_SECTOR: Bytes = Bytes(512);

/// Files on a device of whose inside nothing is known.
pub(crate) struct Backing {
    capacity: Sectors,
    timeline: Timeline,
    workers: Arc<Workers>,
    ended: Arc<Ended>,
    jobs: Jobs,
    under_way: BTreeMap<RequestId, (Request, Nanos)>,
    busy: Nanos,
    busy_since: Nanos,
}

/// The jobs of requests that have not been submitted to a [`Backing`] yet. A job is put in before its request arrives,
/// because the request may wait for a regulator.
#[derive(Clone, Default)]
pub(crate) struct Jobs(Arc<Mutex<BTreeMap<RequestId, Job>>>);

impl Jobs {
    pub(super) fn insert(&self, id: RequestId, job: Job) {
        self.lock().insert(id, job);
    }

    /// Takes a job out: to run it, or to drop it with a request that was withdrawn.
    pub(super) fn take(&self, id: RequestId) -> Option<Job> {
        self.lock().remove(&id)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RequestId, Job>> {
        // Nothing that is done under the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What threads have done, and the device's thread has not seen yet.
struct Ended {
    ends: Mutex<Vec<End>>,
    waker: Waker,
}

#[derive(Clone, Copy)]
struct End {
    at: Nanos,
    id: RequestId,
    well: bool,
}

impl Ended {
    fn lock(&self) -> MutexGuard<'_, Vec<End>> {
        // Nothing that is done under the lock can panic half-way.
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Backing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backing").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}

impl Backing {
    /// Addresses reach as far as `capacity`.
    pub(crate) fn new(capacity: Bytes, timeline: Timeline, workers: Arc<Workers>, waker: Waker) -> Backing {
        let ended = Arc::new(Ended { ends: Mutex::default(), waker });
        Backing {
            capacity: Sectors(capacity.0 / BACKING_SECTOR.0),
            timeline,
            workers,
            ended,
            jobs: Jobs::default(),
            under_way: BTreeMap::new(),
            busy: Nanos::ZERO,
            busy_since: Nanos::ZERO,
        }
    }

    /// Where the jobs of its requests go.
    pub(crate) fn jobs(&self) -> Jobs {
        self.jobs.clone()
    }
}

impl Device for Backing {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        let job = self.jobs.take(request.id).expect("its job was put in before it");
        if self.under_way.is_empty() {
            self.busy_since = now;
        }
        self.under_way.insert(request.id, (request, now));
        let (ended, timeline, id) = (Arc::clone(&self.ended), self.timeline.clone(), request.id);
        self.workers.run(Box::new(move || {
            let well = job(request.fua);
            ended.lock().push(End { at: timeline.now(), id, well });
            (ended.waker)();
        }));
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        self.ended.lock().iter().map(|end| end.at).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        let mut ends: Vec<End> = self.ended.lock().extract_if(.., |end| end.at <= now).collect();
        ends.sort_by_key(|end| (end.at, end.id));
        for End { at, id, well } in ends {
            let (request, submitted) = self.under_way.remove(&id).expect("it was submitted");
            if self.under_way.is_empty() {
                self.busy += at.saturating_sub(self.busy_since);
            }
            let finish = at.max(submitted);
            done.push(Completion {
                request,
                submitted,
                finish,
                outcome: if well { Outcome::Done } else { Outcome::Error },
                detail: None,
            });
        }
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
        let since = if self.under_way.is_empty() { now } else { self.busy_since };
        self.busy + now.saturating_sub(since)
    }
}
