//! Mean and variance of a time.

use std::ops::{Add, Sub};

use sakiyomi_model::Nanos;

/// Mean and variance of a time in nanoseconds. Sums are those of independent times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// Mean in ns.
    pub mean: f64,
    /// Variance in ns².
    pub variance: f64,
}

impl Moments {
    /// Returns the moments of measured times; zero without any.
    #[must_use]
    pub fn of(times: &[Nanos]) -> Moments {
        let count = times.len().max(1) as f64;
        let mean = times.iter().map(|time| time.0 as f64).sum::<f64>() / count;
        let variance = times.iter().map(|time| (time.0 as f64 - mean).powi(2)).sum::<f64>() / count;
        Moments { mean, variance }
    }

    /// Returns the standard deviation in ns.
    #[must_use]
    pub fn deviation(self) -> f64 {
        self.variance.max(0.0).sqrt()
    }

    /// Returns a time that is exceeded only by more than `deviations` standard deviations.
    #[must_use]
    pub fn bound(self, deviations: f64) -> Nanos {
        Nanos((self.mean + deviations * self.deviation()).max(0.0) as u64)
    }

    /// Interpolates linearly: `self` at 0, `other` at 1.
    #[must_use]
    pub fn toward(self, other: Moments, part: f64) -> Moments {
        let between = |from: f64, to: f64| (from + (to - from) * part).max(0.0);
        Moments { mean: between(self.mean, other.mean), variance: between(self.variance, other.variance) }
    }

    /// Returns a time that is this one with the given probability, and otherwise zero.
    #[must_use]
    pub fn with_probability(self, probability: f64) -> Moments {
        let mean = self.mean * probability;
        let square = (self.variance + self.mean.powi(2)) * probability;
        Moments { mean, variance: (square - mean.powi(2)).max(0.0) }
    }

    /// Returns the rest of such a time at a random moment within it, as the theory of renewals has it.
    #[must_use]
    pub fn rest(self) -> Moments {
        if self.mean <= 0.0 {
            return Moments::default();
        }
        let mean = (self.mean.powi(2) + self.variance) / (2.0 * self.mean);
        let square = (self.mean.powi(2) + 3.0 * self.variance) / 3.0;
        Moments { mean, variance: (square - mean.powi(2)).max(0.0) }
    }
}

impl Add for Moments {
    type Output = Moments;

    fn add(self, other: Moments) -> Moments {
        Moments { mean: self.mean + other.mean, variance: self.variance + other.variance }
    }
}

impl Sub for Moments {
    type Output = Moments;

    /// The part that remains of a sum of independent times when one of them is taken away.
    fn sub(self, other: Moments) -> Moments {
        Moments { mean: self.mean - other.mean, variance: self.variance - other.variance }
    }
}
