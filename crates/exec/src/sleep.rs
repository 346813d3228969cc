//! Sleeping and waking of threads without tasks.
//!
//! No task is lost when a thread goes to sleep: it marks its seat as asleep before it searches the queues for the last
//! time, and a thread that adds a task checks the seats after that. The queue's lock orders the two: either the sleeper
//! sees the task, or the other thread sees the mark.

use std::ops::Range;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, lock};
use system::{NAPS_BEFORE_SLEEP, POLLS_BEFORE_SLEEP, pause};

/// Yielding the processor; in model checks threads do not yield.
mod system {
    /// Polls before a thread sleeps: waking it costs microseconds.
    #[cfg(not(all(test, loom)))]
    pub(super) const POLLS_BEFORE_SLEEP: usize = 16;
    /// A second poll would see what the first would have seen later.
    #[cfg(all(test, loom))]
    pub(super) const POLLS_BEFORE_SLEEP: usize = 1;

    /// Waits without sleeping, some microseconds at most, longer with each poll: a thread that polls a queue
    /// continuously takes its cache line from the thread that fills it.
    #[cfg(not(all(test, loom)))]
    pub(super) fn pause(look: usize) {
        (0..32 << look.min(3)).for_each(|_| std::hint::spin_loop());
        std::thread::yield_now();
    }

    /// Naps without finding a task after which a thread sleeps.
    #[cfg(not(all(test, loom)))]
    pub(super) const NAPS_BEFORE_SLEEP: usize = 3;
    /// A nap would be as a poll.
    #[cfg(all(test, loom))]
    pub(super) const NAPS_BEFORE_SLEEP: usize = 0;

    /// A yield would let loom schedule other threads until nothing is in progress.
    #[cfg(all(test, loom))]
    pub(super) fn pause(_: usize) {}
}

/// The occasion of a search for a task, which determines how many tasks of others may be stolen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Between two tasks: nothing is stolen.
    Own,
    /// By a thread that will not wait.
    AtOnce,
    /// The first search after the thread's own tasks ran out.
    First,
    /// A repeated search.
    Again,
    /// The last search before sleeping.
    Last,
    /// The first search after a wake-up.
    Woken,
}

/// The place where one thread sleeps.
pub(crate) struct Seat {
    /// One of the `_STATE` constants.
    state: AtomicUsize,
    wake: Condvar,
    /// The seat on which its thread sleeps instead, if any.
    elsewhere: Mutex<Option<Arc<Seat>>>,
}

/// The thread runs.
const AWAKE_STATE: usize = 0;
/// The thread sleeps, and takes tasks of any run.
const IDLE_STATE: usize = 1;
/// The thread sleeps until a task of a run that it has called ends.
const WAITING_STATE: usize = 2;
/// The thread sleeps on the seat of a run that it has called.
const ON_RUN_SEAT: usize = 3;

impl Seat {
    pub(crate) fn new() -> Seat {
        Seat { state: AtomicUsize::new(AWAKE_STATE), wake: Condvar::new(), elsewhere: Mutex::new(None) }
    }

    fn is_asleep(&self) -> bool {
        self.state.load(Ordering::Relaxed) != AWAKE_STATE
    }

    fn is_idle(&self) -> bool {
        self.state.load(Ordering::Relaxed) == IDLE_STATE
    }
}

/// The seats of an executor's threads. Waiting callers have seats of their own.
pub(crate) struct Sleep {
    /// Protects changes of seats. Locks of queues are taken under it, never the other way round.
    changing: Mutex<()>,
    seats: Box<[Arc<Seat>]>,
    /// Number of compute threads, which come first, and of idle ones among them.
    computing: usize,
    idle: AtomicUsize,
    closed: AtomicBool,
}

