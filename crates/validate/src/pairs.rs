//! Errors per request: simulated minus measured time.

use sakiyomi_model::Nanos;

/// Statistics of the errors per request. All times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pairs {
    /// Number of requests.
    pub requests: u64,
    /// Mean of the measured times.
    pub measured_mean_ns: f64,
    /// Mean of the simulated times.
    pub simulated_mean_ns: f64,
    /// Median of the absolute error.
    pub median_ns: u64,
    /// Mean of the absolute error.
    pub mean_ns: f64,
    /// 90th percentile of the absolute error.
    pub p90_ns: u64,
    /// Mean of the signed error: positive if the simulation is slower.
    pub bias_ns: f64,
    /// Pearson's correlation of the two times, from -1 to 1; `None` if either is constant.
    pub correlation: Option<f64>,
}

/// Computes the statistics of pairs of a measured and a simulated time.
#[must_use]
pub fn pairs(times: impl IntoIterator<Item = (Nanos, Nanos)>) -> Pairs {
    let times: Vec<(f64, f64)> = times.into_iter().map(|(a, b)| (a.0 as f64, b.0 as f64)).collect();
    if times.is_empty() {
        return Pairs::default();
    }
    let count = times.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| times.iter().map(of).sum::<f64>() / count;
    let mut distances: Vec<u64> = times.iter().map(|(a, b)| (b - a).abs() as u64).collect();
    distances.sort_unstable();
    let within = |share: f64| distances[((share * count).ceil() as usize).clamp(1, distances.len()) - 1];
    let (measured_mean_ns, simulated_mean_ns) = (mean(|pair| pair.0), mean(|pair| pair.1));
    Pairs {
        requests: times.len() as u64,
        measured_mean_ns,
        simulated_mean_ns,
        median_ns: within(0.5),
        mean_ns: mean(|(a, b)| (b - a).abs()),
        p90_ns: within(0.9),
        bias_ns: mean(|(a, b)| b - a),
        correlation: correlation(&times, (measured_mean_ns, simulated_mean_ns)),
    }
}

fn correlation(times: &[(f64, f64)], (mean_a, mean_b): (f64, f64)) -> Option<f64> {
    // The mean of equal numbers may differ from them in its last bits, so constants are detected by comparison.
    let varies = |of: fn(&(f64, f64)) -> f64| times.iter().any(|pair| of(pair) != of(&times[0]));
    if !varies(|pair| pair.0) || !varies(|pair| pair.1) {
        return None;
    }
    let (mut aa, mut bb, mut ab) = (0.0, 0.0, 0.0);
    for (a, b) in times {
        let (a, b) = (a - mean_a, b - mean_b);
        (aa, bb, ab) = (aa + a * a, bb + b * b, ab + a * b);
    }
    Some((ab / (aa.sqrt() * bb.sqrt())).clamp(-1.0, 1.0)).filter(|found| found.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::any_times;
    use proptest::prelude::*;

    #[test]
    fn a_case_worked_out_by_hand() {
        let found = pairs([(10, 13), (20, 20), (30, 20), (40, 41)].map(|(a, b)| (Nanos(a), Nanos(b))));
        assert_eq!((found.requests, found.median_ns, found.p90_ns), (4, 1, 10));
        assert_eq!((found.mean_ns, found.bias_ns), (3.5, -1.5));
        assert_eq!((found.measured_mean_ns, found.simulated_mean_ns), (25.0, 23.5));
        assert_eq!(pairs([]), Pairs::default());
        assert_eq!(pairs([(Nanos(7), Nanos(1)), (Nanos(7), Nanos(9))]).correlation, None);
    }

    proptest! {
        #[test]
        fn the_same_times_have_no_error(times in any_times(2..50)) {
            let found = pairs(times.iter().map(|&time| (time, time)));
            prop_assert_eq!((found.median_ns, found.p90_ns, found.mean_ns, found.bias_ns), (0, 0, 0.0, 0.0));
            prop_assert!(found.correlation.is_none_or(|found| found > 1.0 - 1e-9));
        }

        #[test]
        fn a_shift_is_all_bias(times in any_times(2..50), by in 0u64..1_000_000_000) {
            let found = pairs(times.iter().map(|&time| (time, time + Nanos(by))));
            prop_assert_eq!((found.median_ns, found.p90_ns), (by, by));
            prop_assert!((found.bias_ns - by as f64).abs() < 1e-3);
            prop_assert!(found.correlation.is_none_or(|found| found > 1.0 - 1e-9));
        }

        #[test]
        fn swapping_the_sides_turns_the_bias(a in any_times(20..21), b in any_times(20..21)) {
            let (a, b) = (a.into_iter(), b.into_iter());
            let (one, other) = (pairs(a.clone().zip(b.clone())), pairs(b.zip(a)));
            prop_assert_eq!((one.median_ns, one.p90_ns, one.bias_ns), (other.median_ns, other.p90_ns, -other.bias_ns));
            prop_assert!(one.median_ns <= one.p90_ns && one.bias_ns.abs() <= one.mean_ns);
            if let (Some(one), Some(other)) = (one.correlation, other.correlation) {
                prop_assert!((one - other).abs() < 1e-9);
            }
        }
    }
}
