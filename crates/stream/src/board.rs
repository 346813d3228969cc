//! State that all workers of a stream share, and the context of a single worker.

use std::sync::Arc;
// A hint, which orders nothing: no model checks it.
use std::sync::atomic::AtomicBool as Flag;
use std::time::{Duration, Instant};

use crate::error::{Error, Failure};
use crate::relocations::Relocations;
use crate::run_length::RunLength;
use crate::sync::{Condvar, Mutex, Ordering, fence, lock, wait, wait_for};
use crate::waker::Waker;

/// Shared by all workers.
pub(crate) struct Board {
    pub(crate) wakers: Box<[Waker]>,
    pub(crate) failures: Mutex<Vec<Failure>>,
    pub(crate) relocations: Mutex<Relocations>,
    /// Workers whose CPU other threads or guests use as well: they park without polling.
    shared_cpus: Box<[Flag]>,
    start: Instant,
    /// Reading of the stream's clock at `start`: that of the snapshot from which it resumed.
    start_ns: u64,
    sinks: Mutex<Sinks>,
    ended: Condvar,
}

struct Sinks {
    open: usize,
    /// The first worker that was lost, and the message of its panic.
    lost: Option<(usize, String)>,
    /// The threads have been told to stop.
    is_stopped: bool,
}

impl Board {
    pub(crate) fn new(workers: usize, sinks: usize) -> Board {
        Board::resumed(workers, sinks, 0)
    }

    /// Returns a board whose clock starts at `start_ns`, for a stream with this number of sinks that have not
    /// ended.
    pub(crate) fn resumed(workers: usize, sinks: usize, start_ns: u64) -> Board {
        Board {
            wakers: (0..workers).map(|_| Waker::new()).collect(),
            failures: Mutex::new(Vec::new()),
            relocations: Mutex::new(Relocations::default()),
            shared_cpus: (0..workers).map(|_| Flag::new(false)).collect(),
            start: Instant::now(),
            start_ns,
            sinks: Mutex::new(Sinks { open: sinks, lost: None, is_stopped: false }),
            ended: Condvar::new(),
        }
    }

    /// Returns the stream's clock: nanoseconds since its start, without those between a snapshot and the resumption
    /// from it.
    pub(crate) fn now_ns(&self) -> u64 {
        let elapsed_ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.start_ns.saturating_add(elapsed_ns)
    }

    /// Returns whether the CPU of a worker is used by others as well.
    pub(crate) fn is_cpu_shared(&self, worker: usize) -> bool {
        self.shared_cpus[worker].load(Ordering::Relaxed)
    }

    pub(crate) fn set_cpu_shared(&self, worker: usize, is_shared: bool) {
        self.shared_cpus[worker].store(is_shared, Ordering::Relaxed);
    }

    /// The end has reached a sink.
    pub(crate) fn sink_ended(&self) {
        lock(&self.sinks).open -= 1;
        self.ended.notify_all();
    }

    /// Waits until all sinks have ended or a worker was lost, at most this long; says whether one of them is so.
    pub(crate) fn wait_for_end(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut sinks = lock(&self.sinks);
        while sinks.open > 0 && sinks.lost.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            sinks = wait_for(&self.ended, sinks, Some(left));
        }
        true
    }

    /// A worker thread panicked outside of any operator. Wakes all others, which may wait for it.
    pub(crate) fn worker_lost(&self, worker: usize, message: String) {
        lock(&self.sinks).lost.get_or_insert((worker, message));
        self.ended.notify_all();
        self.wake_all();
    }

    /// Wakes all workers that are parked.
    pub(crate) fn wake_all(&self) {
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

    /// The threads stop, whatever is in the rings.
    pub(crate) fn stop(&self) {
        lock(&self.sinks).is_stopped = true;
        self.ended.notify_all();
    }

    /// A snapshot is complete.
    pub(crate) fn snapshot_completed(&self) {
        // A thread that found it incomplete under this lock waits by now.
        drop(lock(&self.sinks));
        self.ended.notify_all();
    }

    /// Waits until a snapshot is complete.
    ///
    /// # Errors
    /// If a worker was lost or the threads were stopped before.
    pub(crate) fn wait_for_snapshot(&self, is_complete: impl Fn() -> bool) -> Result<(), Error> {
        let mut sinks = lock(&self.sinks);
        while !is_complete() {
            if let Some((worker, message)) = sinks.lost.clone() {
                return Err(Error::WorkerLost { worker, message });
            }
            if sinks.is_stopped {
                return Err(Error::Stopped);
            }
            sinks = wait(&self.ended, sinks);
        }
        Ok(())
    }

    /// Returns whether a worker thread panicked outside of any operator.
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

/// Tuples that a segment processes before the other segments of its worker have their turn, unless a run has more: few
/// enough that a segment with short operators waits microseconds, enough that the fence after a slice costs little per
/// tuple.
const SLICE_TUPLES: usize = 64;

/// A worker as the segments see it that it runs.
pub(crate) struct Context {
    /// Index of the worker.
    pub(crate) worker: usize,
    pub(crate) board: Arc<Board>,
    /// Items that were taken or sent; changes whenever something was done.
    pub(crate) progress: u64,
    /// Items that were taken from a source or a ring.
    pub(crate) items: u64,
    /// Items that found their ring full, and barriers that hold an input back; changes whenever a segment must pause.
    pub(crate) pauses: u64,
    /// When the next tuple of a source is due.
    pub(crate) due_ns: u64,
    /// A source or operator waits for threads that are not workers.
    pub(crate) waits_outside: bool,
    /// Tuples that the current segment may still take.
    pub(crate) budget: usize,
    /// Tuples that it takes in one go.
    pub(crate) run_length: RunLength,
}

impl Context {
    pub(crate) fn new(worker: usize, board: Arc<Board>) -> Context {
        Context {
            worker,
            board,
            progress: 0,
            items: 0,
            pauses: 0,
            due_ns: u64::MAX,
            waits_outside: false,
            budget: SLICE_TUPLES,
            run_length: RunLength::new(),
        }
    }

    /// Returns whether the current segment may take another tuple: it has budget left and the worker has no mail.
    pub(crate) fn goes_on(&self) -> bool {
        self.budget > 0 && !self.board.wakers[self.worker].has_mail()
    }

    /// Tuples that the current segment may take in a slice: one run at least.
    pub(crate) fn slice_tuples(&self) -> usize {
        SLICE_TUPLES.max(self.run_length.tuples())
    }

    /// Tuples that the current segment may take in one go.
    pub(crate) fn run_tuples(&self) -> usize {
        self.run_length.tuples().min(self.budget)
    }

    /// Counts items that were taken.
    pub(crate) fn taken(&mut self, items: usize) {
        self.progress += items as u64;
        self.items += items as u64;
        self.budget = self.budget.saturating_sub(items);
    }

    /// Returns the time until `ns`; zero if it has passed, none if nothing is due.
    pub(crate) fn until(&self, now_ns: u64) -> Option<Duration> {
        (self.due_ns != u64::MAX).then(|| Duration::from_nanos(self.due_ns.saturating_sub(now_ns)))
    }
}
