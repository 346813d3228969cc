//! Random figures out of PCG-64 by comparisons and exact arithmetic alone: the same on every platform.

use rand_core::Rng;
use rand_pcg::Pcg64;

/// A seeded source of figures.
#[derive(Clone, Debug)]
pub(super) struct Random(Pcg64);

impl Random {
    /// Streams of one seed are independent.
    pub(super) fn new(seed: u64, stream: u64) -> Random {
        Random(Pcg64::new(u128::from(seed), u128::from(stream)))
    }

    /// From 0 up to 1, exclusive.
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From 0 up to `bound`, exclusive, which must be above 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    /// Returns a whole number whose mean is `mean`: one of the two next to it.
    pub(super) fn rounded(&mut self, mean: f64) -> u64 {
        let whole = mean.floor();
        let part = mean - whole;
        whole as u64 + u64::from(part > 0.0 && self.unit() < part)
    }

    /// Exponential with mean 1, by the lengths of descending runs (von Neumann, *Various techniques used in connection
    /// with random digits*, 1951): a logarithm would differ between platforms in its last bits.
    pub(super) fn exponential(&mut self) -> f64 {
        let mut whole = 0.0;
        loop {
            let first = self.unit();
            let (mut last, mut is_even) = (first, false);
            loop {
                let next = self.unit();
                is_even = !is_even;
                if next >= last {
                    break;
                }
                last = next;
            }
            // `is_even` tells whether the index of the number that broke the run is even.
            if is_even {
                return whole + first;
            }
            whole += 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_times_have_their_moments_and_their_tail() {
        let mut random = Random::new(1, 0);
        let samples: Vec<f64> = (0..200_000).map(|_| random.exponential()).collect();
        let mean =
            |of: &dyn Fn(f64) -> f64| samples.iter().map(|&x| of(x)).sum::<f64>() / samples.len() as f64;
        let close =
            |value: f64, expected: f64, error: f64| assert!((value - expected).abs() < error, "{value}");
        close(mean(&|x| x), 1.0, 0.01);
        close(mean(&|x| x * x), 2.0, 0.05);
        close(mean(&|x| f64::from(u8::from(x > 3.0))), (-3.0_f64).exp(), 0.002);
    }

    #[test]
    fn rounding_keeps_the_mean() {
        let mut random = Random::new(2, 0);
        let sum: u64 = (0..100_000).map(|_| random.rounded(2.3)).sum();
        assert!((sum as f64 / 1e5 - 2.3).abs() < 0.01);
        assert_eq!(random.rounded(3.0), 3);
    }
}
