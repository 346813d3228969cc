//! Rate and slope of arrivals, fitted to counts.

use std::collections::VecDeque;

/// Samples of a window: those that come sooner are put together.
const WINDOW_SAMPLES_MAX: u64 = 64;

/// Samples from which their own scatter is known well enough to count: with fewer, the 0.1 % quantile of its
/// estimate is more than three times the truth.
const SCATTER_SAMPLES_MIN: usize = 8;

/// Tuples that arrived in a time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    from_ns: u64,
    to_ns: u64,
    tuples: u64,
}

impl Sample {
    fn seconds(&self) -> f64 {
        (self.to_ns - self.from_ns) as f64 * 1e-9
    }

    /// Middle of its time before `now_ns`, in seconds: 0 or less.
    fn at_s(&self, now_ns: u64) -> f64 {
        -(((now_ns - self.to_ns) as f64) + (self.to_ns - self.from_ns) as f64 / 2.0) * 1e-9
    }

    fn rate_per_s(&self) -> f64 {
        self.tuples as f64 / self.seconds()
    }
}

/// The rate at the end of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateFit {
    pub(super) rate_per_s: f64,
    /// Standard deviation of the rate.
    pub(super) deviation_per_s: f64,
    /// The slope, in tuples per second each second; 0 if none is sure.
    pub(super) slope_per_s2: f64,
    /// Variance of a count over one second.
    variance_per_s: f64,
}

/// Samples that one rate and slope explain.
#[derive(Clone, Debug)]
pub(super) struct RateWindow {
    samples: VecDeque<Sample>,
    length_ns: u64,
    dispersion: f64,
    /// The last time and count.
    last: Option<(u64, u64)>,
}

impl RateWindow {
    pub(super) fn new(length_ns: u64, dispersion: f64) -> RateWindow {
        let samples = VecDeque::with_capacity(WINDOW_SAMPLES_MAX as usize + 2);
        RateWindow { samples, length_ns, dispersion, last: None }
    }

    /// Adds a sample; whether it was taken.
    pub(super) fn add(&mut self, now_ns: u64, arrived_tuples: u64, deviations_max: f64) -> bool {
        let Some((from_ns, before)) = self.last else {
            self.last = Some((now_ns, arrived_tuples));
            return false;
        };
        if arrived_tuples < before {
            self.samples.clear();
            self.last = Some((now_ns, arrived_tuples));
            return false;
        }
        if now_ns <= from_ns || now_ns - from_ns < self.length_ns / WINDOW_SAMPLES_MAX {
            return false;
        }
        self.last = Some((now_ns, arrived_tuples));
        let sample = Sample { from_ns, to_ns: now_ns, tuples: arrived_tuples - before };
        if !self.explains(sample, deviations_max) {
            self.samples.clear();
        }
        self.samples.push_back(sample);
        while self.samples.front().is_some_and(|first| now_ns - first.to_ns >= self.length_ns) {
            self.samples.pop_front();
        }
        true
    }

    pub(super) fn samples(&self) -> usize {
        self.samples.len()
    }

    /// Length of the last sample, in nanoseconds.
    pub(super) fn sample_ns(&self) -> u64 {
        self.samples.back().map_or(0, |last| last.to_ns - last.from_ns)
    }

    /// Time from the beginning of the first sample to the end of the last, in nanoseconds.
    pub(super) fn span_ns(&self) -> u64 {
        match (self.samples.front(), self.samples.back()) {
            (Some(first), Some(last)) => last.to_ns - first.from_ns,
            _ => 0,
        }
    }

    /// Whether a further sample differs from the fit by no more than noise.
    fn explains(&self, sample: Sample, deviations_max: f64) -> bool {
        let Some(fit) = self.fit(deviations_max) else { return true };
        let expected_per_s = fit.rate_per_s + fit.slope_per_s2 * sample.seconds() / 2.0;
        let variance = fit.deviation_per_s.powi(2) + fit.variance_per_s / sample.seconds();
        (sample.rate_per_s() - expected_per_s).powi(2) <= deviations_max.powi(2) * variance
    }

    /// The fit; a slope counts beyond `deviations_max` standard deviations. `None` without a sample.
    pub(super) fn fit(&self, deviations_max: f64) -> Option<RateFit> {
        let now_ns = self.samples.back()?.to_ns;
        let length = self.samples.len();
        let sum = |of: &dyn Fn(&Sample) -> f64| self.samples.iter().map(of).sum::<f64>();
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
        // A count of 0 has the noise of a count of 1.
        let variance = (self.dispersion * mean_per_s.max(1.0 / seconds)).max(scatter);
        let slope_doubt =
            if spread > 0.0 { deviations_max * (variance / spread).sqrt() } else { f64::INFINITY };
        let is_trend = is_scatter_known && slope.abs() > slope_doubt;
        let slope_per_s2 = if is_trend { slope } else { 0.0 };
        let slope_variance = if is_trend { middle_s.powi(2) * variance / spread } else { 0.0 };
        Some(RateFit {
            rate_per_s: (mean_per_s - slope_per_s2 * middle_s).max(0.0),
            deviation_per_s: (variance / seconds + slope_variance).sqrt(),
            slope_per_s2,
            variance_per_s: variance,
        })
    }
}
