//! Where tasks wait for a thread: a queue of each thread's own, from which others steal, and how threads go to sleep.
//!
//! All of it is made of locks that are held for a few instructions. A thread takes the newest of its own tasks, whose
//! data is still in its cache, and when it has none the oldest half of another's: one lock for many tasks.
//!
//! No task is overlooked by a thread that goes to sleep: it says that it sleeps before it looks through the queues for
//! the last time, and who adds a task looks for sleepers after that. The queue's lock orders the two: either the sleeper
//! sees the task, or its saying so was before. `model.rs` has loom try every order.

#[cfg(all(test, loom))]
mod model;

use std::collections::VecDeque;
use std::sync::PoisonError;

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, lock};
use system::{LOOKS, now, pause};

/// The time, and giving the processor to others; in model checks there is neither.
mod system {
    #[cfg(all(test, loom))]
    pub(super) use super::model::system::*;

    /// How often a thread looks before it sleeps. To be woken costs microseconds.
    #[cfg(not(all(test, loom)))]
    pub(super) const LOOKS: usize = 16;

    /// Waits a moment without sleeping, some microseconds at most, longer from look to look: who looks into a queue all
    /// the time takes its cache line from who fills it.
    #[cfg(not(all(test, loom)))]
    pub(super) fn pause(look: usize) {
        (0..32 << look.min(3)).for_each(|_| std::hint::spin_loop());
        std::thread::yield_now();
    }

    /// Nanoseconds since the first call.
    #[cfg(not(all(test, loom)))]
    pub(super) fn now() -> u64 {
        static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        FIRST.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
    }
}

/// How urgent a task is. Among tasks of a kind the order is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// When there is nothing else.
    Low,
    /// Usual.
    #[default]
    Normal,
    /// Before all others that wait for any thread.
    High,
}

/// Who may take a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// Any thread that computes; it was made by this one, if by one of them.
    Any(Option<usize>),
    /// This thread.
    Thread(usize),
}

/// Tasks stolen at a time, at most.
const STOLEN_MAX: usize = 64;
/// A thread that has just run out leaves another so many, until it would sleep: one that makes tasks is about to make
/// more, and to steal each singly would cost both more than the tasks.
const LEFT: usize = 32;
/// Tasks shorter than this, in nanoseconds, cost more when they are stolen than when their maker runs them: their memory
/// goes from one core to the other and back. A thread that has stolen some does so again only when it would sleep.
const WORTH_STEALING: u64 = 500;

pub(crate) struct Queues<T> {
    threads: Box<[Thread<T>]>,
    /// The first so many compute; the others do only what is theirs.
    computing: usize,
    shared: Mutex<Shared<T>>,
    /// How many are urgent among the shared.
    urgent: AtomicUsize,
    /// Who sleeps; the locks of queues are taken under this one, never the other way round.
    asleep: Mutex<Vec<bool>>,
    sleepers: AtomicUsize,
    closed: AtomicBool,
}

/// In cache lines of its own: threads write to theirs all the time.
#[repr(align(128))]
struct Thread<T> {
    own: Mutex<VecDeque<T>>,
    bound: Mutex<VecDeque<T>>,
    /// How many are bound to it.
    bound_count: AtomicUsize,
    /// How many it stole last, and when.
    stolen: AtomicUsize,
    stolen_at: AtomicU64,
    wake: Condvar,
}

struct Shared<T> {
    high: VecDeque<T>,
    normal: VecDeque<T>,
    low: VecDeque<T>,
}

/// What a thread is to run next.
struct Found<T> {
    task: T,
    /// Whether others came with it, which are now in the thread's own queue.
    has_stolen_more: bool,
}

impl<T> Found<T> {
    fn alone(task: T) -> Found<T> {
        Found { task, has_stolen_more: false }
    }
}

impl<T> Thread<T> {
    fn bind(&self, task: T, priority: Priority) {
        let mut bound = lock(&self.bound);
        self.bound_count.fetch_add(1, Ordering::Relaxed);
        if priority == Priority::High { bound.push_front(task) } else { bound.push_back(task) }
    }

