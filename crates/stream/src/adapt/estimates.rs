//! Estimates that are both precise and quick: one over a long time, and one over a short time. Where the two differ by
//! more than chance, something has changed, and both start over: an average over before and after would lead through
//! plans for loads that there never were.

use sakiyomi_placement::Estimate;

/// Half-life of samples that show a change: a step of the value to the double has passed 20 % after 32 ms.
const FAST_HALF_LIFE_NS: u64 = 100_000_000;

/// Half-life of samples that give the value while nothing changes.
pub(crate) const SLOW_HALF_LIFE_NS: u64 = 2_000_000_000;

/// Standard deviations beyond which a difference is not taken for noise: one more than for the rate, of which there is a
/// single one, while a stream has many operators.
pub(crate) const DEVIATIONS_MAX: f64 = 5.0;

/// Relative difference of the two estimates below which the slow one is close enough.
const DIFFERENCE_MIN_RATIO: f64 = 0.1;

/// A value and its standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) deviation: f64,
}

impl Figure {
    /// Returns a value that any measured one may replace.
    pub(crate) fn guess(value: f64) -> Figure {
        Figure { value, deviation: 0.0 }
    }

    /// Returns the product of two independent figures.
    pub(crate) fn times(self, other: Figure) -> Figure {
        let deviation = (self.value * other.deviation).hypot(other.value * self.deviation);
        Figure { value: self.value * other.value, deviation }
    }

    /// Returns the sum of two independent figures.
    pub(crate) fn plus(self, other: Figure) -> Figure {
        Figure { value: self.value + other.value, deviation: self.deviation.hypot(other.deviation) }
    }

    /// Returns whether it differs from a value by more than chance. A value that was a bad estimate differs as well.
    pub(crate) fn differs_from(self, value: f64) -> bool {
        (self.value - value).abs() > DEVIATIONS_MAX * self.deviation
    }
}

impl From<Estimate> for Figure {
    fn from(estimate: Estimate) -> Figure {
        Figure { value: estimate.value, deviation: estimate.deviation }
    }
}

/// Two meters of the same figure.
#[derive(Clone, Debug)]
pub(crate) struct Tracked<M> {
    fast: M,
    slow: M,
    /// Both without samples.
    blank: (M, M),
    /// Samples, by weight, that an estimate needs after a change, or to show one: fewer have other tails than a normal
    /// distribution.
    samples_min: f64,
    known: Option<Estimate>,
    /// Something has changed, and too little is known since then.
    is_renewed: bool,
}

impl<M: Clone> Tracked<M> {
    /// By a meter for a half-life in nanoseconds, and the number of samples that an estimate needs to show a change.
    ///
    /// # Errors
    /// Returns the errors of `meter`.
    pub(crate) fn new<E>(meter: impl Fn(u64) -> Result<M, E>, samples_min: f64) -> Result<Tracked<M>, E> {
        let (fast, slow) = (meter(FAST_HALF_LIFE_NS)?, meter(SLOW_HALF_LIFE_NS)?);
        let blank = (fast.clone(), slow.clone());
        Ok(Tracked { fast, slow, blank, samples_min, known: None, is_renewed: false })
    }

    /// Calls both.
    pub(crate) fn each(&mut self, mut call: impl FnMut(&mut M)) {
        call(&mut self.fast);
        call(&mut self.slow);
    }

    /// Returns the meter of a short time.
    pub(crate) fn fast(&mut self) -> &mut M {
        &mut self.fast
    }

    /// Returns the meter of a long time.
    pub(crate) fn slow(&mut self) -> &mut M {
        &mut self.slow
    }

    /// Returns the estimate, by the meter of the short time and then that of the long time; `None` while there is
    /// none.
    pub(crate) fn estimate(&mut self, mut of: impl FnMut(&M) -> Option<Estimate>) -> Option<Estimate> {
        let (fast, slow) = (of(&self.fast), of(&self.slow));
        if self.is_renewed {
            self.is_renewed = slow.is_none_or(|slow| slow.samples < self.samples_min);
        } else if let (Some(fast), Some(slow)) = (fast, slow)
            && fast.samples >= self.samples_min
            && is_changed(fast, slow)
        {
            (self.fast, self.slow) = self.blank.clone();
            self.is_renewed = true;
        }
        if !self.is_renewed {
            self.known = slow.or(fast);
        }
        self.known
    }
}

/// Returns whether an estimate of a short time shows that another one is out of date.
fn is_changed(fast: Estimate, slow: Estimate) -> bool {
    let difference = (fast.value - slow.value).abs();
    // The deviation of as many samples if nothing had changed: few small values have a small deviation of their own.
    let expected = slow.deviation * (slow.samples / fast.samples).sqrt();
    difference > DIFFERENCE_MIN_RATIO * slow.value.abs()
        && difference > DEVIATIONS_MAX * slow.deviation.hypot(fast.deviation.max(expected))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_of_a_short_time_shows_a_change_only_beyond_chance() {
        let of = |value, deviation, samples| Estimate { value, deviation, samples, newest_ns: 0 };
        let slow = of(100.0, 0.5, 2_000.0);
        assert!(!is_changed(of(130.0, 10.0, 200.0), slow), "by chance");
        assert!(!is_changed(of(91.0, 0.1, 200.0), slow), "by little");
        assert!(is_changed(of(130.0, 5.0, 200.0), slow));
        assert!(!is_changed(of(130.0, 1.0, 200.0), of(100.0, 3.0, 2_000.0)), "it scatters");
    }

    #[test]
    fn after_a_change_the_estimate_is_as_before_until_enough_is_known() {
        let meter =
            |_| Ok::<Estimate, ()>(Estimate { value: 0.0, deviation: 0.0, samples: 0.0, newest_ns: 0 });
        let mut tracked = Tracked::new(meter, 100.0).unwrap();
        let mut next = |fast: (f64, f64), slow: (f64, f64)| {
            let estimate = |(value, samples)| Estimate { value, deviation: 1.0, samples, newest_ns: 0 };
            (*tracked.fast(), *tracked.slow()) = (estimate(fast), estimate(slow));
            tracked.estimate(|meter| Some(*meter)).unwrap().value
        };
        assert_eq!(next((101.0, 200.0), (100.0, 900.0)), 100.0);
        assert_eq!(next((150.0, 90.0), (104.0, 900.0)), 104.0, "too few to show a change");
        assert_eq!(next((150.0, 200.0), (106.0, 900.0)), 104.0);
        assert_eq!(next((200.0, 50.0), (200.0, 50.0)), 104.0);
        assert_eq!(next((200.0, 100.0), (200.0, 120.0)), 200.0);
    }

    #[test]
    fn deviations_of_products_and_sums_are_those_of_independent_figures() {
        let (one, other) = (Figure { value: 2.0, deviation: 0.3 }, Figure { value: 5.0, deviation: 1.0 });
        assert_eq!(one.times(other), Figure { value: 10.0, deviation: 2.5 });
        assert!((one.plus(other).deviation - 1.09_f64.sqrt()).abs() < 1e-12);
    }
}
