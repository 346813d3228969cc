//! Rate and slope of arrivals, fitted to counts.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::SAMPLES_MIN;
use super::noise::Noise;
use super::sample::Sample;

/// Maximum samples of a window: older ones are merged.
const WINDOW_SAMPLES_MAX: usize = 64;

/// Minimum samples for which their own scatter is used: with fewer, the 0.1 % quantile of its estimate is more than
/// three times the true value.
const SCATTER_SAMPLES_MIN: usize = 8;

/// Consecutive samples that deviate to the same side and begin a new window: a burst is in one of them, or in two if
/// it falls between them.
const DEVIANTS_MAX: usize = 3;

/// Variance of a count of arrivals at equal intervals, which is one of two neighboring numbers.
const COUNT_VARIANCE_MIN: f64 = 0.25;

/// Relative precision of a rate: much coarser than that of the arithmetic, much finer than that of any clock.
const RATE_PRECISION_RATIO: f64 = 1e-9;

/// The rate at the end of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateFit {
    /// The end of the window.
    now_ns: u64,
    pub(super) rate_per_s: f64,
    /// Standard deviation of the rate.
    pub(super) deviation_per_s: f64,
    /// The slope, in tuples per second each second; 0 if it is not significant.
    pub(super) slope_per_s2: f64,
    /// Variance of a count over one second.
    variance_per_s: f64,
}

impl RateFit {
    /// Returns the side of the fit on which a later sample is; equal if the difference is not significant.
    fn side(&self, sample: &Sample, deviations_max: f64) -> Ordering {
        let expected_per_s = self.rate_per_s + self.slope_per_s2 * sample.at_s(self.now_ns);
        let difference_per_s = sample.rate_per_s() - expected_per_s;
        let variance = self.deviation_per_s.powi(2) + self.variance_per_s / sample.seconds();
        if difference_per_s.powi(2) <= deviations_max.powi(2) * variance {
            return Ordering::Equal;
        }
        difference_per_s.total_cmp(&0.0)
    }
}

/// Samples that one rate and slope explain, and possibly a few deviating ones at the end.
#[derive(Clone, Debug)]
pub(super) struct RateWindow {
    samples: VecDeque<Sample>,
    /// Number of samples at the end that deviate to `side`.
    deviants: usize,
    side: Ordering,
    length_ns: u64,
    noise: Noise,
    /// The last time and count.
    last: Option<(u64, u64)>,
}

impl RateWindow {
    pub(super) fn new(length_ns: u64, dispersion: f64) -> RateWindow {
        RateWindow {
            samples: VecDeque::with_capacity(WINDOW_SAMPLES_MAX + 1),
            deviants: 0,
            side: Ordering::Equal,
            length_ns,
            noise: Noise::new(dispersion),
            last: None,
        }
    }

    /// Adds a sample; returns whether it was accepted and is explained by the fit.
    pub(super) fn add(&mut self, now_ns: u64, arrived_tuples: u64, deviations_max: f64) -> bool {
        if self.last.is_some_and(|(last_ns, _)| now_ns <= last_ns) {
            return false;
        }
        let Some((from_ns, before)) = self.last.replace((now_ns, arrived_tuples)) else { return false };
        if arrived_tuples < before {
            self.samples.clear();
            self.deviants = 0;
            self.noise.interrupt();
            return false;
        }
        let sample = Sample { from_ns, to_ns: now_ns, tuples: arrived_tuples - before };
        self.classify(&sample, deviations_max);
        self.noise.add(sample);
        self.samples.push_back(sample);
        if self.deviants == DEVIANTS_MAX {
            // The rate may have changed in the middle of the first deviating sample.
            self.samples.drain(..self.samples.len() + 1 - DEVIANTS_MAX);
            self.deviants = 0;
        }
        self.forget(now_ns);
        self.deviants == 0
    }

    fn classify(&mut self, sample: &Sample, deviations_max: f64) {
        let side = self.fit(deviations_max).map_or(Ordering::Equal, |fit| fit.side(sample, deviations_max));
        self.deviants = match side {
            Ordering::Equal => 0,
            _ if side == self.side => self.deviants + 1,
            _ => 1,
        };
        self.side = side;
    }

