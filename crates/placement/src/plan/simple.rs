//! A smaller dynamic program: `path(j, k)` is the least time to the end of operator `j` on `k` cores.
//!
//! Cores are taken domain by domain, the largest first, which minimizes the number of far hops for `k` cores. That is
//! exact if it does not matter which hop is far: near and far hops differ only in transit. A replicated segment may
//! not fit into the rest of a domain, so with replicas it is exact only on one domain.

use std::cmp::Reverse;

use super::descent::Candidate;
use super::parts::Part;
use super::segments::{Segment, Segments};
use crate::{Distance, Model};

/// Returns whether the result is optimal.
pub(super) fn is_exact(model: &Model<'_>) -> bool {
    let Model { pipeline, topology, constraints, .. } = *model;
    let one_domain = topology.domains().len() == 1;
    let [near, far] = Distance::ALL.map(|distance| topology.hop(distance).transit_ns);
    let is_free = pipeline.keys().is_empty() && constraints.has_no_pins();
    one_domain || topology.differs_in_transit_only() && near <= far && is_free
}

/// The best way to the end of an operator on a number of cores.
#[derive(Clone, Copy)]
struct Step {
    path_ns: f64,
    wait_ns: f64,
    /// The last segment.
    segment: Segment,
}

/// Returns the plan with the least `path_ns` on each number of cores, of segments that wait less than `limit`
/// nanoseconds.
pub(super) fn solve(segments: &Segments<'_>, limit: f64) -> Vec<Candidate> {
    let topology = segments.model.topology;
    let steps = steps(segments, limit);
    let complete =
        (0..).zip(&steps[segments.operators()]).filter_map(|(cores, step)| Some((cores, (*step)?)));
    let candidate = |(cores, last): (usize, Step)| {
        let parts = parts(segments, &steps, cores, last);
        let far_hops = parts.windows(2).filter(|pair| pair[0].domain != pair[1].domain).count() as f64;
        let [near, far] = Distance::ALL.map(|distance| topology.hop(distance).transit_ns);
        Candidate { parts, path_ns: last.path_ns + far_hops * (far - near), wait_ns: last.wait_ns }
    };
    complete.map(candidate).collect()
}

/// Returns the steps by operators placed and open cores used; hops are near.
fn steps(segments: &Segments<'_>, limit: f64) -> Vec<Vec<Option<Step>>> {
    let operators = segments.operators();
    let cores: usize = segments.model.constraints.room(segments.model.topology).into_iter().sum();
    let mut steps: Vec<Vec<Option<Step>>> = vec![vec![None; cores + 1]; operators + 1];
    for first in 0..operators {
        let input = (first > 0).then_some(Distance::Near);
        for segment in segments.from(first) {
            let output = (segment.end < operators).then_some(Distance::Near);
            let Some(cost) = segments.cost(segment, input, output).filter(|cost| cost.wait_ns < limit) else {
                continue;
            };
            let taken = segments.taken(segment);
            for used in 0..(cores + 1).saturating_sub(taken) {
                let (path_ns, wait_ns) = match steps[first][used] {
                    Some(before) => (before.path_ns, before.wait_ns),
                    None if first == 0 && used == 0 => (0.0, 0.0),
                    None => continue,
                };
                let step =
                    Step { path_ns: path_ns + cost.path_ns, wait_ns: cost.wait_ns.max(wait_ns), segment };
                let best = &mut steps[segment.end][used + taken];
                if best.is_none_or(|best| step.path_ns < best.path_ns) {
                    *best = Some(step);
                }
            }
        }
    }
    steps
}

/// Returns the segments of a result, on cores domain by domain.
fn parts(segments: &Segments<'_>, steps: &[Vec<Option<Step>>], cores: usize, last: Step) -> Vec<Part> {
    let topology = segments.model.topology;
    let room = segments.model.constraints.room(topology);
    let mut domains: Vec<usize> = (0..room.len()).collect();
    domains.sort_by_key(|&domain| Reverse(room[domain]));
    let domain_of: Vec<usize> = domains.iter().flat_map(|&domain| vec![domain; room[domain]]).collect();
    let (mut parts, mut used, mut step) = (Vec::new(), cores, Some(last));
    while let Some(Step { segment, .. }) = step {
        used -= segments.taken(segment);
        let operators = (segment.first..segment.end).collect();
        let domain = segments.core(segment).map_or_else(|| domain_of[used], |core| topology.domain_of(core));
        parts.push(Part { operators, domain, replicas: segment.replicas });
        step = steps[segment.first][used];
    }
    parts.reverse();
    parts
}
