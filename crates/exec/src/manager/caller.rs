//! The run as its caller sees it, who may wait.

use std::ops::Deref;

use super::builder::Builder;
use super::edges::{Few, Linked};
use super::failure::{Failure, Name};
use super::handle::Inputs;
use super::room::Room;
use super::tasks::{Task, Tasks};

/// The run as its caller sees it, who may wait, and whose tasks are bounded. All that [`Tasks`] has, it has too.
pub struct Caller<'t, 'env> {
    tasks: &'t Tasks<'env>,
    room: Room,
}

impl<'env> Deref for Caller<'_, 'env> {
    type Target = Tasks<'env>;

    fn deref(&self) -> &Tasks<'env> {
        self.tasks
    }
}

impl<'t, 'env> Caller<'t, 'env> {
    pub(super) fn new(tasks: &'t Tasks<'env>, live_max: usize) -> Caller<'t, 'env> {
        Caller { tasks, room: Room::new(live_max) }
    }

    /// A task to be made. If too many are live, spawning it runs others first.
    pub fn task(&self, name: impl Into<Name>) -> Builder<'_, 'env> {
        Builder::new(self.tasks, Some(&self.room), name.into())
    }

    /// Runs tasks until these have ended, and gives their outputs. A failure is then no longer the run's.
    ///
    /// # Errors
    /// The failure of the first of them that failed, or of the task before it that did.
    ///
    /// ```
    /// use sakiyomi_exec::manager::Manager;
    /// let sum = Manager::new(2).run(|tasks| {
    ///     let squares: Vec<_> = (1..=3).map(|n| tasks.task("square").spawn(move |_| n * n)).collect();
    ///     let number = tasks.task("parse").try_spawn(|_| "seven".parse::<i32>());
    ///     let failure = tasks.wait(number).unwrap_err();
    ///     assert_eq!(failure.to_string(), "the task `parse` failed");
    ///     tasks.wait(squares).map(|squares| squares.iter().sum::<i32>())
    /// });
    /// assert_eq!(sum??, 14);
    /// # Ok::<(), sakiyomi_exec::manager::Failure>(())
    /// ```
    pub fn wait<I: Inputs<'env>>(&self, inputs: I) -> Result<I::Given, Failure> {
        let mut before = Few::new();
        inputs.tasks(&mut before);
        before.iter().try_for_each(|task| self.wait_for_end(task))?;
        Ok(inputs.take())
    }

    fn wait_for_end(&self, task: &Task<'env>) -> Result<(), Failure> {
        let edges = task.edges();
        edges.watch();
        if !edges.has_ended() {
            self.tasks.work_until(0, || edges.has_ended());
        }
        let Some(failure) = edges.failure() else { return Ok(()) };
        self.tasks.forgive(&failure);
        Err(failure)
    }
}
