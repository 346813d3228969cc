//! Whether the kernel keeps a file's data in the page cache at all: pure.
//!
//! Some files are never cached, such as those that a FUSE server opens for direct I/O. Reading them ahead would read
//! everything twice. But data that is gone right after it was read proves nothing by itself: another program may have
//! dropped the caches, the file system may have invalidated the file, or memory may be short for a moment. All of these can
//! hit everything that is in flight at that moment, and no more. Therefore only losses in a row count.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Losses in a row after which a file that was cached before counts as not cached: more than one event can cause, which
/// hits the requests in flight.
const LOSSES_MAX: u32 = 32;

/// Residency of a file's data after its reads.
#[derive(Debug)]
pub(crate) struct Retention {
    /// Losses in a row after which a file of which nothing was ever kept counts as not cached.
    first_losses_max: u32,
    losses: AtomicU32,
    has_kept: AtomicBool,
}

impl Retention {
    pub(crate) const fn new(first_losses_max: u32) -> Retention {
        Retention { first_losses_max, losses: AtomicU32::new(0), has_kept: AtomicBool::new(false) }
    }

    /// Records whether any of a range was found in the page cache after its read; returns whether the kernel caches the file,
    /// as far as known.
    pub(crate) fn observe(&self, is_kept: bool) -> bool {
        if is_kept {
            self.has_kept.store(true, Relaxed);
            self.losses.store(0, Relaxed);
            return true;
        }
        let losses = self.losses.fetch_add(1, Relaxed).saturating_add(1);
        losses < if self.has_kept.load(Relaxed) { LOSSES_MAX } else { self.first_losses_max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_event_can_cause_proves_nothing() {
        let retention = Retention::new(2);
        assert!(retention.observe(true));
        for _ in 0..100 {
            for _ in 1..LOSSES_MAX {
                assert!(retention.observe(false));
            }
            assert!(retention.observe(true), "the next one is kept");
        }
    }

    #[test]
    fn a_file_that_is_never_kept_is_known_soon_and_one_that_is_no_longer_kept_later() {
        let retention = Retention::new(2);
        assert!(retention.observe(false) && !retention.observe(false) && !retention.observe(false));
        let retention = Retention::new(2);
        assert!(retention.observe(true));
        let cached = (0..100).take_while(|_| retention.observe(false)).count();
        assert_eq!(cached as u32, LOSSES_MAX - 1);
    }
}
