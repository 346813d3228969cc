//! Times at which tuples are meant to arrive, whether there is room for them or not.
//!
//! A pattern is a rate over time and a spacing. The spacing gives times at a mean rate of one tuple per unit; the integral
//! of the rate maps units to seconds, so a step or a ramp begins in the midst of an interval as it does in reality.

use std::sync::Arc;

use sakiyomi_model::Nanos;

use super::StreamError;
use super::random::Random;
use super::time::{NEVER_PS, of_nanos};

/// How tuples of a rate are spaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spacing {
    /// At equal intervals.
    Constant,
    /// At random (Poisson).
    Poisson,
    /// On and off: bursts of a geometric number of tuples at a higher rate, with exponential gaps between them.
    Bursts {
        /// Mean number of tuples of a burst, 1 or more.
        tuples: f64,
        /// Rate within a burst over the mean rate, above 1.
        peak_ratio: f64,
    },
}

impl Spacing {
    /// Returns the index of dispersion of the number of tuples in a long window: variance over mean.
    #[must_use]
    pub fn dispersion(&self) -> f64 {
        match *self {
            Spacing::Constant => 0.0,
            Spacing::Poisson => 1.0,
            // Intervals are independent, with variance over squared mean q^2 (2b - 1).
            Spacing::Bursts { tuples, peak_ratio } => (1.0 - 1.0 / peak_ratio).powi(2) * (2.0 * tuples - 1.0),
        }
    }

    /// Units until the next tuple, 1 in the mean.
    fn draw(&self, random: &mut Random) -> f64 {
        match *self {
            Spacing::Constant => 1.0,
            Spacing::Poisson => random.exponential(),
            Spacing::Bursts { tuples, peak_ratio } => {
                let gap = if random.unit() * tuples < 1.0 { random.exponential() * tuples } else { 0.0 };
                (1.0 - 1.0 / peak_ratio) * gap + 1.0 / peak_ratio
            }
        }
    }
}

/// A rate from a time on, until that of the next piece.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatePiece {
    /// When it begins.
    pub from: Nanos,
    /// Tuples per second at the beginning, 0 or more.
    pub rate_per_s: f64,
    /// Change of the rate, in tuples per second each second. The rate stays at 0 where this would take it below.
    pub slope_per_s2: f64,
}

/// When tuples are meant to arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrivalPattern {
    /// At a rate that changes.
    Rate {
        /// The rate over time, in order. There are no tuples before the first piece.
        pieces: Vec<RatePiece>,
        /// How tuples are spaced.
        spacing: Spacing,
    },
    /// At given times, in order.
    Times(Arc<[Nanos]>),
}

impl ArrivalPattern {
    /// Returns one rate from the beginning on.
    #[must_use]
    pub fn steady(rate_per_s: f64, spacing: Spacing) -> ArrivalPattern {
        ArrivalPattern::steps(&[(Nanos::ZERO, rate_per_s)], spacing)
    }

    /// Rates, each from a time on.
    #[must_use]
    pub fn steps(rates: &[(Nanos, f64)], spacing: Spacing) -> ArrivalPattern {
        let piece = |&(from, rate_per_s): &(Nanos, f64)| RatePiece { from, rate_per_s, slope_per_s2: 0.0 };
        ArrivalPattern::Rate { pieces: rates.iter().map(piece).collect(), spacing }
    }

    pub(super) fn check(&self) -> Result<(), StreamError> {
        let value = |what, value, range| Err(StreamError::Value { what, value, range });
        let ArrivalPattern::Rate { pieces, spacing } = self else { return self.check_times() };
        if let Some(pair) = pieces.windows(2).find(|pair| pair[0].from >= pair[1].from) {
            let (what, range) = ("beginning of a rate in s", "after that of the rate before it");
            return value(what, pair[1].from.as_secs_f64(), range);
        }
        for piece in pieces {
            if !(piece.rate_per_s.is_finite() && (0.0..=RATE_MAX_PER_S).contains(&piece.rate_per_s)) {
                return value("rate in tuples/s", piece.rate_per_s, "from 0 to 1e12");
            }
            if !piece.slope_per_s2.is_finite() {
                return value("slope of a rate in tuples/s each second", piece.slope_per_s2, "finite");
            }
        }
        match *spacing {
            Spacing::Bursts { tuples, .. } if !(tuples.is_finite() && tuples >= 1.0) => {
                value("tuples of a burst", tuples, "1 or more")
            }
            Spacing::Bursts { peak_ratio, .. } if !(peak_ratio.is_finite() && peak_ratio > 1.0) => {
                value("rate of a burst over the mean rate", peak_ratio, "above 1")
            }
            _ => Ok(()),
        }
    }

    fn check_times(&self) -> Result<(), StreamError> {
        let ArrivalPattern::Times(times) = self else { return Ok(()) };
        match times.windows(2).find(|pair| pair[0] > pair[1]) {
            Some(pair) => {
                let (what, range) = ("time of an arrival in s", "that of the one before it or later");
                Err(StreamError::Value { what, value: pair[1].as_secs_f64(), range })
            }
            None => Ok(()),
        }
    }
}

/// The clock of the simulation has no finer unit than a picosecond.
const RATE_MAX_PER_S: f64 = 1e12;

