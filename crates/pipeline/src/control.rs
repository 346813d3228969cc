//! State that the threads of a running pipeline share: whether to stop, the first failure, and whether outputs are behind.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use sakiyomi_stream::Wakeup;

use crate::Error;

/// Shared by all threads of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct Control {
    stopped: AtomicBool,
    halted: AtomicBool,
    failure: Mutex<Option<Error>>,
    /// Outputs that hold as much as they may; sources pause until there are none.
    full_outputs: AtomicUsize,
    /// Wake the sources that are parked until their inputs have something.
    wakeups: Mutex<Vec<Wakeup>>,
    /// Threads that have something to remove at their end.
    listeners: Mutex<Vec<JoinHandle<()>>>,
}

impl Control {
    /// Ends the sources.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.lock_wakeups().iter().for_each(Wakeup::notify);
    }

    /// Takes the handle that wakes a source, for its end.
    pub(crate) fn wake_at_stop(&self, wakeup: Wakeup) {
        self.lock_wakeups().push(wakeup);
    }

    fn lock_wakeups(&self) -> std::sync::MutexGuard<'_, Vec<Wakeup>> {
        self.wakeups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the sources are to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Holds the sources where they are, for a last snapshot.
    pub(crate) fn halt(&self) {
        self.halted.store(true, Ordering::Relaxed);
    }

    /// Returns whether the sources are to emit nothing more, and not to end either.
    pub(crate) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Relaxed)
    }

    /// Ends the sources because of an error; the first one counts.
    pub(crate) fn fail(&self, error: Error) {
        self.lock().get_or_insert(error);
        self.stop();
    }

    /// Returns whether there was an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.lock().is_some()
    }

    /// Returns the first error, once.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.lock().take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Error>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a thread that ends soon after [`Control::stop`], and has something to remove then.
    pub(crate) fn wait_for(&self, thread: JoinHandle<()>) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    }

    /// Ends the sources, and waits for the threads of [`Control::wait_for`].
    pub(crate) fn stop_and_join(&self) {
        self.stop();
        let listeners = std::mem::take(&mut *self.listeners.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in listeners {
            // A panic was printed; the source has said that its input is lost.
            let _ = thread.join();
        }
    }

    /// Records whether an output is full.
    pub(crate) fn set_full(&self, is_full: bool) {
        if is_full {
            self.full_outputs.fetch_add(1, Ordering::Relaxed);
        } else {
            self.full_outputs.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns whether sources are to pause.
    pub(crate) fn is_paused(&self) -> bool {
        self.full_outputs.load(Ordering::Relaxed) > 0
    }
}
