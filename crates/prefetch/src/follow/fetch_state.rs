//! Decides whether a file is fetched by its touched parts, and counts these fetches. Pure.

use std::time::Duration;

use sakiyomi_model::Nanos;

use super::nanos;
use crate::cached_file::FetchOutcome;

/// Consecutive bytes found in the page cache after which a file counts as resident.
const RESIDENT_BYTES: u64 = 8 << 20;

/// I/O wait below which there is nothing to hide.
pub(super) const WAIT_MIN_TIME: Nanos = Nanos(2_000_000);

/// Fetches of a file by its touched parts.
#[derive(Debug)]
pub(super) struct FetchState {
    /// Bytes fetched that were not in memory.
    pub(super) prefetched_bytes: u64,
    /// The shortest duration of a fetch.
    pub(super) latency: Option<Nanos>,
    pub(super) is_refused: bool,
    /// Consecutive bytes found in the page cache.
    resident: u64,
    /// I/O wait of the program at which fetching begins.
    helps_from: Nanos,
}

impl FetchState {
    /// The state for a program that has waited for `io_wait` so far.
    pub(super) fn new(io_wait: Nanos) -> FetchState {
        let helps_from = io_wait + WAIT_MIN_TIME;
        FetchState { prefetched_bytes: 0, latency: None, is_refused: false, resident: 0, helps_from }
    }

    /// Returns whether to fetch. A resident file is not fetched until the program waits again.
    pub(super) fn may_fetch(&mut self, io_wait: Nanos) -> bool {
        if self.resident >= RESIDENT_BYTES {
            (self.resident, self.helps_from) = (0, io_wait + WAIT_MIN_TIME);
        }
        !self.is_refused && io_wait >= self.helps_from
    }

    /// Records a fetch of `length` bytes.
    pub(super) fn fetched(&mut self, length: u64, outcome: FetchOutcome, took: Duration) {
        self.is_refused |= !outcome.done;
        if outcome.bytes == 0 {
            self.resident += length;
            return;
        }
        self.prefetched_bytes += outcome.bytes;
        self.resident = 0;
        let took = nanos(took);
        self.latency = Some(self.latency.map_or(took, |least| least.min(took)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Nanos = Nanos(1_000_000);

    #[test]
    fn a_resident_file_is_left_alone_until_the_program_waits_again() {
        let mut state = FetchState::new(MILLISECOND);
        assert!(!state.may_fetch(MILLISECOND * 2) && state.may_fetch(MILLISECOND * 3));
        let took = Duration::from_millis(5);
        state.fetched(1 << 20, FetchOutcome { bytes: 1 << 20, done: true }, took);
        for _ in 0..8 {
            assert!(state.may_fetch(MILLISECOND * 3));
            state.fetched(1 << 20, FetchOutcome { bytes: 0, done: true }, took / 100);
        }
        assert!(!state.may_fetch(MILLISECOND * 4) && state.may_fetch(MILLISECOND * 6));
        assert_eq!((state.prefetched_bytes, state.latency), (1 << 20, Some(MILLISECOND * 5)));
        state.fetched(1 << 20, FetchOutcome { bytes: 0, done: false }, took);
        assert!(!state.may_fetch(MILLISECOND * 100));
    }
}
