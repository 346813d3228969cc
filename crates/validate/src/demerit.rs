//! The demerit figure: the distance of two distributions of response times.
//!
//! "The root mean square of the horizontal distance between these two curves" (Ruemmler & Wilkes, An introduction to
//! disk drive modeling, IEEE Computer 27(3), 1994). It does not depend on which request took which time.

use crate::distribution::Distribution;

/// Number of quantiles at which distributions of different sizes are compared.
pub(crate) const QUANTILE_LEVELS: usize = 10_000;

/// Returns the root mean square of the horizontal distance of two distributions, in nanoseconds. With equal counts the
/// sorted times are compared one by one; otherwise the interpolated quantiles at the middles of 10,000 equal intervals.
/// Zero if either is empty.
#[must_use]
pub fn demerit(a: &Distribution, b: &Distribution) -> f64 {
    if a.count() == b.count() {
        let pairs = a.ascending().iter().zip(b.ascending());
        return root_mean_square(pairs.map(|(a, b)| a.0.abs_diff(b.0) as f64));
    }
    if a.count() == 0 || b.count() == 0 {
        return 0.0;
    }
    root_mean_square(levels().map(|level| a.level_ns(level) - b.level_ns(level)))
}

/// Returns the middles of equal intervals from 0 to 1.
pub(crate) fn levels() -> impl Iterator<Item = f64> {
    (0..QUANTILE_LEVELS).map(|index| (index as f64 + 0.5) / QUANTILE_LEVELS as f64)
}

/// Returns the root mean square; zero if there are no distances.
pub(crate) fn root_mean_square(distances: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) =
        distances.fold((0u64, 0.0), |(count, sum), distance| (count + 1, sum + distance * distance));
    if count == 0 { 0.0 } else { (sum / count as f64).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::any_times;
    use proptest::prelude::*;
    use sakiyomi_model::Nanos;

    fn of(times: &[Nanos]) -> Distribution {
        times.iter().copied().collect()
    }

    fn shifted(times: &[Nanos], by: u64) -> Distribution {
        times.iter().map(|&time| time + Nanos(by)).collect()
    }

    #[test]
    fn a_case_worked_out_by_hand() {
        let [a, b] = [[3, 1, 2], [2, 5, 4]].map(|times| of(&times.map(Nanos)));
        assert_eq!(demerit(&a, &b), 3f64.sqrt());
        assert_eq!(demerit(&a, &Distribution::default()), 0.0);
    }

    proptest! {
        #[test]
        fn it_is_zero_for_the_same_times_in_any_order_and_for_no_others(
            times in any_times(1..50), turn: prop::sample::Index, other in any_times(1..50),
        ) {
            let mut turned = times.clone();
            turned.rotate_left(turn.index(times.len()));
            prop_assert_eq!(demerit(&of(&times), &of(&turned)), 0.0);
            let (a, b) = (of(&times), of(&other));
            prop_assert!(a.count() != b.count() || (a == b) == (demerit(&a, &b) == 0.0));
        }

        #[test]
        fn it_is_symmetric(a in any_times(0..50), b in any_times(0..50)) {
            prop_assert_eq!(demerit(&of(&a), &of(&b)), demerit(&of(&b), &of(&a)));
        }

        #[test]
        fn a_shift_is_found_exactly(times in any_times(1..50), by in 0u64..1_000_000_000) {
            let found = demerit(&of(&times), &shifted(&times, by));
            prop_assert!((found - by as f64).abs() <= by as f64 * 1e-9, "{found}");
        }

        #[test]
        fn it_obeys_the_triangle_inequality(
            a in any_times(20..21), b in any_times(20..21), c in any_times(20..21),
        ) {
            let [a, b, c] = [of(&a), of(&b), of(&c)];
            prop_assert!(demerit(&a, &c) <= demerit(&a, &b) + demerit(&b, &c) + 1e-3);
        }

        #[test]
        fn different_counts_are_compared_level_by_level(
            times in any_times(2..50), more in any_times(50..60), by in 0u64..1_000_000_000,
        ) {
            let (a, b) = (of(&times), shifted(&times, by));
            let by_levels = root_mean_square(levels().map(|level| a.level_ns(level) - b.level_ns(level)));
            prop_assert!((by_levels - by as f64).abs() < 1.0);
            // At most the range of the times.
            let more = of(&more);
            let reach = a.max().max(more.max()).0 as f64;
            prop_assert!(demerit(&a, &more) <= reach);
        }
    }
}