    fn take_bound(&self) -> Option<T> {
        let task = lock(&self.bound).pop_front()?;
        self.bound_count.fetch_sub(1, Ordering::Relaxed);
        Some(task)
    }
}

impl<T> Queues<T> {
    /// For `computing` threads, and `others` behind them.
    pub(crate) fn new(computing: usize, others: usize) -> Queues<T> {
        let thread = |_| Thread {
            own: Mutex::new(VecDeque::new()),
            bound: Mutex::new(VecDeque::new()),
            bound_count: AtomicUsize::new(0),
            stolen: AtomicUsize::new(0),
            stolen_at: AtomicU64::new(0),
            wake: Condvar::new(),
        };
        let shared = Shared { high: VecDeque::new(), normal: VecDeque::new(), low: VecDeque::new() };
        Queues {
            threads: (0..computing + others).map(thread).collect(),
            computing,
            shared: Mutex::new(shared),
            urgent: AtomicUsize::new(0),
            asleep: Mutex::new(vec![false; computing + others]),
            sleepers: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn computing(&self) -> usize {
        self.computing
    }

    /// Adds a task, and wakes a thread for it if one sleeps.
    pub(crate) fn push(&self, task: T, whose: For, priority: Priority) {
        match (whose, priority) {
            (For::Thread(thread), _) => self.threads[thread].bind(task, priority),
            (For::Any(Some(thread)), Priority::Normal) => lock(&self.threads[thread].own).push_back(task),
            (For::Any(None), Priority::Normal) => lock(&self.shared).normal.push_back(task),
            (For::Any(_), Priority::Low) => lock(&self.shared).low.push_back(task),
            (For::Any(_), Priority::High) => {
                let mut shared = lock(&self.shared);
                shared.high.push_back(task);
                self.urgent.fetch_add(1, Ordering::Relaxed);
            }
        }
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            match whose {
                For::Thread(thread) => self.wake(thread),
                For::Any(_) => self.wake_any(),
            }
        }
    }

    /// Has a thread look again, at the latest when it would sleep.
    pub(crate) fn wake(&self, thread: usize) {
        self.wake_of(&mut lock(&self.asleep), thread);
    }

    fn wake_any(&self) {
        let mut asleep = lock(&self.asleep);
        if let Some(thread) = (0..self.computing).find(|&thread| asleep[thread]) {
            self.wake_of(&mut asleep, thread);
        }
    }

    fn wake_of(&self, asleep: &mut [bool], thread: usize) {
        if std::mem::take(&mut asleep[thread]) {
            self.sleepers.fetch_sub(1, Ordering::Relaxed);
            self.threads[thread].wake.notify_one();
        }
    }

    /// No thread waits any more: each ends when it finds nothing.
    pub(crate) fn close(&self) {
        let mut asleep = lock(&self.asleep);
        self.closed.store(true, Ordering::Relaxed);
        (0..self.threads.len()).for_each(|thread| self.wake_of(&mut asleep, thread));
    }

    /// A task for thread `me`, if there is one that it need not wait for.
    pub(crate) fn next_at_once(&self, me: usize) -> Option<T> {
        self.take(me, LEFT)
    }

    /// The next task for thread `me`, which waits for one until `enough` or until they are closed. What makes it
    /// enough is to be followed by [`Queues::wake`].
    pub(crate) fn next(&self, me: usize, enough: impl Fn() -> bool) -> Option<T> {
        let mut left = usize::MAX;
        for look in 0..LOOKS {
            if enough() {
                return None;
            }
            if let Some(task) = self.take(me, left) {
                return Some(task);
            }
            if look == 0 && !self.has_stolen_small_ones(me) {
                left = LEFT;
            }
            pause(look);
        }
        loop {
            let mut asleep = lock(&self.asleep);
            asleep[me] = true;
            self.sleepers.fetch_add(1, Ordering::Relaxed);
            let bound = self.threads[me].take_bound().map(Found::alone);
            let found = bound.or_else(|| self.find(me, 0));
            if found.is_some() || enough() || self.closed.load(Ordering::Relaxed) {
                asleep[me] = false;
                self.sleepers.fetch_sub(1, Ordering::Relaxed);
                drop(asleep);
                return found.map(|found| self.taken(found));
            }
            while asleep[me] {
                asleep = self.threads[me].wake.wait(asleep).unwrap_or_else(PoisonError::into_inner);
            }
            drop(asleep);
            if let Some(task) = self.take(me, 0) {
                return Some(task);
            }
        }
    }

    /// What thread `me` does next, that has just made `task` active: this one, which need not go through its queue, unless
    /// something else goes before it.
    pub(crate) fn instead_of(&self, me: usize, task: T) -> T {
        match self.take_pressing(me) {
            None => task,
            Some(pressing) => {
                self.push(task, For::Any(Some(me)), Priority::Normal);
                pressing
            }
        }
    }

    /// A task for thread `me`, stolen if need be from another that has more than `left`.
    fn take(&self, me: usize, left: usize) -> Option<T> {
        self.find(me, left).map(|found| self.taken(found))
    }

    /// A thread that has stolen several runs one of them first, for how long nobody knows. Who looked while they were on
    /// their way has seen them nowhere, and is woken if it sleeps now.
    fn taken(&self, Found { task, has_stolen_more }: Found<T>) -> T {
        if has_stolen_more && self.sleepers.load(Ordering::Relaxed) > 0 {
            self.wake_any();
        }
        task
    }

    /// As [`Queues::take`], but nobody is woken.
    fn find(&self, me: usize, left: usize) -> Option<Found<T>> {
        if let pressing @ Some(_) = self.take_pressing(me) {
            return pressing.map(Found::alone);
        }
        if me >= self.computing {
            return None;
        }
        let own = lock(&self.threads[me].own).pop_back();
        own.or_else(|| lock(&self.shared).normal.pop_front())
            .map(Found::alone)
            .or_else(|| self.steal(me, left))
            .or_else(|| self.take_last().map(Found::alone))
    }

    /// What goes before a thread's own tasks: what is bound to it, and what is urgent.
    fn take_pressing(&self, me: usize) -> Option<T> {
        let mine = &self.threads[me];
        if mine.bound_count.load(Ordering::Relaxed) > 0
            && let bound @ Some(_) = mine.take_bound()
        {
            return bound;
        }
        if me < self.computing && self.urgent.load(Ordering::Relaxed) > 0 { self.take_urgent() } else { None }
    }

    fn take_urgent(&self) -> Option<T> {
        let task = lock(&self.shared).high.pop_front()?;
        self.urgent.fetch_sub(1, Ordering::Relaxed);
        Some(task)
    }

    /// What nobody is in a hurry for; or what was urgent, if its number was not yet seen.
    fn take_last(&self) -> Option<T> {
        self.take_urgent().or_else(|| lock(&self.shared).low.pop_front())
    }

    /// Whether those that it stole last, and has just run, were not worth it.
    fn has_stolen_small_ones(&self, me: usize) -> bool {
        let stolen = self.threads[me].stolen.swap(0, Ordering::Relaxed) as u64;
        stolen > 0 && now() - self.threads[me].stolen_at.load(Ordering::Relaxed) < stolen * WORTH_STEALING
    }

    /// The oldest half of another thread's tasks become those of `me`, but for the first, which it is given.
    fn steal(&self, me: usize, left: usize) -> Option<Found<T>> {
        (1..self.computing).map(|step| (me + step) % self.computing).find_map(|other| {
            let mut theirs = lock(&self.threads[other].own);
            if theirs.len() <= left {
                return None;
            }
            let first = theirs.pop_front()?;
            let more = theirs.len().div_ceil(2).min(STOLEN_MAX - 1);
            if more > 0 {
                let stolen: VecDeque<T> = theirs.drain(..more).rev().collect();
                drop(theirs);
                self.threads[me].stolen.store(1 + more, Ordering::Relaxed);
                self.threads[me].stolen_at.store(now(), Ordering::Relaxed);
                lock(&self.threads[me].own).extend(stolen);
            }
            Some(Found { task: first, has_stolen_more: more > 0 })
        })
    }
}
