//! Tasks made of items, each of which makes the next one when it ends: the task blocks of the paper (section 3.1).

use std::error::Error;
use std::sync::Arc;

use super::failure::{Cause, Name};
use super::handle::{Awaited as _, Handle};
use super::tasks::{Core, Lane, Run, Task, Tasks};
use crate::queues::Priority;
use crate::sync::{Mutex, alone, lock};

impl<'env> Tasks<'env> {
    /// Makes a task for each item, at most `at_a_time` of which are live; each one that ends makes the next. The
    /// returned task ends when all have ended, and fails with the first failure, after which no more are made.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use sakiyomi_exec::executor::{Failure, Threads};
    /// let sum = AtomicU64::new(0);
    /// Threads::new(2).run(|tasks| {
    ///     // A million tasks, no more than eight of which are there at the same time.
    ///     let all = tasks.each("add", 8, 0..1_000_000, |item, _| {
    ///         sum.fetch_add(item, Ordering::Relaxed);
    ///         Ok::<(), Failure>(())
    ///     });
    ///     tasks.wait(all)
    /// })??;
    /// assert_eq!(sum.into_inner(), 499_999_500_000);
    /// # Ok::<(), Failure>(())
    /// ```
    ///
    /// # Panics
    /// If `at_a_time` is 0.
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
        assert!(at_a_time > 0, "no task may be live at a time");
        let name = name.into();
        // Ends when all tasks of the series have ended, and this function has released its hold.
        let end =
            Handle::new(self.core(name.clone(), Lane::Compute, Priority::High, 0), |_: &Tasks<'env>| Ok(()));
        self.count_made();
        let made = Made { tasks: self, end: end.of_any() };
        let series = Arc::new(Series { items: Mutex::new(items.into_iter()), what, end: end.of_any() });
        for _ in 0..at_a_time {
            let Some(item) = series.next(self) else { break };
            made.one(OneOfSeries {
                core: self.core(name.clone(), Lane::Compute, Priority::Normal, 0),
                turn: Mutex::new(Some((item, Arc::clone(&series)))),
            });
        }
        end
    }
}

/// The end of a series under construction; it may start when this is dropped, even if the items panic.
struct Made<'t, 'env> {
    tasks: &'t Tasks<'env>,
    end: Task<'env>,
}

impl<'env> Made<'_, 'env> {
    fn one(&self, one: impl Run<'env> + 'env) {
        let one: Task<'env> = Arc::new(one);
        self.tasks.count_made();
        self.end.core().edges.wait_for_one_more();
        one.core().edges.then(&self.end);
        self.tasks.release(one, 1);
    }
}

impl Drop for Made<'_, '_> {
    fn drop(&mut self) {
        self.tasks.release(Arc::clone(&self.end), 1);
    }
}

/// Items of consecutive tasks.
struct Series<'env, T, F> {
    items: Mutex<T>,
    what: F,
    end: Task<'env>,
}

impl<'env, I, T: Iterator<Item = I>, F> Series<'env, T, F> {
    /// Returns the next item, unless the series has failed or was cancelled.
    fn next(&self, tasks: &Tasks<'env>) -> Option<I> {
        if self.end.core().edges.is_broken() || tasks.is_cancelled() {
            return None;
        }
        // An iterator that has panicked poisons the lock, and is not called again.
        self.items.lock().ok()?.next()
    }
}

/// A task of a series. Several are live at the same time; each is run again with the next item, so that items need no
/// allocation.
struct OneOfSeries<'env, I, T, F> {
    core: Core<'env>,
    /// The next item.
    turn: Mutex<Turn<'env, I, T, F>>,
}

type Turn<'env, I, T, F> = Option<(I, Arc<Series<'env, T, F>>)>;

impl<'env, I, T, F, E> Run<'env> for OneOfSeries<'env, I, T, F>
where
    I: Send + 'env,
    T: Iterator<Item = I> + Send + 'env,
    F: Fn(I, &Tasks<'env>) -> Result<(), E> + Send + Sync + 'env,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    fn core(&self) -> &Core<'env> {
        &self.core
    }

    fn run(&self, tasks: &Tasks<'env>) -> Result<bool, Cause> {
        // The lock is uncontended: only one thread at a time runs the task.
        one(&mut lock(&self.turn), tasks)
    }

    fn run_alone(&mut self, tasks: &Tasks<'env>) -> Result<bool, Cause> {
        one(alone(&mut self.turn), tasks)
    }

    fn core_alone(&mut self) -> &mut Core<'env> {
        &mut self.core
    }

    fn discard(&self) {
        let turn = lock(&self.turn).take();
        drop(turn);
    }
}

/// Runs a task of a series with the next item; returns whether there is another one.
fn one<'env, I, T, F, E>(turn: &mut Turn<'env, I, T, F>, tasks: &Tasks<'env>) -> Result<bool, Cause>
where
    T: Iterator<Item = I>,
    F: Fn(I, &Tasks<'env>) -> Result<(), E>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let (item, series) = turn.take().expect("an item for each time");
    (series.what)(item, tasks).map_err(Cause::failed)?;
    *turn = series.next(tasks).map(|item| (item, series));
    Ok(turn.is_some())
}
