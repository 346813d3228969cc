//! Selectivities, and rate and dispersion of arrivals, estimated from counts.

use serde::{Deserialize, Serialize};

use std::collections::VecDeque;

use super::{Estimate, check_half_life, is_enough, weight};
use crate::{Arrivals, Error};

/// Windows kept: this many give the dispersion with an error of a tenth.
const COUNT_WINDOWS_MAX: usize = 256;

/// Minimum windows of a figure: two say little about their scatter.
const COUNT_WINDOWS_MIN: usize = 4;

/// The counts between two calls.
#[derive(Clone, Copy, Debug)]
struct Window {
    at_ns: u64,
    /// Base of the ratio: seconds, or tuples taken.
    base: f64,
    tuples: f64,
}

/// Ratio of counts to a base.
#[derive(Clone, Debug)]
struct Ratio {
    windows: VecDeque<Window>,
    half_life_ns: u64,
}

/// Sums over windows, weighted by age.
struct Sums {
    base: f64,
    value: f64,
    /// Sum of squared weights times bases.
    base_squared: f64,
    /// Sum of weights times squared deviations, over the base.
    scatter: f64,
    /// Sum of squared weights times deviations.
    deviation_squared: f64,
    weights: f64,
    /// Effective number of windows.
    windows: f64,
}

impl Ratio {
    fn new(half_life_ns: u64) -> Result<Ratio, Error> {
        check_half_life(half_life_ns)?;
        Ok(Ratio { windows: VecDeque::with_capacity(COUNT_WINDOWS_MAX), half_life_ns })
    }

    fn add(&mut self, window: Window) {
        if self.windows.len() == COUNT_WINDOWS_MAX {
            self.windows.pop_front();
        }
        self.windows.push_back(window);
    }

    fn sums(&self) -> Option<Sums> {
        let newest_ns = self.windows.back()?.at_ns;
        let sum = |of: &dyn Fn(&Window, f64) -> f64| -> f64 {
            let weighted = |window: &Window| of(window, weight(newest_ns - window.at_ns, self.half_life_ns));
            self.windows.iter().map(weighted).sum()
        };
        let base = sum(&|window, weight| weight * window.base);
        // A window is weighted in the mean by its base: one that spans an idle time dominates it.
        let squares = sum(&|window, weight| (weight * window.base).powi(2));
        if !is_enough(base.powi(2) / squares, COUNT_WINDOWS_MIN) {
            return None;
        }
        let value = sum(&|window, weight| weight * window.tuples) / base;
        let deviation = |window: &Window| (window.tuples - value * window.base).powi(2);
        let weights = sum(&|_, weight| weight);
        Some(Sums {
            base,
            value,
            base_squared: sum(&|window, weight| weight.powi(2) * window.base),
            scatter: sum(&|window, weight| weight * deviation(window) / window.base),
            deviation_squared: sum(&|window, weight| weight.powi(2) * deviation(window)),
            weights,
            windows: weights.powi(2) / sum(&|_, weight| weight.powi(2)),
        })
    }

    fn newest_ns(&self) -> u64 {
        self.windows.back().map_or(0, |window| window.at_ns)
    }
}

/// Measures the selectivity of an edge.
#[derive(Clone, Debug)]
pub struct SelectivityMeter {
    ratio: Ratio,
    /// Time of the last call, and total tuples taken and sent by then.
    last: Option<(u64, u64, u64)>,
}

impl SelectivityMeter {
    /// Creates a meter whose samples lose half of their weight in `half_life_ns`.
    ///
    /// # Errors
    /// If the half-life, in nanoseconds, is 0.
    pub fn new(half_life_ns: u64) -> Result<SelectivityMeter, Error> {
        Ok(SelectivityMeter { ratio: Ratio::new(half_life_ns)?, last: None })
    }

