//! How many blocks may be read, worked on, or waiting for their turn to be written.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Permits, a fixed number of them.
#[derive(Debug)]
pub(super) struct Window {
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

/// Given back when it is dropped; if that is because of a panic, what would come next never does, so that nobody is to
/// wait for it.
#[derive(Debug)]
pub(super) struct Permit(Arc<Shared>);

impl Window {
    pub(super) fn new(most: usize) -> Window {
        Window { shared: Arc::new(Shared { most, state: Mutex::default(), room: Condvar::new() }) }
    }

    /// Waits for a permit; none if there will be no more.
    pub(super) fn permit(&self) -> Option<Permit> {
        let mut state = self.shared.lock();
        while state.lent >= self.shared.most && !state.closed {
            state.waiting = true;
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting = false;
        if state.closed {
            return None;
        }
        state.lent += 1;
        Some(Permit(Arc::clone(&self.shared)))
    }

    /// Waits until all permits but one are back, for who has that one; says whether there are still any to be had.
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

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.lent -= 1;
        state.closed |= std::thread::panicking();
        // Who waits is woken for several at once: to be woken costs as much as reading a block that is in memory.
        let enough = state.lent <= self.0.most - self.0.most.div_ceil(4);
        if state.closed || state.waiting && enough {
            drop(state);
            self.0.room.notify_all();
        }
    }
}
