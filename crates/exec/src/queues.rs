//! Queues of the active tasks of a run: one per thread, from which others steal.
//!
//! They consist of locks that are held for a few instructions. A thread takes the newest of its own tasks, whose data
//! is still in its cache. When it has none, it takes the oldest half of another thread's: one lock for many tasks.
//!
//! [`sleep`](crate::sleep) puts threads to sleep and wakes them.

use std::collections::VecDeque;

use crate::sleep::Look;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, lock};

/// The clock; model checks have none.
pub(crate) mod system {
    /// Returns nanoseconds since the first call.
    #[cfg(not(all(test, loom)))]
    pub(crate) fn now() -> u64 {
        static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        FIRST.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
    }

    /// Loom tries every order whatever the time.
    #[cfg(all(test, loom))]
    pub(crate) fn now() -> u64 {
        0
    }
}

/// Priority of a task. The order of tasks with the same priority is unspecified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Only when there are no others.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Before all other tasks that any thread may run.
    High,
}

/// The threads that may take a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// Any compute thread; with the number of the one that made the task, if one of them did.
    Any(Option<usize>),
    /// This compute thread.
    Thread(usize),
    /// The threads of this I/O lane.
    Lane(usize),
}

/// The role of a thread, which determines the tasks that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// The compute thread with this number. Number 0 is the run's caller.
    Computes(usize),
    /// A thread of this I/O lane.
    Lane(usize),
}

/// Maximum number of tasks stolen at a time.
const STOLEN_MAX: usize = 64;
/// Tasks that a newly idle thread leaves a victim, until it would sleep: a thread that makes tasks is about to make
/// more, and stealing each singly would cost both threads more than the tasks.
const LEFT_TO_VICTIM: usize = 32;
/// Tasks that take less than this, in nanoseconds, when they are stolen take less time when their maker runs them,
/// because their memory moves from one core to the other and back. A thread that has stolen such tasks steals again
/// only when it would otherwise sleep.
pub(crate) const STOLEN_NS_MIN: u64 = 1000;

pub(crate) struct Queues<T> {
    threads: Box<[Thread<T>]>,
    lanes: Box<[Bound<T>]>,
    shared: Mutex<Shared<T>>,
    /// Number of urgent tasks among the shared ones.
    urgent: AtomicUsize,
}

/// On cache lines of its own: each thread writes to its entry all the time.
#[repr(align(128))]
struct Thread<T> {
    own: Mutex<VecDeque<T>>,
    bound: Bound<T>,
    /// Number of tasks in its last theft, and the time of that.
    stolen: AtomicUsize,
    stolen_at: AtomicU64,
    /// Number of tasks that it leaves a victim, until it would sleep.
    left: AtomicUsize,
}

/// Tasks of a single thread or lane.
struct Bound<T> {
    tasks: Mutex<VecDeque<T>>,
    count: AtomicUsize,
}

struct Shared<T> {
    high: VecDeque<T>,
    normal: VecDeque<T>,
    low: VecDeque<T>,
}

/// The next task of a thread.
pub(crate) struct Found<T> {
    pub(crate) task: T,
    /// Whether more tasks were stolen and moved to the thread's own queue: a thread that searched while they moved
    /// found them in neither queue, and must be woken.
    pub(crate) has_stolen_more: bool,
    /// Whether it was stolen.
    pub(crate) is_stolen: bool,
}

impl<T> Found<T> {
    fn alone(task: T) -> Found<T> {
        Found { task, has_stolen_more: false, is_stolen: false }
    }
}

impl<T> Bound<T> {
    fn new() -> Bound<T> {
        Bound { tasks: Mutex::new(VecDeque::new()), count: AtomicUsize::new(0) }
    }

    fn push(&self, task: T, priority: Priority) {
        let mut tasks = lock(&self.tasks);
        self.count.fetch_add(1, Ordering::Relaxed);
        if priority == Priority::High { tasks.push_front(task) } else { tasks.push_back(task) }
    }

    fn take(&self) -> Option<T> {
        let task = lock(&self.tasks).pop_front()?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(task)
    }

    /// Takes a task as [`Bound::take`] does, but without the lock if the count is zero.
    fn take_if_any(&self) -> Option<T> {
        if self.count.load(Ordering::Relaxed) > 0 { self.take() } else { None }
    }
}

impl<T> Queues<T> {
    /// Makes the queues of `computing` threads and `lanes` I/O lanes.
    pub(crate) fn new(computing: usize, lanes: usize) -> Queues<T> {
        let thread = |_| Thread {
            own: Mutex::new(VecDeque::new()),
            bound: Bound::new(),
            stolen: AtomicUsize::new(0),
            stolen_at: AtomicU64::new(0),
            left: AtomicUsize::new(0),
        };
        let shared = Shared { high: VecDeque::new(), normal: VecDeque::new(), low: VecDeque::new() };
        Queues {
            threads: (0..computing).map(thread).collect(),
            lanes: (0..lanes).map(|_| Bound::new()).collect(),
            shared: Mutex::new(shared),
            urgent: AtomicUsize::new(0),
        }
    }