/// Yields the times of a pattern, in picoseconds.
#[derive(Clone, Debug)]
pub(super) struct Generator {
    pattern: ArrivalPattern,
    random: Random,
    /// Index of the piece, or of the next time.
    index: usize,
    /// Units since the piece began.
    units: f64,
    until_ps: u64,
}

impl Generator {
    /// Returns a generator of a checked pattern, up to a time, exclusive.
    pub(super) fn new(pattern: &ArrivalPattern, until_ps: u64, random: Random) -> Generator {
        Generator { pattern: pattern.clone(), random, index: 0, units: 0.0, until_ps }
    }

    /// Returns the time of the next tuple; [`NEVER_PS`] after the last one.
    pub(super) fn next(&mut self) -> u64 {
        let at_ps = match &self.pattern {
            ArrivalPattern::Times(times) => {
                self.index += 1;
                times.get(self.index - 1).map_or(NEVER_PS, |&at| of_nanos(at))
            }
            ArrivalPattern::Rate { pieces, spacing } => {
                self.units += spacing.draw(&mut self.random);
                loop {
                    let Some(piece) = pieces.get(self.index) else { return NEVER_PS };
                    let end_ps = pieces.get(self.index + 1).map_or(self.until_ps, |next| of_nanos(next.from));
                    let from_ps = of_nanos(piece.from);
                    let length_s = end_ps.saturating_sub(from_ps) as f64 * 1e-12;
                    match piece.time_of(self.units, length_s) {
                        Ok(after_s) => break from_ps.saturating_add((after_s * 1e12).round() as u64),
                        Err(units) => {
                            self.units -= units;
                            self.index += 1;
                        }
                    }
                }
            }
        };
        if at_ps < self.until_ps { at_ps } else { NEVER_PS }
    }
}

impl RatePiece {
    /// Returns the time at which this number of units has passed, in seconds; or the units of the whole piece
    /// if it has fewer.
    fn time_of(&self, units: f64, length_s: f64) -> Result<f64, f64> {
        let (rate, slope) = (self.rate_per_s, self.slope_per_s2);
        let length_s = if slope < 0.0 { length_s.min(-rate / slope) } else { length_s };
        let all = (rate + slope * length_s / 2.0) * length_s;
        if units > all || all <= 0.0 {
            return Err(all.max(0.0));
        }
        // The root of `rate t + slope t^2 / 2 = units`, in the form that loses no digits.
        Ok(2.0 * units / (rate + (rate * rate + 2.0 * slope * units).max(0.0).sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(pattern: &ArrivalPattern, until: Nanos) -> Vec<u64> {
        pattern.check().unwrap();
        let mut generator = Generator::new(pattern, of_nanos(until), Random::new(5, 0));
        std::iter::from_fn(|| Some(generator.next()).filter(|&at| at < NEVER_PS)).collect()
    }

    #[test]
    fn a_constant_rate_has_equal_intervals_without_drift() {
        let times = times(&ArrivalPattern::steady(3e6, Spacing::Constant), Nanos::SECOND);
        assert_eq!(times.len(), 2_999_999);
        let expected = |index: usize| (index as f64 + 1.0) * 1e6 / 3.0;
        assert!(times.iter().enumerate().all(|(index, &at)| (at as f64 - expected(index)).abs() <= 1.0));
    }

    #[test]
    fn steps_and_ramps_have_their_numbers_of_tuples() {
        let piece = |from: u64, rate_per_s: f64, slope_per_s2: f64| RatePiece {
            from: Nanos::SECOND * from,
            rate_per_s,
            slope_per_s2,
        };
        let pieces =
            vec![piece(1, 1000.0, 0.0), piece(2, 0.0, 0.0), piece(3, 0.0, 2000.0), piece(4, 2000.0, -4000.0)];
        for spacing in [Spacing::Constant, Spacing::Poisson] {
            let times = times(&ArrivalPattern::Rate { pieces: pieces.clone(), spacing }, Nanos::SECOND * 9);
            let between = |from: f64, to: f64| {
                times.iter().filter(|&&at| (from..to).contains(&(at as f64 * 1e-12))).count() as f64
            };
            let expected = [(0.0, 1.0, 0.0), (1.0, 2.0, 1000.0), (2.0, 3.0, 0.0), (3.0, 3.5, 250.0)];
            let more = [(3.0, 4.0, 1000.0), (4.0, 9.0, 500.0)];
            for (from, to, tuples) in expected.into_iter().chain(more) {
                let error = if spacing == Spacing::Constant { 1.0 } else { 4.0 * f64::sqrt(tuples) };
                assert!(
                    (between(from, to) - tuples).abs() <= error,
                    "{spacing:?} {from}: {}",
                    between(from, to)
                );
            }
        }
    }

    #[test]
    fn bursts_keep_the_rate_and_have_their_dispersion() {
        let spacing = Spacing::Bursts { tuples: 20.0, peak_ratio: 5.0 };
        let times = times(&ArrivalPattern::steady(1e5, spacing), Nanos::SECOND * 40);
        let mut counts = vec![0.0_f64; 400];
        times.iter().for_each(|&at| counts[(at / 100_000_000_000) as usize] += 1.0);
        let mean = counts.iter().sum::<f64>() / 400.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 399.0;
        assert!((mean / 1e4 - 1.0).abs() < 0.01, "{mean}");
        let error = variance / mean / spacing.dispersion() - 1.0;
        assert!(error.abs() < 0.25, "{} of {}", variance / mean, spacing.dispersion());
    }
}
