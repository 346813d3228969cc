//! Items produced on several threads and returned in order.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::Error;

/// Produces the item of an index.
pub(super) type Make<T> = Arc<dyn Fn(usize) -> Result<T, Error> + Send + Sync>;

/// The items with indices below `count`, produced at most a window ahead of the next one to return.
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
    /// Starts threads that produce `count` items, with at most `window` in memory at the same time.
    pub(super) fn start(threads: usize, window: usize, count: usize, make: &Make<T>) -> Ordered<T> {
        let state = State { next: 0, given: 0, made: BTreeMap::new(), has_stopped: false };
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
        if place == self.count {
            return None;
        }
        loop {
            if let Some(item) = state.made.remove(&place) {
                state.given = if item.is_ok() { place + 1 } else { self.count };
                drop(state);
                self.shared.changed.notify_all();
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
        while !state.has_stopped && state.next < count && state.next >= state.given + window {
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
