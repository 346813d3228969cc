//! Chooses whether resident bytes are mapped or copied: which is faster differs from machine to machine.
//!
//! Mapping copies nothing, but its pages are entered into and removed from page tables that all threads share (Crotty,
//! Leis & Pavlo 2022 on the cost with many cores). Copying costs memory bandwidth, and leaves a block in its core's
//! cache. So both are tried on the first pieces of a large file, and the faster one is kept.

use std::time::Duration;

/// The way in which a thread gets the bytes that it processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    Mmap,
    Copy,
}

/// Receives the CPU time of each piece, from its transfer to the end of its processing, and chooses the transfer of the
/// next one.
#[derive(Debug)]
pub(super) struct Tuner {
    settled: Option<Transfer>,
    map: Trials,
    copy: Trials,
}

/// Trials of each transfer. The shortest time counts, because every disturbance makes a trial longer.
const TRIALS_PER_TRANSFER: usize = 5;
/// Bytes of a trial: enough to take longer than making a mapping (with 1 MiB, copying appeared faster where it takes
/// 1.5 times as long). Both transfers get equally many bytes, so that both are disturbed equally often.
const TRIAL_BYTES: u64 = 2 << 20;
/// File size from which on trials are made: they cost at most a hundredth of that.
const TUNED_MIN_BYTES: u64 = 256 << 20;
/// Copying must take less than this fraction of the time of mapping: a smaller difference may be chance or the cost of
/// a trial's mapping.
const COPY_MAX_RATIO: f64 = 0.9;

/// Time per byte above which no trials are made: the transfers differ by some hundredths of a nanosecond, which is no
/// tenth of that.
const TUNED_MAX_NS_A_BYTE: f64 = 1.0;

#[derive(Debug, Default)]
struct Trials {
    begun: usize,
    ended: usize,
    /// Shortest time, in nanoseconds per byte.
    least: Option<f64>,
}

impl Trials {
    fn ended(&mut self, ns_a_byte: f64) {
        self.ended += 1;
        self.least = Some(self.least.map_or(ns_a_byte, |least| least.min(ns_a_byte)));
    }

    fn result(&self) -> Option<f64> {
        self.least.filter(|_| self.ended >= TRIALS_PER_TRANSFER)
    }
}

impl Tuner {
    /// Makes a tuner for `bytes` bytes: few bytes are mapped without trials.
    pub(super) fn of(bytes: u64) -> Tuner {
        let settled = (bytes < TUNED_MIN_BYTES).then_some(Transfer::Mmap);
        Tuner { settled, map: Trials::default(), copy: Trials::default() }
    }

    /// Makes a tuner that always chooses this transfer.
    pub(super) fn settled(transfer: Transfer) -> Tuner {
        Tuner { settled: Some(transfer), ..Tuner::of(0) }
    }

    /// Ends the trials with this transfer.
    pub(super) fn settle(&mut self, transfer: Transfer) {
        self.settled = Some(transfer);
    }

    /// Returns the transfer for a piece of `length` bytes, and the number of bytes for which it holds; to be called
    /// again for the rest.
    pub(super) fn next(&mut self, length: u64) -> (Transfer, u64) {
        if let Some(transfer) = self.settled {
            return (transfer, length);
        }
        if length < TRIAL_BYTES || self.copy.begun == TRIALS_PER_TRANSFER {
            return (Transfer::Mmap, length);
        }
        // Alternating, beginning with mapping.
        let transfer = if self.map.begun == self.copy.begun { Transfer::Mmap } else { Transfer::Copy };
        self.of_transfer(transfer).begun += 1;
        (transfer, TRIAL_BYTES)
    }

    /// Records the CPU `time` from the transfer of `bytes` bytes to the end of their processing.
    pub(super) fn took(&mut self, transfer: Transfer, bytes: u64, time: Duration) {
        if self.settled.is_some() || bytes != TRIAL_BYTES {
            return;
        }
        self.of_transfer(transfer).ended(time.as_nanos() as f64 / bytes as f64);
        if self.map.least.is_some_and(|least| least > TUNED_MAX_NS_A_BYTE) && self.copy.begun == 0 {
            self.settled = Some(Transfer::Mmap);
        }
        if let (Some(map), Some(copy)) = (self.map.result(), self.copy.result()) {
            self.settled = Some(if copy < COPY_MAX_RATIO * map { Transfer::Copy } else { Transfer::Mmap });
        }
    }

