//! The model's latency compared with a simulation.

use sakiyomi_placement::{Arrivals, Group, Hop, Idle, Key, Model, Operator, Pipeline, Placement, Topology};

use crate::simulation::{Random, Simulation};

/// Simulated tuples: the mean wait at utilization 0.8 is then within about a percent.
pub(crate) const TUPLES: usize = 120_000;

pub(crate) const HOP: Hop =
    Hop { send_ns: 20.0, transit_ns: 150.0, receive_ns: 40.0, wake_ns: 0.0, waker_ns: 0.0 };

/// Returns groups of consecutive operators, given by number of operators and replicas, on successive cores.
fn placement(groups: &[(usize, usize)]) -> Placement {
    let (mut operator, mut core) = (0, 0);
    let group = |&(operators, replicas): &(usize, usize)| {
        let group = Group {
            operators: (operator..operator + operators).collect(),
            cores: (core..core + replicas).collect(),
        };
        (operator, core) = (operator + operators, core + replicas);
        group
    };
    Placement { groups: groups.iter().map(group).collect() }
}

/// A placed chain, and its load.
struct Case {
    pipeline: Pipeline,
    /// Operators and replicas of each group.
    groups: Vec<(usize, usize)>,
    hop: Hop,
    idle: Idle,
    /// Utilization of the busiest core.
    utilization: f64,
    dispersion: f64,
}

impl Case {
    /// Creates a case with Poisson arrivals and spinning receivers.
    fn new(pipeline: Pipeline, groups: &[(usize, usize)], utilization: f64) -> Case {
        let groups = groups.to_vec();
        Case { pipeline, groups, hop: HOP, idle: Idle::Spin, utilization, dispersion: 1.0 }
    }

    /// Returns the ratio of the predicted latency to the simulated one.
    fn ratio(&self) -> f64 {
        let topology = Topology::uniform(8, self.hop).unwrap();
        let placement = placement(&self.groups);
        let at = |rate_per_s| {
            let arrivals = Arrivals::new(rate_per_s, self.dispersion).unwrap();
            let model = Model::new(&self.pipeline, &topology, self.idle, arrivals);
            (arrivals, model.figures(&placement).unwrap())
        };
        let (arrivals, figures) = at(self.utilization / at(1.0).1.utilization_max());
        let (pipeline, placement) = (&self.pipeline, &placement);
        // About the same number on each edge.
        let most = pipeline.edges().iter().map(|edge| edge.selectivity).fold(4.0, f64::max);
        let tuples = (TUPLES as f64 * 4.0 / most) as usize;
        let simulation = Simulation::new(pipeline, &topology, placement, self.idle);
        figures.latency_ns / simulation.mean_latency_ns(arrivals, tuples, &mut Random::new(1))
    }

    /// Asserts that the ratio is within these bounds.
    #[track_caller]
    fn assert_ratio(&self, low: f64, high: f64) {
        let ratio = self.ratio();
        let Case { groups, utilization, dispersion, .. } = self;
        assert!(
            (low..=high).contains(&ratio),
            "{ratio}: {groups:?} at {utilization}, dispersion {dispersion}, {:?}",
            self.pipeline
        );
    }
}

fn chain(services_ns: &[f64], scv: f64, selectivities: &[f64]) -> Pipeline {
    let operator = |&service_ns: &f64| Operator::new(service_ns).with_scv(scv);
    Pipeline::chain(services_ns.iter().map(operator).collect(), selectivities).unwrap()
}

/// Three operators on a core each.
const APART: [(usize, usize); 3] = [(1, 1), (1, 1), (1, 1)];

#[test]
fn a_row_of_constant_services_waits_as_at_its_slowest_alone() {
    for services_ns in [[1000.0, 600.0, 300.0], [300.0, 600.0, 1000.0], [500.0, 500.0, 500.0]] {
        for utilization in [0.3, 0.8] {
            let case = Case::new(chain(&services_ns, 0.0, &[1.0, 1.0]), &APART, utilization);
            case.assert_ratio(0.98, 1.02);
        }
    }
}

#[test]
fn constant_arrivals_and_services_do_not_wait() {
    let pipeline = chain(&[1000.0, 600.0, 300.0], 0.0, &[1.0, 1.0]);
    Case { dispersion: 0.0, ..Case::new(pipeline, &APART, 0.95) }.assert_ratio(1.0 - 1e-9, 1.0 + 1e-9);
}

