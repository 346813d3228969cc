//! Arrival processes.

use sakiyomi_model::Nanos;

use super::require;
use super::sample::Sampler;
use crate::error::TraceError;

/// Arrival process of the commands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// Closed loop: each command is issued a fixed time after the end of the previous one.
    ClosedLoop {
        /// Think time.
        think: Nanos,
    },
    /// At constant intervals.
    Fixed {
        /// Time between arrivals.
        interval: Nanos,
    },
    /// Poisson process.
    Poisson {
        /// Mean number of arrivals per second.
        rate_per_second: f64,
    },
    /// Bursts of Poisson arrivals with idle periods between; both have exponentially distributed durations.
    Bursty {
        /// Mean duration of a burst.
        on: Nanos,
        /// Mean duration of an idle period.
        off: Nanos,
        /// Mean number of arrivals per second within a burst.
        rate_per_second: f64,
    },
}

impl Arrival {
    fn check(self) -> Result<(), TraceError> {
        match self {
            Arrival::ClosedLoop { .. } | Arrival::Fixed { .. } => Ok(()),
            Arrival::Poisson { rate_per_second } => check_rate(rate_per_second),
            Arrival::Bursty { on, rate_per_second, .. } => {
                require(!on.is_zero(), "the mean length of a burst", on, "longer than 0")?;
                check_rate(rate_per_second)
            }
        }
    }
}

/// Checks that the rate is plausible: between one command in three years and one per nanosecond.
fn check_rate(rate_per_second: f64) -> Result<(), TraceError> {
    let valid = (1e-8..=1e9).contains(&rate_per_second);
    require(valid, "the rate of arrivals per second", rate_per_second, "from 1e-8 to 1e9")
}

/// Assigns arrival times to commands.
pub(super) struct Clock {
    arrival: Arrival,
    now: Nanos,
    /// Bursty: time left in the burst.
    burst_left: Nanos,
    started: bool,
}

impl Clock {
    pub(super) fn new(arrival: Arrival) -> Result<Clock, TraceError> {
        arrival.check()?;
        Ok(Clock { arrival, now: Nanos::ZERO, burst_left: Nanos::ZERO, started: false })
    }

    /// Returns the next command's time, and in a closed loop its think time. The first command is at zero.
    pub(super) fn next(&mut self, sampler: &mut Sampler) -> (Nanos, Option<Nanos>) {
        let gap = match self.arrival {
            Arrival::ClosedLoop { think } => return (Nanos::ZERO, Some(think)),
            Arrival::Fixed { interval } => interval,
            Arrival::Poisson { rate_per_second } => random_gap(1.0 / rate_per_second, sampler),
            Arrival::Bursty { on, off, rate_per_second } => {
                self.bursty_gap(on, off, 1.0 / rate_per_second, sampler)
            }
        };
        if self.started {
            self.now = self.now.saturating_add(gap);
        }
        self.started = true;
        (self.now, None)
    }

    /// Returns the gap to the next arrival. Only time within bursts counts towards it; an idle period is added at the
    /// end of each burst.
    fn bursty_gap(&mut self, on: Nanos, off: Nanos, mean_seconds: f64, sampler: &mut Sampler) -> Nanos {
        let mut wait = random_gap(mean_seconds, sampler);
        let mut gap = wait;
        while wait > self.burst_left {
            wait -= self.burst_left;
            self.burst_left = random_gap(on.as_secs_f64(), sampler).max(Nanos(1));
            gap = gap.saturating_add(random_gap(off.as_secs_f64(), sampler));
        }
        self.burst_left -= wait;
        gap
    }
}

fn random_gap(mean_seconds: f64, sampler: &mut Sampler) -> Nanos {
    Nanos::from_secs_f64(sampler.exponential(mean_seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_gap_seconds(arrival: Arrival) -> f64 {
        const COUNT: u32 = 20_000;
        let (mut clock, mut sampler) = (Clock::new(arrival).unwrap(), Sampler::new(9));
        let last = (0..=COUNT).map(|_| clock.next(&mut sampler).0).last().unwrap();
        last.as_secs_f64() / f64::from(COUNT)
    }

    #[test]
    fn rates_are_kept_in_the_mean() {
        let second = Nanos::SECOND;
        assert_eq!(mean_gap_seconds(Arrival::Fixed { interval: second }), 1.0);
        assert!((mean_gap_seconds(Arrival::Poisson { rate_per_second: 50.0 }) - 0.02).abs() < 0.001);
        // Bursts take a quarter of the time, so the mean rate is a quarter.
        let bursty = Arrival::Bursty { on: second, off: second * 3, rate_per_second: 50.0 };
        assert!((mean_gap_seconds(bursty) - 0.08).abs() < 0.02);
    }

    #[test]
    fn rates_that_are_slips_are_refused() {
        assert!(Clock::new(Arrival::Poisson { rate_per_second: 0.0 }).is_err());
        let bursty = Arrival::Bursty { on: Nanos::ZERO, off: Nanos::ZERO, rate_per_second: 1.0 };
        assert!(Clock::new(bursty).is_err());
    }
}
