//! Marginal likelihood of a sample under an unknown density: a Pólya tree.
//!
//! The range is halved repeatedly. At each node the density is either uniform below, or divided between the halves by
//! an unknown share with the prior Beta(½, ½) (Krichevsky & Trofimov 1981); both cases have the prior probability ½, as
//! in context tree weighting (Willems, Shtarkov & Tjalkens 1995). The sum over all trees is computed exactly. Nothing
//! about the shape of the density is assumed: residuals may have sharp peaks, a revolution apart, over a uniform
//! background. Complexity needs no further penalty, because the shares are integrated out, not fitted.

use std::f64::consts::LN_2;

/// Levels of the tree: a leaf is 2⁻¹² of the range, finer than the timer noise of a disk.
const TREE_DEPTH: u32 = 12;
/// Number of leaves.
pub(crate) const TREE_LEAVES: u32 = 1 << TREE_DEPTH;

/// Returns the logarithm (in nats) of the marginal likelihood of a sample, given as leaf numbers in ascending order.
pub(crate) fn ln_likelihood(ascending: &[u32]) -> f64 {
    debug_assert!(ascending.is_sorted() && ascending.last().is_none_or(|leaf| *leaf < TREE_LEAVES));
    node(ascending, 0, TREE_DEPTH)
}

/// Returns the likelihood of the sample within the node that begins at leaf `first` and is `height` levels high.
fn node(sample: &[u32], first: u32, height: u32) -> f64 {
    let uniform = -LN_2 * f64::from(height) * sample.len() as f64;
    if height == 0 || sample.len() < 2 {
        // A single value has the same likelihood under every tree.
        return uniform;
    }
    let middle = first + (1 << (height - 1));
    let (low, high) = sample.split_at(sample.partition_point(|leaf| *leaf < middle));
    let divided =
        ln_shares(low.len(), high.len()) + node(low, first, height - 1) + node(high, middle, height - 1);
    ln_sum(uniform, divided) - LN_2
}

/// Returns the logarithm of the probability of a sequence with `low` and `high` members of two kinds, under the prior
/// Beta(½, ½).
fn ln_shares(low: usize, high: usize) -> f64 {
    ln_gamma_half(low) + ln_gamma_half(high) - ln_factorial(low + high)
}

/// Returns ln(Γ(n + ½) / Γ(½)).
fn ln_gamma_half(n: usize) -> f64 {
    // Γ(n + ½)/Γ(½) = (2n)! / (4ⁿ n!).
    ln_factorial(2 * n) - ln_factorial(n) - 2.0 * LN_2 * n as f64
}

/// Returns ln(n!), by Stirling's series from 16 on, exact to 1e-13.
fn ln_factorial(n: usize) -> f64 {
    if n < 16 {
        return (1..=n).map(|factor| (factor as f64).ln()).sum();
    }
    let x = n as f64;
    (x + 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + 1.0 / (12.0 * x)
        - 1.0 / (360.0 * x.powi(3))
        + 1.0 / (1260.0 * x.powi(5))
}

/// Returns ln(eᵃ + eᵇ).
fn ln_sum(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    high + (low - high).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(mut sample: Vec<u32>) -> Vec<u32> {
        sample.sort_unstable();
        sample
    }

    #[test]
    fn factorials_are_those_multiplied_out() {
        for n in [0, 1, 15, 16, 17, 100] {
            let product: f64 = (1..=n).map(|factor| (factor as f64).ln()).sum();
            assert!((ln_factorial(n) - product).abs() < 1e-9, "{n}");
        }
    }

    #[test]
    fn a_peak_is_more_likely_than_the_same_number_of_values_all_over() {
        let peak = vec![2_000; 100];
        let spread: Vec<u32> = (0..100).map(|index| index * 40).collect();
        assert!(ln_likelihood(&peak) > ln_likelihood(&spread) + 500.0);
        // Where the density has no shape, the tree is as good as the uniform density, to within little.
        let uniform = -LN_2 * f64::from(TREE_DEPTH) * 100.0;
        assert!(
            (-2.0 * LN_2..3.0).contains(&(ln_likelihood(&spread) - uniform)),
            "{}",
            ln_likelihood(&spread) - uniform
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn the_probabilities_of_the_next_value_add_up_to_one(sample in prop::collection::vec(0..TREE_LEAVES, 0..8)) {
            let before = ln_likelihood(&sorted(sample.clone()));
            let next = (0..TREE_LEAVES).map(|leaf| {
                let with = sorted(sample.iter().copied().chain([leaf]).collect());
                (ln_likelihood(&with) - before).exp()
            });
            let sum: f64 = next.sum();
            prop_assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        }
    }
}
