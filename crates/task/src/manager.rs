//! Tasks: functions with inputs, outputs and dependencies, run by threads that compute and a thread for I/O.
//!
//! ```
//! use sakiyomi_task::manager::{Device, Manager};
//! let text = String::from("so happy");
//! let words = Manager::new(2).run(|tasks| {
//!     // On the I/O thread; it borrows what lives outside.
//!     let read = tasks.task("read").on(Device::Io).spawn(|_| text.as_bytes());
//!     let count = tasks.task("count").with(read).spawn(|text, _| text.split(|&byte| byte == b' ').count());
//!     tasks.wait(count)
//! });
//! assert_eq!(words.unwrap().unwrap(), 2);
//! ```
//!
//! - A task depends on handles, so on tasks that are there already: no circle can be written.
//! - [`Handle`]s are typed: an input is the other task's output, moved ([`Builder::with`]) or shared
//!   ([`Handle::share`]). [`Builder::wait_for`] orders without passing anything.
//! - A task that fails or panics ends those that depend on it, without running them; the failure names the first one.
//! - The number of live tasks is bounded for the caller, who works while it waits for room. A task that makes tasks
//!   never waits, so that nothing can lock up; [`Tasks::each`] keeps what it makes within a number of its own, which
//!   are the task blocks of the paper (section 3.1).
//! - All tasks have ended when [`Manager::run`] returns. They may borrow what the caller had before it.

mod node;
mod series;
#[cfg(all(test, not(loom)))]
mod tests;

use std::borrow::Cow;
use std::cell::Cell;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

pub use node::{Cause, Failure, Handle, Inputs, SharedHandle};
use node::{Core, Function, Task};

pub use crate::queues::Priority;
use crate::queues::{For, Queues};

/// Names of tasks are for people, in failures.
pub type Name = Cow<'static, str>;

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

/// How tasks are run.
#[derive(Clone, Debug)]
pub struct Manager {
    threads: usize,
    live_max: usize,
}

/// How many tasks the caller runs before it looks how many are live.
const LOOK_EVERY: usize = 16;
const NOTHING_AWAITED: usize = usize::MAX;
/// Tasks that are live at the same time, unless said otherwise: few enough to stay in a core's cache.
const LIVE_MAX: usize = 1 << 10;
/// The I/O thread's: a high weight, and turns so short that it may interrupt those that compute.
const IO_NICE: i32 = -10;
const IO_TURN: Duration = Duration::from_micros(100);

impl Manager {
    /// With `threads` that compute, at least one; the caller is one of them while it waits. The I/O thread comes on top.
    #[must_use]
    pub fn new(threads: usize) -> Manager {
        Manager { threads: threads.max(1), live_max: LIVE_MAX }
    }

    /// How many tasks the caller may have made that have not ended, at least one.
    #[must_use]
    pub fn live_max(mut self, tasks: usize) -> Manager {
        self.live_max = tasks.max(1);
        self
    }

    /// Starts the threads, runs `main` on this one, waits until all tasks have ended, and ends the threads.
    ///
    /// While `main` waits, for a task or for room, this thread runs tasks: a lock that tasks take must not be held then.
    ///
    /// # Errors
    /// The first failure of a task, unless `main` was given it by [`Caller::wait`]; or if threads cannot be started.
    pub fn run<'env, R>(&self, main: impl FnOnce(&Caller<'_, 'env>) -> R) -> Result<R, Failure> {
        let tasks = Tasks::new(self);
        thread::scope(|scope| {
            // Whatever happens from here on, the threads must find the queues closed, or the scope waits for ever.
            let closing = Closing(&tasks);
            let io = tasks.queues.computing();
            for index in (1..io).chain([io]) {
                let name = if index == io { "sakiyomi-io".to_owned() } else { format!("sakiyomi-{index}") };
                let tasks = &tasks;
                let started =
                    thread::Builder::new().name(name).spawn_scoped(scope, move || tasks.serve(index));
                started.map_err(Failure::no_thread)?;
            }
            let place = Place::enter(tasks.id, 0);
            let result = catch_unwind(AssertUnwindSafe(|| main(&Caller { tasks: &tasks })));
            if result.is_err() {
                tasks.cancel();
            }
            tasks.work_until_live(0);
            drop(place);
            drop(closing);
            let failure = tasks.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
            match (result, failure) {
                (Err(panic), _) => resume_unwind(panic),
                (Ok(_), Some(failure)) => Err(failure),
                (Ok(result), None) => Ok(result),
            }
        })
    }
}

