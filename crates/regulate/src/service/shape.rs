//! Time to complete a number of requests, in units of the mean service time of one.

use super::DEPTH_MAX;
use super::mean::Mean;

/// Mean and variance of the time to drain a number of requests.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    mean: [f64; DEPTH_MAX + 1],
    variance: [f64; DEPTH_MAX + 1],
}

/// Samples at a queue depth from which its mean is relied upon.
const DEPTH_MIN_SAMPLES: u32 = 16;

impl Default for Shape {
    /// Requests served one by one, with a standard deviation of half the mean: the assumption while nothing is known.
    fn default() -> Shape {
        Shape { mean: std::array::from_fn(|n| n as f64), variance: std::array::from_fn(|n| 0.25 * n as f64) }
    }
}

impl Shape {
    /// Computes the shape of a serial device from the service times by queue depth, which add up. An unknown depth has
    /// the time of the nearest known one.
    pub(super) fn one_by_one(by_depth: &[Mean]) -> Shape {
        let known = |depth: &usize| by_depth[*depth].has(DEPTH_MIN_SAMPLES);
        let Some(mut nearest) = (1..=DEPTH_MAX).find(known) else { return Shape::default() };
        let (mut mean, mut variance) = ([0.0; DEPTH_MAX + 1], [0.0; DEPTH_MAX + 1]);
        for depth in 1..=DEPTH_MAX {
            if known(&depth) {
                nearest = depth;
            }
            mean[depth] = mean[depth - 1] + by_depth[nearest].get();
            variance[depth] = variance[depth - 1] + by_depth[nearest].variance();
        }
        Shape { mean, variance }
    }

    /// Computes the shape of a parallel device from the times from issue to completion by queue depth: the shortest is
    /// the time of one. Beyond the greatest known depth, requests share the device.
    pub(super) fn beside(by_depth: &[Mean]) -> Shape {
        let known = |depth: &usize| by_depth[*depth].has(DEPTH_MIN_SAMPLES);
        let known_times = (1..=DEPTH_MAX).filter(known).map(|depth| by_depth[depth].get());
        let Some(one) = known_times.min_by(f64::total_cmp).filter(|one| *one > 0.0) else {
            return Shape::default();
        };
        let (mut mean, mut variance) = ([0.0; DEPTH_MAX + 1], [0.0; DEPTH_MAX + 1]);
        let mut last = None;
        for depth in 1..=DEPTH_MAX {
            (mean[depth], variance[depth]) = match (known(&depth), last) {
                (true, _) => (by_depth[depth].get() / one, by_depth[depth].variance() / (one * one)),
                (false, None) => (1.0, 0.0),
                (false, Some(last)) => {
                    let times = depth as f64 / last as f64;
                    (mean[last] * times, variance[last] * times * times)
                }
            };
            if known(&depth) {
                last = Some(depth);
            }
            mean[depth] = mean[depth].max(mean[depth - 1]).max(1.0);
        }
        Shape { mean, variance }
    }

    /// Returns the mean parallelism: the largest number served at a time.
    pub(super) fn parallelism(&self) -> f64 {
        (1..=DEPTH_MAX).map(|load| load as f64 / self.mean[load].max(f64::MIN_POSITIVE)).fold(1.0, f64::max)
    }

    /// Returns the time for `load` requests, plus `deviations` standard deviations.
    pub(super) fn time(&self, load: usize, deviations: f64) -> f64 {
        let whole = load.min(DEPTH_MAX);
        let beyond = (load - whole) as f64 * self.mean[DEPTH_MAX] / DEPTH_MAX as f64;
        self.mean[whole] + beyond + deviations * self.variance[whole].sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(of: impl Fn(usize) -> f64) -> Vec<Mean> {
        let mean = |depth| {
            let mut mean = Mean::new(64);
            (0..64).for_each(|_| assert!(!mean.push(of(depth))));
            mean
        };
        (0..=DEPTH_MAX).map(mean).collect()
    }

    #[test]
    fn one_by_one_the_times_add_up() {
        let shape = Shape::one_by_one(&times(|depth| if depth == 1 { 2.0 } else { 1.0 }));
        assert_eq!(shape.time(4, 0.0), 5.0);
    }

    #[test]
    fn beside_each_other_eight_take_no_longer_than_one() {
        let shape = Shape::beside(&times(|depth| 50.0 * (depth as f64 / 8.0).max(1.0)));
        assert_eq!([1, 8, 16, 32].map(|load| shape.time(load, 3.0)), [1.0, 1.0, 2.0, 4.0]);
    }
}
