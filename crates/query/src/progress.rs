//! How far a job has come, for whoever shows it: counters that threads add to, and that another thread reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How far a job has come.
#[derive(Debug, Default)]
pub struct Progress {
    step: Mutex<&'static str>,
    done: AtomicU64,
    total: AtomicU64,
    bytes: AtomicU64,
}

/// A look at a job's progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The current step, in words: `reading`, `writing`; empty before the first.
    pub step: &'static str,
    /// Rows that have been worked on, counted once in each step.
    pub done_rows: u64,
    /// The same at the end; 0 if it is not known.
    pub total_rows: u64,
    /// Bytes of output so far.
    pub output_bytes: u64,
}

impl Progress {
    /// Sets the rows of all steps together.
    pub fn expect(&self, rows: u64) {
        self.total.store(rows, Ordering::Relaxed);
    }

    /// Begins a step.
    pub fn begin(&self, step: &'static str) {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
    }

    /// Counts rows of the current step.
    pub fn add_rows(&self, rows: usize) {
        self.done.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Counts bytes of output.
    pub fn add_output(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How far the job has come now.
    #[must_use]
    pub fn look(&self) -> Snapshot {
        Snapshot {
            step: *self.step.lock().unwrap_or_else(PoisonError::into_inner),
            done_rows: self.done.load(Ordering::Relaxed),
            total_rows: self.total.load(Ordering::Relaxed),
            output_bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}
