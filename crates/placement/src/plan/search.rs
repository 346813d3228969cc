//! Plans of graphs by local search: placing a graph is NP-hard even on two equal cores.
//!
//! For each number of cores the search starts from topological orders cut into parts of equal load, and from the best
//! plan on one core fewer. It takes the best of all single changes: an operator moved to another part, two operators
//! exchanged, parts merged or split, a replica added or removed, a part moved to another domain. If none improves the
//! plan it continues for some steps with the least harmful one (tabu search). Groups that send to each other in a
//! cycle are never formed. Tests compare the result with all placements of small graphs.

mod changes;

use std::collections::{BTreeMap, BTreeSet};

use super::Settings;
use super::descent::{Candidate, fewest_cores};
use super::parts::{Part, placement};
use crate::Model;

/// Steps without improvement after which a walk ends. On 1,500 random graphs of up to 7 operators 12 find the optimum
/// of each, 4 of all but 4, and 0 of all but 14.
const PATIENCE_STEPS: usize = 12;

/// Objective of the search, compared field by field.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Score {
    /// Utilization above the limit, summed over parts.
    overload: f64,
    latency_ns: f64,
}

/// A plan and its score.
#[derive(Clone)]
struct Scored {
    parts: Vec<Part>,
    score: Score,
}

/// Returns the best plan found; `None` if none was found that sustains the rate.
pub(super) fn best(model: &Model<'_>, settings: &Settings) -> Option<Candidate> {
    let operators = model.pipeline.operators().len();
    let useful: usize = (0..operators).map(|operator| model.pipeline.replicas_max([operator])).sum();
    let mut by_cores: BTreeMap<usize, Candidate> = BTreeMap::new();
    let mut last: Option<Scored> = None;
    let pinned = model.constraints.pinned_cores().len();
    let usable = pinned + model.constraints.room(model.topology).into_iter().sum::<usize>();
    for cores in pinned.max(1)..=useful.min(usable) {
        let mut starts = changes::balanced(model, cores);
        starts.extend(last.take().map(|scored| scored.parts));
        let found = starts.into_iter().map(|parts| walk(model, settings, parts, cores));
        let found = found.reduce(|best, other| if other.score < best.score { other } else { best });
        for scored in found.iter().filter(|scored| scored.score.overload == 0.0) {
            let plan = candidate(model, scored);
            let best = by_cores.entry(plan.cores()).or_insert_with(|| plan.clone());
            if plan.latency_ns() < best.latency_ns() {
                *best = plan;
            }
        }
        last = found;
    }
    fewest_cores(by_cores, settings.latency_slack_ratio)
}

fn candidate(model: &Model<'_>, scored: &Scored) -> Candidate {
    let figures = model.figures_of_valid(&placement(&scored.parts, model));
    Candidate {
        parts: scored.parts.clone(),
        path_ns: figures.latency_ns - figures.arrival_wait_ns,
        wait_ns: figures.arrival_wait_ns,
    }
}

/// Returns the best plan on at most `cores` cores on a walk from `parts`. Each step takes the best change to a plan
/// that was not visited, even if it is worse (tabu search), until [`PATIENCE_STEPS`] consecutive steps have found no
/// improvement.
fn walk(model: &Model<'_>, settings: &Settings, mut parts: Vec<Part>, cores: usize) -> Scored {
    parts.sort();
    let mut at = Scored { score: score(model, settings, &parts), parts };
    let mut best = at.clone();
    let mut visited = BTreeSet::new();
    let mut patience = PATIENCE_STEPS;
    while patience > 0 {
        patience -= 1;
        visited.insert(at.parts.clone());
        let Some(next) = best_change(model, settings, &at.parts, cores, &visited) else { break };
        at = next;
        if at.score < best.score {
            best = at.clone();
            patience = PATIENCE_STEPS;
        }
    }
    best
}

/// Returns the best unvisited plan that a single change of `parts` leads to.
fn best_change(
    model: &Model<'_>,
    settings: &Settings,
    parts: &[Part],
    cores: usize,
    visited: &BTreeSet<Vec<Part>>,
) -> Option<Scored> {
    let mut best: Option<Scored> = None;
    for mut parts in changes::all(model, parts, cores) {
        parts.sort();
        if visited.contains(&parts) || model.has_circle(&placement(&parts, model)) {
            continue;
        }
        let score = score(model, settings, &parts);
        if best.as_ref().is_none_or(|best| score < best.score) {
            best = Some(Scored { parts, score });
        }
    }
    best
}

fn score(model: &Model<'_>, settings: &Settings, parts: &[Part]) -> Score {
    let figures = model.figures_of_valid(&placement(parts, model));
    let excess = |&utilization: &f64| settings.excess(utilization);
    Score { overload: figures.utilization.iter().map(excess).sum(), latency_ns: figures.latency_ns }
}
