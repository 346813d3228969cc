//! A stream and its load in virtual time: counters as the runtime would have them.

use std::collections::VecDeque;
use std::sync::Arc;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_placement::{Constraints, ControlSettings, Group, Hop, Placement, Settings, Topology};

use super::super::{Decider, Order};
use crate::adapt::events::Reason;
use crate::adapt::graph::Graph;
use crate::adapt::meters::Overhead;
use crate::adapt::plans::{PlanInputs, Plans};
use crate::adapt::sample::{OperatorSample, Sample};

pub(super) const MS: u64 = 1_000_000;

/// Length of a step of the simulation.
const TICK_NS: u64 = MS;

/// Time between two samples.
const PERIOD_NS: u64 = 5 * MS;

/// Bins of each group of replicas, which all have the same load.
const BINS: usize = 64;

/// The load of a stream.
pub(super) struct Load {
    /// Time per tuple of each operator, in nanoseconds.
    pub(super) service_ns: Vec<f64>,
    /// Tuples sent along each edge per tuple taken.
    pub(super) selectivity: Vec<f64>,
    /// Tuples per second that arrive at each source.
    pub(super) rates_per_s: Vec<f64>,
    /// Share of each core's time that is not measured.
    pub(super) hidden_ratio: f64,
}

/// A change that was made.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) at_ns: u64,
    pub(super) reason: Reason,
    pub(super) cores: usize,
}

pub(super) struct World {
    pub(super) graph: Graph,
    decider: Decider,
    pub(super) random: Pcg64,
    pub(super) now_ns: u64,
    sources: Vec<Backlog>,
    sample: Sample,
    /// Calls of each operator, with their fractions.
    calls: Vec<f64>,
    outputs: Vec<f64>,
    placement: Placement,
    /// Plans that are being made, and when they will have been.
    plans: Option<(u64, Plans)>,
    pub(super) made: Vec<Made>,
    pub(super) shortfalls: usize,
    /// Delay of the source that is most behind.
    pub(super) late_ns: u64,
    planning_ns: u64,
}

/// Arrivals that have not been processed: the end of a tick, and the tuples that arrived in it.
#[derive(Default)]
struct Backlog {
    ticks: VecDeque<(u64, f64)>,
    tuples_in: f64,
}

impl Backlog {
    fn len(&self) -> f64 {
        self.ticks.iter().map(|(_, tuples)| tuples).sum()
    }

    /// Takes tuples; the scheduled arrival of the last of them.
    fn take(&mut self, mut tuples: f64) -> u64 {
        self.tuples_in += tuples;
        while let Some((end_ns, left)) = self.ticks.front_mut() {
            if *left > tuples + 1e-9 {
                *left -= tuples;
                // The remaining tuples of the tick are due later.
                return *end_ns - TICK_NS / 2;
            }
            tuples -= *left;
            let end_ns = *end_ns;
            self.ticks.pop_front();
            if self.ticks.is_empty() {
                return end_ns;
            }
        }
        0
    }
}

impl World {
    /// Returns a stream on this number of cores, whose plans use the fewest of them that hold the rate.
    pub(super) fn new(graph: Graph, cores: usize, seed: u64) -> World {
        World::with(graph, cores, seed, Settings::default().with_latency_slack_ratio(100.0))
    }

    /// Returns a world with other requirements on plans.
    pub(super) fn with(graph: Graph, cores: usize, seed: u64, settings: Settings) -> World {
        let hop = Hop { send_ns: 30.0, receive_ns: 80.0, wake_ns: 25e3, waker_ns: 9e3, ..Hop::FREE };
        let topology = Topology::uniform(cores, hop).unwrap();
        let constraints = Constraints::default();
        let ground = Arc::new(PlanInputs { topology, constraints, settings, dispersion: 1.0 });
        let placement =
            Placement { groups: vec![Group { operators: (0..graph.operators).collect(), cores: vec![0] }] };
        let overhead = Overhead { clock_ns: 25.0, call_ns: 0.0 };
        let control = ControlSettings::default();
        let decider = Decider::new(&graph, ground, control, overhead, placement.clone()).unwrap();
        World {
            decider,
            random: Pcg64::seed_from_u64(seed),
            now_ns: 0,
            sources: graph.sources.iter().map(|_| Backlog::default()).collect(),
            sample: Sample {
                now_ns: 0,
                operators: vec![OperatorSample::default(); graph.operators],
                bins: vec![vec![0; BINS]; graph.replicas_max.len()],
            },
            calls: vec![0.0; graph.operators],
            outputs: vec![0.0; graph.operators],
            placement,
            plans: None,
            made: Vec::new(),
            shortfalls: 0,
            late_ns: 0,
            planning_ns: 3 * MS,
            graph,
        }
    }

    /// From 0 to 1.
    pub(super) fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number of mean 0 and variance 1, nearly normal.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    pub(super) fn decider_placement(&self) -> Placement {
        self.decider.placement().clone()
    }

    /// Whether the plan in use holds the rate.
    pub(super) fn is_held(&self) -> bool {
        self.decider.held_per_s() >= self.decider.rate_per_s()
    }

    pub(super) fn cores(&self) -> usize {
        self.placement.cores_used()
    }

    /// Cores of the group of an operator.
    pub(super) fn replicas_of(&self, operator: usize) -> usize {
        self.placement.groups[self.group_of(operator)].cores.len()
    }

    pub(super) fn group_of(&self, operator: usize) -> usize {
        self.placement.groups.iter().position(|group| group.operators.contains(&operator)).unwrap()
    }

    /// Tuples that each operator takes per tuple of a source.
    fn flows(&self, load: &Load, source: usize) -> Vec<f64> {
        let mut flows = vec![0.0; self.graph.operators];
        flows[self.graph.sources[source]] = 1.0;
        for (edge, selectivity) in self.graph.edges.iter().zip(&load.selectivity) {
            flows[edge.to] += flows[edge.from] * selectivity;
        }
        flows
    }