struct Closing<'t, 'env>(&'t Tasks<'env>);

impl Drop for Closing<'_, '_> {
    fn drop(&mut self) {
        self.0.queues.close();
    }
}

/// The run in which tasks are made, as a task sees it.
pub struct Tasks<'env> {
    id: usize,
    queues: Queues<Task<'env>>,
    /// Of each thread, and of those that are none of the run's.
    counts: Box<[Counts]>,
    live_max: usize,
    /// How many more the caller makes before it looks whether there is room.
    room: AtomicUsize,
    /// The caller sleeps until no more than so many are live.
    awaited: AtomicUsize,
    cancelled: AtomicBool,
    /// Whether the I/O thread was refused a higher priority.
    refused: AtomicBool,
    /// The first, unless the caller was given it.
    failure: Mutex<Option<Failure>>,
}

/// Which runs there were.
static RUNS: AtomicUsize = AtomicUsize::new(1);

thread_local! {
    /// Of which run this thread is, and which of its threads.
    static PLACE: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// This thread is one of a run's until this is dropped.
struct Place((usize, usize));

impl Place {
    fn enter(run: usize, thread: usize) -> Place {
        Place(PLACE.replace((run, thread)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        PLACE.set(self.0);
    }
}

impl<'env> Tasks<'env> {
    fn new(manager: &Manager) -> Tasks<'env> {
        Tasks {
            id: RUNS.fetch_add(1, Ordering::Relaxed),
            queues: Queues::new(manager.threads, 1),
            counts: (0..manager.threads + 2).map(|_| Counts::default()).collect(),
            live_max: manager.live_max,
            room: AtomicUsize::new(0),
            awaited: AtomicUsize::new(NOTHING_AWAITED),
            cancelled: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// A task to be made. Nothing happens until it is spawned.
    pub fn task(&self, name: impl Into<Name>) -> Builder<'_, 'env> {
        let (name, device, priority) = (name.into(), Device::Any, Priority::Normal);
        Builder { tasks: self, waits: false, name, device, priority, after: Vec::new() }
    }

    /// Makes a task for each item, no more than `at_a_time` of which are live; each that ends makes the next one. The
    /// handle is of what ends when all have, and fails with the first that does: no more are made then.
    ///
    /// # Panics
    /// If none may be live.
    pub fn each<I, E>(
        &self,
        name: impl Into<Name>,
        at_a_time: usize,
        items: impl IntoIterator<Item = I, IntoIter: Send + 'env>,
        what: impl Fn(I, &Tasks<'env>) -> Result<(), E> + Send + Sync + 'env,
    ) -> Handle<'env, ()>
    where
        I: Send + 'env,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        series::start(self, name.into(), at_a_time, items.into_iter(), what)
    }

    /// Tasks that have not begun end without being run, and so do those that are made from now on. The run's failure
    /// says that it was cancelled, if there is no other.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.note_failure(Failure::cancelled());
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

    fn note_failure(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }

    /// One of those that a task waits for is gone; the last makes it active.
    fn release(&self, task: Task<'env>) {
        if task.core().let_go() {
            self.push(task);
        }
    }

    fn push(&self, task: Task<'env>) {
        let computing = self.queues.computing();
        let whose = match task.core().device {
            Device::Any => For::Any(self.thread().filter(|&thread| thread < computing)),
            Device::Io => For::Thread(computing),
            Device::Thread(index) => For::Thread(index % computing),
        };
        let priority = task.core().priority;
        self.queues.push(task, whose, priority);
    }

    /// Which of this run's threads this one is, if it is one.
    fn thread(&self) -> Option<usize> {
        let (run, thread) = PLACE.get();
        (run == self.id).then_some(thread)
    }

    fn counts(&self) -> &Counts {
        // Who is not of this run shares the last one.
        &self.counts[self.thread().unwrap_or(self.counts.len() - 1)]
    }

    fn count_made(&self) {
        self.counts().made.fetch_add(1, Ordering::SeqCst);
    }

    /// How many tasks are live; never fewer than there are, since those that have ended are counted first.
    fn live(&self) -> usize {
        let ended: usize = self.counts.iter().map(|counts| counts.ended.load(Ordering::SeqCst)).sum();
        let made: usize = self.counts.iter().map(|counts| counts.made.load(Ordering::SeqCst)).sum();
        made - ended
    }

    /// The life of a thread that is not the caller's.
    fn serve(&self, index: usize) {
        let _place = Place::enter(self.id, index);
        if index == self.queues.computing() && sakiyomi_linux::priority::hurry(IO_NICE, IO_TURN).is_err() {
            self.refused.store(true, Ordering::Relaxed);
        }
        while let Some(task) = self.queues.next(index, || false) {
            self.execute(task);
        }
    }

    /// Before the caller makes a task.
    fn wait_for_room(&self) {
        let room = self.room.load(Ordering::Relaxed);
        let room = if room > 0 {
            room
        } else {
            if self.live() >= self.live_max {
                // Half of them, so that one does not wait for room again at once.
                self.work_until_live(self.live_max / 2);
            }
            self.live_max.saturating_sub(self.live()).max(1)
        };
        self.room.store(room - 1, Ordering::Relaxed);
    }

    /// Runs tasks on the caller's thread until no more than `most` are live.
    fn work_until_live(&self, most: usize) {
        // The other threads' counts are in their caches: to look at them costs as much as a small task.
        while let Some(task) = (self.live() > most).then(|| self.queues.next_at_once(0)).flatten() {
            self.execute(task);
            let more = std::iter::from_fn(|| self.queues.next_at_once(0));
            more.take(LOOK_EVERY - 1).for_each(|task| self.execute(task));
        }
        self.awaited.store(most, Ordering::SeqCst);
        self.work_until(|| self.live() <= most);
        self.awaited.store(NOTHING_AWAITED, Ordering::SeqCst);
    }

    fn work_until(&self, enough: impl Fn() -> bool) {
        while let Some(task) = self.queues.next(0, &enough) {
            self.execute(task);
            if enough() {
                return;
            }
        }
    }

    fn execute(&self, task: Task<'env>) {
        let core = task.core();
        let spared = if core.is_broken() { core.failure() } else { None };
        let result = match spared.or_else(|| self.is_cancelled().then(Failure::cancelled)) {
            // What it borrows and holds is dropped all the same.
            Some(failure) => catch_unwind(AssertUnwindSafe(|| task.discard())).map(|()| Err(failure)),
            None => match catch_unwind(AssertUnwindSafe(|| task.run(self))) {
                Ok(Ok(true)) => return self.push(task),
                Ok(Ok(false)) => Ok(Ok(())),
                Ok(Err(cause)) => Ok(Err(Failure::new(core.name.clone(), cause))),
                Err(panic) => Err(panic),
            },
        };
        let result = result.unwrap_or_else(|panic| Err(Failure::of_panic(core.name.clone(), &*panic)));
        if let Err(failure) = &result {
            self.note_failure(failure.clone());
        }
        let end = core.end(result);
        end.after.into_iter().for_each(|next| self.release(next));
        drop(task);
        self.counts().ended.fetch_add(1, Ordering::SeqCst);
        // One order of all: either the caller sees that there are fewer, or this thread sees what it waits for.
        let awaited = self.awaited.load(Ordering::SeqCst);
        if end.is_watched || awaited != NOTHING_AWAITED && self.live() <= awaited {
            self.queues.wake(0);
        }
    }
}

/// Tasks that a thread has made and ended, in cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Counts {
    made: AtomicUsize,
    ended: AtomicUsize,
}

/// The run as its caller sees it, who may wait.
pub struct Caller<'t, 'env> {
    tasks: &'t Tasks<'env>,
}

impl<'env> std::ops::Deref for Caller<'_, 'env> {
    type Target = Tasks<'env>;

    fn deref(&self) -> &Tasks<'env> {
        self.tasks
    }
}

impl<'env> Caller<'_, 'env> {
    /// A task to be made. If too many are live, spawning it runs others first.
    pub fn task(&self, name: impl Into<Name>) -> Builder<'_, 'env> {
        Builder { waits: true, ..self.tasks.task(name) }
    }

    /// Runs tasks until this one has ended, and gives what came of it. It is then no longer the run's failure.
    ///
    /// # Errors
    /// If it failed, or one that it depends on.
    pub fn wait<T>(&self, handle: Handle<'env, T>) -> Result<T, Failure> {
        let core = handle.task.core();
        core.watch();
        self.tasks.work_until(|| core.has_ended());
        match core.failure() {
            None => Ok(handle.task.take()),
            Some(failure) => {
                *self.tasks.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Err(failure)
            }
        }
    }
}

