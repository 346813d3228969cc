//! The run: active tasks in their queues, their execution, and the consequences of a task's end.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::edges::{Edges, End, Few, Linked};
use super::failure::{Cause, Failure, Name};
use super::live::Live;
use super::place::Place;
use super::pool::{Pool, Served};
use crate::queues::{For, Found, Priority, Queues, Server};
use crate::sleep::{Look, Seat};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// The threads that may run a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lane {
    /// Any of those that compute.
    #[default]
    Compute,
    /// The threads of this I/O lane, which compute nothing: its tasks may wait, for a disk or for room. A number too
    /// high is counted round.
    Io(usize),
    /// Always the same of those that compute, by its number; 0 is the run's caller while it waits. A number too high
    /// is counted round.
    Pinned(usize),
}

/// A task, of whatever function. It is one allocation, with its function and later its output: what one thread
/// allocates and another frees is what an empty task costs most.
pub(super) type Task<'env> = Arc<dyn Run<'env> + 'env>;

/// The operations of a task that the executor needs.
pub(super) trait Run<'env>: Send + Sync {
    fn core(&self) -> &Core<'env>;

    /// Runs it; `true` if it is to be run again, as the same task.
    fn run(&self, tasks: &Tasks<'env>) -> Result<bool, Cause>;

    /// Drops what it was to run, and all that this borrows.
    fn discard(&self);
}

/// Fields of every task. With a small function a task is no larger than two cache lines.
pub(super) struct Core<'env> {
    name: Name,
    lane: Bound,
    priority: Priority,
    pub(super) edges: Edges<Task<'env>>,
}

/// A [`Lane`] that there is.
#[derive(Clone, Copy)]
enum Bound {
    Any,
    Thread(u16),
    Lane(u16),
}

impl Linked for Task<'_> {
    fn edges(&self) -> &Edges<Self> {
        &self.core().edges
    }
}

/// The run in which tasks are made, as a task sees it.
pub struct Tasks<'env> {
    id: usize,
    pub(super) pool: Arc<Pool<Tasks<'env>>>,
    queues: Queues<Task<'env>>,
    /// Where the caller sleeps.
    seat: Arc<Seat>,
    live: Live,
    cancelled: AtomicBool,
    /// The first failures that the caller has not received.
    failures: Mutex<Vec<Failure>>,
}

/// Number of runs so far.
static RUNS: AtomicUsize = AtomicUsize::new(1);

/// Tasks that the caller runs before it counts the live ones again.
const TASKS_PER_LOOK: usize = 16;
/// Failures that are kept at the same time, of which the run returns the first.
const FAILURES_KEPT: usize = 1 << 10;

