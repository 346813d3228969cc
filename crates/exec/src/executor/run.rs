//! The run as its caller uses it; and as a value that lasts until it is finished or dropped.

use std::ops::Deref;
use std::sync::Arc;

use super::builder::Builder;
use super::failure::{Failure, Name};
use super::handle::Inputs;
use super::pool::Pool;
use super::room::Room;
use super::tasks::{Core, Tasks};

/// A run for its caller, which may wait, and whose number of live tasks is bounded. Has all methods of [`Tasks`].
pub struct Caller<'env> {
    tasks: Arc<Tasks<'env>>,
    room: Room,
}

impl<'env> Deref for Caller<'env> {
    type Target = Tasks<'env>;

    fn deref(&self) -> &Tasks<'env> {
        &self.tasks
    }
}

impl<'env> Caller<'env> {
    pub(super) fn new(tasks: Arc<Tasks<'env>>, live_max: usize) -> Caller<'env> {
        Caller { tasks, room: Room::new(live_max) }
    }

    /// Starts the description of a task. If too many tasks are live, spawning it runs others first.
    #[inline]
    pub fn task(&self, name: impl Into<Name>) -> Builder<'_, 'env> {
        Builder::new(&self.tasks, Some(&self.room), name.into())
    }

    /// Runs tasks until these have ended, and returns their outputs. The run no longer reports a failure returned here.
    ///
    /// # Errors
    /// The failure of the first of them that failed, or of a task on which it depended.
    ///
    /// ```
    /// use sakiyomi_exec::executor::Threads;
    /// let sum = Threads::new(2).run(|tasks| {
    ///     let squares: Vec<_> = (1..=3).map(|n| tasks.task("square").spawn(move |_| n * n)).collect();
    ///     let number = tasks.task("parse").try_spawn(|_| "seven".parse::<i32>());
    ///     let failure = tasks.wait(number).unwrap_err();
    ///     assert_eq!(failure.to_string(), "the task `parse` failed");
    ///     tasks.wait(squares).map(|squares| squares.iter().sum::<i32>())
    /// });
    /// assert_eq!(sum??, 14);
    /// # Ok::<(), sakiyomi_exec::executor::Failure>(())
    /// ```
    pub fn wait<I: Inputs<'env>>(&self, inputs: I) -> Result<I::Given, Failure> {
        let mut ended = Ok(());
        inputs.each(&mut |task| {
            if ended.is_ok() {
                ended = self.wait_for_end(task.core());
            }
        });
        ended.map(|()| inputs.take())
    }

    fn wait_for_end(&self, core: &Core<'env>) -> Result<(), Failure> {
        let edges = &core.edges;
        edges.watch();
        if !edges.has_ended() {
            self.tasks.work_until(|| edges.has_ended());
        }
        let Some(failure) = edges.failure() else { return Ok(()) };
        self.tasks.forgive(&failure);
        Err(failure)
    }
}

/// A run that continues between calls of its owner, such as an operator that returns one batch after another. It ends
/// when it is finished; dropping it cancels it and waits for the tasks that have started.
///
/// `E` keeps the executor alive: a reference, or an `Arc` for a run that is moved with its owner.
///
/// ```
/// use std::sync::Arc;
/// use sakiyomi_exec::executor::{Executor, Failure, Handle, Run, Threads};
///
/// struct Squares {
///     run: Run<'static, Arc<Executor<'static>>>,
///     next: Handle<'static, u64>,
///     number: u64,
/// }
///
/// impl Squares {
///     /// The next one is computed while the caller works on this one.
///     fn next(&mut self) -> Result<u64, Failure> {
///         self.number += 1;
///         let number = self.number;
///         let next = self.run.task("square").spawn(move |_| number * number);
///         self.run.wait(std::mem::replace(&mut self.next, next))
///     }
/// }
///
/// let executor = Arc::new(Threads::new(2).start()?);
/// let run = Executor::start(Arc::clone(&executor));
/// let next = run.task("square").spawn(|_| 0);
/// let mut squares = Squares { run, next, number: 0 };
/// assert_eq!([squares.next()?, squares.next()?, squares.next()?], [0, 1, 4]);
/// # Ok::<(), Failure>(())
/// ```
#[must_use = "a run that is dropped is cancelled"]
pub struct Run<'env, E> {
    caller: Caller<'env>,
    /// Keeps the threads alive.
    _executor: E,
}

impl<'env, E> Run<'env, E> {
    pub(super) fn new(executor: E, pool: &Arc<Pool<Tasks<'env>>>, live_max: usize) -> Run<'env, E> {
        let tasks = Arc::new(Tasks::new(Arc::clone(pool)));
        pool.add(Arc::clone(&tasks));
        Run { caller: Caller::new(tasks, live_max), _executor: executor }
    }

    #[cfg(all(test, loom))]
    pub(super) fn tasks(&self) -> Arc<Tasks<'env>> {
        Arc::clone(&self.caller.tasks)
    }

    /// Waits until all tasks have ended.
    ///
    /// # Errors
    /// The first failure of a task, unless [`Caller::wait`] has returned it.
    pub fn finish(self) -> Result<(), Failure> {
        self.caller.tasks.work_until_live(0);
        self.caller.tasks.take_failure().map_or(Ok(()), Err)
    }
}

impl<'env, E> Deref for Run<'env, E> {
    type Target = Caller<'env>;

    fn deref(&self) -> &Caller<'env> {
        &self.caller
    }
}

impl<E> Drop for Run<'_, E> {
    fn drop(&mut self) {
        let tasks = &self.caller.tasks;
        if tasks.live() > 0 {
            tasks.cancel();
            tasks.work_until_live(0);
        }
        tasks.pool.remove(tasks);
    }
}
