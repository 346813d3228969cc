//! State that all workers of a stream share, and the context of a single worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Failure};
use crate::relocations::Relocations;
use crate::sync::{Condvar, Mutex, Ordering, fence, lock, wait};
use crate::waker::Waker;

/// Shared by all workers.
pub(crate) struct Board {
    pub(crate) wakers: Box<[Waker]>,
    pub(crate) failures: Mutex<Vec<Failure>>,
    pub(crate) relocations: Mutex<Relocations>,
    start: Instant,
    sinks: Mutex<Sinks>,
    ended: Condvar,
}

struct Sinks {
    open: usize,
    /// The first worker that was lost, and the message of its panic.
    lost: Option<(usize, String)>,
}

impl Board {
    pub(crate) fn new(workers: usize, sinks: usize) -> Board {
        Board {
            wakers: (0..workers).map(|_| Waker::new()).collect(),
            failures: Mutex::new(Vec::new()),
            relocations: Mutex::new(Relocations::default()),
            start: Instant::now(),
            sinks: Mutex::new(Sinks { open: sinks, lost: None }),
            ended: Condvar::new(),
        }
    }

    /// Nanoseconds since the start of the stream.
    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The end has reached a sink.
    pub(crate) fn sink_ended(&self) {
        lock(&self.sinks).open -= 1;
        self.ended.notify_all();
    }

    /// A worker thread panicked outside of any operator. Wakes all others, which may wait for it.
    pub(crate) fn worker_lost(&self, worker: usize, message: String) {
        lock(&self.sinks).lost.get_or_insert((worker, message));
        self.ended.notify_all();
        fence(Ordering::SeqCst);
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Waits until a worker that has dropped a reply has said that it is lost.
    pub(crate) fn wait_for_loss(&self) -> Error {
        let mut sinks = lock(&self.sinks);
        loop {
            if let Some((worker, message)) = sinks.lost.clone() {
                return Error::WorkerLost { worker, message };
            }
            sinks = wait(&self.ended, sinks);
        }
    }

    /// Whether a worker thread panicked outside of any operator.
    pub(crate) fn is_lost(&self) -> bool {
        lock(&self.sinks).lost.is_some()
    }

    /// Waits until the end has reached all sinks.
    ///
    /// # Errors
    /// If a worker was lost before.
    pub(crate) fn wait_for_sinks(&self) -> Result<(), Error> {
        let mut sinks = lock(&self.sinks);
        while sinks.open > 0 && sinks.lost.is_none() {
            sinks = wait(&self.ended, sinks);
        }
        match sinks.lost.clone() {
            Some((worker, message)) => Err(Error::WorkerLost { worker, message }),
            None => Ok(()),
        }
    }
}

/// Tuples that a segment processes before the other segments of its worker have their turn: few enough that a
/// segment with short operators waits microseconds, enough that the fence after a slice costs little per tuple.
pub(crate) const SLICE_TUPLES: usize = 64;

/// A worker as the segments see it that it runs.
pub(crate) struct Context {
    /// Index of the worker.
    pub(crate) worker: usize,
    pub(crate) board: Arc<Board>,
    /// Items that were taken or sent; changes whenever something was done.
    pub(crate) progress: u64,
    /// Items that were taken from a source or a ring.
    pub(crate) items: u64,
    /// Items that found their ring full; changes whenever a segment must pause.
    pub(crate) overflows: u64,
    /// When the next tuple of a source is due.
    pub(crate) due_ns: u64,
    /// Tuples that the current segment may still take.
    pub(crate) budget: usize,
}

impl Context {
    pub(crate) fn new(worker: usize, board: Arc<Board>) -> Context {
        Context { worker, board, progress: 0, items: 0, overflows: 0, due_ns: u64::MAX, budget: SLICE_TUPLES }
    }

    /// Whether the current segment may take another tuple: it has budget left and the worker has no mail.
    pub(crate) fn goes_on(&self) -> bool {
        self.budget > 0 && !self.board.wakers[self.worker].has_mail()
    }

    /// Counts an item that was taken.
    pub(crate) fn taken(&mut self) {
        self.progress += 1;
        self.items += 1;
        self.budget = self.budget.saturating_sub(1);
    }

    /// Time until `ns`; zero if it has passed, none if nothing is due.
    pub(crate) fn until(&self, now_ns: u64) -> Option<Duration> {
        (self.due_ns != u64::MAX).then(|| Duration::from_nanos(self.due_ns.saturating_sub(now_ns)))
    }
}