    /// Records that until `now_ns` the sender has taken `taken` tuples and sent `sent` along the edge, in total. A
    /// call without new tuples taken, or with an earlier time, is ignored; counts smaller than before restart the
    /// measurement.
    pub fn add(&mut self, now_ns: u64, taken: u64, sent: u64) {
        if self.last.is_some_and(|(last_ns, ..)| now_ns < last_ns) {
            return;
        }
        let last = self.last.replace((now_ns, taken, sent));
        let Some((_, before, sent_before)) = last else { return };
        if taken == before && sent >= sent_before {
            self.last = Some((now_ns, before, sent_before));
        } else if taken > before && sent >= sent_before {
            let (base, tuples) = ((taken - before) as f64, (sent - sent_before) as f64);
            self.ratio.add(Window { at_ns: now_ns, base, tuples });
        }
    }

    /// Returns the tuples sent per tuple taken; `None` with fewer than four effective windows. The error of a filter
    /// that has passed nothing yet is that of one tuple.
    #[must_use]
    pub fn selectivity(&self) -> Option<Estimate> {
        let sums = self.ratio.sums()?;
        // The variance of a ratio estimator (Cochran, Sampling Techniques, 1977, section 6.4).
        let variance = sums.deviation_squared / sums.base.powi(2);
        let samples = sums.base.powi(2) / sums.base_squared;
        let deviation = if sums.value > 0.0 { variance.sqrt() } else { 1.0 / samples };
        Some(Estimate { value: sums.value, deviation, samples, newest_ns: self.ratio.newest_ns() })
    }
}

/// Figures of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrivalFigures {
    /// Mean, in tuples per second.
    pub rate_per_s: Estimate,
    /// Index of dispersion of the counts: variance over mean.
    #[serde(rename = "dispersion_ratio")]
    pub dispersion: Estimate,
}

impl ArrivalFigures {
    /// Converts the figures to arrivals for a planner.
    ///
    /// # Errors
    /// If nothing has arrived.
    pub fn arrivals(&self) -> Result<Arrivals, Error> {
        Arrivals::new(self.rate_per_s.value, self.dispersion.value)
    }
}

/// Measures rate and dispersion of arrivals.
#[derive(Clone, Debug)]
pub struct ArrivalMeter {
    ratio: Ratio,
    /// Time and count of the last call.
    last: Option<(u64, u64)>,
}

impl ArrivalMeter {
    /// Creates a meter whose samples lose half of their weight in `half_life_ns`.
    ///
    /// # Errors
    /// If the half-life, in nanoseconds, is 0.
    pub fn new(half_life_ns: u64) -> Result<ArrivalMeter, Error> {
        Ok(ArrivalMeter { ratio: Ratio::new(half_life_ns)?, last: None })
    }

    /// Records that `arrived_tuples` have arrived in total until `now_ns`. The dispersion is that of the counts
    /// between calls. A time that is not later is ignored; a smaller count restarts the measurement.
    pub fn add(&mut self, now_ns: u64, arrived_tuples: u64) {
        if self.last.is_some_and(|(last_ns, _)| now_ns <= last_ns) {
            return;
        }
        if let Some((last_ns, before)) = self.last.replace((now_ns, arrived_tuples))
            && arrived_tuples >= before
        {
            let base = (now_ns - last_ns) as f64 * 1e-9;
            self.ratio.add(Window { at_ns: now_ns, base, tuples: (arrived_tuples - before) as f64 });
        }
    }

    /// Returns the figures; `None` with fewer than four effective windows.
    #[must_use]
    pub fn figures(&self) -> Option<ArrivalFigures> {
        let sums = self.ratio.sums()?;
        let newest_ns = self.ratio.newest_ns();
        // Bessel's correction: the mean was estimated from the same counts.
        let variance_per_s = sums.scatter / sums.weights * sums.windows / (sums.windows - 1.0).max(1.0);
        let dispersion = if sums.value > 0.0 { variance_per_s / sums.value } else { 0.0 };
        let seconds = sums.base.powi(2) / sums.base_squared;
        let estimate = |value, deviation| Estimate { value, deviation, samples: sums.windows, newest_ns };
        Some(ArrivalFigures {
            rate_per_s: estimate(sums.value, (variance_per_s / seconds).sqrt()),
            // For normal counts, the relative deviation of the variance is the root of 2 / (n - 1).
            dispersion: estimate(dispersion, dispersion * (2.0 / (sums.windows - 1.0).max(1.0)).sqrt()),
        })
    }
}
