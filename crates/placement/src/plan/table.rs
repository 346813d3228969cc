//! Plans of all rates, made beforehand: the best plan changes only at a few rates.

mod saved;

use serde::{Deserialize, Serialize};

use std::ops::RangeInclusive;

use super::{Plan, Planner, Shortfall};
use crate::{Arrivals, Error};
use saved::SavedPlan;

/// Ratio of neighboring rates at which plans are made initially.
const RATE_STEP_RATIO: f64 = 1.1;
/// Precision of the rates at which the plan changes.
const BREAK_PRECISION_RATIO: f64 = 1.01;

/// A plan for each rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<SavedPlan>", into = "Vec<SavedPlan>")]
pub struct PlanTable {
    /// The highest rate of each plan, ascending, and the plan with its figures at that rate.
    entries: Vec<(f64, Plan)>,
}

impl PlanTable {
    /// Creates a table from its entries.
    ///
    /// # Errors
    /// Unless there are entries, whose rates are positive, finite and ascending.
    pub(crate) fn from_entries(entries: Vec<(f64, Plan)>) -> Result<PlanTable, Error> {
        let what = "highest rate of a plan in tuples/s";
        let mut below = 0.0;
        for &(up_to, _) in &entries {
            if !(up_to.is_finite() && up_to > below) {
                let range = "more than that of the plan before it, and of the first more than 0";
                return Err(Error::Value { what, value: up_to, range });
            }
            below = up_to;
        }
        if entries.is_empty() {
            return Err(Error::Value { what: "number of plans", value: 0.0, range: "1 or more" });
        }
        Ok(PlanTable { entries })
    }

    /// Returns the plan of a rate in tuples per second, made for the next higher rate of the table. `None` above the
    /// highest rate of the table, and for NaN.
    #[must_use]
    pub fn get(&self, rate_per_s: f64) -> Option<&Plan> {
        let index = self.entries.partition_point(|&(up_to, _)| up_to < rate_per_s || rate_per_s.is_nan());
        self.entries.get(index).map(|(_, plan)| plan)
    }

    /// Returns the highest rate of each plan, in tuples per second, ascending, and the plan with its figures at that
    /// rate.
    #[must_use]
    pub fn entries(&self) -> &[(f64, Plan)] {
        &self.entries
    }
}

impl Planner<'_> {
    /// Returns the plans of a range of rates, in tuples per second. The arrivals give the dispersion. Each plan also
    /// sustains lower rates, as the utilization falls with the rate; with receivers that park, wake-ups may cost more
    /// at a lower rate, so plans are made for rates at most 10 % apart.
    ///
    /// # Errors
    /// The shortfall if no plan sustains the highest rate.
    ///
    /// # Panics
    /// If the range is empty, or not of positive, finite rates.
    pub fn table(
        &self,
        arrivals: Arrivals,
        rates_per_s: RangeInclusive<f64>,
    ) -> Result<PlanTable, Shortfall> {
        let (&lowest, &highest) = (rates_per_s.start(), rates_per_s.end());
        assert!(0.0 < lowest && lowest <= highest && highest < f64::INFINITY, "no rates: {rates_per_s:?}");
        // If any rate is too high, it is this one: the shortfall reports by how much.
        let last = self.plan(arrivals.at(highest))?;
        let mut table = PlanTable { entries: vec![(lowest, self.plan(arrivals.at(lowest))?)] };
        let mut rate = lowest;
        while rate < highest {
            let below = rate;
            rate = (rate * RATE_STEP_RATIO).min(highest);
            let plan = if rate < highest { self.plan(arrivals.at(rate))? } else { last.clone() };
            self.refine(&mut table, arrivals, below, (rate, plan))?;
        }
        Ok(table)
    }

    /// Adds `next`, and the plans of rates between `below` and it.
    fn refine(
        &self,
        table: &mut PlanTable,
        arrivals: Arrivals,
        below: f64,
        next: (f64, Plan),
    ) -> Result<(), Shortfall> {
        let (up_to, last) = table.entries.last_mut().expect("the table begins with the lowest rate");
        if last.placement == next.1.placement {
            (*up_to, *last) = next;
        } else if next.0 <= below * BREAK_PRECISION_RATIO {
            table.entries.push(next);
        } else {
            let middle = (below * next.0).sqrt();
            let plan = self.plan(arrivals.at(middle))?;
            self.refine(table, arrivals, below, (middle, plan))?;
            self.refine(table, arrivals, middle, next)?;
        }
        Ok(())
    }
}
