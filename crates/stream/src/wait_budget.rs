//! How a worker waits for input from outside: by polling and parking as long as they take a small share of its core, and
//! by naps else. Pure.
//!
//! A hand-over from a parked worker's point of view costs a wake-up, some 10 µs of CPU time, and polling in order to avoid
//! it costs as much (Karlin et al., Algorithmica 11(6), 1994: polling for the time of a wake-up is at most twice the
//! optimum). At 50,000 inputs per second either takes the whole core. A nap of time T takes one wake-up by a timer,
//! whatever comes meanwhile: a share w/T of the core, for a delay of T/2 in the mean.
//!
//! A token bucket decides. CPU time for waiting accrues at [`WAIT_SHARE_DIVISOR`]; polls and wake-ups spend it. Input that
//! comes seldom finds it full, and has the latency of a wake-up.

use std::time::Duration;

/// Reciprocal of the share of a core that waiting may take.
const WAIT_SHARE_DIVISOR: u64 = 20;

/// CPU time that accrues at most: that of a burst of some 30 inputs after a pause, each with the latency of a wake-up.
const CREDIT_MAX_NS: i64 = 1_000_000;

/// CPU time of a wake-up before one is measured, as on a virtual machine.
const WAKE_USUAL_NS: u64 = 10_000;

/// Bounds of a measured one: below is the error of the clock, above the work of other threads.
const WAKE_MIN_NS: u64 = 1_000;
const WAKE_MAX_NS: u64 = 50_000;

/// Reciprocal of the weight of a measurement in the mean.
const WAKE_WEIGHT_DIVISOR: u64 = 8;

/// Rests between two of which the CPU time is measured: reading it costs a microsecond.
const MEASURE_PERIOD_RESTS: u64 = 16;

/// Account of the CPU time that a worker spends on waiting for input from outside.
#[derive(Clone, Debug)]
pub(crate) struct WaitBudget {
    /// CPU time that may be spent; negative if it is overdrawn.
    credit_ns: i64,
    /// When it was last increased.
    at_ns: u64,
    /// Mean CPU time of a wake-up.
    wake_ns: u64,
    rests: u64,
}

impl WaitBudget {
    pub(crate) fn new() -> WaitBudget {
        WaitBudget { credit_ns: CREDIT_MAX_NS, at_ns: 0, wake_ns: WAKE_USUAL_NS, rests: 0 }
    }

    /// The nap to take at `now_ns` instead of polling for `spin_ns` and parking; none if there is credit for these.
    pub(crate) fn nap(&mut self, now_ns: u64, spin_ns: u64) -> Option<Duration> {
        let accrued_ns = now_ns.saturating_sub(self.at_ns) / WAIT_SHARE_DIVISOR;
        self.at_ns = self.at_ns.max(now_ns);
        let accrued_ns = i64::try_from(accrued_ns).unwrap_or(i64::MAX);
        self.credit_ns = self.credit_ns.saturating_add(accrued_ns).min(CREDIT_MAX_NS);
        let needed_ns = i64::try_from(spin_ns.saturating_add(self.wake_ns)).unwrap_or(i64::MAX);
        let nap_ns = self.wake_ns * WAIT_SHARE_DIVISOR;
        (self.credit_ns < needed_ns.min(CREDIT_MAX_NS)).then(|| Duration::from_nanos(nap_ns))
    }

    /// The worker has polled for this time.
    pub(crate) fn polled(&mut self, polled_ns: u64) {
        self.spend(polled_ns);
    }

    /// Returns whether the CPU time of the next rest is to be measured.
    pub(crate) fn measures(&self) -> bool {
        self.rests.is_multiple_of(MEASURE_PERIOD_RESTS)
    }

    /// The worker has rested and woken, which has taken this CPU time if it was measured.
    pub(crate) fn rested(&mut self, cpu_ns: Option<u64>) {
        self.rests += 1;
        if let Some(cpu_ns) = cpu_ns {
            let cpu_ns = cpu_ns.clamp(WAKE_MIN_NS, WAKE_MAX_NS);
            let (old, new) = (self.wake_ns * (WAKE_WEIGHT_DIVISOR - 1), cpu_ns);
            self.wake_ns = (old + new) / WAKE_WEIGHT_DIVISOR;
        }
        self.spend(self.wake_ns);
    }