    /// Drops samples that are too old, and merges two of the older half if there are too many.
    fn forget(&mut self, now_ns: u64) {
        let is_old = |sample: &Sample| now_ns - sample.to_ns >= self.length_ns;
        while self.samples() > SAMPLES_MIN && self.samples.front().is_some_and(is_old) {
            self.samples.pop_front();
        }
        if self.samples.len() > WINDOW_SAMPLES_MAX {
            let pair_ns = |&first: &usize| self.samples[first + 1].to_ns - self.samples[first].from_ns;
            let first = (0..WINDOW_SAMPLES_MAX / 2).min_by_key(pair_ns).unwrap_or(0);
            if let Some(second) = self.samples.remove(first + 1) {
                self.samples[first] = self.samples[first].followed_by(second);
            }
        }
    }

    /// Returns the number of explained samples.
    pub(super) fn samples(&self) -> usize {
        self.samples.len() - self.deviants
    }

    /// Returns the length of the last sample, in nanoseconds.
    pub(super) fn sample_ns(&self) -> u64 {
        self.samples.back().map_or(0, |last| last.to_ns - last.from_ns)
    }

    /// Returns the time from the beginning of the first sample to the end of the last, in nanoseconds.
    pub(super) fn span_ns(&self) -> u64 {
        match (self.samples.front(), self.samples.back()) {
            (Some(first), Some(last)) => last.to_ns - first.from_ns,
            _ => 0,
        }
    }

    /// Returns the fit of the explained samples; a slope is significant beyond `deviations_max` standard deviations.
    /// `None` without a sample.
    pub(super) fn fit(&self, deviations_max: f64) -> Option<RateFit> {
        let length = self.samples();
        let now_ns = self.samples.get(length.checked_sub(1)?)?.to_ns;
        let sum = |of: &dyn Fn(&Sample) -> f64| self.samples.iter().take(length).map(of).sum::<f64>();
        let seconds = sum(&|sample| sample.seconds());
        let mean_per_s = sum(&|sample| sample.tuples as f64) / seconds;
        let middle_s = sum(&|sample| sample.seconds() * sample.at_s(now_ns)) / seconds;
        let spread = sum(&|sample| sample.seconds() * (sample.at_s(now_ns) - middle_s).powi(2));
        let covariance = sum(&|sample| {
            sample.seconds() * (sample.at_s(now_ns) - middle_s) * (sample.rate_per_s() - mean_per_s)
        });
        let slope = if spread > 0.0 { covariance / spread } else { 0.0 };
        let residual = |sample: &Sample| {
            let fitted = mean_per_s + slope * (sample.at_s(now_ns) - middle_s);
            sample.seconds() * (sample.rate_per_s() - fitted).powi(2)
        };
        let is_scatter_known = length >= SCATTER_SAMPLES_MIN;
        let scatter = if is_scatter_known { sum(&residual) / (length - 2) as f64 } else { 0.0 };
        // A count of 0 is given the noise of a count of 1.
        let of_counts = |dispersion: f64| dispersion * mean_per_s.max(1.0 / seconds);
        let sample_s = seconds / length as f64;
        let rounded = COUNT_VARIANCE_MIN / sample_s + (RATE_PRECISION_RATIO * mean_per_s).powi(2) * sample_s;
        let variance = of_counts(self.noise.of_sample()).max(scatter).max(rounded);
        let mean_variance = self
            .noise
            .of_blocks(length)
            .map_or(variance, |blocks| variance.min(of_counts(blocks).max(rounded)));
        let slope_doubt =
            if spread > 0.0 { deviations_max * (variance / spread).sqrt() } else { f64::INFINITY };
        let is_trend = is_scatter_known && slope.abs() > slope_doubt;
        let slope_per_s2 = if is_trend { slope } else { 0.0 };
        let slope_variance = if is_trend { middle_s.powi(2) * variance / spread } else { 0.0 };
        Some(RateFit {
            now_ns,
            rate_per_s: (mean_per_s - slope_per_s2 * middle_s).max(0.0),
            deviation_per_s: (mean_variance / seconds + slope_variance).sqrt(),
            slope_per_s2,
            variance_per_s: variance,
        })
    }
}