#[test]
fn one_core_is_a_queue_with_one_server_whatever_its_operators() {
    for (scv, selectivity) in [(0.0, 0.1), (0.0, 0.5), (0.0, 2.0), (0.0, 4.0), (1.0, 1.0), (1.0, 0.5)] {
        for utilization in [0.3, 0.8] {
            let pipeline = chain(&[400.0, 700.0, 500.0], scv, &[selectivity, 1.0]);
            Case::new(pipeline, &[(3, 1)], utilization).assert_ratio(0.96, 1.03);
        }
    }
}

#[test]
fn siblings_wait_for_each_other_once() {
    for groups in [&APART[..], &[(1, 1), (2, 1)], &[(2, 1), (1, 1)]] {
        for (selectivity, dispersion) in [(2.0, 0.0), (2.0, 1.0), (4.0, 0.0), (4.0, 1.0)] {
            let pipeline = chain(&[400.0, 700.0, 500.0], 0.0, &[selectivity, 1.0]);
            Case { dispersion, ..Case::new(pipeline, groups, 0.8) }.assert_ratio(0.98, 1.02);
        }
    }
}

#[test]
fn a_varying_number_of_siblings_is_near() {
    for groups in [&APART[..], &[(1, 1), (2, 1)], &[(2, 1), (1, 1)], &[(3, 1)]] {
        for dispersion in [0.0, 1.0] {
            let pipeline = chain(&[400.0, 700.0, 500.0], 0.0, &[1.5, 1.0]);
            Case { dispersion, ..Case::new(pipeline, groups, 0.8) }.assert_ratio(0.98, 1.15);
        }
    }
}

#[test]
fn filters_are_near() {
    for groups in [&APART[..], &[(1, 1), (2, 1)], &[(2, 1), (1, 1)]] {
        for (selectivity, dispersion) in [(0.1, 0.0), (0.1, 1.0), (0.5, 0.0), (0.5, 1.0)] {
            let pipeline = chain(&[400.0, 700.0, 500.0], 0.0, &[selectivity, 1.0]);
            Case { dispersion, ..Case::new(pipeline, groups, 0.8) }.assert_ratio(0.85, 1.1);
        }
    }
}

#[test]
fn few_of_many_siblings_pass_a_filter() {
    for groups in [&APART[..], &[(1, 1), (2, 1)], &[(2, 1), (1, 1)]] {
        for selectivities in [[4.0, 0.1], [20.0, 0.05]] {
            for dispersion in [0.0, 1.0] {
                // The last operator is the slowest: siblings that the filter has passed would wait there.
                let pipeline = chain(&[40.0, 7.0, 500.0], 0.0, &selectivities);
                Case { dispersion, ..Case::new(pipeline, groups, 0.8) }.assert_ratio(0.85, 1.1);
            }
        }
    }
}

#[test]
fn the_wait_of_exponential_services_on_several_cores_is_a_lower_bound() {
    let pipeline = || chain(&[500.0, 500.0, 500.0], 1.0, &[1.0, 1.0]);
    Case::new(pipeline(), &APART, 0.3).assert_ratio(0.9, 1.0);
    Case::new(pipeline(), &APART, 0.8).assert_ratio(0.75, 1.0);
}

#[test]
fn wake_ups_are_counted() {
    let hop = Hop { wake_ns: 20_000.0, ..HOP };
    for (spin_ns, utilization) in [(0.0, 0.3), (2000.0, 0.3), (0.0, 0.8), (2000.0, 0.8)] {
        let case = Case::new(chain(&[800.0, 700.0], 0.0, &[1.0]), &[(1, 1), (1, 1)], utilization);
        Case { hop, idle: Idle::Park { spin_ns }, ..case }.assert_ratio(0.97, 1.12);
    }
}

#[test]
fn the_wait_of_replicas_is_an_upper_bound() {
    for share in [0.25, 0.4] {
        for (utilization, dispersion) in [(0.3, 0.0), (0.3, 1.0), (0.8, 0.0), (0.8, 1.0)] {
            let keyed = Operator::new(1000.0).with_key(0);
            let operators = vec![Operator::new(100.0), keyed, Operator::new(100.0)];
            let key = Key { max_share: vec![1.0, 0.6, 0.5, share] };
            let pipeline = Pipeline::keyed_chain(operators, &[1.0, 1.0], vec![key]).unwrap();
            let case = Case::new(pipeline, &[(1, 1), (1, 4), (1, 1)], utilization);
            Case { dispersion, ..case }.assert_ratio(1.0, 1.3);
        }
    }
}
