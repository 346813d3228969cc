//! When commands come.

use sakiyomi_model::Nanos;

use super::require;
use super::sample::Sampler;
use crate::error::TraceError;

/// When commands come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// Each a fixed time after the one before has ended.
    ClosedLoop {
        /// That time.
        think: Nanos,
    },
    /// At even intervals.
    Fixed {
        /// From one to the next.
        interval: Nanos,
    },
    /// At random, independent of each other.
    Poisson {
        /// Their mean number per second.
        rate_per_second: f64,
    },
    /// Bursts of random arrivals with silence between; both last exponentially distributed times.
    Bursty {
        /// The mean length of a burst.
        on: Nanos,
        /// The mean length of a silence.
        off: Nanos,
        /// The mean number of arrivals per second within a burst.
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

/// Rates below one command in three years or above one per nanosecond are slips.
fn check_rate(rate_per_second: f64) -> Result<(), TraceError> {
    let valid = (1e-8..=1e9).contains(&rate_per_second);
    require(valid, "the rate of arrivals per second", rate_per_second, "from 1e-8 to 1e9")
}

/// Gives each command its time.
pub(super) struct Clock {
    arrival: Arrival,
    now: Nanos,
    /// Bursty: how much of the burst is left.
    burst_left: Nanos,
    started: bool,
}

impl Clock {
    pub(super) fn new(arrival: Arrival) -> Result<Clock, TraceError> {
        arrival.check()?;
        Ok(Clock { arrival, now: Nanos::ZERO, burst_left: Nanos::ZERO, started: false })
    }

    /// The next command's time, and in a closed loop its think time. The first comes at zero.
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

    /// Time runs towards the next arrival in bursts only; silences are added as the bursts run out.
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
        // A quarter of the time is burst: a quarter of the rate remains.
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
