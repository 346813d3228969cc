//! The exact dynamic program on cache domains. Its state consists of the operators placed, the domain reached, the
//! distance of the next hop, and the cores left in each domain.
//!
//! It is needed where a far hop costs CPU time: the best plan may then leave a domain and return to it, to receive
//! from far where a core has time for that. Only states that are not dominated are kept, by one that has as many
//! cores left and took no longer; domains are identified by the cores that they have left, not by name. Large chains
//! on many domains have too many such states; then a sample of them is continued, and the plan is good but not proven
//! optimal.

use std::cmp::Reverse;

use super::Optimality;
use super::descent::Candidate;
use super::parts::Part;
use super::segments::{Segment, Segments};
use crate::{Distance, Model};

/// A placement of the first operators.
struct State {
    path_ns: f64,
    wait_ns: f64,
    /// The domain of the last segment; `None` before the first.
    domain: Option<usize>,
    /// The domain of the last segment if domains are identified by name, as pinned operators require.
    place: Option<usize>,
    /// Distance of the next hop.
    hop: Option<Distance>,
    /// Whether domains are identified by name.
    is_by_name: bool,
    /// Open cores left in each domain.
    left: Vec<usize>,
    /// Open cores left in the domain reached, then in the others in descending order; by name if domains are
    /// identified
    /// so.
    left_by_rank: Vec<usize>,
    /// The last segment, and the index of the preceding state.
    last: Option<(Segment, usize)>,
}

impl State {
    /// Returns whether this one is at least as good as `other` for any continuation.
    fn dominates(&self, other: &State) -> bool {
        self.hop == other.hop
            && self.place == other.place
            && self.path_ns <= other.path_ns
            && self.left_by_rank.iter().zip(&other.left_by_rank).all(|(own, others)| own >= others)
    }

    /// Returns the domains to which the next segment can go, one of each equivalence class.
    fn next_domains(&self, cores: usize, pinned: Option<usize>) -> Vec<usize> {
        let is_allowed = |&domain: &usize| pinned.is_none_or(|pinned| pinned == domain);
        let is_reached = |&domain: &usize| match self.hop {
            None => true,
            Some(Distance::Near) => self.domain == Some(domain),
            Some(Distance::Far) => self.domain != Some(domain),
        };
        let fits = |&domain: &usize| self.left[domain] >= cores;
        let domains = (0..self.left.len()).filter(is_allowed).filter(is_reached).filter(fits);
        let mut domains: Vec<usize> = domains.collect();
        if self.is_by_name {
            return domains;
        }
        domains.sort_by_key(|&domain| self.left[domain]);
        domains.dedup_by_key(|domain| self.left[*domain]);
        domains
    }

    /// Returns whether a core is left for the next hop.
    fn has_way_on(&self) -> bool {
        match self.hop {
            None => true,
            // A pinned operator has its core.
            _ if self.is_by_name => true,
            Some(Distance::Near) => self.left_by_rank[0] > 0,
            Some(Distance::Far) => self.left_by_rank.get(1).is_some_and(|&cores| cores > 0),
        }
    }
}

/// Maximum states kept for each operator; beyond that every second one is dropped. It suffices for all states of 20
/// operators on two domains.
pub(super) const STATES_MAX: usize = 512;

/// Returns plans of segments that wait less than `limit` nanoseconds, from at most `states_max` states per operator.
/// Exact if all states were kept: then for each number of cores there is a plan on at most as many with the least
/// `path_ns`.
pub(super) fn solve(segments: &Segments<'_>, limit: f64, states_max: usize) -> (Vec<Candidate>, Optimality) {
    let mut optimality = Optimality::Exact;
    let mut layers: Vec<Vec<State>> = (0..=segments.operators()).map(|_| Vec::new()).collect();
    layers[0].push(start(segments.model));
    for first in 0..segments.operators() {
        for index in 0..layers[first].len() {
            for segment in segments.from(first) {
                for state in successors(segments, segment, &layers[first][index], index, limit) {
                    let states = &mut layers[segment.end];
                    keep(states, state);
                    if states.len() > states_max {
                        sample(states);
                        optimality = Optimality::Heuristic;
                    }
                }
            }
        }
    }
    let complete = &layers[segments.operators()];
    (complete.iter().map(|state| candidate(&layers, state)).collect(), optimality)
}

/// Keeps half of the states, from the fastest to those with the most cores left.
fn sample(states: &mut Vec<State>) {
    states.sort_by(|one, other| one.path_ns.total_cmp(&other.path_ns));
    let mut is_kept = false;
    states.retain(|_| {
        is_kept = !is_kept;
        is_kept
    });
}

fn start(model: &Model<'_>) -> State {
    State {
        path_ns: 0.0,
        wait_ns: 0.0,
        domain: None,
        place: None,
        hop: None,
        is_by_name: !model.constraints.has_no_pins(),
        left: model.constraints.room(model.topology),
        left_by_rank: Vec::new(),
        last: None,
    }
}

/// Returns the states after a segment that follows `before`.
fn successors(
    segments: &Segments<'_>,
    segment: Segment,
    before: &State,
    index: usize,
    limit: f64,
) -> Vec<State> {
    let mut found = Vec::new();
    let taken = segments.taken(segment);
    let pinned = segments.core(segment).map(|core| segments.model.topology.domain_of(core));
    for &hop in segments.hops_after(segment) {
        let cost = segments.cost(segment, before.hop, hop).filter(|cost| cost.wait_ns < limit);
        let Some(cost) = cost else { continue };
        for domain in before.next_domains(taken, pinned) {
            let mut left = before.left.clone();
            left[domain] -= taken;
            let state = State {
                path_ns: before.path_ns + cost.path_ns,
                wait_ns: before.wait_ns.max(cost.wait_ns),
                domain: Some(domain),
                place: before.is_by_name.then_some(domain),
                hop,
                is_by_name: before.is_by_name,
                left_by_rank: if before.is_by_name { left.clone() } else { ranked(&left, domain) },
                left,
                last: Some((segment, index)),
            };
            if state.has_way_on() {
                found.push(state);
            }
        }
    }
    found
}

fn ranked(left: &[usize], domain: usize) -> Vec<usize> {
    let mut ranked = left.to_vec();
    ranked.swap(0, domain);
    ranked[1..].sort_by_key(|&cores| Reverse(cores));
    ranked
}

/// Adds a state unless it is dominated, and drops the states that it dominates.
fn keep(states: &mut Vec<State>, state: State) {
    if !states.iter().any(|other| other.dominates(&state)) {
        states.retain(|other| !state.dominates(other));
        states.push(state);
    }
}

fn candidate(layers: &[Vec<State>], complete: &State) -> Candidate {
    let mut parts = Vec::new();
    let mut state = complete;
    while let (Some((segment, before)), Some(domain)) = (state.last, state.domain) {
        let operators = (segment.first..segment.end).collect();
        parts.push(Part { operators, domain, replicas: segment.replicas });
        state = &layers[segment.first][before];
    }
    parts.reverse();
    Candidate { parts, path_ns: complete.path_ns, wait_ns: complete.wait_ns }
}
