//! Objects whose threads a forked process does not have.

use std::mem;
use std::process;

use pyo3::PyResult;

use crate::error::Error;

/// An object of one process. After `fork` the child has a copy of its memory, but none of its threads, and a lock may be
/// held by a thread that does not exist there. The child must not use it, and does not drop it either.
pub(crate) struct OfProcess<T> {
    /// Present until it is dropped.
    object: Option<T>,
    process: u32,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(object: T) -> OfProcess<T> {
        OfProcess { object: Some(object), process: process::id() }
    }

    /// Returns whether this is the process that made the object.
    pub(crate) fn is_own(&self) -> bool {
        self.process == process::id()
    }

    /// Returns the object in whatever process this is, for what needs neither its threads nor its locks.
    pub(crate) fn any_process(&self) -> &T {
        self.object.as_ref().expect("present until it is dropped")
    }

    /// As [`OfProcess::any_process`], to change it.
    pub(crate) fn any_process_mut(&mut self) -> &mut T {
        self.object.as_mut().expect("present until it is dropped")
    }

    /// Returns the object; `what` names it in the error.
    pub(crate) fn get(&self, what: &str) -> PyResult<&T> {
        if self.is_own() {
            return Ok(self.any_process());
        }
        Err(Error::new_err(format!(
            "{what} belongs to process {}, which made it, and has no threads in the forked process {}; make another one here",
            self.process,
            process::id()
        )))
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if !self.is_own() {
            mem::forget(self.object.take());
        }
    }
}
