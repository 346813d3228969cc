//! The run: active tasks in their queues, threads that execute them, and what follows from a task's end.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::edges::{Edges, End, Few, Linked};
use super::failure::{Cause, Failure, Name};
use super::live::Live;
use super::place::Place;
use crate::queues::{For, Priority, Queues};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// Which thread runs a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// Any of those that compute.
    #[default]
    Any,
    /// The I/O thread, which computes nothing: its tasks may wait, for a disk or for room.
    Io,
    /// One of those that compute, by its number; 0 is the caller while it waits. A number too high is counted round.
    Thread(usize),
}

/// A task, of whatever function. It is one allocation, with its function and later its output: what one thread allocates
/// and another frees is what an empty task costs most.
pub(super) type Task<'env> = Arc<dyn Run<'env> + 'env>;

/// What the threads that run tasks need of them.
pub(super) trait Run<'env>: Send + Sync {
    fn core(&self) -> &Core<'env>;

    /// Runs it; `true` if it is to be run again, as the same task.
    fn run(&self, tasks: &Tasks<'env>) -> Result<bool, Cause>;

    /// Drops what it was to run, and all that this borrows.
    fn discard(&self);
}

/// What all tasks have. With a small function it is no larger than two cache lines.
pub(super) struct Core<'env> {
    name: Name,
    /// The thread that runs it, unless any may that computes.
    bound: Option<u16>,
    priority: Priority,
    pub(super) edges: Edges<Task<'env>>,
}

impl Linked for Task<'_> {
    fn edges(&self) -> &Edges<Self> {
        &self.core().edges
    }
}

/// The run in which tasks are made, as a task sees it.
pub struct Tasks<'env> {
    id: usize,
    pub(super) queues: Queues<Task<'env>>,
    live: Live,
    cancelled: AtomicBool,
    /// Whether the I/O thread was refused a higher priority.
    refused: AtomicBool,
    /// What the caller was not given yet: the first ones.
    failures: Mutex<Vec<Failure>>,
}

/// Which runs there were.
static RUNS: AtomicUsize = AtomicUsize::new(1);

/// How many tasks the caller runs before it looks how many are live.
const LOOK_EVERY: usize = 16;
/// Failures that are kept at the same time, of which the run returns the first.
const FAILURES_KEPT: usize = 1 << 10;
/// The I/O thread's: a high weight, and turns so short that it may interrupt those that compute.
const IO_NICE: i32 = -10;
const IO_TURN: Duration = Duration::from_micros(100);

