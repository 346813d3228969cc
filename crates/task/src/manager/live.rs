//! How many tasks are live, counted by each thread for itself, and who sleeps until there are fewer.

use crate::sync::{AtomicUsize, Ordering};

const NOTHING_AWAITED: usize = usize::MAX;

pub(super) struct Live {
    /// Of each thread, and of those that are none of the run's.
    counts: Box<[Counts]>,
    /// The caller sleeps until no more than so many are live.
    awaited: AtomicUsize,
}

/// Tasks that a thread has made and ended, in cache lines of its own.
#[repr(align(128))]
struct Counts {
    made: AtomicUsize,
    ended: AtomicUsize,
}

impl Live {
    pub(super) fn new(threads: usize) -> Live {
        let counts = |_| Counts { made: AtomicUsize::new(0), ended: AtomicUsize::new(0) };
        Live { counts: (0..=threads).map(counts).collect(), awaited: AtomicUsize::new(NOTHING_AWAITED) }
    }

    /// By this thread of the run, or one that is none.
    fn counts(&self, thread: Option<usize>) -> &Counts {
        &self.counts[thread.unwrap_or(self.counts.len() - 1)]
    }

    pub(super) fn count_made(&self, thread: Option<usize>) {
        self.counts(thread).made.fetch_add(1, Ordering::Relaxed);
    }

    /// Says whether the caller is to be woken.
    pub(super) fn count_ended(&self, thread: Option<usize>) -> bool {
        self.counts(thread).ended.fetch_add(1, Ordering::SeqCst);
        // One order of all: either the caller sees that there are fewer, or this thread sees what it waits for.
        let awaited = self.awaited.load(Ordering::SeqCst);
        awaited != NOTHING_AWAITED && self.number() <= awaited
    }

    /// How many there are, or more: those that have ended are counted first, and each was made before.
    pub(super) fn number(&self) -> usize {
        let ended: usize = self.counts.iter().map(|counts| counts.ended.load(Ordering::SeqCst)).sum();
        let made: usize = self.counts.iter().map(|counts| counts.made.load(Ordering::SeqCst)).sum();
        made - ended
    }

    /// While `work` sleeps, who ends a task looks whether no more than `most` are live.
    pub(super) fn awaiting<R>(&self, most: usize, work: impl FnOnce() -> R) -> R {
        self.awaited.store(most, Ordering::SeqCst);
        let result = work();
        self.awaited.store(NOTHING_AWAITED, Ordering::SeqCst);
        result
    }
}
