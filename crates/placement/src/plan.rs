//! Plans: the fewest cores whose latency is within a few percent of the best.
//!
//! The plan of a chain divides it into *segments* of neighboring operators, on one core each or on one per replica.
//! Interval mapping to equal cores has polynomial dynamic programs (Subhlok and Vondran, SPAA 1996); these here add
//! distances, replicas and the wait:
//!
//! | file | subject |
//! |---|---|
//! | `segments` | cost of every segment |
//! | `capacity` | the exact program, whose state includes the cores left in each domain |
//! | `simple` | a smaller program, exact if the distance of a hop costs no CPU time |
//! | `descent` | the wait, which is a maximum and not a sum; the choice among numbers of cores |
//! | `search` | graphs: local search |
//! | `parts` | from groups in domains to cores |
//! | `cut` | the cheapest edge at which a part goes to another engine |
//! | [`shortfall`], [`table`] | rates that no plan sustains; plans of all rates |
//!
//! Restriction to *neighboring* operators loses nothing while cores are plentiful. On scarce cores arbitrary sets of
//! operators may fit where no segments do (0.6, 0.6, 0.4, 0.4 on two cores), which is bin packing; for graphs
//! `search` finds such sets.

mod capacity;
mod cut;
mod descent;
mod parts;
mod search;
mod segments;
pub mod shortfall;
mod simple;
pub mod table;

#[cfg(test)]
mod tests;

pub use cut::Cut;
pub use shortfall::{Limit, Shortfall};
pub use table::PlanTable;

use serde::{Deserialize, Serialize};

use crate::model::constraints::UNCONSTRAINED;
use crate::{Arrivals, Constraints, Error, Figures, Idle, Model, Pipeline, Placement, Topology};
use descent::Candidate;
use segments::Segments;

/// Requirements on a plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// Maximum utilization of a core, above 0 and below 1. The rest is a reserve for fluctuations.
    #[serde(rename = "utilization_max_ratio", alias = "utilisation_max_ratio")]
    pub utilization_max: f64,
    /// Latency given up for fewer cores, as a share of the best.
    pub latency_slack_ratio: f64,
    /// Behavior of receivers while they wait.
    pub idle: Idle,
}

impl Default for Settings {
    /// Utilization up to 0.85, 5 % of latency for fewer cores, spinning receivers.
    fn default() -> Settings {
        Settings { utilization_max: 0.85, latency_slack_ratio: 0.05, idle: Idle::Spin }
    }
}

/// Relative error of a utilization that is summed in another order.
const ROUNDING_RATIO: f64 = 1e-9;

impl Settings {
    /// Sets the maximum utilization, above 0 and below 1.
    #[must_use]
    pub fn with_utilization_max(self, utilization_max: f64) -> Settings {
        Settings { utilization_max, ..self }
    }

    /// Sets the slack, 0 or more.
    #[must_use]
    pub fn with_latency_slack_ratio(self, latency_slack_ratio: f64) -> Settings {
        Settings { latency_slack_ratio, ..self }
    }

    /// Sets the behavior of waiting receivers.
    #[must_use]
    pub fn with_idle(self, idle: Idle) -> Settings {
        Settings { idle, ..self }
    }

    /// Returns the utilization above the limit.
    fn excess(&self, utilization: f64) -> f64 {
        let limit = self.utilization_max * (1.0 + ROUNDING_RATIO);
        if utilization > limit { utilization - self.utilization_max } else { 0.0 }
    }
}

/// Whether a plan is known to be optimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Optimality {
    /// No plan of segments has fewer cores within the slack, nor less latency on as many.
    Exact,
    /// Found by local search, from a sample of too many states, or without trying all limits of the wait.
    Heuristic,
}

/// A placement that sustains the rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The placement of the operators.
    pub placement: Placement,
    /// Its figures at the rate that it was made for.
    pub figures: Figures,
    /// Whether it is optimal.
    pub optimality: Optimality,
}

/// Makes plans of a pipeline on a topology.
#[derive(Clone, Copy, Debug)]
pub struct Planner<'a> {
    pipeline: &'a Pipeline,
    topology: &'a Topology,
    settings: Settings,
    constraints: &'a Constraints,
}

