//! Tasks: functions with inputs, outputs and dependencies, run by threads that compute and a thread for I/O.
//!
//! ```
//! use sakiyomi_exec::manager::{Device, Manager};
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
//! | to | use |
//! |---|---|
//! | give a task what others put out | [`Builder::with`]; [`Handle::share`] for several takers |
//! | order tasks without passing anything | [`Builder::wait_for`] |
//! | say which thread, how urgent | [`Builder::on`], [`Builder::priority`] |
//! | return errors | [`Builder::try_spawn`] |
//! | make as many tasks as there are items, few at a time | [`Tasks::each`]: task blocks |
//! | get results in the caller | [`Caller::wait`] |
//! | give up | [`Tasks::cancel`] |
//!
//! - A task depends on handles, so on tasks that are there already: no circle can be written.
//! - A task that fails or panics ends those that depend on it, without running them; the failure names the first one. It
//!   is what [`Manager::run`] returns, unless [`Caller::wait`] did. To panic while something is dropped is to panic.
//! - The number of live tasks is bounded for the caller, who works while it waits for room. A task that makes tasks
//!   never waits, so that nothing can lock up; [`Tasks::each`] keeps what it makes within a number of its own, which
//!   are the task blocks of the paper (section 3.1).
//! - All tasks have ended when [`Manager::run`] returns. They may borrow what the caller had before it.

mod builder;
mod caller;
mod edges;
mod failure;
mod handle;
mod live;
#[cfg(all(test, loom))]
mod model;
mod place;
mod room;
mod series;
mod tasks;
#[cfg(all(test, not(loom)))]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

pub use builder::{Builder, WithInputs};
pub use caller::Caller;
pub use failure::{Cause, Failure, Name};
pub use handle::{Handle, Inputs, SharedHandle};
pub use tasks::{Device, Tasks};

pub use crate::queues::Priority;

/// How tasks are run.
#[derive(Clone, Debug)]
pub struct Manager {
    threads: usize,
    live_max: usize,
}

/// More than the kernel gives a process, unless it is told to.
const THREADS_MAX: usize = i16::MAX as usize;
/// Tasks that are live at the same time, unless said otherwise: few enough to stay in a core's cache.
const LIVE_MAX: usize = 1 << 10;

impl Manager {
    /// With `threads` that compute, at least one and no more than 32,767; the caller is one of them while it waits. The I/O
    /// thread comes on top.
    #[must_use]
    pub fn new(threads: usize) -> Manager {
        Manager { threads: threads.clamp(1, THREADS_MAX), live_max: LIVE_MAX }
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
        let tasks = Tasks::new(self.threads);
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
            let place = tasks.enter(0);
            let result = catch_unwind(AssertUnwindSafe(|| main(&Caller::new(&tasks, self.live_max))));
            if result.is_err() {
                tasks.cancel();
            }
            tasks.work_until_live(0);
            drop(place);
            drop(closing);
            let failure = tasks.take_failure();
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
