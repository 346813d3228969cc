//! Minimization of latency as sum plus maximum: the wait of a plan is that of its slowest segment, while everything
//! else adds up. A dynamic program that excludes segments whose wait reaches a limit minimizes the sum; lowering
//! the limit from one plan's wait to the next finds the minimum of sum and wait together, and skips all limits in
//! between, which change nothing.

use std::collections::BTreeMap;

use super::parts::Part;
use super::{Optimality, Settings};

/// A plan and its cost.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) parts: Vec<Part>,
    /// Latency without the wait, in nanoseconds.
    pub(super) path_ns: f64,
    /// Wait of the slowest part, in nanoseconds.
    pub(super) wait_ns: f64,
}

impl Candidate {
    pub(super) fn cores(&self) -> usize {
        self.parts.iter().map(|part| part.replicas).sum()
    }

    pub(super) fn latency_ns(&self) -> f64 {
        self.path_ns + self.wait_ns
    }
}

/// Maximum programs solved for a plan; 48 suffice for random chains of 30 operators on up to 4 cores.
pub(super) const SOLVED_MAX: usize = 256;

/// Returns the best plan among those that `solve` finds below a limit of the wait. For each number of cores that it
/// can use, `solve` returns a plan on at most as many with the least `path_ns`. After `solved_max` limits the result
/// is the best so far, which may not be optimal.
pub(super) fn best(
    mut solve: impl FnMut(f64) -> Vec<Candidate>,
    settings: &Settings,
    solved_max: usize,
) -> (Option<Candidate>, Optimality) {
    let mut by_cores: BTreeMap<usize, Candidate> = BTreeMap::new();
    let (mut limit, mut accepted_ns) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..solved_max {
        let mut next: f64 = 0.0;
        for found in solve(limit) {
            let known = by_cores.range(..=found.cores()).map(|(_, other)| other.latency_ns());
            let known = known.fold(f64::INFINITY, f64::min);
            // With a lower limit the sum can only grow: a plan that already exceeds a known one, or the slack of the
            // best, is discarded.
            if found.path_ns >= known || found.path_ns > accepted_ns {
                continue;
            }
            next = next.max(found.wait_ns);
            if found.latency_ns() < known {
                accepted_ns = accepted_ns.min(found.latency_ns() * (1.0 + settings.latency_slack_ratio));
                by_cores.insert(found.cores(), found);
            }
        }
        limit = next;
        if limit == 0.0 {
            return (fewest_cores(by_cores, settings.latency_slack_ratio), Optimality::Exact);
        }
    }
    (fewest_cores(by_cores, settings.latency_slack_ratio), Optimality::Heuristic)
}

/// Returns the plan on the fewest cores whose latency is within the slack of the best.
pub(super) fn fewest_cores(by_cores: BTreeMap<usize, Candidate>, slack_ratio: f64) -> Option<Candidate> {
    let best_ns = by_cores.values().map(Candidate::latency_ns).fold(f64::INFINITY, f64::min);
    by_cores.into_values().find(|plan| plan.latency_ns() <= best_ns * (1.0 + slack_ratio))
}
