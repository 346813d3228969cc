//! A counting semaphore: bounds the blocks that are loaded, processed, or waiting for their turn to be written.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A fixed number of permits.
#[derive(Debug)]
pub(super) struct Semaphore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    most: usize,
    state: Mutex<State>,
    room: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lent: usize,
    waiting: bool,
    closed: bool,
}

/// One or several permits, released when the last clone is dropped.
#[derive(Clone, Debug)]
pub(super) struct Permit {
    _lent: Arc<Lent>,
}

/// Dropped during a panic, it closes the semaphore, because results that others would wait for never arrive.
#[derive(Debug)]
struct Lent {
    shared: Arc<Shared>,
    count: usize,
}

impl Semaphore {
    pub(super) fn new(most: usize) -> Semaphore {
        Semaphore { shared: Arc::new(Shared { most, state: Mutex::default(), room: Condvar::new() }) }
    }

    /// Waits for a permit; `None` if the semaphore is closed.
    pub(super) fn permit(&self) -> Option<Permit> {
        self.permits(1)
    }

    /// Waits for `count` permits at once, or for all if there are fewer; `None` if the semaphore is closed.
    pub(super) fn permits(&self, count: usize) -> Option<Permit> {
        let count = count.clamp(1, self.shared.most);
        let mut state = self.shared.lock();
        while state.lent + count > self.shared.most && !state.closed {
            state.waiting = true;
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting = false;
        if state.closed {
            return None;
        }
        state.lent += count;
        Some(Permit { _lent: Arc::new(Lent { shared: Arc::clone(&self.shared), count }) })
    }

    /// Returns whether fewer than half of the permits are in use, so that compute threads may starve.
    pub(super) fn is_low(&self) -> bool {
        2 * self.shared.lock().lent < self.shared.most
    }

    /// Waits until the caller's permit is the only one in use; returns whether the semaphore is still open.
    pub(super) fn wait_for_others(&self) -> bool {
        let mut state = self.shared.lock();
        while state.lent > 1 && !state.closed {
            state.waiting = true;
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting = false;
        !state.closed
    }

    pub(super) fn most(&self) -> usize {
        self.shared.most
    }

    pub(super) fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.room.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.shared.lock().closed
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Lent { shared, count } = self;
        let mut state = shared.lock();
        state.lent -= *count;
        state.closed |= std::thread::panicking();
        // A waiter is woken for several permits at once: a wake-up costs as much as reading a resident block.
        let enough = state.lent <= shared.most - shared.most.div_ceil(4);
        if state.closed || state.waiting && enough {
            drop(state);
            shared.room.notify_all();
        }
    }
}
