//! Service times, excluding those that a preemption has lengthened.

use serde::{Deserialize, Serialize};

use std::collections::VecDeque;

use super::{Estimate, check_half_life, is_enough, weight};
use crate::{Error, Operator};

/// Samples kept: the mean of this many exponential times has an error of 3 %.
const SERVICE_SAMPLES_MAX: usize = 1024;

/// Minimum samples of a figure: quartiles need some.
const SERVICE_SAMPLES_MIN: usize = 8;

/// Interquartile ranges above the upper quartile beyond which a sample counts as preempted (Tukey's fence, far out):
/// 4 in a million of exponential times are.
const FENCE_RANGES: f64 = 10.0;

/// Constant times vary by caches and interrupts: up to this multiple of the median no time counts as preempted.
const FENCE_MEDIANS: f64 = 3.0;

/// Figures of an operator's service time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceFigures {
    /// Mean, in nanoseconds.
    pub mean_ns: Estimate,
    /// Squared coefficient of variation.
    #[serde(rename = "scv_ratio")]
    pub scv: f64,
    /// Share of the samples that was considered preempted and excluded. More than a few percent mean that the core is
    /// shared with other work, or that the times have two very different sizes.
    pub trimmed_ratio: f64,
}

impl ServiceFigures {
    /// Returns the operator with these figures.
    #[must_use]
    pub fn applied_to(&self, operator: Operator) -> Operator {
        Operator { service_ns: self.mean_ns.value, ..operator }.with_scv(self.scv)
    }
}

/// Measures the service time of an operator.
#[derive(Clone, Debug)]
pub struct ServiceMeter {
    /// Times of the samples, and service times.
    samples: VecDeque<(u64, f64)>,
    half_life_ns: u64,
}

impl ServiceMeter {
    /// Creates a meter whose samples lose half of their weight in `half_life_ns`.
    ///
    /// # Errors
    /// If the half-life, in nanoseconds, is 0.
    pub fn new(half_life_ns: u64) -> Result<ServiceMeter, Error> {
        check_half_life(half_life_ns)?;
        Ok(ServiceMeter { samples: VecDeque::with_capacity(SERVICE_SAMPLES_MAX), half_life_ns })
    }

    /// Adds the service time of a tuple, in nanoseconds; a time that is not positive is ignored. Reading a clock
    /// costs 50 ns, so one tuple in 64 suffices.
    pub fn add(&mut self, now_ns: u64, service_ns: f64) {
        let is_late = self.samples.back().is_some_and(|&(last_ns, _)| now_ns < last_ns);
        if is_late || !(service_ns.is_finite() && service_ns > 0.0) {
            return;
        }
        if self.samples.len() == SERVICE_SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((now_ns, service_ns));
    }

    /// Returns the figures; `None` with fewer than eight effective samples.
    #[must_use]
    pub fn figures(&self) -> Option<ServiceFigures> {
        let &(newest_ns, _) = self.samples.back()?;
        let weighted =
            |&(at_ns, service_ns): &(u64, f64)| (service_ns, weight(newest_ns - at_ns, self.half_life_ns));
        let mut sorted: Vec<(f64, f64)> = self.samples.iter().map(weighted).collect();
        sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
        let all: f64 = sorted.iter().map(|(_, weight)| weight).sum();
        let squares: f64 = sorted.iter().map(|(_, weight)| weight.powi(2)).sum();
        if !is_enough(all.powi(2) / squares, SERVICE_SAMPLES_MIN) {
            return None;
        }
        let [low, median, high] = [0.25, 0.5, 0.75].map(|share| quantile(&sorted, share * all));
        let fence_ns = (high + FENCE_RANGES * (high - low)).max(FENCE_MEDIANS * median);
        sorted.truncate(sorted.partition_point(|&(service_ns, _)| service_ns <= fence_ns));
        let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
            sorted.iter().map(|&(service_ns, weight)| of(service_ns, weight)).sum()
        };
        let kept = sum(&|_, weight| weight);
        let samples = kept.powi(2) / sum(&|_, weight| weight.powi(2));
        let mean_ns = sum(&|service_ns, weight| service_ns * weight) / kept;
        let variance = sum(&|service_ns, weight| weight * (service_ns - mean_ns).powi(2)) / kept;
        // Bessel's correction: the mean was estimated from the same samples.
        let variance = variance * samples / (samples - 1.0).max(1.0);
        let mean = Estimate { value: mean_ns, deviation: (variance / samples).sqrt(), samples, newest_ns };
        Some(ServiceFigures {
            mean_ns: mean,
            scv: variance / mean_ns.powi(2),
            trimmed_ratio: (1.0 - kept / all).max(0.0),
        })
    }
}

/// Returns the smallest value whose cumulative weight reaches `left`.
fn quantile(sorted: &[(f64, f64)], mut left: f64) -> f64 {
    let found = sorted.iter().find(|(_, weight)| {
        left -= weight;
        left <= 0.0
    });
    found.or(sorted.last()).map_or(0.0, |&(value, _)| value)
}
