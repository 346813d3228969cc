//! Medians of CPU time.

use std::time::{Duration, Instant};

use sakiyomi_os::cpu::of_this_thread;

/// How long and on how much data costs are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Each cost for a tenth of a second.
    #[default]
    Full,
    /// Each once, on a thousandth of the data: for tests.
    Glance,
}

/// Time in which a cost is measured, at most, unless one run is longer.
const MEASURE_TIME: Duration = Duration::from_millis(90);
/// Runs of a cost at least, after one that warms up: the median of three is not the one that was disturbed.
const RUNS_MIN: usize = 3;
/// Runs of a cost at most: the median does not move any more.
const RUNS_MAX: usize = 101;
/// Data of [`Effort::Full`] over that of [`Effort::Glance`].
const GLANCE_DIVISOR: usize = 1000;

impl Effort {
    /// A number of rows or bytes, or less.
    pub(super) fn amount(self, full: usize) -> usize {
        match self {
            Effort::Full => full,
            Effort::Glance => (full / GLANCE_DIVISOR).max(64),
        }
    }

    /// Median CPU time of a run, in nanoseconds, divided by its units.
    pub(super) fn measure(self, units: usize, mut run: impl FnMut()) -> f64 {
        run();
        let begun = Instant::now();
        let mut times = Vec::new();
        let is_enough = |runs: usize, begun: Instant| match self {
            Effort::Full => runs >= RUNS_MAX || (runs >= RUNS_MIN && begun.elapsed() >= MEASURE_TIME),
            Effort::Glance => runs >= 1,
        };
        while !is_enough(times.len(), begun) {
            let before = of_this_thread();
            run();
            times.push((of_this_thread() - before).as_nanos() as f64);
        }
        median(&mut times) / units.max(1) as f64
    }

    /// The same for a run that can fail; the first error ends it.
    ///
    /// # Errors
    /// That of the run.
    pub(super) fn try_measure<E>(
        self,
        units: usize,
        mut run: impl FnMut() -> Result<(), E>,
    ) -> Result<f64, E> {
        let mut failed = None;
        let ns = self.measure(units, || {
            if failed.is_none() {
                failed = run().err();
            }
        });
        failed.map_or(Ok(ns), Err)
    }
}

/// The median of some figures; 0 of none.
pub(super) fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

/// The fixed part and the part for each byte of a cost that was measured with values of two sizes, neither below 0.
pub(super) fn split((small, small_ns): (f64, f64), (large, large_ns): (f64, f64)) -> (f64, f64) {
    let slope = ((large_ns - small_ns) / (large - small)).clamp(0.0, large_ns / large);
    ((small_ns - slope * small).max(0.0), slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_split_into_a_fixed_part_and_a_part_for_each_byte() {
        let (fixed, per_byte) = split((10.0, 25.0), (100.0, 70.0));
        assert!((fixed - 20.0).abs() < 1e-9 && (per_byte - 0.5).abs() < 1e-9);
        assert_eq!(split((10.0, 30.0), (100.0, 20.0)), (30.0, 0.0), "noise");
        let (fixed, per_byte) = split((10.0, 0.0), (100.0, 70.0));
        assert!(fixed >= 0.0 && per_byte <= 0.7);
    }

    #[test]
    fn the_median_of_an_odd_number_is_the_middle_one() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut []), 0.0);
    }
}
