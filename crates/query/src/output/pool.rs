//! Object pool for threads. The memory of its objects is reserved in the job.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use crate::job::Reservation;
use crate::{Error, Job};

/// An object whose memory is reserved in the job.
pub(crate) trait Reusable: Default {
    /// Returns the bytes of memory that the object holds.
    fn memory(&self) -> usize;
}

/// A pool of free objects; clones share it.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    job: Job,
    /// Purpose that errors name, such as `encoding a row group`.
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

    /// Drops the free objects, and their reservations.
    pub(crate) fn clear(&self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Takes a free object, or makes a new one.
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

/// An object that returns to the pool when dropped.
#[derive(Debug)]
pub(crate) struct Lease<T: Reusable> {
    lent: Option<(T, Reservation)>,
    pool: Pool<T>,
}

impl<T: Reusable> Lease<T> {
    /// Adjusts the reservation to the memory that the object holds.
    ///
    /// # Errors
    /// [`Error::Memory`] if the job's limit does not allow it; the object is then reset to its default.
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
        if let Some(mut lent) = self.lent.take() {
            let (item, reservation) = &mut lent;
            // After an error, the object may hold more than was reserved.
            if item.memory() > reservation.bytes() {
                *item = T::default();
            }
            self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(lent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobOptions;

    impl Reusable for Vec<u8> {
        fn memory(&self) -> usize {
            self.capacity()
        }
    }

    #[test]
    fn a_free_object_never_holds_more_than_was_reserved() {
        let job = Job::new(JobOptions { memory: 16 << 20, ..JobOptions::default() }).unwrap();
        let available = job.available();
        let pool: Pool<Vec<u8>> = Pool::new(&job, "a test");
        let mut settled = pool.take().unwrap();
        settled.reserve(1 << 20);
        settled.settle().unwrap();
        drop(settled);
        let mut failed = pool.take().unwrap();
        assert!(failed.memory() >= 1 << 20, "the object is reused");
        failed.reserve(2 << 20);
        drop(failed);
        let (free, reservation) = pool.free.lock().unwrap().pop().unwrap();
        assert!(free.memory() <= reservation.bytes());
        drop((free, reservation, pool));
        assert_eq!(job.available(), available);
    }
}
