//! Random pipelines, topologies and rates.

use rand_core::Rng;
use rand_pcg::Pcg64;

use crate::{
    Arrivals, Constraints, Edge, Hop, Idle, Key, Model, Operator, Pipeline, Planner, Settings, Topology,
};

/// A seeded source of figures.
pub(super) struct Random(Pcg64);

/// A planning problem.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) pipeline: Pipeline,
    pub(super) topology: Topology,
    pub(super) settings: Settings,
    pub(super) arrivals: Arrivals,
    pub(super) constraints: Constraints,
}

impl Instance {
    pub(super) fn planner(&self) -> Planner<'_> {
        let planner = Planner::new(&self.pipeline, &self.topology, self.settings).unwrap();
        planner.with_constraints(&self.constraints).unwrap()
    }

    pub(super) fn model(&self) -> Model<'_> {
        self.planner().model(self.arrivals)
    }
}

/// Difference between far and near hops.
#[derive(Clone, Copy, Debug)]
pub(super) enum FarHops {
    /// None: one domain.
    Uniform,
    /// Longer transit.
    Slower,
    /// More CPU time as well.
    Dear,
}

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(Pcg64::new(u128::from(seed), 1))
    }

    /// Returns the same problem with up to two pinned operators and up to one reserved core.
    pub(super) fn constrain(&mut self, instance: Instance) -> Instance {
        let (operators, cores) = (instance.pipeline.operators().len(), instance.topology.cores());
        loop {
            let mut constraints = Constraints::default();
            for _ in 0..self.below(3) {
                constraints = constraints.pin(self.below(operators), self.below(cores));
            }
            if self.one_in(2) {
                constraints = constraints.reserve(self.below(cores));
            }
            if constraints.check(&instance.pipeline, &instance.topology).is_ok() {
                return Instance { constraints, ..instance };
            }
        }
    }

    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.unit() * bound as f64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    /// Returns a chain of up to `operators` operators, with keys if `is_keyed`.
    pub(super) fn chain(&mut self, operators: usize, far: FarHops, is_keyed: bool) -> Instance {
        let keys: Vec<Key> = (0..if is_keyed { 2 } else { 0 }).map(|_| self.key()).collect();
        let count = 1 + self.below(operators);
        let operators = (0..count).map(|_| self.operator(&keys)).collect();
        let selectivities: Vec<f64> = (1..count).map(|_| self.selectivity()).collect();
        let pipeline = Pipeline::keyed_chain(operators, &selectivities, keys).unwrap();
        self.instance(pipeline, far)
    }

    /// Returns a graph of two to `operators` operators: a tree, or with joins.
    pub(super) fn graph(&mut self, operators: usize, far: FarHops, is_tree: bool) -> Instance {
        let count = 2 + self.below(operators - 1);
        let mut edges = Vec::new();
        for to in 1..count {
            for from in 0..to {
                let is_first = edges.iter().all(|edge: &Edge| edge.to != to);
                let is_wanted = if is_tree { is_first && self.one_in(to) } else { self.one_in(2) };
                if is_wanted || is_first && from + 1 == to {
                    edges.push(Edge { from, to, selectivity: self.selectivity() });
                }
            }
        }
        let operators = (0..count).map(|_| self.operator(&[])).collect();
        let pipeline = Pipeline::graph(operators, edges, &[(0, 1.0)], Vec::new()).unwrap();
        self.instance(pipeline, far)
    }

    fn operator(&mut self, keys: &[Key]) -> Operator {
        let service_ns = 50.0 * 20f64.powf(self.unit());
        let service_scv = if self.one_in(2) { 0.0 } else { self.between(0.0, 2.0) };
        let key = (!keys.is_empty() && !self.one_in(3)).then(|| self.below(keys.len()));
        Operator { service_ns, service_scv, key }
    }

    fn key(&mut self) -> Key {
        let mut max_share = vec![1.0];
        for replicas in 2..=1 + self.below(3) {
            let even = 1.0 / replicas as f64;
            let last = *max_share.last().unwrap();
            max_share.push(self.between(even, last));
        }
        Key { max_share }
    }

    fn selectivity(&mut self) -> f64 {
        match self.below(4) {
            0 => self.between(0.1, 1.0),
            1 => self.between(1.0, 3.0),
            _ => 1.0,
        }
    }

    fn hop(&mut self, scale: f64) -> Hop {
        Hop {
            send_ns: scale * self.between(0.0, 30.0),
            transit_ns: scale * self.between(0.0, 200.0),
            receive_ns: scale * self.between(0.0, 100.0),
            wake_ns: scale * self.between(0.0, 2000.0),
            waker_ns: scale * self.between(0.0, 500.0),
        }
    }

    fn topology(&mut self, far: FarHops) -> Topology {
        let near = self.hop(1.0);
        let domains = match far {
            FarHops::Uniform => vec![1 + self.below(4)],
            _ => (0..2 + self.below(2)).map(|_| 1 + self.below(3)).collect(),
        };
        let far = match far {
            FarHops::Uniform => near,
            FarHops::Slower => Hop { transit_ns: near.transit_ns * self.between(1.0, 4.0), ..near },
            FarHops::Dear => {
                let receive_ns = near.receive_ns + self.between(0.0, 500.0);
                Hop { receive_ns, ..self.hop(1.5) }
            }
        };
        Topology::two_level(domains, near, far).unwrap()
    }

    fn instance(&mut self, pipeline: Pipeline, far: FarHops) -> Instance {
        let topology = self.topology(far);
        let idle =
            if self.one_in(3) { Idle::Park { spin_ns: self.between(0.0, 5000.0) } } else { Idle::Spin };
        let settings = Settings { idle, utilization_max: self.between(0.6, 0.95), ..Settings::default() };
        let unloaded = crate::Model::new(&pipeline, &topology, Idle::Spin, Arrivals::constant(1.0).unwrap());
        let work_ns: f64 = unloaded
            .flows()
            .iter()
            .zip(pipeline.operators())
            .map(|(flow, data)| flow * data.service_ns)
            .sum();
        let useful = topology.cores().min(pipeline.operators().len() + 1);
        let rate_per_s = 1e9 / work_ns * self.between(0.05, 0.6 * useful as f64);
        let dispersion = if self.one_in(3) { 0.0 } else { self.between(0.0, 3.0) };
        let arrivals = Arrivals::new(rate_per_s, dispersion).unwrap();
        Instance { pipeline, topology, settings, arrivals, constraints: Constraints::default() }
    }
}
