//! Locks, atomic numbers and parking: the standard library's, or loom's under `cfg(loom)` (`model.rs`).

#[cfg(all(test, loom))]
pub(crate) use loom::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering, fence},
    },
    thread,
};
use std::sync::PoisonError;
use std::time::Duration;
#[cfg(not(all(test, loom)))]
pub(crate) use std::{
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering, fence},
    },
    thread,
};

/// Locks data that is consistent even if a thread panics under the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification; the lock is released meanwhile.
pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Like [`wait`], at most for a time.
pub(crate) fn wait_for<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    time: Option<Duration>,
) -> MutexGuard<'a, T> {
    #[cfg(not(all(test, loom)))]
    if let Some(time) = time {
        return condition.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0;
    }
    // Loom has no clock; no model has a source that waits for one.
    #[cfg(all(test, loom))]
    let _ = time;
    wait(condition, guard)
}
