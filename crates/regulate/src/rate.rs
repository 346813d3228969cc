//! Requested performances, and the number of requests in the device at which they can be kept.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use sakiyomi_model::Nanos;

/// The owner of an I/O: a process, or a group of them that share one rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u32);

/// Requested performance in percent of the device, 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u8);

/// A percentage out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} % of a device is not a valid rate; request 1 to 100 %")]
pub struct PercentError(pub u32);

impl Percent {
    /// Makes a requested performance of `percent` percent of the device.
    ///
    /// # Errors
    /// [`PercentError`] unless it is 1 to 100.
    pub fn new(percent: u32) -> Result<Percent, PercentError> {
        match u8::try_from(percent) {
            Ok(value @ 1..=100) => Ok(Percent(value)),
            _ => Err(PercentError(percent)),
        }
    }

    /// Returns the percentage.
    #[must_use]
    pub fn get(self) -> u32 {
        u32::from(self.0)
    }

    /// Returns the ideal time of an I/O, `100/P` times `service` (section 4.1).
    #[must_use]
    pub fn ideal(self, service: Nanos) -> Nanos {
        Share::of(self).ideal(service)
    }
}

/// The rate of an owner, which determines the time of each of its I/Os.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rate {
    /// `100/P` times the service time of the device, which it follows.
    Percent(Percent),
    /// A fixed time, independent of the device.
    Every(Nanos),
}

impl Rate {
    /// Returns the ideal time of an I/O with this service time (section 4.1).
    #[must_use]
    pub fn ideal(self, service: Nanos) -> Nanos {
        match self {
            Rate::Percent(percent) => percent.ideal(service),
            Rate::Every(time) => time,
        }
    }

    /// Returns the share of the device that corresponds to the rate if the mean service time is `mean`.
    pub(crate) fn share(self, mean: Nanos) -> Share {
        match self {
            Rate::Percent(percent) => Share::of(percent),
            Rate::Every(time) => Share::of_time(time, mean),
        }
    }
}

impl From<Percent> for Rate {
    fn from(percent: Percent) -> Rate {
        Rate::Percent(percent)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Percent(percent) => write!(f, "{} %", percent.get()),
            Rate::Every(time) => write!(f, "every {}", Time(*time)),
        }
    }
}

/// A time, displayed with a suitable unit.
pub(crate) struct Time(pub(crate) Nanos);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0.0 {
            1_000_000_000.. => (1_000_000_000, "s"),
            1_000_000.. => (1_000_000, "ms"),
            1_000.. => (1_000, "us"),
            _ => (1, "ns"),
        };
        let thousandths = (self.0.0 as f64 / unit as f64 * 1000.0).round();
        write!(f, "{} {name}", thousandths / 1000.0)
    }
}

/// A share of the device in tenths of a percent, 1 to 1001, where 1001 is more than the whole device. It serves to
/// order owners and to compute admission; ideal times are never computed from a rounded share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Share(u32);

/// Unit of shares: thousandths of the device.
const SHARES_PER_DEVICE: u32 = 1000;

impl Share {
    pub(crate) fn of(percent: Percent) -> Share {
        Share(percent.get() * SHARES_PER_DEVICE / 100)
    }

    /// Returns the share for one I/O per `time`, rounded up.
    fn of_time(time: Nanos, mean: Nanos) -> Share {
        let tenths = (u128::from(mean.0) * u128::from(SHARES_PER_DEVICE)).div_ceil(u128::from(time.0.max(1)));
        Share(tenths.clamp(1, u128::from(SHARES_PER_DEVICE + 1)) as u32)
    }

    /// Returns the ideal time of an I/O of an owner with this share, if its service time is `mean`.
    pub(crate) fn ideal(self, mean: Nanos) -> Nanos {
        Nanos(
            u64::try_from(u128::from(mean.0) * u128::from(SHARES_PER_DEVICE) / u128::from(self.0))
                .unwrap_or(u64::MAX),
        )
    }

    /// Returns how many I/Os the device completes while this owner completes one: `100/P`, rounded down.
    pub(crate) fn times(self) -> u32 {
        SHARES_PER_DEVICE / self.0
    }

    /// Returns it as a part of the device, 0 to 1.
    pub(crate) fn part(self) -> f64 {
        f64::from(self.0) / f64::from(SHARES_PER_DEVICE)
    }

    /// Returns whether it differs from `other` by more than the fluctuation of the mean service time.
    pub(crate) fn is_far_from(self, other: Share) -> bool {
        self.0.abs_diff(other.0) * 16 > other.0
    }

