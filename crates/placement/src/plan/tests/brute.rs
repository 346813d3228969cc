//! The optimal plan by exhaustive search.

use std::collections::BTreeMap;

use super::random::Instance;
use crate::plan::descent::{Candidate, fewest_cores};
use crate::plan::parts::Part;
use crate::{Group, Model, Placement};

/// All plans of an instance, and the least latency on each number of cores.
struct Trial<'a> {
    instance: &'a Instance,
    model: Model<'a>,
    best: BTreeMap<usize, Candidate>,
}

/// Returns the best plan of segments of a chain.
pub(super) fn best_chain(instance: &Instance) -> Option<Candidate> {
    best(instance, |trial| trial.extend_chain(0, &mut Vec::new(), &mut all_cores(instance)))
}

/// Returns the best placement of a graph whose groups do not send in a cycle.
pub(super) fn best_graph(instance: &Instance) -> Option<Candidate> {
    best(instance, |trial| trial.extend_graph(0, &mut Vec::new(), &mut all_cores(instance)))
}

fn all_cores(instance: &Instance) -> Vec<usize> {
    instance.topology.domains().to_vec()
}

/// Gives each part cores of its domain, within constraints; `None` if that is impossible.
fn place(instance: &Instance, parts: &[Part]) -> Option<Placement> {
    let Instance { topology, constraints, .. } = instance;
    let is_used = |core: usize| !constraints.reserved().any(|other| other == core);
    let pin = |operators: &[usize]| {
        constraints.pinned().find(|(operator, _)| operators.contains(operator)).map(|(_, core)| core)
    };
    let mut free: Vec<usize> = (0..topology.cores()).filter(|&core| is_used(core)).collect();
    free.retain(|&core| constraints.pinned().all(|(_, pinned)| pinned != core));
    let mut groups = Vec::new();
    for part in parts {
        let mut cores: Vec<usize> = pin(&part.operators).into_iter().collect();
        while cores.len() < part.replicas {
            let is_in = |&core: &usize| topology.domain_of(core) == part.domain;
            cores.push(free.remove(free.iter().position(is_in)?));
        }
        if topology.domain_of(cores[0]) != part.domain {
            return None;
        }
        groups.push(Group { operators: part.operators.clone(), cores });
    }
    Some(Placement { groups })
}

fn best(instance: &Instance, try_all: impl Fn(&mut Trial<'_>)) -> Option<Candidate> {
    let mut trial = Trial { instance, model: instance.model(), best: BTreeMap::new() };
    try_all(&mut trial);
    fewest_cores(trial.best, instance.settings.latency_slack_ratio)
}

impl Trial<'_> {
    /// Continues with each segment that begins at `first`, on each domain.
    fn extend_chain(&mut self, first: usize, parts: &mut Vec<Part>, left: &mut Vec<usize>) {
        let operators = self.instance.pipeline.operators().len();
        if first == operators {
            return self.try_one(parts);
        }
        for end in first + 1..=operators {
            for replicas in 1..=self.instance.pipeline.replicas_max(first..end) {
                for domain in 0..left.len() {
                    if left[domain] >= replicas {
                        left[domain] -= replicas;
                        parts.push(Part { operators: (first..end).collect(), domain, replicas });
                        self.extend_chain(end, parts, left);
                        parts.pop();
                        left[domain] += replicas;
                    }
                }
            }
        }
    }

    /// Continues with `operator` in each part, and in a new one on each domain.
    fn extend_graph(&mut self, operator: usize, parts: &mut Vec<Part>, left: &mut Vec<usize>) {
        if operator == self.instance.pipeline.operators().len() {
            return self.try_one(parts);
        }
        for index in 0..parts.len() {
            parts[index].operators.push(operator);
            self.extend_graph(operator + 1, parts, left);
            parts[index].operators.pop();
        }
        for domain in 0..left.len() {
            if left[domain] > 0 {
                left[domain] -= 1;
                parts.push(Part { operators: vec![operator], domain, replicas: 1 });
                self.extend_graph(operator + 1, parts, left);
                parts.pop();
                left[domain] += 1;
            }
        }
    }

    fn try_one(&mut self, parts: &[Part]) {
        let Some(placement) = place(self.instance, parts) else { return };
        let Ok(figures) = self.model.figures(&placement) else { return };
        if self.instance.settings.excess(figures.utilization_max()) > 0.0 {
            return;
        }
        let wait_ns = figures.arrival_wait_ns;
        let plan = Candidate { parts: parts.to_vec(), path_ns: figures.latency_ns - wait_ns, wait_ns };
        let known = self.best.get(&plan.cores()).map_or(f64::INFINITY, Candidate::latency_ns);
        if plan.latency_ns() < known {
            self.best.insert(plan.cores(), plan);
        }
    }
}
