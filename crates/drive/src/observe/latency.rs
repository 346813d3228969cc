//! Response time distributions in constant memory.

use hdrhistogram::Histogram;
use sakiyomi_model::Nanos;

/// Maximum recorded time (eleven days); longer times are recorded as this.
const LATENCY_MAX_NS: u64 = 1_000_000_000_000_000;

/// A distribution of times. Quantiles are accurate to 0.1 % (coarse: 1 %); count, mean and maximum are exact.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
    sum: u128,
    max: Nanos,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency::with_digits(3)
    }
}

impl Latency {
    /// Creates a distribution with 1 % instead of 0.1 % accuracy, a tenth of the size.
    #[must_use]
    pub fn coarse() -> Latency {
        Latency::with_digits(2)
    }

    fn with_digits(digits: u8) -> Latency {
        let histogram =
            Histogram::new_with_bounds(1, LATENCY_MAX_NS, digits).expect("the bounds are constant and valid");
        Latency { histogram, sum: 0, max: Nanos::ZERO }
    }

    /// Adds one time.
    pub fn record(&mut self, time: Nanos) {
        self.histogram.saturating_record(time.0);
        self.sum += u128::from(time.0);
        self.max = self.max.max(time);
    }

    /// Adds all times of `other`.
    pub fn merge(&mut self, other: &Latency) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Removes all times.
    pub fn clear(&mut self) {
        if !self.histogram.is_empty() {
            self.histogram.reset();
        }
        self.sum = 0;
        self.max = Nanos::ZERO;
    }

    /// Returns the number of times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the mean, rounded down; zero if empty.
    #[must_use]
    pub fn mean(&self) -> Nanos {
        Nanos(self.sum.checked_div(u128::from(self.count())).unwrap_or(0) as u64)
    }

    /// Returns the sum.
    #[must_use]
    pub fn total(&self) -> Nanos {
        Nanos(u64::try_from(self.sum).unwrap_or(u64::MAX))
    }

    /// Returns the maximum.
    #[must_use]
    pub fn max(&self) -> Nanos {
        self.max
    }

    /// Returns the time that a share `quantile` (0 to 1) of all does not exceed; zero if empty.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Nanos {
        if self.histogram.is_empty() {
            return Nanos::ZERO;
        }
        Nanos(self.histogram.value_at_quantile(quantile)).min(self.max)
    }

    /// Returns the counts between ascending `bounds`: the `i`-th count covers times above `bounds[i - 1]` up to
    /// `bounds[i]`. Times beyond the last bound are not counted.
    #[must_use]
    pub fn counts_between(&self, bounds: &[Nanos]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len()];
        for value in self.histogram.iter_recorded() {
            let index = bounds.partition_point(|bound| bound.0 < value.value_iterated_to());
            if let Some(count) = counts.get_mut(index) {
                *count += value.count_since_last_iteration();
            }
        }
        counts
    }
}
