//! Requested performance, and how many requests may be in the device so that it can be kept.

use sakiyomi_model::Nanos;

/// Requested performance in percent of the device, 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u8);

/// A requested performance that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} % of a device cannot be asked for; ask for 1 to 100 %")]
pub struct PercentError(pub u32);

impl Percent {
    /// `percent` of the device.
    ///
    /// # Errors
    /// [`PercentError`] unless it is 1 to 100.
    pub fn new(percent: u32) -> Result<Percent, PercentError> {
        match u8::try_from(percent) {
            Ok(value @ 1..=100) => Ok(Percent(value)),
            _ => Err(PercentError(percent)),
        }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        u32::from(self.0)
    }

    /// `100/P` times `service`: the ideal time of an I/O (section 4.1).
    #[must_use]
    pub fn ideal(self, service: Nanos) -> Nanos {
        Nanos(u64::try_from(u128::from(service.0) * 100 / u128::from(self.0)).unwrap_or(u64::MAX))
    }
}

/// How many owners have asked for which performance. There are a hundred levels, however many owners there are.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    owners: [u32; 101],
    total: u32,
}

impl Default for Levels {
    fn default() -> Levels {
        Levels { owners: [0; 101], total: 0 }
    }
}

impl Levels {
    pub(crate) fn add(&mut self, rate: Percent) {
        self.owners[usize::from(rate.0)] += 1;
        self.total += 1;
    }

    pub(crate) fn remove(&mut self, rate: Percent) {
        self.owners[usize::from(rate.0)] -= 1;
        self.total -= 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// From the highest performance down: the level, and how many have asked for it or for more.
    pub(crate) fn by_performance(&self) -> impl Iterator<Item = (Percent, u32)> {
        let mut so_far = 0;
        (1..=100u8).rev().filter(|&level| self.owners[usize::from(level)] > 0).map(move |level| {
            so_far += self.owners[usize::from(level)];
            (Percent(level), so_far)
        })
    }

    /// The allowance of section 4.2, before its lower bound of 1: `min over i of 100/P_i - sum_j f(i,j) - 1`, rounded
    /// down, where `f` counts the others that have asked for as much as i or for more. None without an owner.
    pub(crate) fn formula(&self) -> Option<i64> {
        self.by_performance().map(|(level, ahead)| i64::from(100 / level.get()) - i64::from(ahead)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn levels(rates: &[u32]) -> Levels {
        let mut levels = Levels::default();
        rates.iter().for_each(|&rate| levels.add(Percent::new(rate).unwrap()));
        levels
    }

    #[test]
    fn one_owner_has_the_allowances_of_the_thesis() {
        let formula = |rate| levels(&[rate]).formula().unwrap();
        assert_eq!([10, 15, 20, 25, 30].map(formula), [9, 5, 4, 3, 2]);
        assert_eq!(formula(100), 0);
    }

    #[test]
    fn an_owner_waits_for_those_that_asked_for_as_much_or_more() {
        // 100/10 - 2 - 1, against 100/20 - 1 - 1 for each of the two at 20 %.
        assert_eq!(levels(&[20, 20, 10]).formula(), Some(3));
        assert_eq!(levels(&[50, 50]).formula(), Some(0));
        assert_eq!(Levels::default().formula(), None);
    }

    proptest! {
        #[test]
        fn the_levels_give_what_the_formula_gives(rates in proptest::collection::vec(1u32..=100, 1..20)) {
            let plain = rates.iter().enumerate().map(|(i, &rate)| {
                let others = rates.iter().enumerate().filter(|&(j, &other)| j != i && other >= rate).count();
                (100.0 / f64::from(rate) - others as f64 - 1.0).floor() as i64
            });
            prop_assert_eq!(levels(&rates).formula(), plain.min());
        }
    }
}