    fn spend(&mut self, spent_ns: u64) {
        let spent_ns = i64::try_from(spent_ns).unwrap_or(i64::MAX);
        self.credit_ns = self.credit_ns.saturating_sub(spent_ns).max(-CREDIT_MAX_NS);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SPIN_NS: u64 = 20_000;
    const WAKE_NS: u64 = 8_000;
    const SECOND_NS: u64 = 1_000_000_000;

    /// CPU time of waiting, and the longest delay of an input, where one comes every `gap_ns` and takes `work_ns`.
    fn simulate(gap_ns: u64, work_ns: u64) -> (f64, u64) {
        let mut budget = WaitBudget::new();
        let (mut now_ns, mut next_ns, mut waited_ns, mut delay_max_ns) = (0, gap_ns, 0, 0);
        while now_ns < 2 * SECOND_NS {
            // The first second fills no statistics: its credit is that of the start.
            let counts = u64::from(now_ns > SECOND_NS);
            match budget.nap(now_ns, SPIN_NS) {
                Some(nap) => {
                    now_ns += nap.as_nanos() as u64;
                    budget.rested(Some(WAKE_NS));
                    waited_ns += counts * WAKE_NS;
                }
                None if next_ns <= now_ns + SPIN_NS => {
                    let polled_ns = next_ns.saturating_sub(now_ns);
                    budget.polled(polled_ns);
                    waited_ns += counts * polled_ns;
                    now_ns += polled_ns;
                }
                None => {
                    budget.polled(SPIN_NS);
                    budget.rested(Some(WAKE_NS));
                    waited_ns += counts * (SPIN_NS + WAKE_NS);
                    now_ns = next_ns;
                }
            }
            while next_ns <= now_ns {
                delay_max_ns = delay_max_ns.max(now_ns - next_ns);
                next_ns += gap_ns;
                now_ns += work_ns;
            }
        }
        (waited_ns as f64 / SECOND_NS as f64, delay_max_ns)
    }

    #[test]
    fn waiting_takes_a_twentieth_of_a_core_at_most_at_any_rate() {
        for per_s in [1, 100, 1_000, 2_000, 5_000, 20_000, 50_000, 100_000, 200_000] {
            let (share, delay_max_ns) = simulate(SECOND_NS / per_s, 300);
            assert!(share < 0.051, "{per_s} per second: {share}");
            assert!(delay_max_ns < 400_000, "{per_s} per second: {delay_max_ns} ns");
        }
    }

    #[test]
    fn input_that_comes_seldom_is_taken_at_once() {
        for per_s in [1, 100, 1_000] {
            assert_eq!(simulate(SECOND_NS / per_s, 300).1, 0, "{per_s} per second");
        }
    }

    #[test]
    fn a_wake_up_that_is_dearer_makes_naps_longer_within_bounds() {
        let nap = |wake_ns| {
            let mut budget = WaitBudget::new();
            (0..1_000).for_each(|_| budget.rested(Some(wake_ns)));
            budget.nap(0, SPIN_NS).unwrap().as_nanos() as u64
        };
        assert!(nap(4_000) < nap(40_000));
        assert_eq!(nap(0), WAKE_MIN_NS * WAIT_SHARE_DIVISOR);
        // Whole nanoseconds of the mean are rounded down.
        assert!(nap(u64::MAX) > (WAKE_MAX_NS - WAKE_WEIGHT_DIVISOR) * WAIT_SHARE_DIVISOR);
    }

    #[test]
    fn an_overdraft_is_bounded_so_that_one_long_poll_is_not_paid_back_for_long() {
        let mut budget = WaitBudget::new();
        budget.polled(3_600 * SECOND_NS);
        let debt_ns = 2 * CREDIT_MAX_NS as u64 * WAIT_SHARE_DIVISOR;
        assert!(budget.nap(0, SPIN_NS).is_some());
        assert!(budget.nap(debt_ns, SPIN_NS).is_none());
    }
}
