//! Items produced on several threads and returned in order.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::Error;

/// Produces the item of an index.
pub(super) type Make<T> = Arc<dyn Fn(usize) -> Result<T, Error> + Send + Sync>;

/// The items with indices below `count`. A window of them at most is in memory, with the one that was returned last until
/// the next one is asked for.
pub(super) struct Ordered<T> {
    shared: Arc<Shared<T>>,
    count: usize,
    threads: Vec<JoinHandle<()>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// Index of the next item to produce.
    next: usize,
    /// Index of the next item to return.
    given: usize,
    /// Number of items that the consumer is done with.
    released: usize,
    made: BTreeMap<usize, Result<T, Error>>,
    /// Whether production has stopped.
    has_stopped: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Each critical section leaves the state consistent, so a poisoned lock is usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the consumer if a worker thread panics.
struct StopOnPanic<'a, T>(&'a Shared<T>);

impl<T> Drop for StopOnPanic<'_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().has_stopped = true;
            self.0.changed.notify_all();
        }
    }
}

impl<T: Send + 'static> Ordered<T> {
    /// Starts threads that produce `count` items, with at most `window` being made or in memory at the same time.
    pub(super) fn start(threads: usize, window: usize, count: usize, make: &Make<T>) -> Ordered<T> {
        let state = State { next: 0, given: 0, released: 0, made: BTreeMap::new(), has_stopped: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let start = |_| {
            let (shared, make) = (Arc::clone(&shared), Arc::clone(make));
            thread::spawn(move || work(&shared, window.max(1), count, &make))
        };
        let threads = (0..threads.clamp(1, count.max(1))).map(start).collect();
        Ordered { shared, count, threads }
    }

    /// Returns the next item, or `None` after the last item or an error.
    ///
    /// # Panics
    /// If a worker thread panicked.
    pub(super) fn next(&mut self) -> Option<Result<T, Error>> {
        let mut state = self.shared.lock();
        let place = state.given;
        if state.released < place {
            state.released = place;
            self.shared.changed.notify_all();
        }
        if place == self.count {
            return None;
        }
        loop {
            if let Some(item) = state.made.remove(&place) {
                state.given = if item.is_ok() { place + 1 } else { self.count };
                return Some(item);
            }
            assert!(!state.has_stopped, "a thread that generates rows panicked");
            state = self.shared.wait(state);
        }
    }
}

fn work<T>(shared: &Shared<T>, window: usize, count: usize, make: &Make<T>) {
    let _guard = StopOnPanic(shared);
    loop {
        let mut state = shared.lock();
        while !state.has_stopped && state.next < count && state.next >= state.released + window {
            state = shared.wait(state);
        }
        if state.has_stopped || state.next >= count {
            return;
        }
        let place = state.next;
        state.next += 1;
        drop(state);
        let item = make(place);
        let mut state = shared.lock();
        if item.is_err() {
            state.next = count;
        }
        state.made.insert(place, item);
        drop(state);
        shared.changed.notify_all();
    }
}

impl<T> Drop for Ordered<T> {
    fn drop(&mut self) {
        self.shared.lock().has_stopped = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was already reported to the consumer, or its items are no longer needed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// An item that is counted while it exists.
    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn no_more_items_than_the_window_exist() {
        for (threads, window) in [(1, 1), (3, 1), (2, 2), (2, 5)] {
            let (alive, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (counter, peak) = (Arc::clone(&alive), Arc::clone(&most));
            let make: Make<Counted> = Arc::new(move |_| {
                peak.fetch_max(counter.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                Ok(Counted(Arc::clone(&counter)))
            });
            let mut items = Ordered::start(threads, window, 200, &make);
            let mut count = 0;
            while let Some(item) = items.next() {
                count += 1;
                drop(item.unwrap());
            }
            assert_eq!(count, 200);
            assert!((1..=window).contains(&most.load(Ordering::SeqCst)), "{most:?} of {window}");
        }
    }
}
