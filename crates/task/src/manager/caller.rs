//! The run as its caller sees it, who may wait.

use std::ops::Deref;

use super::builder::Builder;
use super::failure::{Failure, Name};
use super::handle::Handle;
use super::room::Room;
use super::tasks::Tasks;

/// The run as its caller sees it, who may wait.
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

    /// Runs tasks until this one has ended, and gives what came of it. It is then no longer the run's failure.
    ///
    /// # Errors
    /// If it failed, or one that it depends on.
    pub fn wait<T>(&self, handle: Handle<'env, T>) -> Result<T, Failure> {
        let edges = &handle.core().edges;
        edges.watch();
        if !edges.has_ended() {
            self.tasks.work_until(0, || edges.has_ended());
        }
        match edges.failure() {
            None => Ok(handle.take()),
            Some(failure) => {
                self.tasks.forgive(&failure);
                Err(failure)
            }
        }
    }
}
