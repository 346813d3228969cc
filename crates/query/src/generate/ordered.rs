//! Items that are made on several threads and given out in order.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::Error;

/// Makes the item of a place.
pub(super) type Make<T> = Arc<dyn Fn(usize) -> Result<T, Error> + Send + Sync>;

/// The items of places 0 to a count, made at most a window ahead of the one that is given out next.
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
    /// The next place to make.
    next: usize,
    /// The next place to give out.
    given: usize,
    made: BTreeMap<usize, Result<T, Error>>,
    /// Whether no further item is made.
    has_stopped: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Each change of the state is a single step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the consumer if a thread ends by a panic.
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
    /// Starts to make `count` items on some threads, at most `window` of which exist at the same time.
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

    /// The next item; none after the last, or after an error.
    ///
    /// # Panics
    /// If a thread panicked that makes items.
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
            // Its panic was reported to the consumer, or nobody asks for its items any more.
            let _ = thread.join();
        }
    }
}
