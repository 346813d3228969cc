//! Progress of a job: counters that its threads update and a display thread reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Progress counters of a job.
#[derive(Debug, Default)]
pub struct Progress {
    step: Mutex<&'static str>,
    done: AtomicU64,
    total: AtomicU64,
}

/// A job's progress at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Name of the current step, such as `reading` or `writing`; empty before the first.
    pub step: &'static str,
    /// Rows processed so far, counted once per step.
    pub done_rows: u64,
    /// Rows processed when the job ends, as far as is known so far; 0 if unknown.
    pub total_rows: u64,
}

impl Progress {
    /// Sets the total rows of all steps.
    pub fn expect(&self, rows: u64) {
        self.total.store(rows, Ordering::Relaxed);
    }

    /// Sets the rows that are still to be processed, once they are known.
    pub fn expect_more(&self, rows: u64) {
        self.expect(self.done.load(Ordering::Relaxed).saturating_add(rows));
    }

    /// Ends all steps: the total is what was processed.
    pub fn finish(&self) {
        if self.total.load(Ordering::Relaxed) > 0 {
            self.expect_more(0);
        }
    }

    /// Begins a step.
    pub fn begin(&self, step: &'static str) {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
    }

    /// Adds processed rows of the current step.
    pub fn add_rows(&self, rows: usize) {
        self.done.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Returns the current progress.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let (done_rows, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        Snapshot {
            step: *self.step.lock().unwrap_or_else(PoisonError::into_inner),
            done_rows,
            // Rows of a result whose number was unknown are beyond what was expected.
            total_rows: if total > 0 { total.max(done_rows) } else { 0 },
        }
    }
}
