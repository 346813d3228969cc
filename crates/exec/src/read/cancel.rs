//! Cancellation and progress of a blocked read.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Cancels blocked reads from any thread. Clones cancel the same reads.
///
/// ```
/// use sakiyomi_exec::read::{Cancel, Error, blocked_read};
/// # let scratch = sakiyomi_testing::ScratchFile::new(b"text");
/// # let path = scratch.path();
/// let cancel = Cancel::new();
/// let read = blocked_read(path).cancelled_by(&cancel).map(<[u8]>::len);
/// cancel.cancel();
/// assert!(matches!(read.reduce(0, |first, next| first + next), Err(Error::Cancelled)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Makes one that has not been used.
    #[must_use]
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Cancels the reads: no further block is processed. They return [`Error::Cancelled`](super::Error::Cancelled) when
    /// the calls in progress have returned; a read that waits for a pipe or a terminal, when that gives or ends.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether it was used. A function that takes long may ask, and return early.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How far a read has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes processed, of all files.
    pub done_bytes: u64,
    /// Bytes to process, by the sizes that the files have when the read begins; `None` if one is not a regular file,
    /// or compressed. Less may be read in the end, if some cannot be read or are left out.
    pub total_bytes: Option<u64>,
}

/// The caller's function for progress.
#[derive(Clone)]
pub(super) struct Observer(pub(super) Arc<dyn Fn(Progress) + Send + Sync>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// Counts the bytes that have been processed, and tells the observer.
pub(super) struct Tracker {
    observer: Observer,
    total_bytes: Option<u64>,
    done_bytes: Mutex<u64>,
}

impl Tracker {
    pub(super) fn new(observer: Observer, total_bytes: Option<u64>) -> Tracker {
        Tracker { observer, total_bytes, done_bytes: Mutex::default() }
    }

    pub(super) fn add(&self, bytes: u64) {
        // Held during the call, so that the figures of consecutive calls rise.
        let mut done = self.done_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *done += bytes;
        (self.observer.0)(Progress { done_bytes: *done, total_bytes: self.total_bytes });
    }
}
