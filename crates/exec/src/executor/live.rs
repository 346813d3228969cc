//! The number of live tasks, counted per thread, and the caller that sleeps until it falls.

use crate::sync::{AtomicUsize, Ordering, fence};

/// Value of `awaited` while no thread waits: it is never exceeded.
const NOTHING_AWAITED: usize = usize::MAX;
/// The number of the caller's thread.
const CALLER_THREAD: usize = 0;

pub(super) struct Live {
    /// One entry per thread of the run; the last one for all other threads.
    counts: Box<[Counts]>,
    /// The caller sleeps until at most this many tasks are live.
    awaited: AtomicUsize,
}

/// Tasks that a thread has made and ended, on cache lines of its own.
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

    #[inline]
    pub(super) fn count_made(&self, thread: Option<usize>) {
        if let Some(thread) = thread {
            // This thread is the only writer of its counts.
            let count = &self.counts[thread].made;
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Release);
        } else {
            self.of_others().made.fetch_add(1, Ordering::Release);
        }
    }

    /// Counts the end of a task; returns whether the caller must be woken.
    #[inline]
    pub(super) fn count_ended(&self, thread: Option<usize>) -> bool {
        if thread == Some(CALLER_THREAD) {
            // It does not sleep, and will count.
            let ended = &self.counts[CALLER_THREAD].ended;
            ended.store(ended.load(Ordering::Relaxed) + 1, Ordering::Release);
            return false;
        }
        let counts = thread.map_or_else(|| self.of_others(), |thread| &self.counts[thread]);
        // Sequentially consistent: either the caller, after its own fence, sees the new count, or this thread sees the
        // awaited number. One such addition takes less time than a store and a fence.
        counts.ended.fetch_add(1, Ordering::SeqCst);
        // Loom knows the consistency of fences only.
        #[cfg(all(test, loom))]
        fence(Ordering::SeqCst);
        let awaited = self.awaited.load(Ordering::SeqCst);
        awaited != NOTHING_AWAITED && self.number() <= awaited
    }

    /// Returns the counts of all threads outside the run.
    fn of_others(&self) -> &Counts {
        &self.counts[self.counts.len() - 1]
    }

    /// Returns an upper bound of the number of live tasks: ended ones are counted first, and each was made before.
    pub(super) fn number(&self) -> usize {
        let ended: usize = self.counts.iter().map(|counts| counts.ended.load(Ordering::Acquire)).sum();
        let made: usize = self.counts.iter().map(|counts| counts.made.load(Ordering::Acquire)).sum();
        made - ended
    }

    /// During `work`, every thread that ends a task checks whether at most `most` are live.
    pub(super) fn awaiting<R>(&self, most: usize, work: impl FnOnce() -> R) -> R {
        self.awaited.store(most, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let result = work();
        self.awaited.store(NOTHING_AWAITED, Ordering::Relaxed);
        result
    }
}
