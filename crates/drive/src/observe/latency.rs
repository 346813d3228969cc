//! Response time distributions in constant memory.
//!
//! A distribution is a histogram of logarithmic groups of linear buckets, as in HdrHistogram (Tene 2012), whose bucket
//! bounds it shares. Memory for a group is allocated when the first time falls into it: a simulation keeps dozens of
//! distributions, each of which covers a few groups.

use sakiyomi_model::Nanos;

/// Maximum recorded time (eleven days); longer times are recorded as this.
const LATENCY_MAX_NS: u64 = 1_000_000_000_000_000;

/// Longest time with a bucket of its own, exclusive: the power of two above [`LATENCY_MAX_NS`].
const LATENCY_LIMIT_NS: u64 = LATENCY_MAX_NS.next_power_of_two();

/// Log₂ of the buckets per group for an accuracy of 0.1 %.
const FINE_GROUP_BITS: u32 = 10;
/// Log₂ of the buckets per group for an accuracy of 1 %.
const COARSE_GROUP_BITS: u32 = 7;

/// A distribution of times. Quantiles are accurate to 0.1 % (coarse: 1 %); count, mean and maximum are exact.
#[derive(Clone, Debug)]
pub struct Latency {
    group_bits: u32,
    groups: Vec<Group>,
    count: u64,
    sum: u128,
    max: Nanos,
}

/// Buckets of equal width. The first group covers the times below `2^group_bits`, each following one a power of two.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Empty until a time falls into the group.
    buckets: Vec<u64>,
    total: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency::with_group_bits(FINE_GROUP_BITS)
    }
}

impl Latency {
    /// Creates a distribution with 1 % instead of 0.1 % accuracy, a tenth of the size.
    #[must_use]
    pub fn coarse() -> Latency {
        Latency::with_group_bits(COARSE_GROUP_BITS)
    }

    fn with_group_bits(group_bits: u32) -> Latency {
        let groups = LATENCY_LIMIT_NS.ilog2() - group_bits + 1;
        let groups = vec![Group::default(); groups as usize];
        Latency { group_bits, groups, count: 0, sum: 0, max: Nanos::ZERO }
    }

    /// Adds one time.
    pub fn record(&mut self, time: Nanos) {
        let value = if time.0 < LATENCY_LIMIT_NS { time.0 } else { LATENCY_MAX_NS };
        let (group, bucket) = self.place(value);
        let size = 1 << self.group_bits;
        let group = &mut self.groups[group];
        if group.buckets.is_empty() {
            group.buckets = vec![0; size];
        }
        group.buckets[bucket] += 1;
        group.total += 1;
        self.count += 1;
        self.sum += u128::from(time.0);
        self.max = self.max.max(time);
    }

    /// Returns the group of a time, and its bucket in the group.
    fn place(&self, value: u64) -> (usize, usize) {
        let group = (value >> self.group_bits).checked_ilog2().map_or(0, |log| log + 1);
        let bucket = (value >> group.saturating_sub(1)) & ((1 << self.group_bits) - 1);
        (group as usize, bucket as usize)
    }

    /// Returns the longest time in a bucket.
    fn longest_in(&self, group: usize, bucket: usize) -> u64 {
        let shift = group.saturating_sub(1);
        let base = if group == 0 { 0 } else { 1 << self.group_bits };
        ((base + bucket as u64 + 1) << shift) - 1
    }

    /// Adds all times of `other`, which has the same accuracy.
    pub fn merge(&mut self, other: &Latency) {
        debug_assert_eq!(self.group_bits, other.group_bits, "distributions of one accuracy are merged");
        for (own, more) in self.groups.iter_mut().zip(&other.groups) {
            if own.buckets.is_empty() {
                own.buckets.clone_from(&more.buckets);
            } else {
                own.buckets.iter_mut().zip(&more.buckets).for_each(|(own, more)| *own += more);
            }
            own.total += more.total;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Removes all times.
    pub fn clear(&mut self) {
        for group in self.groups.iter_mut().filter(|group| group.total > 0) {
            group.buckets.fill(0);
            group.total = 0;
        }
        self.count = 0;
        self.sum = 0;
        self.max = Nanos::ZERO;
    }

    /// Returns the number of times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
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
        let mut left = ((quantile.min(1.0) * self.count as f64).ceil() as u64).max(1);
        for (index, group) in self.groups.iter().enumerate() {
            if group.total < left {
                left -= group.total;
                continue;
            }
            for (bucket, count) in group.buckets.iter().enumerate() {
                if *count >= left {
                    let longest = self.longest_in(index, bucket);
                    let width = 1 << index.saturating_sub(1);
                    let time = if quantile == 0.0 { longest + 1 - width } else { longest };
                    return Nanos(time).min(self.max);
                }
                left -= count;
            }
        }
        Nanos::ZERO
    }

    /// Returns the counts between ascending `bounds`: the `i`-th count covers times above `bounds[i - 1]` up to
    /// `bounds[i]`. Times beyond the last bound are not counted.
    #[must_use]
    pub fn counts_between(&self, bounds: &[Nanos]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len()];
        for (index, group) in self.groups.iter().enumerate().filter(|(_, group)| group.total > 0) {
            for (bucket, times) in group.buckets.iter().enumerate().filter(|(_, times)| **times > 0) {
                let longest = self.longest_in(index, bucket);
                let bound = bounds.partition_point(|bound| bound.0 < longest);
                if let Some(count) = counts.get_mut(bound) {
                    *count += times;
                }
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    /// The oracle with the same accuracy: `digits` of HdrHistogram.
    fn oracle(times: &[u64], digits: u8) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, LATENCY_MAX_NS, digits).expect("valid bounds");
        times.iter().for_each(|time| histogram.saturating_record(*time));
        histogram
    }

    fn times() -> impl Strategy<Value = Vec<u64>> {
        let time = (0u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift);
        prop::collection::vec(prop_oneof![4 => time, 1 => 0u64..5000], 1..60)
    }

    fn check(latency: &Latency, times: &[u64], digits: u8) {
        let histogram = oracle(times, digits);
        let max = times.iter().copied().max().unwrap_or(0);
        assert_eq!((latency.count(), latency.max()), (times.len() as u64, Nanos(max)));
        for quantile in [0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let expected = histogram.value_at_quantile(quantile).min(max);
            assert_eq!(latency.quantile(quantile), Nanos(expected), "{quantile}");
        }
        let bounds: Vec<Nanos> = (0..50).map(|log| Nanos(3 << log)).collect();
        let mut expected = vec![0; bounds.len()];
        for value in histogram.iter_recorded() {
            let bound = bounds.partition_point(|bound| bound.0 < value.value_iterated_to());
            if let Some(count) = expected.get_mut(bound) {
                *count += value.count_since_last_iteration();
            }
        }
        assert_eq!(latency.counts_between(&bounds), expected);
    }

    proptest! {
        #[test]
        fn it_counts_as_hdrhistogram_does(first in times(), second in times()) {
            for (digits, mut latency) in [(3, Latency::default()), (2, Latency::coarse())] {
                first.iter().for_each(|time| latency.record(Nanos(*time)));
                check(&latency, &first, digits);
                let mut other = latency.clone();
                other.clear();
                prop_assert_eq!((other.count(), other.quantile(0.5)), (0, Nanos::ZERO));
                second.iter().for_each(|time| other.record(Nanos(*time)));
                check(&other, &second, digits);
                latency.merge(&other);
                check(&latency, &[first.clone(), second.clone()].concat(), digits);
            }
        }
    }
}