impl<'env> Tasks<'env> {
    /// A run on these threads, which serve it once it is added to them.
    pub(super) fn new(pool: Arc<Pool<Tasks<'env>>>) -> Tasks<'env> {
        Tasks {
            id: RUNS.fetch_add(1, Ordering::Relaxed),
            queues: Queues::new(pool.computing(), pool.lanes()),
            seat: Arc::new(Seat::new()),
            live: Live::new(pool.threads()),
            cancelled: AtomicBool::new(false),
            failures: Mutex::new(Vec::new()),
            pool,
        }
    }

    /// Tasks that have not begun end without being run, and so do those that are made from now on. The run's failure
    /// says that it was cancelled, if none came before. From any thread.
    ///
    /// ```
    /// use sakiyomi_exec::executor::{Cause, Threads};
    /// let result = Threads::new(2).run(|tasks| {
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

    /// Whether the threads of I/O lanes have the higher priority that they asked for. Known once a task has run on
    /// each.
    #[must_use]
    pub fn io_is_urgent(&self) -> bool {
        !self.pool.refused.load(Ordering::Relaxed)
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

    /// This thread is the run's caller until the returned value is dropped, unless it is so already.
    pub(super) fn enter_as_caller(&self) -> Option<Place> {
        (self.thread() != Some(0)).then(|| self.enter(0))
    }

    /// The number of the current thread in this run; `None` for any other thread.
    fn thread(&self) -> Option<usize> {
        Place::within(self.id)
    }

    pub(super) fn live(&self) -> usize {
        self.live.number()
    }

    /// Runs tasks on the caller's thread until no more than `most` are live.
    pub(super) fn work_until_live(&self, most: usize) {
        // The other threads' counts are in their caches: to look at them costs as much as a small task.
        while self.live() > most && self.work_at_once(TASKS_PER_LOOK) {}
        self.live.awaiting(most, || self.work_until(|| self.live() <= most));
    }

    /// Runs `many` tasks on the caller's thread; returns `false` if it finds fewer without sleeping.
    fn work_at_once(&self, many: usize) -> bool {
        let mut done = 0;
        while done < many {
            let Some(found) = self.queues.find(Server::Computes(0), Look::AtOnce) else { return false };
            if found.has_stolen_more {
                self.pool.wake_for_any(self);
            }
            self.serve(Server::Computes(0), 0, found.task, || {
                done += 1;
                done == many
            });
        }
        true
    }

    /// Runs tasks on the caller's thread until `enough` holds. The thread that makes it true wakes the caller.
    pub(super) fn work_until(&self, enough: impl Fn() -> bool) {
        self.pool.serve_until(self, enough);
    }

    /// Gives what this thread may do next, which has become active by it.
    fn execute(&self, task: Task<'env>) -> Option<Task<'env>> {
        let core = task.core();
        let result = match self.reason_to_spare(core) {
            // Values that its function borrows and owns are dropped all the same.
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
        self.count_ended(is_watched);
        next
    }

    /// A task has ended; wakes the caller if it waits for that, or for fewer to be live.
    pub(super) fn count_ended(&self, is_watched: bool) {
        let is_awaited = self.live.count_ended(self.thread());
        if is_watched || is_awaited {
            self.pool.wake_caller(self);
        }
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

    /// Dropping the last reference to a task drops its output, if it was not taken, and that can panic.
    fn part_with(&self, task: Task<'env>) {
        let name = task.core().name.clone();
        let _ = self.noted(Failure::catch(&name, || drop(task)));
    }

    /// The next task of thread `me`, which has just made `task` active: `task` itself, without passing through the
    /// queue, unless another task takes precedence.
    fn instead_of(&self, me: usize, task: Task<'env>) -> Task<'env> {
        match self.queues.find_pressing(me) {
            None => task,
            Some(pressing) => {
                self.push(task);
                pressing
            }
        }
    }

    /// The core of a task with `before` predecessors.
    pub(super) fn core(&self, name: Name, lane: Lane, priority: Priority, before: usize) -> Core<'env> {
        let lane = match lane {
            Lane::Compute => Bound::Any,
            Lane::Io(lane) => Bound::Lane((lane % self.queues.lanes()) as u16),
            Lane::Pinned(thread) => Bound::Thread((thread % self.queues.computing()) as u16),
        };
        Core { name, lane, priority, edges: Edges::new(before) }
    }

    pub(super) fn count_made(&self) {
        self.live.count_made(self.thread());
    }

    /// Removes `of` predecessors of a task; once it has none left it becomes active.
    pub(super) fn release(&self, task: Task<'env>, of: u32) {
        if task.core().edges.let_go(of) {
            self.push(task);
        }
    }

    fn push(&self, task: Task<'env>) {
        let (whose, priority) = (self.whose(task.core()), task.core().priority);
        self.queues.push(task, whose, priority);
        match whose {
            For::Any(_) => self.pool.wake_for_any(self),
            For::Thread(0) => self.pool.wake_caller(self),
            For::Thread(index) => self.pool.wake_thread(index),
            For::Lane(lane) => self.pool.wake_lane(lane),
        }
    }

    fn whose(&self, core: &Core<'env>) -> For {
        match core.lane {
            Bound::Thread(thread) => For::Thread(thread.into()),
            Bound::Lane(lane) => For::Lane(lane.into()),
            Bound::Any => For::Any(self.thread().filter(|&thread| thread < self.queues.computing())),
        }
    }
}

impl<'env> Served for Tasks<'env> {
    type Task = Task<'env>;

    fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }

    fn find(&self, server: Server, look: Look) -> Option<Found<Task<'env>>> {
        self.queues.find(server, look)
    }

    fn find_only_bound(&self, server: Server, look: Look) -> Option<Found<Task<'env>>> {
        self.queues.find_only_bound(server, look)
    }

    fn serve(&self, server: Server, index: usize, task: Task<'env>, mut enough: impl FnMut() -> bool) {
        let _place = self.enter(index);
        let mut task = Some(task);
        while let Some(now) = task {
            let next = self.execute(now);
            if enough() {
                return next.into_iter().for_each(|next| self.push(next));
            }
            task = next.map(|next| self.instead_of(index, next));
            task = task.or_else(|| self.queues.find(server, Look::Own).map(|found| found.task));
        }
    }
}
