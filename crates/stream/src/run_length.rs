//! Number of tuples that a segment takes in one go.
//!
//! A run passes each operator as a whole, so that calls, counters and rings cost little per tuple. It only has tuples
//! that are due already, and never waits for more. Nothing else happens on the worker meanwhile: a segment with slow
//! operators therefore has short runs, so that a hand-over, a barrier or another segment waits for microseconds.

/// Tuples of a run at most. More of them leave the nearest cache, and gain little.
pub(crate) const RUN_TUPLES_MAX: usize = 128;

/// Time of a run at most, in nanoseconds, if the tuples take as long as those before: about that of a wake-up.
#[cfg(not(all(test, loom)))]
const RUN_NS_MAX: u64 = 20_000;

/// Tuples of a run in a model, which repeats what a thread does: a length that depends on the clock would differ.
#[cfg(all(test, loom))]
const MODEL_TUPLES: usize = 2;

/// Length of the next run of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunLength(usize);

impl RunLength {
    /// Returns the length for a segment without measurements: 1.
    pub(crate) fn new() -> RunLength {
        #[cfg(all(test, loom))]
        return RunLength(MODEL_TUPLES);
        #[cfg(not(all(test, loom)))]
        RunLength(1)
    }

    pub(crate) fn tuples(self) -> usize {
        self.0
    }

    /// Takes the time of a slice with at least one item, in nanoseconds. The length falls at once and doubles at most.
    pub(crate) fn measured(&mut self, items: u64, slice_ns: u64) {
        #[cfg(all(test, loom))]
        let _ = (items, slice_ns);
        #[cfg(not(all(test, loom)))]
        {
            let affordable = RUN_NS_MAX.saturating_mul(items) / slice_ns.max(1);
            let affordable = usize::try_from(affordable).unwrap_or(usize::MAX);
            self.0 = affordable.min(2 * self.0).clamp(1, RUN_TUPLES_MAX);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn runs_of_fast_tuples_double_up_to_the_largest_and_those_of_slow_ones_take_a_bounded_time() {
        let mut length = RunLength::new();
        let lengths: Vec<usize> = (0..8)
            .map(|_| {
                length.measured(64, 64 * 100);
                length.tuples()
            })
            .collect();
        assert_eq!(lengths, [2, 4, 8, 16, 32, 64, 128, 128]);
        length.measured(64, 64 * 5_000);
        assert_eq!(length.tuples(), 4, "4 tuples of 5 µs take 20 µs");
        length.measured(4, 4_000_000);
        assert_eq!(length.tuples(), 1);
        length.measured(1, 0);
        assert_eq!(length.tuples(), 2, "a clock that stands still");
    }
}
