//! Linear fit of the CPU times of operations of several sizes.

/// Returns intercept and slope of the line through points of size and time that minimizes the relative errors;
/// neither is negative.
pub(super) fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let weighted = |of: fn(f64, f64) -> f64| -> f64 {
        points.iter().filter(|&&(_, y)| y > 0.0).map(|&(x, y)| of(x, y) / (y * y)).sum()
    };
    let (n, x, y) = (weighted(|_, _| 1.0), weighted(|x, _| x), weighted(|_, y| y));
    let (xx, xy) = (weighted(|x, _| x * x), weighted(|x, y| x * y));
    let determinant = n * xx - x * x;
    let through_zero = if xx > 0.0 { xy / xx } else { 0.0 };
    if determinant <= 1e-9 * n * xx {
        return (0.0, through_zero);
    }
    let slope = (n * xy - x * y) / determinant;
    let fixed = (y - slope * x) / n;
    match () {
        () if fixed < 0.0 => (0.0, through_zero),
        () if slope < 0.0 => (y / n, 0.0),
        () => (fixed, slope),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_is_found_again(fixed in 100.0..20_000.0f64, per_byte in 0.001..0.5f64) {
            let at = |bytes: f64| (bytes, fixed + per_byte * bytes);
            let (found, slope) = line(&[at(4096.0), at(65_536.0), at(1_048_576.0)]);
            prop_assert!((found / fixed - 1.0).abs() < 1e-6 && (slope / per_byte - 1.0).abs() < 1e-6);
        }

        #[test]
        fn no_part_is_below_zero(points in proptest::collection::vec((1.0..1e9f64, 0.0..1e9f64), 0..6)) {
            let (fixed, slope) = line(&points);
            prop_assert!(fixed >= 0.0 && slope >= 0.0 && fixed.is_finite() && slope.is_finite());
        }
    }

    #[test]
    fn one_size_is_counted_by_the_byte() {
        assert_eq!(line(&[(1000.0, 500.0)]), (0.0, 0.5));
    }
}
