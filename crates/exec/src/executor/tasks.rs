//! A run: active tasks in their queues, their execution, and the consequences of their end.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread;

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
    /// Any compute thread.
    #[default]
    Compute,
    /// The threads of this I/O lane, which do not compute: its tasks may block, on I/O or for room. The number is taken
    /// modulo the number of lanes.
    Io(usize),
    /// The compute thread with this number, modulo their number; 0 is the run's caller while it waits.
    Pinned(usize),
}

/// A task with any function. It is a single allocation that also holds its function and later its output: memory that
/// is allocated by one thread and freed by another is most of the cost of an empty task.
pub(super) type Task<'env> = Arc<dyn Run<'env> + 'env>;

/// Operations of a task that the executor needs.
pub(super) trait Run<'env>: Send + Sync {
    fn core(&self) -> &Core<'env>;

    /// Runs it; returns `true` if it is to be run again.
    fn run(&self, tasks: &Tasks<'env>) -> Result<bool, Cause>;

    /// Runs it as [`Run::run`] does, but without locks, and drops its output. The caller holds the only reference to it.
    fn run_alone(&mut self, tasks: &Tasks<'env>) -> Result<bool, Cause>;

    fn core_alone(&mut self) -> &mut Core<'env>;

    /// Drops its function and everything borrowed by that.
    fn discard(&self);
}

/// Fields of every task. With a small function a task fits in two cache lines.
pub(super) struct Core<'env> {
    name: Name,
    lane: Bound,
    priority: Priority,
    pub(super) edges: Edges<Task<'env>>,
}

/// A [`Lane`] after reduction to an existing one.
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

/// The run as its tasks see it, in which tasks are made.
pub struct Tasks<'env> {
    id: usize,
    pub(super) pool: Arc<Pool<Tasks<'env>>>,
    queues: Queues<Task<'env>>,
    /// The seat on which the caller sleeps.
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
/// Failures kept at the same time; the run returns the first one.
const FAILURES_KEPT: usize = 1 << 10;

impl<'env> Tasks<'env> {
    /// Makes a run on these threads, which serve it once it is added to the pool.
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

    /// Cancels the run: tasks that have not started end without being run, including those made from now on. If nothing
    /// has failed before, the run's failure is [`Cause::Cancelled`]. May be called from any thread.
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

    /// Returns whether the run was cancelled; for tasks that take long.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Returns whether the threads of I/O lanes have the raised priority that they requested. Known once a task has
    /// run on each.
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

    /// Removes a failure that was returned to the caller.
    pub(super) fn forgive(&self, failure: &Failure) {
        lock(&self.failures).retain(|other| !other.is_same(failure));
    }

    pub(super) fn take_failure(&self) -> Option<Failure> {
        mem::take(&mut *lock(&self.failures)).into_iter().next()
    }

    /// Makes this thread number `index` of the run until the returned value is dropped.
    pub(super) fn enter(&self, index: usize) -> Place {
        Place::enter(self.id, index)
    }

    /// Makes this thread the run's caller until the returned value is dropped, unless it already is.
    pub(super) fn enter_as_caller(&self) -> Option<Place> {
        (self.thread() != Some(0)).then(|| self.enter(0))
    }

    /// Returns the number of the current thread in this run; `None` for any other thread.
    #[inline]
    fn thread(&self) -> Option<usize> {
        Place::within(self.id)
    }

    pub(super) fn live(&self) -> usize {
        self.live.number()
    }

