//! A sample of times in ascending order.

use sakiyomi_model::Nanos;

/// An empirical distribution: sorted times with exact quantiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    ascending: Vec<Nanos>,
}

impl FromIterator<Nanos> for Distribution {
    fn from_iter<I: IntoIterator<Item = Nanos>>(times: I) -> Distribution {
        let mut ascending: Vec<Nanos> = times.into_iter().collect();
        ascending.sort_unstable();
        Distribution { ascending }
    }
}

impl Distribution {
    /// Returns the times in ascending order.
    #[must_use]
    pub fn ascending(&self) -> &[Nanos] {
        &self.ascending
    }

    /// Returns the number of times.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ascending.len()
    }

    /// Returns the mean in nanoseconds; zero if empty.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        let sum: u128 = self.ascending.iter().map(|time| u128::from(time.0)).sum();
        if self.ascending.is_empty() { 0.0 } else { sum as f64 / self.count() as f64 }
    }

    /// Returns the maximum; zero if empty.
    #[must_use]
    pub fn max(&self) -> Nanos {
        self.ascending.last().copied().unwrap_or_default()
    }

    /// Returns the smallest time that a share (0 to 1) of all does not exceed; zero if empty.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Nanos {
        let rank = (share * self.count() as f64).ceil() as usize;
        let index = rank.clamp(1, self.count().max(1)) - 1;
        self.ascending.get(index).copied().unwrap_or_default()
    }

    /// Returns the time in nanoseconds at a level (0 to 1). The `i`-th of `n` times, from zero, is at level `(i + 0.5)
    /// / n`; levels between are interpolated, and clamped to the first and the last time. Zero if empty.
    #[must_use]
    pub fn level_ns(&self, level: f64) -> f64 {
        let Some(last) = self.count().checked_sub(1) else { return 0.0 };
        let place = (level * self.count() as f64 - 0.5).clamp(0.0, last as f64);
        let below = place.floor() as usize;
        let [low, high] = [below, (below + 1).min(last)].map(|index| self.ascending[index].0 as f64);
        low + (high - low) * (place - below as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::any_times;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_those_found_by_counting(times in any_times(1..60), percent in 0u32..=100) {
            let distribution: Distribution = times.iter().copied().collect();
            let wanted = (percent as usize * times.len()).div_ceil(100).max(1);
            let enough = |bound: &&Nanos| times.iter().filter(|time| time <= bound).count() >= wanted;
            let found = times.iter().filter(enough).min().unwrap();
            // A share that is not a binary fraction may fall on either side of a step.
            let share = f64::from(percent) / 100.0;
            let near = [share - 1e-9, share, share + 1e-9].map(|share| distribution.quantile(share));
            prop_assert!(near.contains(found), "{near:?} {found:?}");
        }

        #[test]
        fn levels_are_interpolated_between_neighbors(times in any_times(1..60), level in 0.0f64..=1.0) {
            let distribution: Distribution = times.iter().copied().collect();
            // The oracle searches all pairs of neighbors.
            let count = times.len() as f64;
            let at = |index: usize| (index as f64 + 0.5) / count;
            let ascending = distribution.ascending();
            let mut wanted = if level < at(0) { ascending[0].0 as f64 } else { distribution.max().0 as f64 };
            for index in 1..ascending.len() {
                if (at(index - 1)..at(index)).contains(&level) {
                    let part = (level - at(index - 1)) * count;
                    wanted = ascending[index - 1].0 as f64 * (1.0 - part) + ascending[index].0 as f64 * part;
                }
            }
            prop_assert!((distribution.level_ns(level) - wanted).abs() < 1.0);
        }

        #[test]
        fn the_time_of_a_level_never_falls(times in any_times(0..60), a in 0.0f64..=1.0, b in 0.0f64..=1.0) {
            let distribution: Distribution = times.into_iter().collect();
            prop_assert!(distribution.level_ns(a.min(b)) <= distribution.level_ns(a.max(b)));
            prop_assert!(distribution.quantile(a.min(b)) <= distribution.quantile(a.max(b)));
        }
    }
}