    /// Returns the largest rate of the same kind as `asked`, and below it, that satisfies `has_room`.
    pub(crate) fn best(asked: Rate, mean: Nanos, has_room: impl Fn(Rate) -> bool) -> Option<Rate> {
        let like = |share: u32| match asked {
            Rate::Percent(_) => Rate::Percent(Percent((share * 100 / SHARES_PER_DEVICE) as u8)),
            Rate::Every(_) => {
                Rate::Every(readable(mean.0.saturating_mul(SHARES_PER_DEVICE.into()).div_ceil(share.into())))
            }
        };
        let step = if matches!(asked, Rate::Percent(_)) { SHARES_PER_DEVICE / 100 } else { 1 };
        let (mut good, mut bad) = (0, asked.share(mean).0 / step);
        while bad - good > 1 {
            let middle = (good + bad) / 2;
            if has_room(like(middle * step)) { good = middle } else { bad = middle }
        }
        (good > 0).then(|| like(good * step))
    }
}

/// Rounds a time up to two significant digits.
fn readable(time: u64) -> Nanos {
    let digit = 10u64.pow(time.max(1).ilog10().saturating_sub(1));
    Nanos(time.div_ceil(digit).saturating_mul(digit))
}

/// Number of owners by share. Bounded by the thousand possible shares, however many owners there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    owners: BTreeMap<Reverse<Share>, u32>,
}

impl Levels {
    pub(crate) fn add(&mut self, share: Share) {
        *self.owners.entry(Reverse(share)).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, share: Share) {
        let owners = self.owners.get_mut(&Reverse(share)).expect("it was added");
        *owners -= 1;
        if *owners == 0 {
            self.owners.remove(&Reverse(share));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Iterates from the largest share down; yields each with its number of owners.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (Share, u32)> {
        self.owners.iter().map(|(Reverse(share), owners)| (*share, *owners))
    }

    /// Iterates from the largest share down; yields the share and the number of owners with this share or a larger one.
    pub(crate) fn by_performance(&self) -> impl Iterator<Item = (Share, u32)> {
        self.owners.iter().scan(0, |so_far, (Reverse(share), owners)| {
            *so_far += owners;
            Some((*share, *so_far))
        })
    }

    /// Returns the allowance of section 4.2 before its lower bound of 1: `min over i of 100/P_i - sum_j f(i,j) - 1`,
    /// rounded down, where `f` counts the other owners that requested as much as i or more. `None` without an owner.
    pub(crate) fn formula(&self) -> Option<i64> {
        self.by_performance().map(|(share, ahead)| i64::from(share.times()) - i64::from(ahead)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn levels(rates: &[u32]) -> Levels {
        let mut levels = Levels::default();
        rates.iter().for_each(|&rate| levels.add(Share::of(Percent::new(rate).unwrap())));
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

    const MS: Nanos = Nanos::MILLISECOND;

    #[test]
    fn a_rate_by_time_is_the_share_that_it_comes_to() {
        let share = |time, mean| Rate::Every(time).share(mean);
        assert_eq!(share(MS * 50, MS * 10), Share(200), "20 %");
        assert_eq!(share(MS * 49, MS * 10), Share(205), "rounded up");
        assert_eq!(share(MS * 5, MS * 10), Share(1001), "more than there is");
        assert_eq!([share(Nanos::MAX, MS), share(MS, Nanos::ZERO)], [Share(1); 2]);
        assert_eq!(Rate::Every(MS * 50).ideal(MS * 7), MS * 50, "whatever the device does");
    }

    #[test]
    fn rates_in_words() {
        let words =
            [MS * 40, Nanos::SECOND * 2, Nanos(1500), Nanos(7)].map(|time| Rate::Every(time).to_string());
        assert_eq!(words, ["every 40 ms", "every 2 s", "every 1.5 us", "every 7 ns"]);
        assert_eq!(Rate::from(Percent(20)).to_string(), "20 %");
    }

    proptest! {
        #[test]
        fn the_best_rate_has_room_and_one_step_more_has_not(
            border in 1u32..=1000, mean in 1u64..1_000_000_000, by_time: bool,
        ) {
            let (mean, border) = (Nanos(mean), Share(border));
            let asked = if by_time { Rate::Every(Nanos(1)) } else { Rate::Percent(Percent(100)) };
            let has_room = |rate: Rate| rate.share(mean) <= border;
            match Share::best(asked, mean, has_room) {
                Some(best @ Rate::Percent(Percent(p))) => {
                    prop_assert!(has_room(best) && (p == 99 || !has_room(Rate::Percent(Percent(p + 1)))));
                }
                Some(best @ Rate::Every(time)) => {
                    prop_assert!(has_room(best));
                    prop_assert!(time.0 <= 2 || !has_room(Rate::Every(Nanos(time.0 * 7 / 8))) || mean.0 < 100_000);
                }
                None => prop_assert!(border.0 < 10),
            }
        }


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