    /// Runs tasks on the caller's thread until at most `most` are live.
    pub(super) fn work_until_live(&self, most: usize) {
        // The counts of other threads are in their caches: reading them costs as much as a small task.
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

    /// Runs a task; returns a task that has thereby become active, if this thread may run it next.
    fn execute(&self, mut task: Task<'env>) -> Option<Task<'env>> {
        // Loom does not know that this is ordered after what the last holder of another reference did.
        let is_alone = !cfg!(all(test, loom)) && Arc::strong_count(&task) == 1;
        if is_alone && let Some(alone) = Arc::get_mut(&mut task) {
            let Some(End { after, .. }) = self.run_alone(alone) else { return self.keep(task) };
            let next = self.release_all(after);
            // It holds nothing any more that could panic.
            drop(task);
            self.count_ended(false);
            return next;
        }
        let Some(End { after, is_watched }) = self.run(&*task) else { return self.keep(task) };
        let next = self.release_all(after);
        self.part_with(task);
        self.count_ended(is_watched);
        next
    }

    /// Runs a task; `None` if it is to be run again.
    fn run(&self, task: &(dyn Run<'env> + 'env)) -> Option<End<Task<'env>>> {
        let core = task.core();
        let result = match self.reason_to_spare(core) {
            // Values that its function borrows and owns must be dropped nevertheless.
            Some(failure) => {
                let _ = self.noted(Failure::catch(&core.name, || task.discard()));
                Err(failure)
            }
            None => self.outcome(core, catch_unwind(AssertUnwindSafe(|| task.run(self)))),
        };
        match result {
            Ok(true) => None,
            result => Some(core.edges.end(result.map(drop))),
        }
    }

    /// Runs a task as [`Tasks::run`] does, but without locks. The caller holds the only reference to it.
    fn run_alone(&self, task: &mut (dyn Run<'env> + 'env)) -> Option<End<Task<'env>>> {
        if self.reason_to_spare(task.core()).is_some() {
            return self.run(task);
        }
        let caught = catch_unwind(AssertUnwindSafe(|| task.run_alone(self)));
        match self.outcome(task.core(), caught) {
            Ok(true) => None,
            result => Some(task.core_alone().edges.end_alone(result.map(drop))),
        }
    }

    /// Returns what running a task has returned: whether it is to be run again, or its failure, which is recorded.
    fn outcome(
        &self,
        core: &Core<'env>,
        caught: thread::Result<Result<bool, Cause>>,
    ) -> Result<bool, Failure> {
        match caught {
            Ok(Ok(again)) => Ok(again),
            Ok(Err(cause)) => self.noted(Err(Failure::new(core.name.clone(), cause))),
            Err(panic) => self.noted(Err(Failure::of_caught(&core.name, panic))),
        }
    }

    /// Counts the end of a task; wakes the caller if it waits for that, or for fewer live tasks.
    pub(super) fn count_ended(&self, is_watched: bool) {
        let is_awaited = self.live.count_ended(self.thread());
        if is_watched || is_awaited {
            self.pool.wake_caller(self);
        }
    }

    /// Records a failure, which is done once, where it arises.
    fn noted<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        result.inspect_err(|failure| self.note(failure))
    }

    /// Returns the reason for not running a task, if any.
    fn reason_to_spare(&self, core: &Core<'env>) -> Option<Failure> {
        if !core.edges.is_broken() && !self.is_cancelled() {
            return None;
        }
        let broken = if core.edges.is_broken() { core.edges.failure() } else { None };
        broken.or_else(|| self.is_cancelled().then(Failure::cancelled))
    }

    /// Removes a predecessor of each of these tasks; returns one that has become active, for this thread to run.
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

    /// Returns an active task if any compute thread may run it; otherwise adds it to its queue.
    fn keep(&self, task: Task<'env>) -> Option<Task<'env>> {
        if matches!(self.whose(task.core()), For::Any(Some(_))) && task.core().priority == Priority::Normal {
            return Some(task);
        }
        self.push(task);
        None
    }

    /// Drops a reference to a task. The last one drops an unused output, which may panic.
    fn part_with(&self, task: Task<'env>) {
        let name = task.core().name.clone();
        let _ = self.noted(Failure::catch(&name, || drop(task)));
    }

    /// Returns the next task of thread `me`, which has just made `task` active: `task` itself, without passing through
    /// the queue, unless another task takes precedence.
    fn instead_of(&self, me: usize, task: Task<'env>) -> Task<'env> {
        match self.queues.find_pressing(me) {
            None => task,
            Some(pressing) => {
                self.push(task);
                pressing
            }
        }
    }

    /// Makes the core of a task with `before` predecessors.
    #[inline]
    pub(super) fn core(&self, name: Name, lane: Lane, priority: Priority, before: usize) -> Core<'env> {
        let lane = match lane {
            Lane::Compute => Bound::Any,
            Lane::Io(lane) => Bound::Lane((lane % self.queues.lanes()) as u16),
            Lane::Pinned(thread) => Bound::Thread((thread % self.queues.computing()) as u16),
        };
        Core { name, lane, priority, edges: Edges::new(before) }
    }

    #[inline]
    pub(super) fn count_made(&self) {
        self.live.count_made(self.thread());
    }

    /// Activates a task without predecessors, of which no other thread knows yet.
    pub(super) fn activate(&self, task: Task<'env>) {
        self.push(task);
    }

    /// Removes `of` predecessors of a task, which becomes active when none is left.
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

    #[inline]
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
