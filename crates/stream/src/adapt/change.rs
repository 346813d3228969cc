//! From the placement in use to that of a plan.

use sakiyomi_placement::{Error, Move, Placement, Planner, Settings};

use super::events::Reason;
use super::plans::PlanInputs;

/// A change of the placement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) reason: Reason,
    /// The rate, in tuples per second.
    pub(crate) rate_per_s: f64,
    pub(crate) from: Placement,
    pub(crate) to: Placement,
    /// Time of the sample that led to it.
    pub(crate) decided_ns: u64,
    /// The steps, of which the last one leads to `to`.
    pub(crate) steps: Vec<Step>,
}

/// A step of a change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// The change; none if no order of changes was found, and all are made at once.
    pub(crate) change: Option<Move>,
    pub(crate) after: Placement,
}

/// Returns the steps from one placement to another.
pub(crate) fn steps(planner: &Planner<'_>, from: &Placement, to: &Placement) -> Vec<Step> {
    let in_order = planner.moves(from, to).ok().and_then(|moves| {
        let mut present = from.clone();
        let step = |change: Move| {
            present = present.after(&change)?;
            Some(Step { change: Some(change), after: present.clone() })
        };
        moves.into_iter().map(step).collect::<Option<Vec<Step>>>()
    });
    in_order.unwrap_or_else(|| vec![Step { change: None, after: to.clone() }])
}

/// Returns whether a placement can stand in for another one at `rate_per_s` tuples per second: it has as many cores,
/// holds what the other is for, `up_to_per_s`, and its latency is within what a plan gives up for fewer cores.
///
/// # Errors
/// If the placements are not for this planner's pipeline, or a rate is not positive.
pub(crate) fn can_stand_in(
    planner: &Planner<'_>,
    ground: &PlanInputs,
    placement: &Placement,
    other: &Placement,
    (rate_per_s, up_to_per_s): (f64, f64),
) -> Result<bool, Error> {
    let Settings { utilization_max, latency_slack_ratio, .. } = ground.settings;
    let (now, highest) =
        (planner.model(ground.arrivals(rate_per_s)?), planner.model(ground.arrivals(up_to_per_s)?));
    let latency_ns = now.figures(placement)?.latency_ns;
    Ok(placement.cores_used() == other.cores_used()
        && highest.figures(placement)?.utilization_max() <= utilization_max
        && latency_ns <= (1.0 + latency_slack_ratio) * now.figures(other)?.latency_ns)
}
