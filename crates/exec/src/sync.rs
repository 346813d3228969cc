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
use std::sync::PoisonError;
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
