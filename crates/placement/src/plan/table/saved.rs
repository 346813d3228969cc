//! A plan table as it is written to a file; what is read is checked as if it were built anew.

use serde::{Deserialize, Serialize};

use super::PlanTable;
use crate::{Error, Plan};

/// An entry of a [`PlanTable`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedPlan {
    /// The highest rate that the plan is for.
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
        PlanTable::from_entries(saved.into_iter().map(|saved| (saved.held_per_s, saved.plan)).collect())
    }
}
