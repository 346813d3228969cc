//! Communication between a program's side and the prefetching thread: atomic variables, without locks in the program's
//! path.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sakiyomi_model::Nanos;

use super::Statistics;
use crate::State;

/// Shorter waits are the cost of reading the clock.
const WAIT_MIN_TIME: Duration = Duration::from_micros(10);

/// Progress of a reader.
#[derive(Debug)]
pub(super) struct Progress {
    /// Origin of all times.
    origin: Instant,
    /// Position of the program.
    position: AtomicU64,
    /// Bytes that it has read.
    read: AtomicU64,
    waited_ns: AtomicU64,
    waits: AtomicU64,
    /// Start of the read in progress, plus one; 0 if there is none.
    reading_since_ns: AtomicU64,
    /// Position from which on the prefetching thread is to be woken.
    call_at: AtomicU64,
    over: AtomicBool,
    prefetched: AtomicU64,
    /// Bytes read, and the time waited for them, when the first range was requested.
    alone: OnceLock<(u64, Nanos)>,
    /// State of the controller, and the range requested ahead.
    outlook: Mutex<(Option<State>, Range<u64>)>,
}

/// The program's state as observed by the prefetching thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReaderState {
    pub(super) position: u64,
    pub(super) read: u64,
    pub(super) io_wait: Nanos,
}

impl Progress {
    pub(super) fn new(position: u64) -> Progress {
        Progress {
            origin: Instant::now(),
            position: AtomicU64::new(position),
            read: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            reading_since_ns: AtomicU64::new(0),
            call_at: AtomicU64::new(u64::MAX),
            over: AtomicBool::new(false),
            prefetched: AtomicU64::new(0),
            alone: OnceLock::new(),
            outlook: Mutex::new((None, 0..0)),
        }
    }

    pub(super) fn now(&self) -> Nanos {
        nanos(self.origin.elapsed())
    }

    /// Records the start of a read at a position; returns true if the prefetching thread should be woken at once.
    pub(super) fn begins(&self, now: Nanos, position: u64) -> bool {
        let before = self.position.swap(position, SeqCst);
        self.reading_since_ns.store(now.0 + 1, SeqCst);
        position < before && self.call_at.load(Relaxed) != u64::MAX
    }

    /// Records the end of a read of `bytes` after a wait; returns true if the prefetching thread should be woken at
    /// once.
    pub(super) fn ends(&self, bytes: u64, io_wait: Duration) -> bool {
        if io_wait >= WAIT_MIN_TIME {
            self.waited_ns.fetch_add(nanos(io_wait).0, SeqCst);
            self.waits.fetch_add(1, Relaxed);
        }
        self.reading_since_ns.store(0, SeqCst);
        // Before the position: a thread that sees the new position also sees the bytes.
        self.read.fetch_add(bytes, SeqCst);
        let position = self.position.fetch_add(bytes, SeqCst) + bytes;
        bytes > 0 && position >= self.call_at.load(Relaxed)
    }

    pub(super) fn has_waited(&self) -> bool {
        self.waits.load(Relaxed) > 0
    }

    /// Returns the current state. A read in progress counts as waiting.
    pub(super) fn see(&self, now: Nanos) -> ReaderState {
        let position = self.position.load(SeqCst);
        let read = self.read.load(SeqCst);
        // In this order a read that ends meanwhile is not counted twice.
        let io_wait = Nanos(self.waited_ns.load(SeqCst));
        let since = self.reading_since_ns.load(SeqCst);
        let waits = if since == 0 { Nanos::ZERO } else { now.saturating_sub(Nanos(since - 1)) };
        ReaderState { position, read, io_wait: io_wait + waits }
    }

    pub(super) fn call_at(&self, position: u64) {
        self.call_at.store(position, Relaxed);
    }

    pub(super) fn end(&self) {
        self.over.store(true, SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    /// Records that a range is requested: before the first one, the program was without help.
    pub(super) fn is_helped(&self, sight: ReaderState) {
        self.alone.get_or_init(|| (sight.read, sight.io_wait));
    }

    pub(super) fn has_prefetched(&self, bytes: u64) {
        self.prefetched.fetch_add(bytes, Relaxed);
    }

    pub(super) fn set_outlook(&self, state: Option<State>, ahead: Range<u64>) {
        *self.outlook.lock().unwrap_or_else(PoisonError::into_inner) = (state, ahead);
    }

    pub(super) fn statistics(&self) -> Statistics {
        let read = self.read.load(Relaxed);
        let io_wait = Nanos(self.waited_ns.load(Relaxed));
        let prefetched = self.prefetched.load(Relaxed);
        let (state, ahead) = self.outlook.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let hidden = self.alone.get().map_or(Nanos::ZERO, |&(bytes, alone)| {
            let since = prefetched.min(read.saturating_sub(bytes));
            let expected = u128::from(alone.0) * u128::from(since) / u128::from(bytes.max(1));
            Nanos(u64::try_from(expected).unwrap_or(u64::MAX)).saturating_sub(io_wait.saturating_sub(alone))
        });
        Statistics {
            read_bytes: read,
            prefetched_bytes: prefetched,
            waits: self.waits.load(Relaxed),
            io_wait: Duration::from_nanos(io_wait.0),
            io_hidden: Duration::from_nanos(hidden.0),
            ahead,
            state,
        }
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_under_way_counts_as_waiting_and_is_not_counted_twice() {
        let progress = Progress::new(10);
        progress.begins(Nanos(1_000_000), 10);
        let sight = progress.see(Nanos(5_000_000));
        assert_eq!(sight, ReaderState { position: 10, read: 0, io_wait: Nanos(4_000_000) });
        progress.ends(90, Duration::from_millis(6));
        let sight = progress.see(Nanos(9_000_000));
        assert_eq!(sight, ReaderState { position: 100, read: 90, io_wait: Nanos(6_000_000) });
    }

    #[test]
    fn the_thread_is_called_from_its_position_on_and_after_a_step_back() {
        let progress = Progress::new(0);
        progress.call_at(200);
        assert!(!progress.begins(Nanos(0), 0) && !progress.ends(100, Duration::ZERO));
        assert!(!progress.begins(Nanos(0), 100) && progress.ends(100, Duration::ZERO));
        assert!(progress.begins(Nanos(0), 50));
    }

    #[test]
    fn what_is_hidden_is_what_it_waited_alone_less_what_it_still_waits() {
        let progress = Progress::new(0);
        progress.ends(1000, Duration::from_millis(10));
        progress.is_helped(progress.see(Nanos(0)));
        progress.ends(4000, Duration::from_millis(5));
        assert_eq!(progress.statistics().io_hidden, Duration::ZERO, "nothing has been prefetched");
        progress.has_prefetched(4000);
        assert_eq!(progress.statistics().io_hidden, Duration::from_millis(35));
    }
}
