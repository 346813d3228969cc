//! Logarithm and exponential function, computed with additions, multiplications and divisions only.
//!
//! IEEE 754 defines these operations exactly, so the results are bit-identical everywhere. A platform's own `ln` and
//! `exp` are not, and a generated trace would depend on the machine. Relative errors are below 1e-14.

use std::f64::consts::{LN_2, SQRT_2};

/// Returns the natural logarithm of a finite `x` > 0 that is not subnormal.
pub(super) fn ln(x: f64) -> f64 {
    /// Bits of the mantissa of an `f64`.
    const MANTISSA_BITS: u32 = 52;
    /// Bias of the exponent of an `f64`.
    const EXPONENT_BIAS: i64 = 1023;
    let bits = x.to_bits();
    let exponent = (bits >> MANTISSA_BITS) as i64 - EXPONENT_BIAS;
    let mantissa =
        f64::from_bits(bits & ((1 << MANTISSA_BITS) - 1) | (EXPONENT_BIAS as u64) << MANTISSA_BITS);
    let (mantissa, exponent) =
        if mantissa > SQRT_2 { (mantissa / 2.0, exponent + 1) } else { (mantissa, exponent) };
    exponent as f64 * LN_2 + ln_near_1((mantissa - 1.0) / (mantissa + 1.0))
}

/// Returns ln((1 + s) / (1 − s)) = 2 (s + s³/3 + s⁵/5 + …), for |s| ≤ 0.172.
fn ln_near_1(s: f64) -> f64 {
    /// Number of terms of the series: the first omitted one is below the precision of an `f64`.
    const LN_TERMS: u32 = 11;
    let square = s * s;
    let series = (0..LN_TERMS).rev().fold(0.0, |sum, k| sum * square + 1.0 / f64::from(2 * k + 1));
    2.0 * s * series
}

/// Returns e to the power of `x`; zero or infinity beyond ±700.
pub(super) fn exp(x: f64) -> f64 {
    /// Limit below the largest exponent whose power fits an `f64`, 709.8.
    const EXPONENT_MAX: f64 = 700.0;
    /// Number of terms of the series: the first omitted one is below the precision of an `f64`.
    const EXP_TERMS: u32 = 16;
    if x < -EXPONENT_MAX {
        return 0.0;
    }
    if x > EXPONENT_MAX {
        return f64::INFINITY;
    }
    let halvings = (x / LN_2).round();
    let rest = x - halvings * LN_2;
    let series = (1..EXP_TERMS).rev().fold(1.0, |sum, k| 1.0 + sum * rest / f64::from(k));
    series * power_of_2(halvings as i64)
}

fn power_of_2(exponent: i64) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// Returns (e^x − 1) / x, continuous at 0.
pub(super) fn exp_minus_1_over(x: f64) -> f64 {
    /// Below this `x` the quotient loses digits, and five terms of the series are exact.
    const SERIES_MAX_X: f64 = 1e-3;
    if x.abs() > SERIES_MAX_X {
        (exp(x) - 1.0) / x
    } else {
        1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0 * (1.0 + x / 5.0)))
    }
}

/// Returns ln(1 + x) / x, continuous at 0.
pub(super) fn ln_1_plus_over(x: f64) -> f64 {
    /// Below this `x` the quotient loses digits, and five terms of the series are exact.
    const SERIES_MAX_X: f64 = 1e-3;
    if x.abs() > SERIES_MAX_X {
        ln(1.0 + x) / x
    } else {
        1.0 - x * (1.0 / 2.0 - x * (1.0 / 3.0 - x * (1.0 / 4.0 - x / 5.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(found: f64, wanted: f64) -> bool {
        (found - wanted).abs() <= 1e-13 * wanted.abs().max(1e-2)
    }

    proptest! {
        #[test]
        fn they_agree_with_the_standard_library(x in -600.0f64..600.0, y in 1e-300f64..1e300) {
            prop_assert!(close(exp(x), x.exp()), "exp({x})");
            prop_assert!(close(ln(y), y.ln()), "ln({y})");
        }

        #[test]
        fn quotients_hold_near_zero(x in -0.01f64..0.01) {
            let (powers, logs) = if x == 0.0 { (1.0, 1.0) } else { (x.exp_m1() / x, x.ln_1p() / x) };
            prop_assert!((exp_minus_1_over(x) - powers).abs() < 1e-11);
            prop_assert!((ln_1_plus_over(x) - logs).abs() < 1e-11);
        }
    }
}
