//! The best plan by trying all of them.

use std::collections::BTreeMap;

use super::random::Instance;
use crate::plan::descent::{Candidate, fewest_cores};
use crate::plan::parts::{Part, placement};
use crate::{Model, Placement};

/// All plans of an instance, and the least latency on each number of cores.
struct Trial<'a> {
    instance: &'a Instance,
    model: Model<'a>,
    best: BTreeMap<usize, Candidate>,
}

/// The best plan of segments of a chain.
pub(super) fn best_chain(instance: &Instance) -> Option<Candidate> {
    best(instance, |trial| trial.extend_chain(0, &mut Vec::new(), &mut instance.topology.domains().to_vec()))
}

/// The best placement of a graph whose groups do not send in a circle.
pub(super) fn best_graph(instance: &Instance) -> Option<Candidate> {
    best(instance, |trial| trial.extend_graph(0, &mut Vec::new(), &mut instance.topology.domains().to_vec()))
}

fn best(instance: &Instance, try_all: impl Fn(&mut Trial<'_>)) -> Option<Candidate> {
    let Instance { pipeline, topology, settings, arrivals } = instance;
    let model = Model::new(pipeline, topology, settings.idle, *arrivals);
    let mut trial = Trial { instance, model, best: BTreeMap::new() };
    try_all(&mut trial);
    fewest_cores(trial.best, settings.latency_slack_ratio)
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
        let placement: Placement = placement(parts, &self.instance.topology);
        let Ok(figures) = self.model.figures(&placement) else { return };
        if self.instance.settings.excess(figures.utilisation_max()) > 0.0 {
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
