//! Making plans of all rates, which may take long and so is done beside the decisions.

use std::sync::Arc;

use sakiyomi_placement::{
    Arrivals, Constraints, Error, Pipeline, PlanTable, Planner, Settings, Shortfall, Topology,
};

use super::events::Reason;
use super::loads::Loads;

/// Lowest rate of a table in relation to the highest. Lower rates have the plan of this one, at which the cores of a
/// hundred would be nearly idle: the fewest hops are best there.
const RATE_MIN_RATIO: f64 = 0.01;

/// Tables that are tried until one has no gaps. A search that finds a plan for the highest rate may miss one for a
/// lower rate.
const TABLES_MAX: usize = 8;

/// Highest rate of a further table, in relation to that before it.
const RATE_REDUCTION_RATIO: f64 = 0.95;

/// Inputs of plans, apart from the load.
#[derive(Clone, Debug)]
pub(crate) struct PlanInputs {
    pub(crate) topology: Topology,
    pub(crate) constraints: Constraints,
    pub(crate) settings: Settings,
    /// Index of dispersion of the arrivals.
    pub(crate) dispersion: f64,
}

impl PlanInputs {
    /// Returns the planner of a pipeline.
    ///
    /// # Errors
    /// Returns the errors of [`Planner::new`] and [`Planner::with_constraints`].
    pub(crate) fn planner<'a>(&'a self, pipeline: &'a Pipeline) -> Result<Planner<'a>, Error> {
        Planner::new(pipeline, &self.topology, self.settings)?.with_constraints(&self.constraints)
    }

    /// Arrivals at a rate in tuples per second.
    ///
    /// # Errors
    /// If it is not positive.
    pub(crate) fn arrivals(&self, rate_per_s: f64) -> Result<Arrivals, Error> {
        Arrivals::new(rate_per_s, self.dispersion)
    }
}

/// A request for plans.
#[derive(Clone, Debug)]
pub(crate) struct PlanRequest {
    pub(crate) ground: Arc<PlanInputs>,
    pub(crate) pipeline: Pipeline,
    /// The load that the pipeline has been made of.
    pub(crate) loads: Loads,
    /// Ratio of the pipeline's service times to those of the load.
    pub(crate) slowdown: f64,
    pub(crate) reason: Reason,
}

/// Plans that were made.
#[derive(Clone, Debug)]
pub(crate) struct Plans {
    pub(crate) request: PlanRequest,
    /// The plans, or the reason why there are none.
    pub(crate) table: Result<PlanTable, String>,
}

impl PlanRequest {
    /// Makes the plans of all rates that any plan holds.
    pub(crate) fn make(self) -> Plans {
        let table = self.table();
        Plans { request: self, table }
    }

    fn table(&self) -> Result<PlanTable, String> {
        let planner = self.ground.planner(&self.pipeline).map_err(|error| error.to_string())?;
        let at = |rate_per_s| self.ground.arrivals(rate_per_s).map_err(|error| error.to_string());
        // More than all cores can do.
        let too_much_per_s =
            self.ground.topology.cores() as f64 / (self.loads.all_work_ns() * self.slowdown) * 1e9;
        let mut highest_per_s = match planner.plan(at(too_much_per_s)?) {
            Ok(_) => too_much_per_s,
            Err(Shortfall { held_per_s, .. }) => held_per_s,
        };
        let mut result = Err("no plan sustains any rate".to_owned());
        for _ in 0..TABLES_MAX {
            let arrivals = at(highest_per_s)?;
            match planner.table(arrivals, highest_per_s * RATE_MIN_RATIO..=highest_per_s) {
                Ok(table) => return Ok(table),
                Err(shortfall) => result = Err(shortfall.to_string()),
            }
            highest_per_s *= RATE_REDUCTION_RATIO;
        }
        result
    }
}
