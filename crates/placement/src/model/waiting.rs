//! Formulas for waiting times. All times are nanoseconds, all rates per nanosecond.

/// Returns the mean wait at a server with mean service time `service`, utilization `rho` and variability `scv` (of
/// the arrivals or of the service; their waits add up): Kingman's formula, which for Poisson arrivals is Pollaczek's
/// and Khinchine's. Infinite from `rho = 1`.
pub(super) fn queueing(rho: f64, scv: f64, service: f64) -> f64 {
    if rho >= 1.0 { f64::INFINITY } else { rho / (1.0 - rho) * scv / 2.0 * service }
}

/// Points of the numerical integral in [`resequencing`]; its integrand is smooth.
const QUADRATURE_POINTS: usize = 32;

/// Returns the ratio of the mean longest backlog of `replicas` to the mean backlog of the busiest; an order-restoring
/// merge waits for the former. The busiest has a utilization of `rho` and takes `share` of the tuples, the others
/// have equal parts of the rest. Backlogs are assumed independent, empty with probability `1 - rho`, otherwise
/// exponential with a mean proportional to `1 / (1 - rho)`.
pub(super) fn resequencing(rho: f64, share: f64, replicas: usize) -> f64 {
    if replicas == 1 || rho >= 1.0 {
        return 1.0;
    }
    let others = (replicas - 1) as f64;
    let other_rho = (rho * (1.0 - share) / (others * share)).min(rho);
    // y is the probability that the busiest, when not empty, exceeds a backlog: the mean is an integral over
    // backlogs.
    let decay = (1.0 - other_rho) / (1.0 - rho);
    let exceeds = |y: f64| 1.0 - (1.0 - rho * y) * (1.0 - other_rho * y.powf(decay)).powf(others);
    let middles = (0..QUADRATURE_POINTS).map(|point| (point as f64 + 0.5) / QUADRATURE_POINTS as f64);
    middles.map(|y| exceeds(y) / y).sum::<f64>() / (QUADRATURE_POINTS as f64 * rho)
}

/// Returns the mean delay due to wake-ups of a receiver that sleeps with probability `parked` when it is idle and
/// takes `wake` to run (the additional wait of an M/G/1 queue with set-up time).
pub(super) fn set_up(rate: f64, wake: f64, parked: f64) -> f64 {
    let (first, second) = (wake * parked, wake * wake * parked);
    (2.0 * first + rate * second) / (2.0 * (1.0 + rate * first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_is_pollaczek_s_and_khinchine_s() {
        // M/D/1 and M/M/1 at rho 0.8, service 1: 2 and 4.
        assert!((queueing(0.8, 1.0, 1.0) - 2.0).abs() < 1e-12);
        assert!((queueing(0.8, 1.0, 1.0) + queueing(0.8, 1.0, 1.0) - 4.0).abs() < 1e-12);
        assert_eq!(queueing(1.0, 1.0, 1.0), f64::INFINITY);
    }

    #[test]
    fn a_merge_waits_for_the_longest_backlog() {
        assert_eq!(resequencing(0.3, 1.0, 1), 1.0);
        // At a low load backlogs do not overlap: the longest is their sum.
        assert!((resequencing(1e-6, 0.25, 4) - 4.0).abs() < 1e-3);
        // At a high load it is that of four exponential times: 1 + 1/2 + 1/3 + 1/4.
        assert!((resequencing(0.999_999, 0.25, 4) - 25.0 / 12.0).abs() < 0.01);
        // Replicas without work do not matter.
        assert!((resequencing(0.8, 0.999_999, 4) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_lonely_tuple_waits_for_the_whole_wake_up() {
        assert!((set_up(1e-12, 20_000.0, 1.0) - 20_000.0).abs() < 1e-3);
        assert_eq!(set_up(1e-3, 20_000.0, 0.0), 0.0);
    }
}