    pub(crate) fn computing(&self) -> usize {
        self.threads.len()
    }

    pub(crate) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Adds a task. The caller must then wake a thread that may take it, if one sleeps.
    pub(crate) fn push(&self, task: T, whose: For, priority: Priority) {
        match (whose, priority) {
            (For::Thread(thread), _) => self.threads[thread].bound.push(task, priority),
            (For::Lane(lane), _) => self.lanes[lane].push(task, priority),
            (For::Any(Some(thread)), Priority::Normal) => lock(&self.threads[thread].own).push_back(task),
            (For::Any(None), Priority::Normal) => lock(&self.shared).normal.push_back(task),
            (For::Any(_), Priority::Low) => lock(&self.shared).low.push_back(task),
            (For::Any(_), Priority::High) => {
                let mut shared = lock(&self.shared);
                shared.high.push_back(task);
                self.urgent.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns the next task for a thread.
    pub(crate) fn find(&self, server: Server, look: Look) -> Option<Found<T>> {
        let me = match server {
            Server::Lane(lane) => return self.find_bound(&self.lanes[lane], look),
            Server::Computes(me) => me,
        };
        let mine = &self.threads[me];
        let bound = self.find_bound(&mine.bound, look);
        let found = bound.or_else(|| self.find_any(me, mine.left(look)));
        if found.is_none() && look == Look::First {
            let left = if mine.has_stolen_small_ones() { usize::MAX } else { LEFT_TO_VICTIM };
            mine.left.store(left, Ordering::Relaxed);
        }
        found
    }

    fn find_bound(&self, bound: &Bound<T>, look: Look) -> Option<Found<T>> {
        // The lock orders the last look after all tasks whose makers did not see that the thread sleeps.
        let task = if look == Look::Last { bound.take() } else { bound.take_if_any() };
        task.map(Found::alone)
    }

    /// Returns a task that is bound to the thread or its lane.
    pub(crate) fn find_only_bound(&self, server: Server, look: Look) -> Option<Found<T>> {
        match server {
            Server::Lane(lane) => self.find_bound(&self.lanes[lane], look),
            Server::Computes(me) => self.find_bound(&self.threads[me].bound, look),
        }
    }

    /// Returns the task that thread `me` must run before one that it has just made active, if any.
    pub(crate) fn find_pressing(&self, me: usize) -> Option<T> {
        self.threads[me].bound.take_if_any().or_else(|| self.take_urgent_if_any())
    }

    fn find_any(&self, me: usize, left: usize) -> Option<Found<T>> {
        let urgent = self.take_urgent_if_any();
        urgent
            .or_else(|| lock(&self.threads[me].own).pop_back())
            .or_else(|| lock(&self.shared).normal.pop_front())
            .map(Found::alone)
            .or_else(|| if left == usize::MAX { None } else { self.steal(me, left) })
            .or_else(|| self.take_last().map(Found::alone))
    }

    fn take_urgent_if_any(&self) -> Option<T> {
        if self.urgent.load(Ordering::Relaxed) > 0 { self.take_urgent() } else { None }
    }

    fn take_urgent(&self) -> Option<T> {
        let task = lock(&self.shared).high.pop_front()?;
        self.urgent.fetch_sub(1, Ordering::Relaxed);
        Some(task)
    }

    /// Takes the least urgent task; or an urgent one whose count this thread had not yet seen.
    fn take_last(&self) -> Option<T> {
        self.take_urgent().or_else(|| lock(&self.shared).low.pop_front())
    }

    /// Moves the oldest half of another thread's tasks to thread `me`, and returns the first of them.
    fn steal(&self, me: usize, left: usize) -> Option<Found<T>> {
        let computing = self.computing();
        (1..computing).map(|step| (me + step) % computing).find_map(|other| {
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
                self.threads[me].stolen_at.store(system::now(), Ordering::Relaxed);
                lock(&self.threads[me].own).extend(stolen);
            }
            Some(Found { task: first, has_stolen_more: more > 0, is_stolen: true })
        })
    }
}

impl<T> Thread<T> {
    /// Returns the number of tasks that it leaves a victim.
    fn left(&self, look: Look) -> usize {
        match look {
            Look::Own | Look::First => usize::MAX,
            Look::Again => self.left.load(Ordering::Relaxed),
            Look::AtOnce => LEFT_TO_VICTIM,
            Look::Last | Look::Woken => 0,
        }
    }

    /// Returns whether the tasks of its last theft, which it has just run, were too short.
    fn has_stolen_small_ones(&self) -> bool {
        let stolen = self.stolen.swap(0, Ordering::Relaxed) as u64;
        stolen > 0 && system::now() - self.stolen_at.load(Ordering::Relaxed) < stolen * STOLEN_NS_MIN
    }
}
