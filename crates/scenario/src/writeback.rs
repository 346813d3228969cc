//! Write-back of dirty pages: in the background above a threshold, in any case at a maximum age, and with throttling of
//! programs above a limit.
//!
//! Linux writes a batch at a time (`MAX_WRITEBACK_PAGES`), oldest first; so does this model. Contiguous pages
//! are written together.

use std::collections::VecDeque;

use sakiyomi_model::Nanos;

use crate::cache::FileId;
use crate::spec::MemorySpec;

/// State of write-back.
#[derive(Clone, Debug)]
pub(crate) struct WriteBack {
    background: u64,
    limit: u64,
    expire: Nanos,
    period: Nanos,
    batch: u64,
    /// Dirty pages in the order in which they became dirty.
    dirty: VecDeque<Dirty>,
    /// Number of pages being written to the device.
    writing: u64,
    /// Number of pages left in the current batch.
    left: u64,
    /// Pages dirty since this time or earlier must be written.
    old_until: Option<Nanos>,
    next_look: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Dirty {
    since: Nanos,
    file: FileId,
    page: u64,
}

impl WriteBack {
    pub(crate) fn new(spec: &MemorySpec) -> WriteBack {
        let pages = spec.size.0 / spec.page.0;
        let share = |ratio: f64| (pages as f64 * ratio) as u64;
        WriteBack {
            background: share(spec.dirty_background),
            // A program must be able to dirty some pages.
            limit: share(spec.dirty).max(8),
            expire: spec.dirty_expire,
            period: spec.dirty_period,
            batch: (spec.write_batch.0 / spec.page.0).max(1),
            dirty: VecDeque::new(),
            writing: 0,
            left: 0,
            old_until: None,
            next_look: spec.dirty_period,
        }
    }

    /// Records that a clean page has become dirty.
    pub(crate) fn dirtied(&mut self, now: Nanos, file: FileId, page: u64) {
        self.dirty.push_back(Dirty { since: now, file, page });
    }

    /// Records that pages have been written.
    pub(crate) fn written(&mut self, pages: u64) {
        self.writing -= pages;
    }

    /// Returns whether programs that write are throttled.
    pub(crate) fn is_full(&self) -> bool {
        self.dirty.len() as u64 + self.writing >= self.limit
    }

    /// Returns the time of the next search for old pages.
    pub(crate) fn next_event(&self) -> Nanos {
        self.next_look
    }

    /// Searches for old pages, if it is due.
    pub(crate) fn poll(&mut self, now: Nanos) {
        if now >= self.next_look {
            self.next_look = now + self.period;
            self.old_until = now.0.checked_sub(self.expire.0).map(Nanos);
        }
    }

    /// Returns contiguous pages to be written now: file, first page, number.
    pub(crate) fn next(&mut self, pages_max: u64) -> Option<(FileId, u64, u64)> {
        let first = *self.dirty.front()?;
        let is_old = self.old_until.is_some_and(|until| first.since <= until);
        if self.left == 0 && !is_old {
            let many = self.dirty.len() as u64;
            if many < self.background + self.batch.min(self.background / 2 + 1) && !self.is_full() {
                return None;
            }
            self.left = self.batch;
        }
        let mut pages = 0;
        while pages < pages_max.max(1)
            && let Some(next) = self.dirty.front()
            && next.file == first.file
            && next.page == first.page + pages
        {
            self.dirty.pop_front();
            pages += 1;
        }
        self.writing += pages;
        self.left = self.left.saturating_sub(pages);
        Some((first.file, first.page, pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_model::Bytes;

    fn write_back() -> WriteBack {
        WriteBack::new(&MemorySpec {
            size: Bytes(4096 * 1000),
            write_batch: Bytes(4096 * 50),
            ..MemorySpec::default()
        })
    }

    #[test]
    fn a_batch_goes_once_there_are_many_and_a_writer_waits_at_the_limit() {
        let mut write_back = write_back();
        (0..149).for_each(|page| write_back.dirtied(Nanos::ZERO, FileId(0), page));
        assert_eq!(write_back.next(32), None);
        write_back.dirtied(Nanos::ZERO, FileId(0), 149);
        assert_eq!(write_back.next(32), Some((FileId(0), 0, 32)));
        assert_eq!(write_back.next(32), Some((FileId(0), 32, 32)), "the batch is not over yet");
        assert_eq!(write_back.next(32), None);
        (150..400).for_each(|page| write_back.dirtied(Nanos::ZERO, FileId(0), page));
        assert!(write_back.is_full());
        write_back.written(64);
        assert!(!write_back.is_full());
    }

    #[test]
    fn what_is_old_goes() {
        let mut write_back = write_back();
        write_back.dirtied(Nanos::SECOND, FileId(0), 7);
        write_back.dirtied(Nanos::SECOND * 20, FileId(0), 8);
        write_back.poll(Nanos::SECOND * 30);
        assert_eq!(write_back.next(32), None);
        write_back.poll(Nanos::SECOND * 35);
        assert_eq!(write_back.next(1), Some((FileId(0), 7, 1)));
        assert_eq!(write_back.next(1), None);
    }
}