    /// The busiest core's utilization under a load.
    pub(super) fn utilization_max(&self, load: &Load) -> f64 {
        let per_core = self.placement.groups.iter().map(|group| {
            let of = |source: usize| {
                let flows = self.flows(load, source);
                let work = |&operator: &usize| flows[operator] * load.service_ns[operator];
                let work_ns = group.operators.iter().map(work).sum::<f64>() / group.cores.len() as f64;
                work_ns * load.rates_per_s[source] * 1e-9
            };
            (0..self.sources.len()).map(of).sum::<f64>() / (1.0 - load.hidden_ratio)
        });
        per_core.fold(0.0, f64::max)
    }

    /// Runs until a time, under a load that depends on it.
    pub(super) fn run(&mut self, until_ns: u64, load: impl Fn(u64) -> Load) {
        while self.now_ns < until_ns {
            self.tick(&load(self.now_ns));
            if self.plans.as_ref().is_some_and(|(ready_ns, _)| *ready_ns <= self.now_ns) {
                let (_, plans) = self.plans.take().unwrap();
                let orders = self.decider.on_plans(plans, self.now_ns);
                self.execute(orders);
            }
            if self.now_ns.is_multiple_of(PERIOD_NS) {
                self.sample.now_ns = self.now_ns;
                let orders = self.decider.on_sample(&self.sample);
                self.sample.operators.iter_mut().for_each(|operator| operator.call_ns.clear());
                self.execute(orders);
            }
        }
    }

    fn tick(&mut self, load: &Load) {
        self.now_ns += TICK_NS;
        for (source, rate_per_s) in load.rates_per_s.iter().enumerate() {
            let mean = rate_per_s * TICK_NS as f64 * 1e-9;
            let tuples = (mean + mean.sqrt() * self.normal()).max(0.0);
            self.sources[source].ticks.push_back((self.now_ns, tuples));
        }
        let flows: Vec<Vec<f64>> = (0..self.sources.len()).map(|source| self.flows(load, source)).collect();
        let backlogs: Vec<f64> = self.sources.iter().map(Backlog::len).collect();
        let work = |group: &Group| {
            let of = |(flows, backlog): (&Vec<f64>, &f64)| {
                group
                    .operators
                    .iter()
                    .map(|&operator| flows[operator] * load.service_ns[operator])
                    .sum::<f64>()
                    * backlog
            };
            flows.iter().zip(&backlogs).map(of).sum::<f64>() / group.cores.len() as f64
        };
        let most_ns = self.placement.groups.iter().map(work).fold(0.0, f64::max);
        let share = ((1.0 - load.hidden_ratio) * TICK_NS as f64 / most_ns).min(1.0);
        self.late_ns = 0;
        for (source, backlog) in backlogs.iter().enumerate() {
            self.process(load, source, share * backlog, &flows[source]);
        }
    }

    fn process(&mut self, load: &Load, source: usize, tuples: f64, flows: &[f64]) {
        let arrival_ns = self.sources[source].take(tuples);
        let counters = &mut self.sample.operators[self.graph.sources[source]];
        counters.arrival_ns = counters.arrival_ns.max(arrival_ns);
        if self.sources[source].ticks.is_empty() {
            counters.due_ns = self.now_ns;
        }
        self.late_ns = self.late_ns.max(self.now_ns - counters.arrival_ns.max(counters.due_ns));
        for (operator, flow) in flows.iter().enumerate() {
            self.call(load, operator, tuples * flow);
        }
    }

    /// Calls an operator for this number of tuples, of which it times one in 64.
    fn call(&mut self, load: &Load, operator: usize, tuples: f64) {
        // The first call is.
        let timed = |calls: f64| (calls / 64.0).ceil() as u64;
        let before = timed(self.calls[operator]);
        self.calls[operator] += tuples;
        for _ in before..timed(self.calls[operator]) {
            // Exponential times, with a preemption now and then.
            let service_ns = -self.uniform().max(1e-12).ln() * load.service_ns[operator];
            let service_ns = if self.uniform() < 0.001 { service_ns + 3e6 } else { service_ns } + 25.0;
            let counters = &mut self.sample.operators[operator];
            counters.sampled += 1;
            counters.sampled_ns += service_ns as u64;
            if counters.call_ns.len() < 8 {
                counters.call_ns.push(service_ns as u64);
            }
        }
        let sent: f64 = self
            .graph
            .edges
            .iter()
            .zip(&load.selectivity)
            .filter(|(edge, _)| edge.from == operator)
            .map(|(_, selectivity)| selectivity)
            .sum();
        self.outputs[operator] += tuples * sent;
        let counters = &mut self.sample.operators[operator];
        counters.tuples_in = self.calls[operator] as u64;
        counters.tuples_out = self.outputs[operator] as u64;
    }

    fn execute(&mut self, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Plan(request) => {
                    assert!(self.plans.is_none(), "one request at a time");
                    self.plans = Some((self.now_ns + self.planning_ns, request.make()));
                }
                Order::Change(change) => {
                    assert_eq!(change.from, self.placement);
                    assert_eq!(change.steps.last().unwrap().after, change.to);
                    self.placement = change.to.clone();
                    let cores = self.placement.cores_used();
                    self.made.push(Made { at_ns: self.now_ns, reason: change.reason, cores });
                    self.decider.on_changed(change.to);
                }
                Order::Shortfall { rate_per_s, held_per_s } => {
                    assert!(rate_per_s > held_per_s);
                    self.shortfalls += 1;
                }
                Order::NoPlans { message, .. } => panic!("{message}"),
            }
        }
    }
}
