//! Locks and atomics: the standard library's, or those of loom, which explores every order in which threads can meet
//! (the files `model.rs`).

#[cfg(all(test, loom))]
pub(crate) use loom::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread_local,
};
use std::sync::{Arc, PoisonError};
#[cfg(not(all(test, loom)))]
pub(crate) use std::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread_local,
};

/// Locks data that is consistent even if a thread panics under the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns data to which the caller has the only reference, as [`lock`] does.
pub(crate) fn alone<T>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
}

/// A value that is made when it is first wanted, and then shared.
#[cfg(not(all(test, loom)))]
pub(crate) struct OnceArc<T>(std::sync::OnceLock<Arc<T>>);

#[cfg(not(all(test, loom)))]
impl<T> OnceArc<T> {
    pub(crate) fn new() -> OnceArc<T> {
        OnceArc(std::sync::OnceLock::new())
    }

    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> Arc<T> {
        Arc::clone(self.0.get_or_init(|| Arc::new(make())))
    }
}

/// Loom has no cell that is written once.
#[cfg(all(test, loom))]
pub(crate) struct OnceArc<T>(Mutex<Option<Arc<T>>>);

#[cfg(all(test, loom))]
impl<T> OnceArc<T> {
    pub(crate) fn new() -> OnceArc<T> {
        OnceArc(Mutex::new(None))
    }

    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> Arc<T> {
        Arc::clone(lock(&self.0).get_or_insert_with(|| Arc::new(make())))
    }
}

#[cfg(all(test, loom))]
pub(crate) mod model {
    /// Checks `what` in every interleaving with at most `stops_max` preemptions.
    pub(crate) fn check(stops_max: usize, what: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(stops_max);
        builder.max_branches = 10_000;
        builder.check(what);
    }
}