impl<'env> Tasks<'env> {
    /// For `computing` threads, and the one for I/O.
    pub(super) fn new(computing: usize) -> Tasks<'env> {
        Tasks {
            id: RUNS.fetch_add(1, Ordering::Relaxed),
            queues: Queues::new(computing, 1),
            live: Live::new(computing + 1),
            cancelled: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            failures: Mutex::new(Vec::new()),
        }
    }

    /// Tasks that have not begun end without being run, and so do those that are made from now on. The run's failure
    /// says that it was cancelled, if none came before. From any thread.
    ///
    /// ```
    /// use sakiyomi_exec::manager::{Cause, Manager};
    /// let result = Manager::new(2).run(|tasks| {
    ///     let search = tasks.each("search", 4, 0u64.., |number, tasks| {
    ///         if number == 1_000 {
    ///             tasks.cancel();
    ///         }
    ///         Ok::<(), String>(())
    ///     });
    ///     search.forget();
    /// });
    /// assert!(matches!(result.unwrap_err().cause, Cause::Cancelled));
    /// ```
    pub fn cancel(&self) {
        if !self.cancelled.swap(true, Ordering::Relaxed) {
            self.note(&Failure::cancelled());
        }
    }

    /// Whether the run was cancelled: for tasks that take long.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Whether the I/O thread has the higher priority that it asked for. Known once a task has run on it.
    #[must_use]
    pub fn io_is_urgent(&self) -> bool {
        !self.refused.load(Ordering::Relaxed)
    }

    fn note(&self, failure: &Failure) {
        let mut failures = lock(&self.failures);
        if failures.len() < FAILURES_KEPT {
            failures.push(failure.clone());
        }
    }

    /// The caller was given this one.
    pub(super) fn forgive(&self, failure: &Failure) {
        lock(&self.failures).retain(|other| !other.is_same(failure));
    }

    pub(super) fn take_failure(&self) -> Option<Failure> {
        mem::take(&mut *lock(&self.failures)).into_iter().next()
    }

    /// This thread is the run's `index`th until what is returned is dropped.
    pub(super) fn enter(&self, index: usize) -> Place {
        Place::enter(self.id, index)
    }

    /// Which of this run's threads this one is, if it is one.
    fn thread(&self) -> Option<usize> {
        Place::within(self.id)
    }

    /// The life of a thread that is not the caller's.
    pub(super) fn serve(&self, index: usize) {
        let _place = self.enter(index);
        if index == self.queues.computing() && sakiyomi_os::priority::latency_nice(IO_NICE, IO_TURN).is_err()
        {
            self.refused.store(true, Ordering::Relaxed);
        }
        self.work_until(index, || false);
    }

    pub(super) fn live(&self) -> usize {
        self.live.number()
    }

    /// Runs tasks on the caller's thread until no more than `most` are live.
    pub(super) fn work_until_live(&self, most: usize) {
        // The other threads' counts are in their caches: to look at them costs as much as a small task.
        while self.live() > most && self.work_at_once(LOOK_EVERY) {}
        self.live.awaiting(most, || self.work_until(0, || self.live() <= most));
    }

    /// Runs so many tasks on the caller's thread; `false` if there are fewer that it need not wait for.
    fn work_at_once(&self, many: usize) -> bool {
        let mut left = many;
        self.work(
            0,
            || self.queues.next_at_once(0),
            || {
                left -= 1;
                left == 0
            },
        );
        left == 0
    }

    /// Runs tasks on thread `me` until it is enough, or the run ends.
    pub(super) fn work_until(&self, me: usize, enough: impl Fn() -> bool) {
        self.work(me, || self.queues.next(me, &enough), &enough);
    }

    /// Runs tasks on thread `me`, until there are no more or, after one of them, it is enough.
    fn work(&self, me: usize, get: impl Fn() -> Option<Task<'env>>, mut enough: impl FnMut() -> bool) {
        let mut task = get();
        while let Some(now) = task {
            let next = self.execute(now);
            if enough() {
                return next.into_iter().for_each(|next| self.push(next));
            }
            task = next.map(|next| self.queues.instead_of(me, next)).or_else(&get);
        }
    }

    /// Gives what this thread may do next, which has become active by it.
    fn execute(&self, task: Task<'env>) -> Option<Task<'env>> {
        let core = task.core();
        let result = match self.reason_to_spare(core) {
            // What it borrows and holds is dropped all the same.
            Some(failure) => self.noted(Failure::catch(&core.name, || task.discard())).and(Err(failure)),
            None => match Failure::catch(&core.name, || task.run(self)) {
                Ok(Ok(true)) => return self.keep(task),
                Ok(Ok(false)) => Ok(()),
                Ok(Err(cause)) => self.noted(Err(Failure::new(core.name.clone(), cause))),
                Err(panicked) => self.noted(Err(panicked)),
            },
        };
        let End { after, is_watched } = core.edges.end(result);
        let next = self.release_all(after);
        self.part_with(task);
        let is_awaited = self.live.count_ended(self.thread());
        if is_watched || is_awaited {
            self.queues.wake(0);
        }
        next
    }

    /// A failure is noted once, where it comes from.
    fn noted(&self, result: Result<(), Failure>) -> Result<(), Failure> {
        result.inspect_err(|failure| self.note(failure))
    }

    /// Why a task is not to be run, if so.
    fn reason_to_spare(&self, core: &Core<'env>) -> Option<Failure> {
        let broken = if core.edges.is_broken() { core.edges.failure() } else { None };
        broken.or_else(|| self.is_cancelled().then(Failure::cancelled))
    }

    /// These have one less to wait for; one that has become active is kept for this thread.
    fn release_all(&self, after: Few<Task<'env>>) -> Option<Task<'env>> {
        let mut kept = None;
        for next in after {
            if next.core().edges.let_go(1) {
                kept.take().into_iter().for_each(|other| self.push(other));
                kept = self.keep(next);
            } else {
                self.part_with(next);
            }
        }
        kept
    }

    /// An active task, if this thread may run it as well as any; else it is in its queue now.
    fn keep(&self, task: Task<'env>) -> Option<Task<'env>> {
        if matches!(self.whose(task.core()), For::Any(Some(_))) && task.core().priority == Priority::Normal {
            return Some(task);
        }
        self.push(task);
        None
    }

    /// Who holds a task last drops its output, if nobody took it.
    fn part_with(&self, task: Task<'env>) {
        let name = task.core().name.clone();
        let _ = self.noted(Failure::catch(&name, || drop(task)));
    }

    /// Of a task that waits for so many others.
    pub(super) fn core(&self, name: Name, device: Device, priority: Priority, before: usize) -> Core<'env> {
        let computing = self.queues.computing();
        let bound = match device {
            Device::Any => None,
            Device::Io => Some(computing),
            Device::Thread(index) => Some(index % computing),
        };
        Core { name, bound: bound.map(|thread| thread as u16), priority, edges: Edges::new(before) }
    }

    pub(super) fn count_made(&self) {
        self.live.count_made(self.thread());
    }

    /// So many of those that a task waits for are gone; the last make it active.
    pub(super) fn release(&self, task: Task<'env>, of: u32) {
        if task.core().edges.let_go(of) {
            self.push(task);
        }
    }

    fn push(&self, task: Task<'env>) {
        let (whose, priority) = (self.whose(task.core()), task.core().priority);
        self.queues.push(task, whose, priority);
    }

    fn whose(&self, core: &Core<'env>) -> For {
        match core.bound {
            Some(thread) => For::Thread(thread.into()),
            None => For::Any(self.thread().filter(|&thread| thread < self.queues.computing())),
        }
    }
}
