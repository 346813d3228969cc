//! Rates that no plan holds.

use std::fmt;

use super::Planner;
use crate::Arrivals;

/// Precision of the rate that can be held.
const RATE_PRECISION_RATIO: f64 = 1.0005;

/// No plan holds a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shortfall {
    /// Tuples per second asked for.
    pub asked_per_s: f64,
    /// Tuples per second that a plan holds, less than 0.05 % below the most that the planner finds.
    pub held_per_s: f64,
    /// The limiting resource.
    pub limit: Limit,
}

/// The resource that limits the rate of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// This operator, by index, even on cores of its own.
    Operator(usize),
    /// The number of cores.
    Cores(usize),
}

impl Shortfall {
    /// Tuples per second that are too many.
    #[must_use]
    pub fn missing_per_s(&self) -> f64 {
        self.asked_per_s - self.held_per_s
    }
}

impl std::error::Error for Shortfall {}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (asked, missing) = (self.asked_per_s, self.missing_per_s());
        write!(f, "no plan holds {asked:.0} tuples/s: short by {missing:.0}; ")?;
        match self.limit {
            Limit::Operator(index) => {
                write!(f, "operator {index} alone is too slow: make it faster or replicate it by a key")
            }
            Limit::Cores(cores) => write!(f, "{cores} cores are too few: add cores"),
        }
    }
}

impl Planner<'_> {
    /// How far a rate that no plan holds exceeds what one holds.
    pub(super) fn shortfall(&self, asked: Arrivals) -> Shortfall {
        let mut too_much = asked.rate_per_s();
        let mut held = self.one_core_per_s(asked).min(too_much);
        while too_much > held * RATE_PRECISION_RATIO {
            let middle = (held * too_much).sqrt();
            if self.holds(asked.at(middle)) {
                held = middle;
            } else {
                too_much = middle;
            }
        }
        Shortfall { asked_per_s: asked.rate_per_s(), held_per_s: held, limit: self.limit(asked) }
    }

    /// The rate that a single core holds with all operators.
    fn one_core_per_s(&self, asked: Arrivals) -> f64 {
        let flows = self.model(asked).flows();
        let work_ns: f64 =
            self.pipeline.operators().iter().zip(&flows).map(|(data, flow)| data.service_ns * flow).sum();
        self.settings.utilisation_max / work_ns * 1e9
    }

    fn limit(&self, asked: Arrivals) -> Limit {
        let flows = self.model(asked).flows();
        let utilisation = |operator: usize| {
            let replicas = self.pipeline.replicas_max([operator]).min(self.topology.cores());
            let share = self.pipeline.max_share(&[operator], replicas).unwrap_or(1.0);
            let service_ns = self.pipeline.operators()[operator].service_ns;
            asked.rate_per_s() * 1e-9 * flows[operator] * service_ns * share
        };
        let slowest = (0..flows.len()).max_by(|&one, &other| utilisation(one).total_cmp(&utilisation(other)));
        match slowest {
            Some(operator) if utilisation(operator) > self.settings.utilisation_max => {
                Limit::Operator(operator)
            }
            _ => Limit::Cores(self.topology.cores()),
        }
    }
}
