//! Seeded random numbers (PCG-64), and distributions.

use rand_core::Rng;
use rand_pcg::Pcg64;
use sakiyomi_model::Bytes;

use super::math::{exp, ln};
use super::{SECTOR_BYTES, require};
use crate::error::TraceError;
use crate::record::LENGTH_MAX;

/// A seeded random number generator.
pub(super) struct Sampler(Pcg64);

impl Sampler {
    /// Creates a generator; all seeds are equally good.
    pub(super) fn new(seed: u64) -> Sampler {
        /// PCG's own default stream.
        const PCG_STREAM: u128 = 0x0a02_bdbf_7bb3_c0a7_ac28_fa16_a64a_bf96;
        Sampler(Pcg64::new(u128::from(seed), PCG_STREAM))
    }

    /// Returns a uniform integer below `bound`, which is not zero (Lemire 2019).
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            let low = product as u64;
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// Returns a uniform fraction from 0 to below 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with the given probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns an exponentially distributed number.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * ln(1.0 - self.unit())
    }

    /// Returns a log-uniform number from `low` to `high`: as many between 16 and 32 as between 32 and 64.
    pub(super) fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        low * exp(self.unit() * ln(high / low))
    }

    /// Returns one of weighted choices; `total` is the sum of the weights, not zero.
    fn weighted<T: Copy>(&mut self, choices: &[(T, u32)], total: u64) -> T {
        let mut at = self.below(total);
        for &(choice, weight) in choices {
            match at.checked_sub(u64::from(weight)) {
                Some(rest) => at = rest,
                None => return choice,
            }
        }
        unreachable!("the weights add up to their total")
    }
}

/// Command sizes: multiples of 512 bytes, at most 4 GiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// One size.
    Fixed(Bytes),
    /// Sizes with weights.
    Weighted(Vec<(Bytes, u32)>),
}

impl Sizes {
    /// Returns the weighted sizes.
    fn choices(&self) -> &[(Bytes, u32)] {
        match self {
            Sizes::Fixed(_) => &[],
            Sizes::Weighted(choices) => choices,
        }
    }

    pub(super) fn check(&self) -> Result<(), TraceError> {
        let possible = |size: Bytes| {
            let valid = !size.is_zero() && size.0.is_multiple_of(SECTOR_BYTES) && size <= LENGTH_MAX;
            require(valid, "the command's size", size, "a multiple of 512 bytes, at most 4 GiB")
        };
        if let Sizes::Fixed(size) = *self {
            return possible(size);
        }
        require(self.total_weight() > 0, "the list of sizes", "empty", "at least one size with its weight")?;
        self.choices().iter().try_for_each(|&(size, _)| possible(size))
    }

    pub(super) fn shortest(&self) -> Bytes {
        match *self {
            Sizes::Fixed(size) => size,
            Sizes::Weighted(ref choices) => choices.iter().map(|choice| choice.0).min().unwrap_or_default(),
        }
    }

    pub(super) fn longest(&self) -> Bytes {
        match *self {
            Sizes::Fixed(size) => size,
            Sizes::Weighted(ref choices) => choices.iter().map(|choice| choice.0).max().unwrap_or_default(),
        }
    }

    pub(super) fn sample(&self, sampler: &mut Sampler) -> Bytes {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Weighted(choices) => sampler.weighted(choices, self.total_weight()),
        }
    }

    fn total_weight(&self) -> u64 {
        self.choices().iter().map(|&(_, weight)| u64::from(weight)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(draws: impl Iterator<Item = f64>) -> f64 {
        let draws: Vec<f64> = draws.collect();
        draws.iter().sum::<f64>() / draws.len() as f64
    }

    #[test]
    fn distributions_have_their_means() {
        let mut sampler = Sampler::new(5);
        let draw = |f: &mut dyn FnMut() -> f64| mean((0..50_000).map(|_| f()));
        assert!((draw(&mut || sampler.unit()) - 0.5).abs() < 0.01);
        assert!((draw(&mut || sampler.exponential(2.0)) - 2.0).abs() < 0.05);
        assert!((draw(&mut || sampler.below(7) as f64) - 3.0).abs() < 0.05);
        let choices = [(1.0, 1), (5.0, 3)];
        assert!((draw(&mut || sampler.weighted(&choices, 4)) - 4.0).abs() < 0.05);
        // The mean of a log-uniform number is (high − low) / ln(high / low).
        assert!((draw(&mut || sampler.log_uniform(1.0, 8.0)) - 7.0 / 8f64.ln()).abs() < 0.05);
    }
}
