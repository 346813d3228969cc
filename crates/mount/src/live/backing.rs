//! The backing files as a device: what it is given is done by a thread, which says when it was done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sakiyomi_model::{
    Breakdown, Class, Completion, Device, Full, Nanos, Op, Outcome, ReadClass, Request, RequestId, WriteClass,
};

use super::timeline::Timeline;
use crate::backing_pool::{BackingJob, BackingPool};

/// The I/O of a request.
pub(crate) trait Perform: Send + Sync {
    /// Performs it, once; whether it succeeded. With `durable`, written data must be on the medium when it returns.
    fn perform(&self, durable: bool) -> bool;
}

impl std::fmt::Debug for dyn Perform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Perform")
    }
}

/// A request that the regulator has submitted, for a thread of the pool.
pub(crate) struct Dispatched {
    job: Arc<dyn Perform>,
    durable: bool,
    id: RequestId,
    timeline: Timeline,
    ended: Arc<Ended>,
}

impl Dispatched {
    /// Performs its I/O, and tells the device's thread.
    pub(crate) fn perform(self) {
        let well = self.job.perform(self.durable);
        self.ended.lock().push(End { at: self.timeline.now(), id: self.id, well });
        (self.ended.waker)();
    }
}

impl std::fmt::Debug for Dispatched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatched").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Wakes the device's thread, which then looks whether something is due.
pub(crate) type Waker = Box<dyn Fn() + Send + Sync>;

/// Files on a device of whose inside nothing is known.
pub(crate) struct Backing {
    timeline: Timeline,
    pool: Arc<BackingPool>,
    ended: Arc<Ended>,
    /// Of requests that have not been submitted yet.
    jobs: BTreeMap<RequestId, Arc<dyn Perform>>,
    under_way: BTreeMap<RequestId, (Request, Nanos)>,
    busy: Nanos,
    busy_since: Nanos,
    /// Ends that are due; empty between two calls.
    due: Vec<End>,
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
    pub(crate) fn new(timeline: Timeline, pool: Arc<BackingPool>, waker: Waker) -> Backing {
        let ended = Arc::new(Ended { ends: Mutex::default(), waker });
        Backing {
            timeline,
            pool,
            ended,
            jobs: BTreeMap::new(),
            under_way: BTreeMap::new(),
            busy: Nanos::ZERO,
            busy_since: Nanos::ZERO,
            due: Vec::new(),
        }
    }

    /// What is to be done for a request that is submitted later.
    pub(super) fn bring(&mut self, id: RequestId, job: Arc<dyn Perform>) {
        self.jobs.insert(id, job);
    }

    /// What was brought for a request that is not submitted after all.
    pub(super) fn forget(&mut self, id: RequestId) {
        self.jobs.remove(&id);
    }

    /// How long it had something to do.
    pub(super) fn busy(&self, now: Nanos) -> Nanos {
        let since = if self.under_way.is_empty() { now } else { self.busy_since };
        self.busy + now.saturating_sub(since)
    }
}

impl Device for Backing {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        let job = self.jobs.remove(&request.id).expect("it was brought");
        if self.under_way.is_empty() {
            self.busy_since = now;
        }
        self.under_way.insert(request.id, (request, now));
        let (ended, timeline, id) = (Arc::clone(&self.ended), self.timeline.clone(), request.id);
        self.pool.submit(BackingJob::Dispatched(Dispatched {
            job,
            durable: request.fua,
            id,
            timeline,
            ended,
        }));
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        self.ended.lock().iter().map(|end| end.at).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        let mut due = std::mem::take(&mut self.due);
        due.extend(self.ended.lock().extract_if(.., |end| end.at <= now));
        due.sort_unstable_by_key(|end| (end.at, end.id));
        for End { at, id, well } in due.drain(..) {
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
                class: class(request.op),
                breakdown: Breakdown { transfer: finish - submitted, ..Breakdown::default() },
            });
        }
        self.due = due;
    }
}

fn class(op: Op) -> Class {
    match op {
        Op::Read => Class::Read(ReadClass::PureMiss),
        Op::Write => Class::Write(WriteClass::Media),
        Op::Flush => Class::Flush,
        Op::Discard => Class::Discard,
    }
}
