//! Times beside others on a device that serves several requests at once.

use sakiyomi_model::{Bytes, Nanos};

use super::{PROFILE_DEPTHS, PROFILE_SIZES};

/// Number of quantiles of a [`Distribution`].
pub const DISTRIBUTION_QUANTILES: usize = 100;

/// The distribution of a time, by quantiles: those of storage that serves several requests at once are far from normal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Up to [`DISTRIBUTION_QUANTILES`] quantiles in ns, ascending: the middles of as many equal parts.
    pub quantiles: Vec<f64>,
}

impl Distribution {
    /// Returns the distribution of measured times; empty without any.
    #[must_use]
    pub fn of(times: &[Nanos]) -> Distribution {
        let mut sorted: Vec<f64> = times.iter().map(|time| time.0 as f64).collect();
        sorted.sort_by(f64::total_cmp);
        if sorted.len() <= DISTRIBUTION_QUANTILES {
            return Distribution { quantiles: sorted };
        }
        let middle = |part: usize| sorted[(2 * part + 1) * sorted.len() / (2 * DISTRIBUTION_QUANTILES)];
        Distribution { quantiles: (0..DISTRIBUTION_QUANTILES).map(middle).collect() }
    }

    /// Returns the mean of a function of the time.
    #[must_use]
    pub fn mean_of(&self, function: impl Fn(f64) -> f64) -> f64 {
        self.quantiles.iter().map(|&time| function(time)).sum::<f64>() / self.quantiles.len().max(1) as f64
    }

    /// Returns the time that is exceeded only with the given probability, in ns.
    #[must_use]
    pub fn exceeded_with(&self, probability: f64) -> f64 {
        let above = (self.quantiles.len() as f64 * probability) as usize;
        self.quantiles.iter().rev().nth(above).copied().unwrap_or(0.0)
    }
}

/// Times of a read of 4 KiB that arrives at any moment while the device always has others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beside {
    /// For each size of [`PROFILE_SIZES`] of the others, by their number, which are the first of [`PROFILE_DEPTHS`].
    pub others: [Vec<Distribution>; 4],
}

impl Beside {
    /// Returns the greatest number of others of each of [`PROFILE_SIZES`] with which the times satisfy `is_kept`; `None`
    /// if not even one of the smallest is possible. Times beside fewer others are assumed to satisfy it, too: where they
    /// do not, something else has disturbed the measurement.
    #[must_use]
    pub fn most(&self, is_kept: impl Fn(&Distribution) -> bool) -> Option<[u32; 4]> {
        let most = |times: &Vec<Distribution>| {
            let kept = PROFILE_DEPTHS.iter().zip(times).rfind(|(_, times)| is_kept(times));
            kept.map_or(0, |(&depth, _)| depth)
        };
        let most = [0, 1, 2, 3].map(|size| most(&self.others[size]));
        (most[0] > 0).then_some(most)
    }
}

/// Returns the index of the smallest of [`PROFILE_SIZES`] that holds `size`, or of the largest.
#[must_use]
pub(crate) fn size_class(size: Bytes) -> usize {
    PROFILE_SIZES.iter().position(|&larger| size <= larger).unwrap_or(PROFILE_SIZES.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(ns: f64) -> Distribution {
        Distribution { quantiles: vec![ns; DISTRIBUTION_QUANTILES] }
    }

    #[test]
    fn quantiles_are_those_of_the_times() {
        let times: Vec<Nanos> = (0..1000).rev().map(Nanos).collect();
        let found = Distribution::of(&times);
        assert_eq!(found.quantiles.len(), DISTRIBUTION_QUANTILES);
        assert!((found.mean_of(|time| time) - 500.0).abs() < 1.0);
        assert_eq!(found.exceeded_with(0.01), 985.0);
        assert_eq!(found.exceeded_with(0.0), 995.0);
        assert_eq!(Distribution::of(&times[..3]).quantiles, [997.0, 998.0, 999.0]);
        assert_eq!(Distribution::default().exceeded_with(0.01), 0.0);
    }

    #[test]
    fn the_greatest_number_is_the_last_that_is_kept() {
        let by_depth = |times: &[f64]| times.iter().copied().map(steady).collect::<Vec<_>>();
        let others = [by_depth(&[1.0, 9.0, 2.0, 9.0, 12.0]), by_depth(&[1.0, 5.0]), by_depth(&[9.0]), vec![]];
        let beside = Beside { others };
        let up_to = |most: f64| beside.most(move |times| times.exceeded_with(0.01) <= most);
        assert_eq!(up_to(2.0), Some([4, 1, 0, 0]));
        assert_eq!(up_to(5.0), Some([4, 2, 0, 0]));
        assert_eq!(up_to(0.5), None);
    }
}
