//! Mean, variation and percentiles of a stream of integers.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Significant decimal digits of percentiles: they are accurate to 0.1 %.
const PERCENTILE_DIGITS: u8 = 3;

/// Statistics of a distribution, in a unit defined by its owner.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Minimum, exact.
    pub min: u64,
    /// Mean, exact.
    pub mean: f64,
    /// Coefficient of variation: standard deviation over mean (1 for a Poisson process, 0 for a constant); 0 if the
    /// mean is 0.
    pub cov: f64,
    /// Median, accurate to 0.1 %.
    pub p50: u64,
    /// 90th percentile, accurate to 0.1 %.
    pub p90: u64,
    /// 99th percentile, accurate to 0.1 %.
    pub p99: u64,
    /// Maximum, exact.
    pub max: u64,
}

/// Collects a [`Distribution`]; allocates nothing before the first value.
#[derive(Debug, Default)]
pub(super) struct Gatherer {
    state: Option<State>,
}

#[derive(Debug)]
struct State {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    /// Welford's running mean, and sum of squared deviations.
    mean: f64,
    squares: f64,
    count: u64,
}

impl Gatherer {
    pub(super) fn add(&mut self, value: u64) {
        let state = self.state.get_or_insert_with(State::new);
        // Zero and 2^64 − 1 are outside the histogram's range, and are recorded at its ends.
        state.histogram.saturating_record(value);
        state.min = state.min.min(value);
        state.max = state.max.max(value);
        state.count += 1;
        let before = value as f64 - state.mean;
        state.mean += before / state.count as f64;
        state.squares += before * (value as f64 - state.mean);
    }

    pub(super) fn count(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.count)
    }

    pub(super) fn sum(&self) -> f64 {
        self.state.as_ref().map_or(0.0, |state| state.mean * state.count as f64)
    }

    /// Returns the statistics; `None` if there are no values.
    pub(super) fn finish(&self) -> Option<Distribution> {
        let state = self.state.as_ref()?;
        let deviation = (state.squares / state.count as f64).max(0.0).sqrt();
        // The lower end of a bucket, which round sizes such as 4096 coincide with.
        let at = |quantile| {
            let value = state.histogram.value_at_quantile(quantile);
            state.histogram.lowest_equivalent(value).clamp(state.min, state.max)
        };
        Some(Distribution {
            count: state.count,
            min: state.min,
            mean: state.mean,
            cov: if state.mean > 0.0 { deviation / state.mean } else { 0.0 },
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: state.max,
        })
    }
}

impl State {
    fn new() -> State {
        let histogram = Histogram::new_with_bounds(1, u64::MAX / 2, PERCENTILE_DIGITS);
        State {
            histogram: histogram.expect("the bounds and digits are valid constants"),
            min: u64::MAX,
            max: 0,
            mean: 0.0,
            squares: 0.0,
            count: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_are_within_a_thousandth(mut values in prop::collection::vec(0u64..1 << 40, 1..300)) {
            let mut gatherer = Gatherer::default();
            values.iter().for_each(|&value| gatherer.add(value));
            let found = gatherer.finish().unwrap();
            values.sort_unstable();
            let median = values[values.len().div_ceil(2) - 1];
            prop_assert!(found.p50.abs_diff(median) <= median / 1000 + 1, "{} for {median}", found.p50);
            prop_assert_eq!((found.min, found.max), (values[0], values[values.len() - 1]));
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((found.mean - mean).abs() <= mean * 1e-9 + 1e-9);
        }
    }
}
