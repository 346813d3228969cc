//! Serialized form of a plan table; deserialized values are validated like new ones.

use serde::{Deserialize, Serialize};

use super::PlanTable;
use crate::topology::CORES_MAX;
use crate::{Error, Figures, Plan};

/// An entry of a [`PlanTable`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedPlan {
    /// The highest rate of the plan.
    held_per_s: f64,
    plan: Plan,
}

impl From<PlanTable> for Vec<SavedPlan> {
    fn from(table: PlanTable) -> Vec<SavedPlan> {
        let saved =
            |(held_per_s, plan): &(f64, Plan)| SavedPlan { held_per_s: *held_per_s, plan: plan.clone() };
        table.entries().iter().map(saved).collect()
    }
}

impl TryFrom<Vec<SavedPlan>> for PlanTable {
    type Error = Error;

    fn try_from(saved: Vec<SavedPlan>) -> Result<PlanTable, Error> {
        let operators = saved.first().map_or(0, |saved| operators(&saved.plan));
        saved.iter().try_for_each(|saved| check(&saved.plan, operators))?;
        PlanTable::from_entries(saved.into_iter().map(|saved| (saved.held_per_s, saved.plan)).collect())
    }
}

fn operators(plan: &Plan) -> usize {
    plan.placement.groups.iter().map(|group| group.operators.len()).sum()
}

/// Checks that a plan is valid for some pipeline with this number of operators, on some topology: neither is in the
/// file.
fn check(plan: &Plan, operators: usize) -> Result<(), Error> {
    let groups = &plan.placement.groups;
    if groups.is_empty() {
        return Err(Error::Value { what: "number of groups of a plan", value: 0.0, range: "1 or more" });
    }
    let cores = groups.iter().flat_map(|group| &group.cores).max().map_or(0, |core| core.saturating_add(1));
    plan.placement.check_members(operators, cores.min(CORES_MAX)).map_err(Error::Placement)?;
    let Figures { latency_ns, arrival_wait_ns, utilization } = &plan.figures;
    if utilization.len() != groups.len() {
        let (what, range) = ("number of utilizations of a plan", "the number of its groups");
        return Err(Error::Value { what, value: utilization.len() as f64, range });
    }
    let mut figures = [latency_ns, arrival_wait_ns].into_iter().chain(utilization);
    match figures.find(|value| !(value.is_finite() && **value >= 0.0)) {
        Some(&value) => Err(Error::Value { what: "figure of a plan", value, range: "0 or more" }),
        None => Ok(()),
    }
}
