//! Figures of operators and arrivals, estimated from samples, each with its error and its age.
//!
//! The weight of samples decays with a half-life, so figures follow changes; memory is bounded, the oldest samples
//! are dropped first. After an idle time the latest samples have nearly all of the weight, so figures need a minimum
//! effective number of samples. The caller passes the times of samples, which must not decrease: a sample with an
//! earlier time is ignored.

mod counts;
mod service;

pub use counts::{ArrivalFigures, ArrivalMeter, SelectivityMeter};
pub use service::{ServiceFigures, ServiceMeter};

use serde::{Deserialize, Serialize};

use crate::Error;

/// A measured mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// The mean.
    pub value: f64,
    /// Standard deviation of the mean, assuming independent samples.
    pub deviation: f64,
    /// Effective number of samples: a mean of this many equally weighted samples has the same variance (Kish, *Survey
    /// Sampling*, 1965, section 11.7).
    pub samples: f64,
    /// Time of the latest sample, in nanoseconds.
    pub newest_ns: u64,
}

impl Estimate {
    /// Returns the relative standard deviation; 0 without a deviation, otherwise infinite if the mean is 0.
    #[must_use]
    pub fn error_ratio(&self) -> f64 {
        if self.deviation == 0.0 {
            0.0
        } else if self.value > 0.0 {
            self.deviation / self.value
        } else {
            f64::INFINITY
        }
    }

    /// Returns the time since the latest sample, in nanoseconds.
    #[must_use]
    pub fn age_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.newest_ns)
    }

    /// Returns whether its age is at most `age_max_ns`, and its relative error at most `error_ratio_max`.
    #[must_use]
    pub fn is_valid(&self, now_ns: u64, age_max_ns: u64, error_ratio_max: f64) -> bool {
        self.age_ns(now_ns) <= age_max_ns && self.error_ratio() <= error_ratio_max
    }
}

/// Returns whether the effective number of samples (Kish) is at least `samples_min`, with a tolerance of half a
/// sample: the latest few have nearly equal weights.
fn is_enough(effective: f64, samples_min: usize) -> bool {
    effective >= samples_min as f64 - 0.5
}

/// Returns the weight of a sample of an age.
fn weight(age_ns: u64, half_life_ns: u64) -> f64 {
    (-(age_ns as f64 / half_life_ns as f64)).exp2()
}

fn check_half_life(half_life_ns: u64) -> Result<(), Error> {
    if half_life_ns > 0 {
        return Ok(());
    }
    Err(Error::Value { what: "half-life of samples in ns", value: 0.0, range: "more than 0" })
}
