//! Parking of workers, and waking them only when they are parked.
//!
//! A wake-up costs the waker 8–11 µs of CPU time, a look at a flag a nanosecond. The order is that of Dekker: a
//! worker stores how it rests, passes a fence, and looks once more at all its rings, its input from outside and its
//! mailbox; a thread that has pushed something passes a fence and then looks at the flag. One of the two sees what the
//! other has stored.
//!
//! A worker that naps leaves input from outside alone until its time is over: only other workers wake it
//! (`wait_budget.rs`). It ends by itself, so that no input is left for longer than that.

use std::time::Duration;

use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, fence, lock, wait_for};

/// How a worker rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum WaitState {
    /// It does not.
    Awake,
    /// Until it is woken.
    Parked,
    /// For a time, or until another worker wakes it.
    Napping,
}

/// Wakes one worker. It has cache lines of its own (two, which x86 fetches together): its flags are read after each
/// item that is sent.
#[repr(align(128))]
pub(crate) struct Waker {
    /// A [`WaitState`]; written by the worker only.
    rest: AtomicUsize,
    mail: AtomicBool,
    /// A wake-up that the worker has not seen yet.
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Waker {
    pub(crate) fn new() -> Waker {
        Waker {
            rest: AtomicUsize::new(WaitState::Awake as usize),
            mail: AtomicBool::new(false),
            woken: Mutex::new(false),
            changed: Condvar::new(),
        }
    }

    /// Wakes the worker if it rests or is about to. The caller has passed a fence after its last store.
    pub(crate) fn wake(&self) {
        if self.rest.load(Ordering::Relaxed) != WaitState::Awake as usize {
            self.rouse();
        }
    }

    /// Like [`Waker::wake`] for input from outside, for which a worker that naps is not woken.
    pub(crate) fn wake_for_input(&self) {
        if self.rest.load(Ordering::Relaxed) == WaitState::Parked as usize {
            self.rouse();
        }
    }

    fn rouse(&self) {
        let was_woken = std::mem::replace(&mut *lock(&self.woken), true);
        if !was_woken {
            self.changed.notify_one();
        }
    }

    /// Notes whether there is mail. To be called under the lock of the mailbox.
    pub(crate) fn set_mail(&self, has_mail: bool) {
        self.mail.store(has_mail, Ordering::Relaxed);
    }

    /// Returns whether there is mail.
    pub(crate) fn has_mail(&self) -> bool {
        self.mail.load(Ordering::Relaxed)
    }

    /// Announces that the worker is about to rest. It has to look at its rings and its input once more before it does.
    pub(crate) fn announce(&self, rest: WaitState) {
        self.rest.store(rest as usize, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Rests until the worker is woken, which may have been since its announcement, at most for a time. May return
    /// earlier.
    pub(crate) fn park(&self, time: Option<Duration>) {
        if self.has_mail() {
            return;
        }
        let mut woken = lock(&self.woken);
        if !*woken {
            woken = wait_for(&self.changed, woken, time);
        }
        *woken = false;
    }

    /// Returns whether a wake-up waits for the worker to see it.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_woken(&self) -> bool {
        *lock(&self.woken)
    }

    /// Takes the announcement back.
    pub(crate) fn retract(&self) {
        self.rest.store(WaitState::Awake as usize, Ordering::Relaxed);
    }
}
