//! Parking of workers, and waking them only when they are parked.
//!
//! A wake-up costs the waker 8–11 µs of CPU time, a look at a flag a nanosecond. The order is that of Dekker: a
//! worker stores `parked`, passes a fence, and looks once more at all its rings and its mailbox; a thread that has
//! pushed something passes a fence and then looks at `parked`. One of the two sees what the other has stored.

use std::time::Duration;

use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, fence, lock, wait_for};

/// Wakes one worker. It has cache lines of its own (two, which x86 fetches together): its flags are read after each
/// item that is sent.
#[repr(align(128))]
pub(crate) struct Waker {
    /// Written by the worker only.
    parked: AtomicBool,
    mail: AtomicBool,
    /// A wake-up that the worker has not seen yet.
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Waker {
    pub(crate) fn new() -> Waker {
        Waker {
            parked: AtomicBool::new(false),
            mail: AtomicBool::new(false),
            woken: Mutex::new(false),
            changed: Condvar::new(),
        }
    }

    /// Wakes the worker if it is parked or about to park. The caller has passed a fence after its last store.
    pub(crate) fn wake(&self) {
        if self.parked.load(Ordering::Relaxed) {
            let was_woken = std::mem::replace(&mut *lock(&self.woken), true);
            if !was_woken {
                self.changed.notify_one();
            }
        }
    }

    /// Notes whether there is mail. To be called under the lock of the mailbox.
    pub(crate) fn set_mail(&self, has_mail: bool) {
        self.mail.store(has_mail, Ordering::Relaxed);
    }

    /// Whether there is mail.
    pub(crate) fn has_mail(&self) -> bool {
        self.mail.load(Ordering::Relaxed)
    }

    /// Announces that the worker is about to park. It has to look at its rings once more before it does.
    pub(crate) fn announce(&self) {
        self.parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Parks until the worker is woken, which may have been since its announcement, at most for a time. May return
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

    /// Whether a wake-up waits for the worker to see it.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_woken(&self) -> bool {
        *lock(&self.woken)
    }

    /// Takes the announcement back.
    pub(crate) fn retract(&self) {
        self.parked.store(false, Ordering::Relaxed);
    }
}
