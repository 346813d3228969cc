//! One value per thread, so that threads that update the same counters do not contend for cache lines: on a path of a
//! few microseconds that is most of what a mount adds to a read.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of values: more than the threads that serve requests. Further threads share values.
const VALUE_SLOTS: usize = 8;

/// Values made on a thread's first access.
#[derive(Debug)]
pub struct PerThread<T> {
    values: [CacheAligned<T>; VALUE_SLOTS],
}

/// A value on cache lines of its own; processors prefetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct CacheAligned<T>(Mutex<Option<T>>);

impl<T> CacheAligned<T> {
    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        // The value holds counts and references, which are consistent after each step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for PerThread<T> {
    fn default() -> PerThread<T> {
        PerThread { values: std::array::from_fn(|_| CacheAligned(Mutex::new(None))) }
    }
}

impl<T: Default> PerThread<T> {
    /// Runs `work` on this thread's value.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(self.values[place()].lock().get_or_insert_default())
    }

    /// Runs `work` on each existing value.
    pub fn each(&self, mut work: impl FnMut(&mut T)) {
        for value in &self.values {
            if let Some(value) = value.lock().as_mut() {
                work(value);
            }
        }
    }
}

/// Returns the index of this thread's value.
fn place() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static PLACE: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % VALUE_SLOTS);
    }
    PLACE.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_threads_count_is_all_there() {
        let counts = PerThread::<u64>::default();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..100).for_each(|_| counts.with(|count| *count += 1)));
            }
        });
        let mut sum = 0;
        counts.each(|count| sum += *count);
        assert_eq!(sum, 2000);
    }
}
