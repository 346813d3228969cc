//! Figures of operators and arrivals from samples, each with its doubt and its age.
//!
//! Samples lose half of their weight in a half-life, so figures follow what changes; memory is bounded, the
//! oldest go first. After an idle time the latest samples have nearly all of the weight, so figures need a number
//! of samples by weight. Times are those of the samples, told by the caller, and must not go back: a sample with an
//! earlier time is passed over.

mod counts;
mod service;

pub use counts::{ArrivalFigures, ArrivalMeter, SelectivityMeter};
pub use service::{ServiceFigures, ServiceMeter};

use serde::{Deserialize, Serialize};

use crate::Error;

/// A mean that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// The mean.
    pub value: f64,
    /// Standard deviation of the mean, as far as samples are independent.
    pub deviation: f64,
    /// Samples that it rests on, weighted: as many of equal weight would be as good (Kish, *Survey Sampling*,
    /// 1965, section 11.7).
    pub samples: f64,
    /// Time of the latest sample, in nanoseconds.
    pub newest_ns: u64,
}

impl Estimate {
    /// Standard deviation over mean; 0 without a deviation, and otherwise infinite if the mean is 0.
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

    /// Time since the latest sample, in nanoseconds.
    #[must_use]
    pub fn age_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.newest_ns)
    }

    /// Whether its age is at most `age_max_ns`, and its relative error at most `error_ratio_max`.
    #[must_use]
    pub fn is_valid(&self, now_ns: u64, age_max_ns: u64, error_ratio_max: f64) -> bool {
        self.age_ns(now_ns) <= age_max_ns && self.error_ratio() <= error_ratio_max
    }
}

/// Whether weighted samples are as good as so many of equal weight (Kish). Half a sample is allowed for: the
/// latest few have nearly equal weights.
fn is_enough(effective: f64, samples_min: usize) -> bool {
    effective >= samples_min as f64 - 0.5
}

/// The weight of a sample of an age.
fn weight(age_ns: u64, half_life_ns: u64) -> f64 {
    (-(age_ns as f64 / half_life_ns as f64)).exp2()
}

fn check_half_life(half_life_ns: u64) -> Result<(), Error> {
    if half_life_ns > 0 {
        return Ok(());
    }
    Err(Error::Value { what: "half-life of samples in ns", value: 0.0, range: "more than 0" })
}
