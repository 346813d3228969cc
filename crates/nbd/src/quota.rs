//! The memory of a connection: a bound on the data of requests that have not been answered, and on their number.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Unanswered requests of a connection; the next one is received when one has been answered.
const REQUESTS_MAX: usize = 1024;

/// Bounds of a connection, and how much of them is in use.
#[derive(Debug)]
pub(crate) struct Quota {
    bytes_max: usize,
    used: Mutex<Used>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    requests: usize,
}

/// A share of a [`Quota`], returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    quota: Arc<Quota>,
    bytes: usize,
}

impl Quota {
    pub(crate) fn new(bytes_max: usize) -> Arc<Quota> {
        Arc::new(Quota { bytes_max, used: Mutex::default(), released: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        // No operation under this lock can panic half-way.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room for a request with `bytes` of data, which must not exceed the quota.
    pub(crate) fn acquire(self: &Arc<Quota>, bytes: usize) -> Permit {
        debug_assert!(bytes <= self.bytes_max, "a request that never has room");
        let is_full = |used: &mut Used| used.bytes + bytes > self.bytes_max || used.requests >= REQUESTS_MAX;
        let mut used = self.released.wait_while(self.lock(), is_full).unwrap_or_else(PoisonError::into_inner);
        used.bytes += bytes;
        used.requests += 1;
        Permit { quota: Arc::clone(self), bytes }
    }

    /// Waits until all permits have been returned.
    pub(crate) fn wait_until_unused(&self) {
        let is_used = |used: &mut Used| used.requests > 0;
        drop(self.released.wait_while(self.lock(), is_used).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut used = self.quota.lock();
        used.bytes -= self.bytes;
        used.requests -= 1;
        drop(used);
        self.quota.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use sakiyomi_testing::wait_until;

    use super::*;

    #[test]
    fn a_request_without_room_waits_for_another_to_be_answered() {
        let quota = Quota::new(100);
        let first = quota.acquire(60);
        let other = Arc::clone(&quota);
        let waiting = thread::spawn(move || other.acquire(50).bytes);
        let small = quota.acquire(40);
        assert!(!waiting.is_finished());
        drop((first, small));
        assert_eq!(waiting.join().unwrap(), 50);
        quota.wait_until_unused();
    }

    #[test]
    fn requests_without_data_are_bounded_too() {
        let quota = Quota::new(0);
        let mut permits: Vec<_> = (0..REQUESTS_MAX).map(|_| quota.acquire(0)).collect();
        let other = Arc::clone(&quota);
        let waiting = thread::spawn(move || drop(other.acquire(0)));
        permits.pop();
        wait_until("the next one gets room", || waiting.is_finished());
    }
}
