//! The model's latency of graphs compared with a simulation.

use sakiyomi_placement::{Arrivals, Edge, Group, Idle, Model, Operator, Pipeline, Placement, Topology};

use crate::latency::HOP;
use crate::simulation::{Random, Simulation};

/// Simulated tuples.
const TUPLES: usize = 50_000;

/// Edges: sender, receiver, selectivity.
type Edges<'a> = &'a [(usize, usize, f64)];

/// Operators on a core each, with their service times, in nanoseconds.
struct Case<'a> {
    services_ns: &'a [f64],
    edges: Edges<'a>,
    dispersion: f64,
    utilization: f64,
}

impl Case<'_> {
    /// Returns the ratio of the predicted latency to the simulated one.
    fn ratio(&self) -> f64 {
        let edge = |&(from, to, selectivity): &(usize, usize, f64)| Edge { from, to, selectivity };
        let operators = self.services_ns.iter().map(|&service_ns| Operator::new(service_ns)).collect();
        let edges = self.edges.iter().map(edge).collect();
        let pipeline = Pipeline::graph(operators, edges, &[(0, 1.0)], Vec::new()).unwrap();
        let topology = Topology::uniform(8, HOP).unwrap();
        let group = |operator| Group { operators: vec![operator], cores: vec![operator] };
        let placement = Placement { groups: (0..self.services_ns.len()).map(group).collect() };
        let at = |rate_per_s| {
            let arrivals = Arrivals::new(rate_per_s, self.dispersion).unwrap();
            (arrivals, Model::new(&pipeline, &topology, Idle::Spin, arrivals).figures(&placement).unwrap())
        };
        let (arrivals, figures) = at(self.utilization / at(1.0).1.utilization_max());
        let simulation = Simulation::new(&pipeline, &topology, &placement, Idle::Spin);
        figures.latency_ns / simulation.mean_latency_ns(arrivals, TUPLES, &mut Random::new(1))
    }
}

#[track_caller]
fn assert_ratios(services_ns: &[f64], edges: Edges<'_>, low: f64, high: f64) {
    for dispersion in [0.0, 1.0] {
        for utilization in [0.3, 0.8] {
            let ratio = Case { services_ns, edges, dispersion, utilization }.ratio();
            assert!(
                (low..=high).contains(&ratio),
                "{ratio}: {services_ns:?}, {edges:?} at {utilization}, dispersion {dispersion}"
            );
        }
    }
}

/// Returns the edges of a diamond: 0 sends to 1 and 2, both send to 3.
fn diamond(split: f64, join: f64) -> [(usize, usize, f64); 4] {
    [(0, 1, split), (0, 2, split), (1, 3, join), (2, 3, join)]
}

#[test]
fn siblings_of_a_split_wait_for_each_other_where_they_meet() {
    assert_ratios(&[500.0; 4], &diamond(1.0, 1.0), 0.97, 1.03);
    assert_ratios(&[100.0, 100.0, 100.0, 500.0], &diamond(1.0, 1.0), 0.97, 1.03);
    assert_ratios(&[500.0; 4], &diamond(2.0, 1.0), 0.97, 1.03);
    assert_ratios(&[100.0, 1000.0, 1000.0, 300.0], &diamond(1.0, 1.0), 0.92, 1.03);
    let three = [(0, 1, 1.0), (0, 2, 1.0), (0, 3, 1.0), (1, 4, 1.0), (2, 4, 1.0), (3, 4, 1.0)];
    assert_ratios(&[500.0; 5], &three, 0.97, 1.03);
}

#[test]
fn filters_of_branches_are_near() {
    assert_ratios(&[500.0; 4], &diamond(4.0, 0.1), 0.95, 1.05);
    assert_ratios(&[500.0; 4], &diamond(0.5, 1.0), 0.9, 1.1);
    assert_ratios(&[500.0; 4], &[(0, 1, 1.0), (0, 2, 1.5), (2, 3, 1.0)], 0.95, 1.08);
}

#[test]
fn the_longest_path_is_an_upper_bound_where_others_are_shorter() {
    assert_ratios(&[100.0, 300.0, 1000.0, 300.0], &diamond(1.0, 1.0), 1.0, 1.55);
    assert_ratios(&[500.0; 3], &[(0, 1, 1.0), (0, 2, 1.0), (1, 2, 1.0)], 1.0, 1.45);
}