    fn of_transfer(&mut self, transfer: Transfer) -> &mut Trials {
        match transfer {
            Transfer::Mmap => &mut self.map,
            Transfer::Copy => &mut self.copy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PIECE: u64 = 16 << 20;

    /// Processes pieces of a file until none is left; returns the bytes mapped and copied.
    fn run(tuner: &mut Tuner, bytes: u64, ns_a_byte: impl Fn(Transfer, usize) -> f64) -> (u64, u64) {
        let (mut mapped, mut copied, mut calls) = (0, 0, 0);
        let mut left = bytes;
        while left > 0 {
            let (transfer, part) = tuner.next(left.min(PIECE));
            assert!(part > 0 && part <= left.min(PIECE));
            let ns = ns_a_byte(transfer, calls) * part as f64;
            tuner.took(transfer, part, Duration::from_nanos(ns as u64));
            *(if transfer == Transfer::Mmap { &mut mapped } else { &mut copied }) += part;
            (left, calls) = (left - part, calls + 1);
        }
        (mapped, copied)
    }

    #[test]
    fn the_faster_way_is_kept() {
        let all = 1 << 30;
        let (mapped, copied) =
            run(&mut Tuner::of(all), all, |transfer, _| if transfer == Transfer::Mmap { 0.1 } else { 0.12 });
        assert_eq!(
            (mapped, copied),
            (all - TRIALS_PER_TRANSFER as u64 * TRIAL_BYTES, TRIALS_PER_TRANSFER as u64 * TRIAL_BYTES)
        );
        let (mapped, _) =
            run(&mut Tuner::of(all), all, |transfer, _| if transfer == Transfer::Mmap { 0.1 } else { 0.08 });
        assert_eq!(mapped, TRIALS_PER_TRANSFER as u64 * TRIAL_BYTES);
        let (_, copied) =
            run(&mut Tuner::of(all), all, |transfer, _| if transfer == Transfer::Mmap { 0.1 } else { 0.095 });
        assert_eq!(copied, TRIALS_PER_TRANSFER as u64 * TRIAL_BYTES, "a little is chance");
    }

    #[test]
    fn a_disturbance_decides_nothing() {
        let all = 1 << 30;
        // All trials of mapping but one, and none of copying, take ten times as long.
        let took = |transfer, call| {
            let usual = if transfer == Transfer::Mmap { 0.1 } else { 0.12 };
            if transfer == Transfer::Mmap && call != 4 { 10.0 * usual } else { usual }
        };
        assert_eq!(run(&mut Tuner::of(all), all, took).1, TRIALS_PER_TRANSFER as u64 * TRIAL_BYTES);
    }

    #[test]
    fn a_slow_function_needs_no_trials() {
        let all = 1 << 30;
        assert_eq!(run(&mut Tuner::of(all), all, |_, _| 2.0), (all, 0));
    }

    #[test]
    fn a_small_file_is_mapped_and_nothing_is_tried() {
        assert_eq!(
            run(&mut Tuner::of(TUNED_MIN_BYTES - 1), TUNED_MIN_BYTES - 1, |_, _| 0.1),
            (TUNED_MIN_BYTES - 1, 0)
        );
        assert_eq!(
            run(&mut Tuner::settled(Transfer::Copy), TUNED_MIN_BYTES, |_, _| 0.1),
            (0, TUNED_MIN_BYTES)
        );
    }

    proptest! {
        #[test]
        fn trials_are_few_whatever_threads_are_at_the_same_time(
            threads in 1usize..64, order in prop::collection::vec(any::<prop::sample::Index>(), 400),
        ) {
            let time = |transfer, part| Duration::from_nanos(part * if transfer == Transfer::Mmap { 1 } else { 2 });
            let mut tuner = Tuner::of(TUNED_MIN_BYTES);
            let (mut under_way, mut copied) = (Vec::new(), 0);
            for which in order {
                while under_way.len() < threads {
                    let (transfer, part) = tuner.next(PIECE);
                    copied += if transfer == Transfer::Copy { part } else { 0 };
                    under_way.push((transfer, part));
                }
                let (transfer, part) = under_way.swap_remove(which.index(under_way.len()));
                tuner.took(transfer, part, time(transfer, part));
            }
            under_way.into_iter().for_each(|(transfer, part)| tuner.took(transfer, part, time(transfer, part)));
            prop_assert_eq!(copied, TRIALS_PER_TRANSFER as u64 * TRIAL_BYTES);
            prop_assert_eq!(tuner.settled, Some(Transfer::Mmap));
        }
    }
}
