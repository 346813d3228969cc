//! Medians of CPU time.

use std::time::{Duration, Instant};

use sakiyomi_os::cpu::of_this_thread;

use crate::Job;

/// Duration and data volume of the measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Each cost for a tenth of a second.
    #[default]
    Full,
    /// Each cost once, on a thousandth of the data: for tests.
    Glance,
}

/// Time after which a measurement stops, once it has [`RUNS_MIN`] runs.
const MEASURE_TIME: Duration = Duration::from_millis(90);
/// Minimum runs of a measurement, after a warm-up run: a single disturbed run does not affect the median of three.
const RUNS_MIN: usize = 3;
/// Maximum runs of a measurement: the median has converged.
const RUNS_MAX: usize = 101;
/// Data of [`Effort::Full`] over that of [`Effort::Glance`].
const GLANCE_DIVISOR: usize = 1000;

impl Effort {
    /// Scales a number of rows or bytes to the effort.
    pub(super) fn amount(self, full: usize) -> usize {
        match self {
            Effort::Full => full,
            Effort::Glance => (full / GLANCE_DIVISOR).max(64),
        }
    }

    /// Returns the median CPU time of a run per unit, in nanoseconds.
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

    /// Like [`Effort::measure`], for a run that can fail.
    ///
    /// # Errors
    /// The first error of a run.
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

/// CPU time of a phase of a job so far, in nanoseconds.
pub(super) fn cpu_ns(job: &Job, name: &str) -> f64 {
    let phases = job.phases().list();
    let same = phases.iter().filter(|phase| phase.name == name);
    same.map(|phase| (phase.user_ns + phase.system_ns) as f64).sum()
}

/// Returns the median, or 0 if there are no figures. Sorts its argument.
pub(super) fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

/// Splits a cost measured at two sizes into a fixed part and a part per byte, both at least 0.
pub(super) fn split((small, small_ns): (f64, f64), (large, large_ns): (f64, f64)) -> (f64, f64) {
    let slope = ((large_ns - small_ns) / (large - small)).clamp(0.0, large_ns / large);
    ((small_ns - slope * small).max(0.0), slope)
}

/// Smallest cost of a fit, as a part of the largest one, that relative errors are of: less is within noise.
const FITTED_COST_MIN_RATIO: f64 = 0.01;

/// Splits a cost measured at several sizes into a fixed part and a part per unit, both at least 0: those with the least
/// squares of the relative errors.
pub(super) fn fitted(points: &[(f64, f64)]) -> (f64, f64) {
    // A cost of nothing has no relative error.
    let smallest = points.iter().map(|point| point.1).fold(f64::EPSILON, f64::max) * FITTED_COST_MIN_RATIO;
    let weighted = points.iter().map(|&(size, ns)| (size, ns, ns.max(smallest).powi(-2)));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        weighted.clone().map(|(size, ns, weight)| weight * of(size, ns)).sum()
    };
    let (all, sizes, costs) = (sum(&|_, _| 1.0), sum(&|size, _| size), sum(&|_, ns| ns));
    let (squares, products) = (sum(&|size, _| size * size), sum(&|size, ns| size * ns));
    let determinant = all * squares - sizes * sizes;
    let slope = (all * products - sizes * costs) / determinant;
    let fixed = (costs - slope * sizes) / all;
    match () {
        () if !slope.is_finite() || slope < 0.0 => (costs / all, 0.0),
        () if fixed < 0.0 => (0.0, products / squares),
        () => (fixed, slope),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_of_several_sizes_is_fitted_with_the_least_relative_errors() {
        let near = |found: (f64, f64), expected: (f64, f64)| {
            assert!((found.0 - expected.0).abs() < 1e-6 && (found.1 - expected.1).abs() < 1e-6, "{found:?}");
        };
        near(fitted(&[(1.0, 7.0), (4.0, 13.0), (16.0, 37.0)]), (5.0, 2.0));
        near(fitted(&[(1.0, 2.0), (4.0, 8.0), (16.0, 32.0)]), (0.0, 2.0));
        // A cost that grows faster than its size has no fixed part, and one that falls has no other one.
        assert_eq!(fitted(&[(1.0, 1.0), (4.0, 10.0), (16.0, 50.0)]).0, 0.0);
        assert_eq!(fitted(&[(1.0, 9.0), (4.0, 8.0), (16.0, 7.0)]).1, 0.0);
        let free = fitted(&[(1.0, 0.0), (4.0, 0.0), (16.0, 0.0)]);
        assert!(free.0 >= 0.0 && free.1 >= 0.0 && free.0.is_finite() && free.1.is_finite(), "{free:?}");
    }

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