/// A task that is being described.
#[must_use = "nothing happens until it is spawned"]
pub struct Builder<'t, 'env> {
    tasks: &'t Tasks<'env>,
    /// Whether it waits for room.
    waits: bool,
    name: Name,
    device: Device,
    priority: Priority,
    after: Vec<Task<'env>>,
}

impl<'t, 'env> Builder<'t, 'env> {
    /// Which thread runs it.
    pub fn on(mut self, device: Device) -> Builder<'t, 'env> {
        self.device = device;
        self
    }

    /// How urgent it is among those that are active.
    pub fn priority(mut self, priority: Priority) -> Builder<'t, 'env> {
        self.priority = priority;
        self
    }

    /// It begins when that one has ended.
    pub fn wait_for<T>(mut self, handle: &Handle<'env, T>) -> Builder<'t, 'env> {
        self.after.push(handle.of_any());
        self
    }

    /// Its inputs are these tasks' outputs, and it begins when they have ended.
    pub fn with<I: Inputs<'env>>(mut self, inputs: I) -> WithInputs<'t, 'env, I> {
        inputs.tasks(&mut self.after);
        WithInputs { builder: self, inputs }
    }

    /// Makes the task, which cannot fail but by panicking.
    pub fn spawn<T: Send + 'env>(
        self,
        what: impl FnOnce(&Tasks<'env>) -> T + Send + 'env,
    ) -> Handle<'env, T> {
        self.make(move |tasks| Ok(what(tasks)))
    }

    /// Makes a task that may fail.
    pub fn try_spawn<T: Send + 'env, E: Into<Box<dyn Error + Send + Sync>>>(
        self,
        what: impl FnOnce(&Tasks<'env>) -> Result<T, E> + Send + 'env,
    ) -> Handle<'env, T> {
        self.make(move |tasks| what(tasks).map_err(Cause::failed))
    }

    fn make<T: Send + 'env>(
        self,
        what: impl FnOnce(&Tasks<'env>) -> Result<T, Cause> + Send + 'env,
    ) -> Handle<'env, T> {
        let tasks = self.tasks;
        if self.waits {
            tasks.wait_for_room();
        }
        let core = Core::new(self.name, self.device, self.priority);
        let handle = Handle { task: Arc::new(Function::new(core, what)) };
        let task = handle.of_any();
        tasks.count_made();
        self.after.iter().for_each(|before| before.core().then(&task));
        tasks.release(task);
        handle
    }
}

/// A task that is being described, with its inputs.
#[must_use = "nothing happens until it is spawned"]
pub struct WithInputs<'t, 'env, I> {
    builder: Builder<'t, 'env>,
    inputs: I,
}

impl<'env, I: Inputs<'env> + Send + 'env> WithInputs<'_, 'env, I> {
    /// Makes the task, which cannot fail but by panicking.
    pub fn spawn<T: Send + 'env>(
        self,
        what: impl FnOnce(I::Given, &Tasks<'env>) -> T + Send + 'env,
    ) -> Handle<'env, T> {
        let inputs = self.inputs;
        self.builder.spawn(move |tasks| what(inputs.take(), tasks))
    }

    /// Makes a task that may fail.
    pub fn try_spawn<T: Send + 'env, E: Into<Box<dyn Error + Send + Sync>>>(
        self,
        what: impl FnOnce(I::Given, &Tasks<'env>) -> Result<T, E> + Send + 'env,
    ) -> Handle<'env, T> {
        let inputs = self.inputs;
        self.builder.try_spawn(move |tasks| what(inputs.take(), tasks))
    }
}
