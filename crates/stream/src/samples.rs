//! Which calls of an operator are timed.

use std::time::Instant;

use crate::counters::Counters;

/// Least number of calls per call that is timed, on average.
const GAP_MIN_CALLS: u64 = 64;
/// Largest number of calls per call that is timed, on average.
const GAP_MAX_CALLS: u64 = 1024;
/// Shortest time between two calls that are timed, on average, in nanoseconds, unless gaps are at their maximum. Two
/// readings of the clock take 100 ns: half a percent of it.
const GAP_MIN_NS: u64 = 20_000;

/// Chooses calls at random distances: a fixed one would meet an operator that does much at each 64th tuple always or
/// never. Distances are longer while calls follow each other quickly, so that the clock does not cost more than the work.
pub(crate) struct Samples {
    /// Calls per call that is timed, on average.
    gap_mean_calls: u64,
    /// The begin of the last call that was timed.
    last: Option<Instant>,
    /// Calls before the next one that is timed.
    left: u64,
    /// State of a generator (xorshift64, Marsaglia, J. Stat. Softw. 8(14), 2003).
    state: u64,
}

impl Samples {
    /// Returns the choice of calls to time, which depends only on the number of the operator.
    pub(crate) fn new(operator: usize) -> Samples {
        // Never 0, which the generator would not leave.
        Samples {
            gap_mean_calls: GAP_MIN_CALLS,
            last: None,
            left: 0,
            state: (operator as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        }
    }

    /// Calls before the next one that is timed.
    pub(crate) fn untimed(&self) -> u64 {
        self.left
    }

    /// Counts `calls` calls, possibly none. With a `start` they are one timed call; otherwise they are untimed calls, at
    /// most [`Samples::untimed`].
    pub(crate) fn count_all(&mut self, start: Option<Instant>, calls: u64, counters: &Counters) {
        match start {
            Some(_) if calls > 0 => self.count(start, counters),
            Some(_) => {}
            None => self.left = self.left.saturating_sub(calls),
        }
    }

    /// Returns the begin of the next call, if it is to be timed.
    pub(crate) fn start(&self) -> Option<Instant> {
        (self.left == 0).then(Instant::now)
    }

    /// Takes the time of a call that began at `start`. The caller counts it.
    pub(crate) fn count(&mut self, start: Option<Instant>, counters: &Counters) {
        let Some(start) = start else {
            self.left -= 1;
            return;
        };
        counters.sample(elapsed_ns(start));
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        if let Some(last) = self.last.replace(start) {
            let is_short = (start - last).as_nanos() < u128::from(GAP_MIN_NS);
            let gap = if is_short { self.gap_mean_calls * 2 } else { self.gap_mean_calls / 2 };
            self.gap_mean_calls = gap.clamp(GAP_MIN_CALLS, GAP_MAX_CALLS);
        }
        // From 0 calls between two that are timed to nearly twice the mean.
        self.left = (self.state >> 32) % (2 * self.gap_mean_calls - 1);
    }
}

/// Nanoseconds since `start`.
pub(crate) fn elapsed_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn calls_that_follow_each_other_quickly_are_timed_less_often() {
        let (mut samples, counters) = (Samples::new(3), Counters::default());
        let mut gap_after = |gap: Duration| {
            for _ in 0..20 {
                samples.last = Instant::now().checked_sub(gap);
                samples.count(Some(Instant::now()), &counters);
            }
            samples.gap_mean_calls
        };
        assert_eq!(gap_after(Duration::from_millis(1)), GAP_MIN_CALLS);
        assert_eq!(gap_after(Duration::ZERO), GAP_MAX_CALLS);
        assert_eq!(gap_after(Duration::from_millis(1)), GAP_MIN_CALLS);
    }

    #[test]
    fn calls_that_are_counted_together_are_timed_as_often() {
        let (mut samples, counters) = (Samples::new(3), Counters::default());
        let mut calls = 0;
        while calls < 1_000_000 {
            let start = samples.start();
            let together = samples.untimed().clamp(1, 100);
            assert!(start.is_none() || together == 1);
            samples.last = None;
            samples.count_all(start, together, &counters);
            calls += together;
        }
        let sampled = counters.sampled.get();
        assert!((calls / 70..calls / 58).contains(&sampled), "{sampled} of {calls}");
        // A call that was none counts nothing.
        let (start, untimed) = (samples.start(), samples.untimed());
        samples.count_all(start, 0, &counters);
        assert_eq!((samples.untimed(), counters.sampled.get()), (untimed, sampled));
    }

    #[test]
    fn calls_are_timed_whatever_the_period_of_the_operator() {
        let (mut samples, counters) = (Samples::new(3), Counters::default());
        let mut per_phase = [0_u64; 64];
        for call in 0..1_000_000_usize {
            let start = samples.start();
            per_phase[call % 64] += u64::from(start.is_some());
            samples.last = None;
            samples.count(start, &counters);
        }
        // About 244 each; the standard deviation is below 16.
        assert!(per_phase.iter().all(|timed| (150..350).contains(timed)), "{per_phase:?}");
        assert_eq!(counters.sampled.get(), per_phase.iter().sum::<u64>());
    }
}
