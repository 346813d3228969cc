//! The CPU time of wake-ups compared with a simulation.

use sakiyomi_placement::{Arrivals, Group, Hop, Idle, Key, Model, Operator, Pipeline, Placement, Topology};

use crate::latency::HOP;
use crate::simulation::{Random, Simulation};

/// Simulated tuples.
const TUPLES: usize = 10_000;

/// Mean interval of tuples at the pipeline.
const INTERVAL_NS: f64 = 1000.0;

/// A receiver after an operator.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Service times of the sender and the receiver.
    services_ns: [f64; 2],
    /// Tuples sent per tuple taken.
    selectivity: f64,
    replicas: usize,
    dispersion: f64,
    spin_ns: f64,
}

impl Case {
    /// Returns the share of tuples that wake the receiver: as charged to the sender, and as simulated.
    fn woken(&self) -> (f64, f64) {
        let receiver = Operator::new(self.services_ns[1]);
        let receiver = if self.replicas > 1 { receiver.with_key(0) } else { receiver };
        let operators = vec![Operator::new(self.services_ns[0]), receiver, Operator::new(1.0)];
        let key = Key { max_share: vec![1.0, 0.7, 0.6, 0.5] };
        let pipeline = Pipeline::keyed_chain(operators, &[self.selectivity, 1.0], vec![key]).unwrap();
        let receivers = 1 + self.replicas;
        let groups = [(vec![0], vec![0]), (vec![1], (1..receivers).collect()), (vec![2], vec![receivers])];
        let groups = groups.map(|(operators, cores)| Group { operators, cores }).to_vec();
        let placement = Placement { groups };
        let idle = Idle::Park { spin_ns: self.spin_ns };
        let arrivals = Arrivals::new(1e9 / INTERVAL_NS, self.dispersion).unwrap();
        let utilization = |waker_ns: f64| {
            let topology = Topology::uniform(8, Hop { waker_ns, ..HOP }).unwrap();
            Model::new(&pipeline, &topology, idle, arrivals).figures(&placement).unwrap().utilization[0]
        };
        let charged = (utilization(1.0) - utilization(0.0)) * INTERVAL_NS / self.selectivity;
        let topology = Topology::uniform(8, HOP).unwrap();
        let simulation = Simulation::new(&pipeline, &topology, &placement, idle);
        (charged, simulation.observe(arrivals, TUPLES, &mut Random::new(1)).1[1])
    }
}

#[test]
fn the_sender_is_charged_for_all_wake_ups() {
    for services_ns in [[100.0, 100.0], [800.0, 50.0], [50.0, 200.0]] {
        for selectivity in [0.1, 1.0, 4.0] {
            for (replicas, dispersion) in [(1, 0.0), (1, 1.0), (4, 0.0), (4, 1.0)] {
                for spin in [0.1, 0.5, 1.0, 3.0] {
                    let spin_ns = spin * INTERVAL_NS / selectivity;
                    let case = Case { services_ns, selectivity, replicas, dispersion, spin_ns };
                    let (charged, woken) = case.woken();
                    assert!(charged <= 1.0 + 1e-9 && charged >= woken * 0.98, "{case:?}: {charged}, {woken}");
                }
            }
        }
    }
}

#[test]
fn poisson_arrivals_hardly_ever_wake_a_receiver_that_spins_long() {
    let spin_ns = 8.0 * INTERVAL_NS;
    let case = Case { services_ns: [500.0, 100.0], selectivity: 1.0, replicas: 1, dispersion: 1.0, spin_ns };
    assert!(case.woken().0 < 0.001, "{case:?}: {:?}", case.woken());
}