impl<'a> Planner<'a> {
    /// Creates a planner without constraints.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(
        pipeline: &'a Pipeline,
        topology: &'a Topology,
        settings: Settings,
    ) -> Result<Planner<'a>, Error> {
        let Settings { utilization_max, latency_slack_ratio, idle } = settings;
        if !(utilization_max > 0.0 && utilization_max < 1.0) {
            let (what, range) = ("largest utilization of a core", "above 0 and below 1");
            return Err(Error::Value { what, value: utilization_max, range });
        }
        let spin_ns = if let Idle::Park { spin_ns } = idle { spin_ns } else { 0.0 };
        let figures = [("latency slack ratio", latency_slack_ratio), ("time of spinning in ns", spin_ns)];
        for (what, value) in figures {
            if !(value.is_finite() && value >= 0.0) {
                return Err(Error::Value { what, value, range: "0 or more" });
            }
        }
        Ok(Planner { pipeline, topology, settings, constraints: &UNCONSTRAINED })
    }

    /// Adds constraints, which plans and tables honor.
    ///
    /// # Errors
    /// If an operator or a core is unknown, a pinned operator's core is reserved, all cores are reserved, or pins
    /// force groups to send to each other in a cycle.
    pub fn with_constraints(self, constraints: &'a Constraints) -> Result<Planner<'a>, Error> {
        constraints.check(self.pipeline, self.topology)?;
        Ok(Planner { constraints, ..self })
    }

    /// Returns a plan with the fewest cores within the slack of the best latency, and the least latency on them. It
    /// is exact for chains unless they are large, on several domains, and the distance of a hop costs CPU time or
    /// operators have keys; [`Plan::optimality`] tells.
    ///
    /// # Errors
    /// The shortfall if no plan sustains the rate.
    pub fn plan(&self, arrivals: Arrivals) -> Result<Plan, Shortfall> {
        self.try_plan(arrivals).ok_or_else(|| self.shortfall(arrivals))
    }

    /// Returns the model for these arrivals.
    #[must_use]
    pub fn model(&self, arrivals: Arrivals) -> Model<'a> {
        Model::new(self.pipeline, self.topology, self.settings.idle, arrivals).under(self.constraints)
    }

    fn try_plan(&self, arrivals: Arrivals) -> Option<Plan> {
        let model = self.model(arrivals);
        let (best, optimality) = if self.pipeline.is_chain() {
            let segments = Segments::new(&model, &self.settings);
            Method::of(&model).best(&segments, &self.settings, descent::SOLVED_MAX)
        } else {
            (search::best(&model, &self.settings), Optimality::Heuristic)
        };
        let placement = parts::placement(&best?.parts, &model);
        let figures = model.figures_of_valid(&placement);
        Some(Plan { placement, figures, optimality })
    }

    /// Returns whether the planner finds a plan for these arrivals, and if not, whether it is proven that no plan of
    /// segments exists.
    fn holds(&self, arrivals: Arrivals) -> (bool, Optimality) {
        let model = self.model(arrivals);
        if self.pipeline.is_chain() {
            let segments = Segments::new(&model, &self.settings);
            let method = Method::of(&model);
            let (plans, proof) = method.solve(&segments, f64::INFINITY);
            (!plans.is_empty(), proof)
        } else {
            (search::best(&model, &self.settings).is_some(), Optimality::Heuristic)
        }
    }
}

/// How the plan of a chain is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Simple,
    Capacity {
        /// Maximum states kept for each operator.
        states_max: usize,
    },
}

impl Method {
    /// Returns the fastest exact method.
    fn of(model: &Model<'_>) -> Method {
        if simple::is_exact(model) {
            Method::Simple
        } else {
            Method::Capacity { states_max: capacity::STATES_MAX }
        }
    }

    /// Returns the best plan, from at most `solved_max` programs.
    fn best(
        self,
        segments: &Segments<'_>,
        settings: &Settings,
        solved_max: usize,
    ) -> (Option<Candidate>, Optimality) {
        let mut sampled = Optimality::Exact;
        let solve = |limit| {
            let (plans, proof) = self.solve(segments, limit);
            sampled = sampled.max(proof);
            plans
        };
        let (best, optimality) = descent::best(solve, settings, solved_max);
        (best, optimality.max(sampled))
    }

    /// Returns the plans with the least latency, excluding waits, of segments that wait less than `limit`
    /// nanoseconds.
    fn solve(self, segments: &Segments<'_>, limit: f64) -> (Vec<Candidate>, Optimality) {
        match self {
            Method::Simple => (simple::solve(segments, limit), Optimality::Exact),
            Method::Capacity { states_max } => capacity::solve(segments, limit, states_max),
        }
    }
}
