//! Rates that no plan sustains.

use std::fmt;

use super::segments::Segments;
use super::{Optimality, Planner};
use crate::Arrivals;

/// Precision, as a ratio, of the highest sustained rate.
const RATE_PRECISION_RATIO: f64 = 1.0005;
/// Maximum halvings of a rate in the search for a plan: enough for hops that take 1e9 times as long as operators.
const HALVINGS_MAX: i32 = 30;

/// No plan sustains a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shortfall {
    /// The requested rate, in tuples per second.
    pub asked_per_s: f64,
    /// A rate that a plan sustains, in tuples per second: less than 0.05 % below the highest that the planner finds.
    pub held_per_s: f64,
    /// The limiting resource.
    pub limit: Limit,
    /// Whether it is proven that no plan of segments sustains higher rates, or none was found.
    pub optimality: Optimality,
}

/// The resource that limits the rate of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// An operator, on any number of cores.
    Operator {
        /// Its index.
        operator: usize,
        /// Maximum number of replicas: as many as its key has shares, or a cache domain has cores.
        replicas_max: usize,
    },
    /// The number of cores that may be used.
    Cores(usize),
    /// Pinned operators: without the pins a plan would exist.
    Pins,
}

impl Shortfall {
    /// Returns the excess of the requested rate, in tuples per second.
    #[must_use]
    pub fn missing_per_s(&self) -> f64 {
        self.asked_per_s - self.held_per_s
    }
}

impl std::error::Error for Shortfall {}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (asked, missing) = (self.asked_per_s, self.missing_per_s());
        let found = match self.optimality {
            Optimality::Exact => "no plan sustains",
            Optimality::Heuristic => "no plan was found that sustains",
        };
        write!(f, "{found} {asked:.0} tuples/s: short by {missing:.0}; ")?;
        match self.limit {
            Limit::Operator { operator, replicas_max: 1 } => {
                write!(
                    f,
                    "operator {operator} alone is too slow: make it faster, or replicate it by a key between \
                     other operators"
                )
            }
            Limit::Operator { operator, replicas_max } => {
                write!(
                    f,
                    "operator {operator} is too slow even with {replicas_max} replicas: make it or its hops \
                     faster, or divide its tuples more finely"
                )
            }
            Limit::Cores(cores) => write!(f, "{cores} cores are too few: add cores"),
            Limit::Pins => write!(f, "no plan leaves the pinned operators on their cores: let them move"),
        }
    }
}

impl Planner<'_> {
    /// Returns by how much a rate that no plan sustains exceeds one that a plan sustains.
    pub(super) fn shortfall(&self, asked: Arrivals) -> Shortfall {
        let mut too_much = asked.rate_per_s();
        let mut held = self.sure_per_s(asked).min(too_much);
        let mut optimality = self.holds(asked).1;
        while held > 0.0 && too_much > held * RATE_PRECISION_RATIO {
            // The square root of the product may overflow.
            let middle = held.sqrt() * too_much.sqrt();
            match self.holds(asked.at(middle)) {
                (true, _) => held = middle,
                (false, proof) => {
                    too_much = middle;
                    optimality = optimality.max(proof);
                }
            }
        }
        Shortfall { asked_per_s: asked.rate_per_s(), held_per_s: held, limit: self.limit(asked), optimality }
    }

    /// Returns the rate that a single core sustains with all operators.
    fn one_core_per_s(&self, asked: Arrivals) -> f64 {
        let flows = self.model(asked).flows();
        let work_ns: f64 =
            self.pipeline.operators().iter().zip(&flows).map(|(data, flow)| data.service_ns * flow).sum();
        self.settings.utilization_max / work_ns * 1e9
    }

    /// Returns a rate that some plan sustains; 0 if none was found.
    fn sure_per_s(&self, asked: Arrivals) -> f64 {
        let one_core_per_s = self.one_core_per_s(asked);
        if self.constraints.pinned_cores().len() < 2 {
            return one_core_per_s;
        }
        // Hops between pinned cores cost CPU time, so the rate of one core may be too high.
        let rates = (0..HALVINGS_MAX).map(|halvings| one_core_per_s / 2.0_f64.powi(halvings));
        rates.into_iter().find(|&rate| rate > 0.0 && self.holds(asked.at(rate)).0).unwrap_or(0.0)
    }

    /// Returns the limit: an operator that fits no core, the number of cores, or the pins.
    fn limit(&self, asked: Arrivals) -> Limit {
        let unpinned = self.constraints.without_pins();
        let planner = Planner { constraints: &unpinned, ..*self };
        if !self.constraints.has_no_pins() && planner.holds(asked).0 {
            return Limit::Pins;
        }
        planner.limit_without_pins(asked)
    }

    /// Returns the limit without pins: an operator that fits no core, or the number of cores.
    fn limit_without_pins(&self, asked: Arrivals) -> Limit {
        let model = self.model(asked);
        let flows = model.flows();
        let utilization = |operator: usize| {
            let share = self.pipeline.max_share(&[operator], self.replicas_max(operator)).unwrap_or(1.0);
            let service_ns = self.pipeline.operators()[operator].service_ns;
            asked.rate_per_s() * 1e-9 * flows[operator] * service_ns * share
        };
        let segments = self.pipeline.is_chain().then(|| Segments::new(&model, &self.settings));
        let is_too_slow = |&operator: &usize| match &segments {
            Some(segments) => !segments.can_hold(operator),
            None => utilization(operator) > self.settings.utilization_max,
        };
        let too_slow = (0..flows.len()).filter(is_too_slow);
        match too_slow.max_by(|&one, &other| utilization(one).total_cmp(&utilization(other))) {
            Some(operator) => Limit::Operator { operator, replicas_max: self.replicas_max(operator) },
            None => Limit::Cores(self.constraints.room(self.topology).into_iter().sum()),
        }
    }

    fn replicas_max(&self, operator: usize) -> usize {
        let room = self.constraints.room(self.topology).into_iter().max().unwrap_or(0);
        self.pipeline.replicas_max([operator]).min(room.max(1))
    }
}
