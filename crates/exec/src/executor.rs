//! Tasks: functions with inputs, outputs and dependencies, run by the threads of an executor.
//!
//! ```
//! use sakiyomi_exec::executor::{Lane, Threads};
//! let text = String::from("so happy");
//! let words = Threads::new(2).run(|tasks| {
//!     // On the I/O thread; it borrows what lives outside.
//!     let read = tasks.task("read").on(Lane::Io(0)).spawn(|_| text.as_bytes());
//!     let count = tasks.task("count").with(read).spawn(|text, _| text.split(|&byte| byte == b' ').count());
//!     tasks.wait(count)
//! });
//! assert_eq!(words.unwrap().unwrap(), 2);
//! ```
//!
//! | to | use |
//! |---|---|
//! | pass outputs of tasks to another one | [`Builder::with`]; [`Handle::share`] for several consumers |
//! | order tasks without passing data | [`Builder::wait_for`] |
//! | choose threads and priority | [`Builder::on`], [`Builder::priority`] |
//! | return errors | [`Builder::try_spawn`] |
//! | make a task for each of many items, few at a time | [`Tasks::each`]: task blocks |
//! | receive results in the caller | [`Caller::wait`] |
//! | cancel | [`Tasks::cancel`] |
//! | run a single graph of tasks | [`Threads::run`] |
//! | run many on persistent threads | [`Threads::scope`], [`Threads::start`]; [`Executor::run`] |
//! | run a graph that continues between calls | [`Executor::start`] |
//!
//! - A task depends on handles, that is, on existing tasks: cycles are impossible.
//! - If a task fails or panics, its dependents end without being run; their failure names the first one. The run
//!   returns it, unless [`Caller::wait`] did. A panic in a destructor counts as a panic of the task.
//! - The number of live tasks is bounded for the caller, which runs tasks while it waits for room. A task that makes
//!   tasks never waits, so that no deadlock is possible; [`Tasks::each`] limits the tasks that it makes to a number of
//!   its own: these are the task blocks of the paper (section 3.1).
//! - Runs on one executor are independent: each has its own queues, failure and cancellation. Threads serve concurrent
//!   runs in turn. A waiting caller runs only tasks of its own run.
//! - All tasks of a run have ended when it returns.
//!
//! # What tasks may borrow
//! Tasks of an `Executor<'env>` may borrow values that live for `'env`, which outlives its threads:
//!
//! - With [`Threads::scope`] and [`Threads::run`], all values that the caller had before the call: the threads end
//!   within it. Thus a command reads files with functions that borrow its options.
//! - With [`Threads::start`], `'static` values, so tasks own or share (`Arc`) their data. Thus an operator, a library's
//!   handle or an iterator keeps its threads for its lifetime; this is why blocks of `io` are `'static`.
//!
//! Shorter borrows on persistent threads would require erasing lifetimes, which only `unsafe` can do (as rayon's
//! `scope` does). A scope around the work costs one start of its threads, and no proof of soundness.

mod builder;
mod edges;
mod failure;
mod handle;
mod live;
#[cfg(all(test, loom))]
mod model;
mod place;
mod pool;
mod room;
mod run;
mod series;
mod tasks;
#[cfg(all(test, not(loom)))]
mod tests;
mod threads;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

pub use builder::{Builder, WithInputs};
pub use failure::{Cause, Failure, Name};
pub use handle::{Handle, Inputs, SharedHandle};
pub use run::{Caller, Run};
pub use tasks::{Lane, Tasks};
pub use threads::Threads;

use pool::Pool;

pub use crate::queues::Priority;

/// Persistent threads for any number of consecutive and concurrent runs. They end when it is dropped.
pub struct Executor<'env> {
    pool: Arc<Pool<Tasks<'env>>>,
    live_max: usize,
    /// Threads to join, unless a scope does.
    threads: Vec<JoinHandle<()>>,
}

impl<'env> Executor<'env> {
    /// Runs `main` on this thread, and waits until all tasks that it made have ended.
    ///
    /// While `main` waits, for a task or for room, this thread runs tasks of this run; it must not hold a lock that
    /// they take. May be called from any thread, including one of the executor's: a task may have a run of its own.
    ///
    /// ```
    /// use sakiyomi_exec::executor::{Executor, Failure, Threads};
    /// let executor = Threads::new(2).start()?;
    /// let square = |n: u64| executor.run(move |tasks| tasks.wait(tasks.task("square").spawn(move |_| n * n)));
    /// assert_eq!((square(3)??, square(4)??), (9, 16));
    /// # Ok::<(), Failure>(())
    /// ```
    ///
    /// # Errors
    /// The first failure of a task, unless [`Caller::wait`] returned it to `main`.
    pub fn run<R>(&self, main: impl FnOnce(&Caller<'env>) -> R) -> Result<R, Failure> {
        let run = Executor::start(self);
        let place = run.enter(0);
        let result = catch_unwind(AssertUnwindSafe(|| main(&run)));
        if result.is_err() {
            run.cancel();
        }
        let end = run.finish();
        drop(place);
        result.map_or_else(|panic| resume_unwind(panic), |result| end.map(|()| result))
    }

    /// Starts a run that lasts until it is finished or dropped. It holds the executor: `executor` is a reference or an
    /// `Arc`.
    pub fn start<E: std::ops::Deref<Target = Executor<'env>>>(executor: E) -> Run<'env, E> {
        let (pool, live_max) = (Arc::clone(&executor.pool), executor.live_max);
        Run::new(executor, &pool, live_max)
    }

    /// Returns the number of compute threads, including the caller of a run.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.computing()
    }
}

impl Drop for Executor<'_> {
    fn drop(&mut self) {
        self.pool.close();
        for thread in self.threads.drain(..) {
            // A thread that panicked has already reported it.
            let _ = thread.join();
        }
    }
}
