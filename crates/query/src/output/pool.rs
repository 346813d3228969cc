//! Objects that threads take and give back, with the memory that they hold reserved in the job.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use crate::job::Reservation;
use crate::{Error, Job};

/// An object whose memory is reserved in the job.
pub(crate) trait Reusable: Default {
    /// Bytes of memory that it holds.
    fn memory(&self) -> usize;
}

/// Free objects; clones are handles of the same.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    job: Job,
    /// Named in errors: `encoding a row group`.
    purpose: &'static str,
    free: Arc<Mutex<Vec<(T, Reservation)>>>,
}

impl<T> Clone for Pool<T> {
    fn clone(&self) -> Pool<T> {
        Pool { job: self.job.clone(), purpose: self.purpose, free: Arc::clone(&self.free) }
    }
}

impl<T: Reusable> Pool<T> {
    pub(crate) fn new(job: &Job, purpose: &'static str) -> Pool<T> {
        Pool { job: job.clone(), purpose, free: Arc::default() }
    }

    /// A free object, or a new one.
    ///
    /// # Errors
    /// If the job's memory is overdrawn.
    pub(crate) fn take(&self) -> Result<Lease<T>, Error> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let lent = match free {
            Some(free) => free,
            None => (T::default(), self.job.reserve(0, self.purpose)?),
        };
        Ok(Lease { lent: Some(lent), pool: self.clone() })
    }
}

/// An object that is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Lease<T: Reusable> {
    lent: Option<(T, Reservation)>,
    pool: Pool<T>,
}

impl<T: Reusable> Lease<T> {
    /// Reserves what the object holds by now.
    ///
    /// # Errors
    /// [`Error::Memory`] if the job's limit does not leave that much; the object is then an empty one again.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        let (item, reservation) = self.lent.as_mut().expect("lent until it is dropped");
        let outcome = reservation.resize(item.memory(), self.pool.purpose);
        outcome.inspect_err(|_| *item = T::default())
    }
}

impl<T: Reusable> Deref for Lease<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.lent.as_ref().expect("lent until it is dropped").0
    }
}

impl<T: Reusable> DerefMut for Lease<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.lent.as_mut().expect("lent until it is dropped").0
    }
}

impl<T: Reusable> Drop for Lease<T> {
    fn drop(&mut self) {
        if let Some(lent) = self.lent.take() {
            self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(lent);
        }
    }
}
