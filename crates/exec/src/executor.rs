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
//! | give a task what others put out | [`Builder::with`]; [`Handle::share`] for several takers |
//! | order tasks without passing anything | [`Builder::wait_for`] |
//! | say which threads, how urgent | [`Builder::on`], [`Builder::priority`] |
//! | return errors | [`Builder::try_spawn`] |
//! | make as many tasks as there are items, few at a time | [`Tasks::each`]: task blocks |
//! | get results in the caller | [`Caller::wait`] |
//! | give up | [`Tasks::cancel`] |
//! | run one graph of tasks | [`Threads::run`] |
//! | run many on threads that stay | [`Threads::scope`], [`Threads::start`]; [`Executor::run`] |
//! | run a graph that goes on between two calls | [`Executor::start`] |
//!
//! - A task depends on handles, so on tasks that are there already: no circle can be written.
//! - A task that fails or panics ends those that depend on it, without running them; the failure names the first one.
//!   It is what the run returns, unless [`Caller::wait`] did. To panic while something is dropped is to panic.
//! - The number of live tasks is bounded for the caller, which runs tasks while it waits for room. A task that makes
//!   tasks never waits, so that nothing can lock up; [`Tasks::each`] keeps the tasks that it makes within a number of
//!   its own: they are the task blocks of the paper (section 3.1).
//! - Runs on one executor are independent: each has its queues, its failure and its cancellation. Its threads serve
//!   runs that are active at the same time by turns. A caller that waits runs tasks of its own run only.
//! - All tasks of a run have ended when it returns.
//!
//! # What tasks may borrow
//! Tasks of an `Executor<'env>` may borrow what lives for `'env`, which is longer than its threads do:
//!
//! - With [`Threads::scope`] and [`Threads::run`] that is every value of the caller from before: the threads end in
//!   there. So a command reads files with functions that borrow its options.
//! - With [`Threads::start`] it is `'static` values, so tasks own or share (`Arc`) their data. So an operator, a
//!   library's handle or an iterator keeps its threads for as long as it lives; blocks of `io` are `'static` for
//!   that.
//!
//! Tasks that borrow for less, on threads that stay, would need lifetimes to be erased, which only `unsafe` does (as
//! rayon's `scope` does). A scope around the work costs the start of its threads once, and no proof.

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

/// Threads that stay, for any number of runs one after the other and at the same time. They end when it is dropped.
pub struct Executor<'env> {
    pool: Arc<Pool<Tasks<'env>>>,
    live_max: usize,
    /// To be waited for, unless a scope does.
    threads: Vec<JoinHandle<()>>,
}

impl<'env> Executor<'env> {
    /// Runs `main` on this thread, and waits until all tasks that it made have ended.
    ///
    /// While `main` waits, for a task or for room, this thread runs tasks of this run: a lock that they take must not
    /// be held then. From any thread, also one of the executor's: a task may have a run of its own.
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
    /// The first failure of a task, unless `main` was given it by [`Caller::wait`].
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

    /// A run that goes on until it is finished or dropped. It holds the executor: `executor` is a reference or an
    /// `Arc`.
    pub fn start<E: std::ops::Deref<Target = Executor<'env>>>(executor: E) -> Run<'env, E> {
        let (pool, live_max) = (Arc::clone(&executor.pool), executor.live_max);
        Run::new(executor, &pool, live_max)
    }

    /// Number of compute threads, the caller of a run included.
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