impl Sleep {
    /// Makes seats for `computing` compute threads, followed by `others`.
    pub(crate) fn new(computing: usize, others: usize) -> Sleep {
        Sleep {
            changing: Mutex::new(()),
            seats: (0..computing + others).map(|_| Arc::new(Seat::new())).collect(),
            computing,
            idle: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Searches for a task for an idle thread until one is found, sleeping in between; `None` when the executor is
    /// closed.
    ///
    /// Before it looks, the thread takes a few naps of this length, if it has one. It is not woken meanwhile.
    pub(crate) fn next_idle<R>(
        &self,
        thread: usize,
        nap: Option<Duration>,
        mut look: impl FnMut(Look) -> Option<R>,
    ) -> Option<R> {
        let is_closed = || self.closed.load(Ordering::Relaxed);
        for nap in nap.iter().cycle().take(NAPS_BEFORE_SLEEP) {
            std::thread::sleep(*nap);
            if is_closed() {
                return None;
            }
            let found = look(Look::AtOnce);
            if found.is_some() {
                return found;
            }
        }
        self.next(&self.seats[thread], None, IDLE_STATE, is_closed, look)
    }

    /// Searches for a task for the caller of a run until one is found or `enough` holds, sleeping in between. A change
    /// that makes `enough` true must be followed by [`Sleep::wake_caller`]. A caller that is a thread of the executor
    /// has a seat here as well, its home, and is also woken for tasks pinned to it.
    pub(crate) fn next_of_run<R>(
        &self,
        seat: &Arc<Seat>,
        home: Option<usize>,
        enough: impl Fn() -> bool,
        look: impl FnMut(Look) -> Option<R>,
    ) -> Option<R> {
        self.next(seat, home.map(|thread| &*self.seats[thread]), WAITING_STATE, enough, look)
    }

    fn next<R>(
        &self,
        seat: &Arc<Seat>,
        home: Option<&Seat>,
        what: usize,
        enough: impl Fn() -> bool,
        mut look: impl FnMut(Look) -> Option<R>,
    ) -> Option<R> {
        for number in 0..POLLS_BEFORE_SLEEP {
            if enough() {
                return None;
            }
            let found = look(if number == 0 { Look::First } else { Look::Again });
            if found.is_some() {
                return found;
            }
            pause(number);
        }
        loop {
            let mut changing = lock(&self.changing);
            self.fall_asleep(seat, home, what);
            let found = look(Look::Last);
            let is_enough = found.is_some() || enough();
            if is_enough {
                self.wake_up(seat);
            }
            while seat.is_asleep() {
                changing = seat.wake.wait(changing).unwrap_or_else(PoisonError::into_inner);
            }
            if let Some(home) = home {
                self.wake_up(home);
            }
            drop(changing);
            if is_enough {
                return found;
            }
            let found = look(Look::Woken);
            if found.is_some() {
                return found;
            }
        }
    }

    fn fall_asleep(&self, seat: &Arc<Seat>, home: Option<&Seat>, what: usize) {
        seat.state.store(what, Ordering::Relaxed);
        self.idle.fetch_add(usize::from(what == IDLE_STATE), Ordering::Relaxed);
        if let Some(home) = home {
            *lock(&home.elsewhere) = Some(Arc::clone(seat));
            home.state.store(ON_RUN_SEAT, Ordering::Relaxed);
        }
    }

    /// Marks the thread as awake; returns its previous state.
    fn wake_up(&self, seat: &Seat) -> usize {
        let what = seat.state.load(Ordering::Relaxed);
        seat.state.store(AWAKE_STATE, Ordering::Relaxed);
        self.idle.fetch_sub(usize::from(what == IDLE_STATE), Ordering::Relaxed);
        what
    }

    fn wake(&self, seat: &Seat) {
        match self.wake_up(seat) {
            AWAKE_STATE => {}
            ON_RUN_SEAT => {
                let elsewhere = lock(&seat.elsewhere).take();
                elsewhere.iter().for_each(|seat| self.wake(seat));
            }
            _ => seat.wake.notify_one(),
        }
    }

    /// Wakes a run's caller if it sleeps.
    pub(crate) fn wake_caller(&self, caller: &Seat) {
        let _changing = lock(&self.changing);
        self.wake(caller);
    }

    /// Wakes the run's caller if it sleeps, otherwise an idle thread. To be called after a task for any compute thread
    /// was added.
    pub(crate) fn wake_any(&self, caller: &Seat) {
        if self.idle.load(Ordering::Relaxed) == 0 && !caller.is_asleep() {
            return;
        }
        let _changing = lock(&self.changing);
        if caller.is_asleep() {
            self.wake(caller);
        } else if let Some(seat) = self.seats[..self.computing].iter().find(|seat| seat.is_idle()) {
            self.wake(seat);
        }
    }

    /// Wakes one of these threads if it sleeps. To be called after a task bound to them was added.
    pub(crate) fn wake_one_of(&self, threads: Range<usize>) {
        let seats = &self.seats[threads];
        if !seats.iter().any(|seat| seat.is_asleep()) {
            return;
        }
        let _changing = lock(&self.changing);
        let idle = seats.iter().find(|seat| seat.is_idle());
        if let Some(seat) = idle.or_else(|| seats.iter().find(|seat| seat.is_asleep())) {
            self.wake(seat);
        }
    }

    /// Ends the executor's threads.
    pub(crate) fn close(&self) {
        let _changing = lock(&self.changing);
        self.closed.store(true, Ordering::Relaxed);
        self.seats.iter().for_each(|seat| self.wake(seat));
    }
}
