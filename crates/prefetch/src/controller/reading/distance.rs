//! Keeps the distance: chooses what to request next, and checks whether requested data is still cached.

use super::{ALIGNMENT_BYTES, FETCHES_MAX, RESIDENCY_CHECK_BYTES, Reading, ReadingRequest, Start};
use crate::controller::Limit;
use crate::controller::pace::FETCH_MAX_BYTES;

impl Reading {
    /// Fetches the next bytes before it is known whether more pays.
    pub(super) fn start_at_once(&mut self, bytes: u64, wish: &mut impl FnMut(ReadingRequest)) {
        self.waits_for_first = false;
        if matches!(self.limit, Limit::Auto { .. }) {
            self.start = Start::Unproven;
            let end = self.size.min(self.main + bytes - bytes % ALIGNMENT_BYTES);
            while self.prefetch < end {
                self.fetch_to(end.min(self.prefetch + ALIGNMENT_BYTES), wish);
            }
        }
    }

    /// Implements figure 2 of the paper: a step at a time, unless the distance exceeds the limit.
    pub(super) fn keep_fixed(
        &mut self,
        limit: u64,
        step: u64,
        spare: u64,
        wish: &mut impl FnMut(ReadingRequest),
    ) {
        let end = self.size.min(self.prefetch + step.min(spare));
        if self.calls == 0 && self.distance() <= limit && self.prefetch < end {
            self.fetch_to(end, wish);
        }
    }

    /// Refills the distance as soon as a piece of it has been consumed, so that the device never idles: one that is
    /// hardly faster than the program cannot catch up after pauses. Longer runs at a time would not be better, because
    /// a drive that reorders its queue may serve the beginning of a run last.
    pub(super) fn fill(&mut self, share: u64, spare: u64, wish: &mut impl FnMut(ReadingRequest)) {
        let limit = self.pace.limit().min(share);
        let target = self.size.min(self.main + limit);
        let piece = FETCH_MAX_BYTES.min(limit / 4).max(ALIGNMENT_BYTES);
        let mut spare = spare;
        while self.calls < FETCHES_MAX {
            let mut end = target.min(self.prefetch + piece.min(spare));
            if end < self.size {
                end -= end % ALIGNMENT_BYTES;
            }
            if end <= self.prefetch || end < self.size && end - self.prefetch < piece.min(spare) / 2 {
                self.look_back(wish);
                break;
            }
            spare -= end - self.prefetch;
            self.fetch_to(end, wish);
        }
    }

    /// Fetches all that a long read requests: the program needs it whatever it does next, and the kernel requests it one
    /// window after the other. The position moves only when the read returns.
    pub(super) fn fetch_long_read(&mut self, share: u64, spare: u64, wish: &mut impl FnMut(ReadingRequest)) {
        let allowed = share.min(self.distance().saturating_add(spare));
        let target = self.requested_to.min(self.size).min(self.main.saturating_add(allowed));
        while self.calls < FETCHES_MAX && self.prefetch < target {
            self.fetch_to(target.min(self.prefetch + FETCH_MAX_BYTES), wish);
        }
    }

    fn fetch_to(&mut self, end: u64, wish: &mut impl FnMut(ReadingRequest)) {
        self.calls += 1;
        wish(ReadingRequest::Fetch(self.prefetch..end));
        self.prefetch = end;
        self.looked_to = self.main;
    }

    /// Checks whether requested data has arrived, and is still cached.
    fn look_back(&mut self, wish: &mut impl FnMut(ReadingRequest)) {
        /// Distance from which a check for evicted pages is worth its system call.
        const CHECKED_MIN_BYTES: u64 = 4 << 20;
        // Once after each run of fetches, when all calls have returned.
        if self.looking || self.calls > 0 || self.looked_to > self.main || self.distance() < CHECKED_MIN_BYTES
        {
            return;
        }
        self.looking = true;
        self.looked_to = self.prefetch;
        wish(ReadingRequest::Look(self.main..self.prefetch.min(self.main + RESIDENCY_CHECK_BYTES)));
    }
}
