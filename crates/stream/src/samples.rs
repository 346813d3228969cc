//! Which calls of an operator are timed.

use std::time::Instant;

use crate::counters::Counters;

/// Calls per call that is timed, on average. Two looks at the clock cost 100 ns.
const GAP_MEAN_CALLS: u64 = 64;

/// Chooses calls at random distances: a fixed one would meet an operator that does much at each 64th tuple always or
/// never.
pub(crate) struct Samples {
    /// Calls before the next one that is timed.
    left: u64,
    /// State of a generator (xorshift64, Marsaglia, J. Stat. Softw. 8(14), 2003).
    state: u64,
}

impl Samples {
    /// The same choice for each operator of the same number.
    pub(crate) fn new(operator: usize) -> Samples {
        // Never 0, which the generator would not leave.
        Samples { left: 0, state: (operator as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    /// Calls before the next one that is timed.
    pub(crate) fn untimed(&self) -> u64 {
        self.left
    }

    /// Counts `calls`, which may be 0: if they began at `start`, as one that was timed, else as calls that were not, of
    /// which there are at most [`Samples::untimed`].
    pub(crate) fn count_all(&mut self, start: Option<Instant>, calls: u64, counters: &Counters) {
        match start {
            Some(_) if calls > 0 => self.count(start, counters),
            Some(_) => {}
            None => self.left = self.left.saturating_sub(calls),
        }
    }

    /// The begin of the next call, if it is to be timed.
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
        // From 0 to 126 calls between two that are timed.
        self.left = (self.state >> 32) % (2 * GAP_MEAN_CALLS - 1);
    }
}

/// Nanoseconds since `start`.
pub(crate) fn elapsed_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn calls_that_are_counted_together_are_timed_as_often() {
        let (mut samples, counters) = (Samples::new(3), Counters::default());
        let mut calls = 0;
        while calls < 1_000_000 {
            let start = samples.start();
            let together = samples.untimed().clamp(1, 100);
            assert!(start.is_none() || together == 1);
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
    fn one_call_in_64_is_timed_whatever_the_period_of_the_operator() {
        let (mut samples, counters) = (Samples::new(3), Counters::default());
        let mut per_phase = [0_u64; 64];
        for call in 0..1_000_000_usize {
            let start = samples.start();
            per_phase[call % 64] += u64::from(start.is_some());
            samples.count(start, &counters);
        }
        // About 244 each; the standard deviation is below 16.
        assert!(per_phase.iter().all(|timed| (150..350).contains(timed)), "{per_phase:?}");
        assert_eq!(counters.sampled.get(), per_phase.iter().sum::<u64>());
    }
}
