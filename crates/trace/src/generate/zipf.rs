//! Zipf-distributed extents: rank k is drawn with a probability proportional to k^−exponent.
//!
//! Ranks are drawn by rejection-inversion (W. Hörmann and G. Derflinger, Rejection-inversion to generate variates from
//! monotone discrete distributions, ACM TOMACS 6 (3), 1996), which needs no table and about 1.1 iterations.

use sakiyomi_model::{Bytes, StreamId};

use super::math::{exp, exp_minus_1_over, ln, ln_1_plus_over};
use super::sample::Sampler;
use super::{Place, require};
use crate::error::TraceError;

/// Maximum exponent; with larger ones nearly all commands would go to one extent.
const EXPONENT_MAX: f64 = 10.0;

pub(super) struct Zipf {
    ranks: Ranks,
    extents: u64,
    extent: Bytes,
    align: Bytes,
    /// Coprime to `extents`, so that rank × stride modulo extents is a permutation, which scatters the ranks.
    stride: u64,
}

impl Zipf {
    pub(super) fn new(span: Bytes, extent: Bytes, align: Bytes, exponent: f64) -> Result<Zipf, TraceError> {
        require((0.0..=EXPONENT_MAX).contains(&exponent), "the Zipf exponent", exponent, "from 0 to 10")?;
        let whole = extent.0.is_multiple_of(align.0);
        require(whole, "the extent", extent, "a multiple of the shortest command's size")?;
        let extents = span.0 / extent.0;
        require(extents > 0, "the extent", extent, "at most the span")?;
        Ok(Zipf { ranks: Ranks::new(extents, exponent), extents, extent, align, stride: stride(extents) })
    }
}

impl Place for Zipf {
    fn next(&mut self, length: Bytes, sampler: &mut Sampler) -> (StreamId, Bytes) {
        let rank = self.ranks.sample(sampler) - 1;
        let extent = u128::from(rank) * u128::from(self.stride) % u128::from(self.extents);
        let places = (self.extent - length) / self.align.0;
        let within = self.align * sampler.below(places.0 + 1);
        (StreamId(0), self.extent * extent as u64 + within)
    }
}

/// Returns a number coprime to `count`, near its golden section, so that neighboring ranks are far apart.
fn stride(count: u64) -> u64 {
    /// Fractional part of the golden ratio, whose multiples are evenly distributed.
    const GOLDEN_SECTION: f64 = 0.618_033_988_749_894_9;
    let mut stride = ((count as f64 * GOLDEN_SECTION) as u64).max(1);
    while greatest_common_divisor(stride, count) != 1 {
        stride += 1;
    }
    stride
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Generator of ranks from 1 to `count`. Names follow the paper: `h` is the hat of the density, `integral` its
/// integral.
struct Ranks {
    count: u64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    s: f64,
}

impl Ranks {
    fn new(count: u64, exponent: f64) -> Ranks {
        let mut ranks = Ranks { count, exponent, integral_first: 0.0, integral_last: 0.0, s: 0.0 };
        ranks.integral_first = ranks.integral(1.5) - 1.0;
        ranks.integral_last = ranks.integral(count as f64 + 0.5);
        ranks.s = 2.0 - ranks.integral_inverse(ranks.integral(2.5) - ranks.h(2.0));
        ranks
    }

    fn sample(&self, sampler: &mut Sampler) -> u64 {
        loop {
            let u = self.integral_last + sampler.unit() * (self.integral_first - self.integral_last);
            let x = self.integral_inverse(u);
            let rank = (x.round() as u64).clamp(1, self.count);
            let k = rank as f64;
            if k - x <= self.s || u >= self.integral(k + 0.5) - self.h(k) {
                return rank;
            }
        }
    }

    fn h(&self, x: f64) -> f64 {
        exp(-self.exponent * ln(x))
    }

    /// Returns (x^(1−e) − 1) / (1 − e), continuous at e = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = ln(x);
        exp_minus_1_over((1.0 - self.exponent) * log) * log
    }

    fn integral_inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.exponent)).max(-1.0 + f64::EPSILON);
        exp(ln_1_plus_over(t) * y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_zipfs_law() {
        for exponent in [0.0, 0.8, 1.0, 2.0] {
            let ranks = Ranks::new(10, exponent);
            let mut sampler = Sampler::new(3);
            let mut counts = [0u32; 10];
            const DRAWS: u32 = 100_000;
            for _ in 0..DRAWS {
                counts[ranks.sample(&mut sampler) as usize - 1] += 1;
            }
            let weights: Vec<f64> = (1..=10).map(|k| f64::from(k).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            for (count, weight) in counts.iter().zip(weights) {
                let (found, wanted) = (f64::from(*count) / f64::from(DRAWS), weight / total);
                // Five standard deviations of a share of 100,000 draws are below 0.008.
                assert!((found - wanted).abs() < 0.008, "exponent {exponent}: {found} for {wanted}");
            }
        }
    }

    #[test]
    fn ranks_are_scattered_one_to_one() {
        for count in [1u64, 2, 10, 97, 1000] {
            let mut places: Vec<u64> = (0..count).map(|rank| rank * stride(count) % count).collect();
            places.sort_unstable();
            assert_eq!(places, (0..count).collect::<Vec<_>>());
        }
    }
}
