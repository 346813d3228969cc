//! Service times of operators.

use super::StreamError;
use super::random::Random;
use super::time::ps;

/// Distribution of the CPU time that an operator takes per tuple, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Service {
    /// Always the same.
    Constant {
        /// The time.
        ns: f64,
    },
    /// Any with these moments: constant, a constant and an exponential part, or one of two exponential times with
    /// balanced means (Allen, *Probability, Statistics and Queueing Theory*, 1990, section 3.2.9).
    Moments {
        /// The mean.
        mean_ns: f64,
        /// The squared coefficient of variation: 0 if constant, 1 if exponential.
        scv: f64,
    },
    /// Measured times, each with the number of tuples that took it.
    Measured {
        /// Times and counts, of which one at least is above 0.
        bins: Vec<(f64, u64)>,
    },
}

impl Service {
    /// Returns an exponential time.
    #[must_use]
    pub fn exponential(mean_ns: f64) -> Service {
        Service::Moments { mean_ns, scv: 1.0 }
    }

    /// Mean in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        match self {
            Service::Constant { ns } => *ns,
            Service::Moments { mean_ns, .. } => *mean_ns,
            Service::Measured { bins } => {
                let tuples: u64 = bins.iter().map(|bin| bin.1).sum();
                bins.iter().map(|&(ns, count)| ns * count as f64).sum::<f64>() / tuples as f64
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), StreamError> {
        let figures: Vec<f64> = match self {
            Service::Constant { ns } => vec![*ns],
            Service::Moments { mean_ns, scv } => vec![*mean_ns, *scv],
            Service::Measured { bins } => bins.iter().map(|bin| bin.0).collect(),
        };
        let (what, range) = ("service time or its squared variation", "0 or more");
        if let Some(&value) = figures.iter().find(|value| !(value.is_finite() && **value >= 0.0)) {
            return Err(StreamError::Value { what, value, range });
        }
        match self {
            Service::Measured { bins } if bins.iter().all(|bin| bin.1 == 0) => {
                let (what, range) = ("number of measured service times", "1 or more");
                Err(StreamError::Value { what, value: 0.0, range })
            }
            _ => Ok(()),
        }
    }
}

/// Draws service times, in picoseconds.
#[derive(Clone, Debug)]
pub(super) enum Sampler {
    Constant(u64),
    /// A constant and an exponential part.
    Shifted {
        constant_ps: f64,
        mean_ps: f64,
    },
    /// One of two exponential times, the first with a probability.
    Mixed {
        share: f64,
        means_ps: [f64; 2],
    },
    /// Times, each with the number of tuples up to it.
    Table(Vec<(u64, u64)>),
}

impl Sampler {
    pub(super) fn new(service: &Service) -> Sampler {
        match service {
            Service::Constant { ns } => Sampler::Constant(ps(*ns)),
            Service::Moments { mean_ns, scv: 0.0 } => Sampler::Constant(ps(*mean_ns)),
            &Service::Moments { mean_ns, scv } if scv <= 1.0 => {
                let mean_ps = mean_ns * scv.sqrt() * 1e3;
                Sampler::Shifted { constant_ps: mean_ns * 1e3 - mean_ps, mean_ps }
            }
            &Service::Moments { mean_ns, scv } => {
                let share = (1.0 + ((scv - 1.0) / (scv + 1.0)).sqrt()) / 2.0;
                let half_ps = mean_ns * 1e3 / 2.0;
                Sampler::Mixed { share, means_ps: [half_ps / share, half_ps / (1.0 - share)] }
            }
            Service::Measured { bins } => {
                let mut up_to = 0;
                let bin = |&(ns, count): &(f64, u64)| {
                    up_to += count;
                    (ps(ns), up_to)
                };
                Sampler::Table(bins.iter().map(bin).collect())
            }
        }
    }

    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Sampler::Constant(ps) => *ps,
            Sampler::Shifted { constant_ps, mean_ps } => {
                (constant_ps + mean_ps * random.exponential()).round() as u64
            }
            Sampler::Mixed { share, means_ps } => {
                let mean_ps = means_ps[usize::from(random.unit() >= *share)];
                (mean_ps * random.exponential()).round() as u64
            }
            Sampler::Table(bins) => {
                let tuples = bins.last().map_or(1, |bin| bin.1);
                let drawn = random.below(tuples);
                bins[bins.partition_point(|bin| bin.1 <= drawn)].0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(service: &Service) -> (f64, f64) {
        let (sampler, mut random) = (Sampler::new(service), Random::new(3, 0));
        let samples: Vec<f64> = (0..400_000).map(|_| sampler.draw(&mut random) as f64 * 1e-3).collect();
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let square = samples.iter().map(|x| x * x).sum::<f64>() / samples.len() as f64;
        (mean, square / mean.powi(2) - 1.0)
    }

    #[test]
    fn drawn_times_have_the_moments_asked_for() {
        for scv in [0.0, 0.3, 1.0, 4.0] {
            let (mean, drawn) = moments(&Service::Moments { mean_ns: 250.0, scv });
            assert!(
                (mean / 250.0 - 1.0).abs() < 0.01 && (drawn - scv).abs() < 0.02 + scv * 0.04,
                "{scv}: {drawn}"
            );
        }
        let measured = Service::Measured { bins: vec![(100.0, 3), (0.0, 0), (500.0, 1)] };
        let (mean, drawn) = moments(&measured);
        assert!((mean - 200.0).abs() < 1.0 && (drawn - 0.75).abs() < 0.01, "{mean} {drawn}");
        assert!((measured.mean_ns() - 200.0).abs() < 1e-9);
    }
}
