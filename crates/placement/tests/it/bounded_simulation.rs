//! Simulates every group of a placement, tuple by tuple, with stalls, service times, numbers of outputs and orders of
//! service within the bounds of its certificate.

use sakiyomi_placement::{
    ArrivalBounds, Arrivals, Error, Hop, Idle, Model, Pipeline, Placement, PlacementCertificate, RingBound,
    Topology, WorkBounds,
};

use crate::simulation::Random;

/// Number of tuples of the input.
const TUPLES: usize = 600;

/// A placed pipeline with its declared bounds.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) pipeline: Pipeline,
    pub(crate) topology: Topology,
    pub(crate) placement: Placement,
    pub(crate) arrivals: ArrivalBounds,
    pub(crate) work: WorkBounds,
}

/// How a tuple is processed: shares of the bounds.
#[derive(Clone, Copy)]
pub(crate) struct Action {
    pub(crate) stall_share: f64,
    pub(crate) work_share: f64,
    pub(crate) transit_share: f64,
    /// Whether each edge gets as many tuples as its bound permits; otherwise a random number.
    pub(crate) is_fruitful: bool,
    /// Whether all outputs are sent at the end, instead of one by one.
    pub(crate) is_sent_last: bool,
}

/// A tuple on its way into a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuple {
    edge: Option<usize>,
    operator: usize,
    /// Arrival time of its tuple of the input.
    origin_ns: f64,
    /// Time at which it entered its ring.
    sent_ns: f64,
    /// Time at which all tuples before it have also come: replicas overtake each other.
    in_order_ns: f64,
}

/// A finished tuple.
pub(crate) struct Done {
    tuple: Tuple,
    core: usize,
    done_ns: f64,
}

/// A group during the simulation.
struct Run<'a> {
    instance: &'a Instance,
    group: usize,
    random: &'a mut Random,
}

impl Instance {
    pub(crate) fn certificate(&self) -> PlacementCertificate {
        self.try_certificate(self.arrivals).unwrap()
    }

    pub(crate) fn try_certificate(&self, arrivals: ArrivalBounds) -> Result<PlacementCertificate, Error> {
        let any_rate = Arrivals::constant(1.0).unwrap();
        let model = Model::new(&self.pipeline, &self.topology, Idle::Spin, any_rate);
        model.certificate(&self.placement, arrivals, &self.work)
    }

    /// Sets the rate to a share of the highest that can be certified.
    pub(crate) fn load(mut self, share: f64) -> Instance {
        self.arrivals.rate_per_s = 1.0;
        let load_max = self.certificate().load_max.into_iter().fold(0.0, f64::max);
        self.arrivals.rate_per_s = share / load_max;
        self
    }

    fn group_of(&self, operator: usize) -> usize {
        self.placement.groups.iter().position(|group| group.operators.contains(&operator)).unwrap()
    }

    fn hop(&self, edge: usize) -> &Hop {
        let edge = &self.pipeline.edges()[edge];
        let core = |operator: usize| self.placement.groups[self.group_of(operator)].cores[0];
        self.topology.hop(self.topology.distance(core(edge.from), core(edge.to)))
    }

    /// Returns the groups in topological order; groups are numbered by their first operators, which is not always
    /// such an order.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = Vec::new();
        while order.len() < self.placement.groups.len() {
            let is_next = |&group: &usize| {
                let mut senders = self.pipeline.edges().iter().filter(|edge| self.group_of(edge.to) == group);
                let is_known = |from: usize| from == group || order.contains(&from);
                !order.contains(&group) && senders.all(|edge| is_known(self.group_of(edge.from)))
            };
            order.push((0..self.placement.groups.len()).find(is_next).unwrap());
        }
        order
    }

    /// Runs the input, which enters at operator 0, through all groups; `act` gets the group, the number of the tuple
    /// there, and the source of figures.
    pub(crate) fn run(
        &self,
        input: &[f64],
        random: &mut Random,
        mut act: impl FnMut(usize, usize, &mut Random) -> Action,
    ) -> Vec<Done> {
        let source =
            |&now: &f64| Tuple { edge: None, operator: 0, origin_ns: now, sent_ns: now, in_order_ns: now };
        let mut waiting: Vec<Tuple> = input.iter().map(source).collect();
        let mut done = Vec::new();
        for group in self.order() {
            let (input, rest): (Vec<Tuple>, Vec<Tuple>) =
                waiting.into_iter().partition(|tuple| self.group_of(tuple.operator) == group);
            let (ended, sent) = Run { instance: self, group, random }.pass(input, &mut act);
            done.extend(ended);
            waiting = [rest, sent].concat();
        }
        done
    }

    /// Returns for each ring the maximum fill as a share of its size; then the maximum delay as a share of its bound.
    pub(crate) fn ratios(&self, done: &[Done]) -> (Vec<f64>, f64) {
        let certificate = self.certificate();
        let ratio = |ring: &RingBound| {
            let cores = &self.placement.groups[self.group_of(ring.operator)].cores;
            let filled = cores.iter().map(|&core| {
                let is_in = |done: &&Done| {
                    (done.tuple.edge, done.tuple.operator, done.core) == (ring.edge, ring.operator, core)
                };
                most_in_ring(&done.iter().filter(is_in).collect::<Vec<_>>())
            });
            filled.max().unwrap() as f64 / ring.tuples as f64
        };
        let delay_ns = done.iter().map(|done| done.done_ns - done.tuple.origin_ns).fold(0.0, f64::max);
        (certificate.rings.iter().map(ratio).collect(), delay_ns / certificate.delay_max_ns)
    }

    /// Returns the earliest input that the bounds permit.
    pub(crate) fn greedy_input(&self) -> Vec<f64> {
        let ArrivalBounds { burst_tuples, rate_per_s } = self.arrivals;
        (0..TUPLES).map(|index| ((index as f64 + 1.0 - burst_tuples) / rate_per_s * 1e9).max(0.0)).collect()
    }

    /// Returns an input within the bounds: bursts, pauses and the long-run rate.
    pub(crate) fn random_input(&self, random: &mut Random) -> Vec<f64> {
        let ArrivalBounds { burst_tuples, rate_per_s } = self.arrivals;
        let (mut now, mut tokens) = (0.0, burst_tuples);
        let next = |_| {
            let is_pause = random.below(20) == 0;
            let pause = if is_pause { random.exponential(burst_tuples / rate_per_s * 1e9) } else { 0.0 };
            let gap = pause.max((1.0 - tokens) / rate_per_s * 1e9).max(0.0);
            now += gap;
            tokens = (tokens + gap * rate_per_s * 1e-9).min(burst_tuples) - 1.0;
            now
        };
        (0..TUPLES).map(next).collect()
    }
}

/// Returns the maximum tuples in a ring at once: each from the moment when it was sent until it is finished.
pub(crate) fn most_in_ring(done: &[&Done]) -> usize {
    let mut changes: Vec<(f64, i32)> =
        done.iter().flat_map(|done| [(done.tuple.sent_ns, 1), (done.done_ns, -1)]).collect();
    changes.sort_by(|one, other| one.partial_cmp(other).unwrap());
    let mut filled = 0;
    let filled = changes.iter().map(|(_, change)| {
        filled += change;
        filled
    });
    filled.max().unwrap_or(0) as usize
}

impl Run<'_> {
    /// Returns the tuples that the group has finished, and those that it has sent to others.
    fn pass(
        &mut self,
        input: Vec<Tuple>,
        act: &mut impl FnMut(usize, usize, &mut Random) -> Action,
    ) -> (Vec<Done>, Vec<Tuple>) {
        let cores = self.instance.placement.groups[self.group].cores.clone();
        let mut shares: Vec<Vec<Tuple>> = vec![Vec::new(); cores.len()];
        for tuple in input {
            shares[self.random.below(cores.len())].push(tuple);
        }
        let (mut done, mut sent) = (Vec::new(), Vec::new());
        for (&core, share) in cores.iter().zip(shares) {
            self.serve(core, share, act, &mut done, &mut sent);
        }
        // Outputs are taken in the order of the tuples that they stem from.
        sent.sort_by(|(one, _), (other, _): &(f64, Tuple)| one.total_cmp(other));
        let mut latest_ns = vec![0.0_f64; self.instance.pipeline.edges().len()];
        let in_order = |(_, mut tuple): (f64, Tuple)| {
            let latest_ns = &mut latest_ns[tuple.edge.unwrap()];
            *latest_ns = latest_ns.max(tuple.sent_ns);
            tuple.in_order_ns = *latest_ns;
            tuple
        };
        (done, sent.into_iter().map(in_order).collect())
    }

    /// Lets a core take the tuples of its rings, in any order among rings. Each output has the time at which the
    /// tuple that it stems from came in.
    fn serve(
        &mut self,
        core: usize,
        input: Vec<Tuple>,
        act: &mut impl FnMut(usize, usize, &mut Random) -> Action,
        done: &mut Vec<Done>,
        sent: &mut Vec<(f64, Tuple)>,
    ) {
        let mut rings: Vec<Vec<Tuple>> = Vec::new();
        for tuple in input {
            let is_same = |ring: &&mut Vec<Tuple>| {
                ring.iter().any(|other| (other.edge, other.operator) == (tuple.edge, tuple.operator))
            };
            match rings.iter_mut().find(is_same) {
                Some(ring) => ring.push(tuple),
                None => rings.push(vec![tuple]),
            }
        }
        let mut next = vec![0; rings.len()];
        let mut ready_ns = vec![f64::NEG_INFINITY; rings.len()];
        let (bounds, first) = (&self.instance.work, done.len());
        let (mut now, mut stalled_ns, mut busy_since) = (0.0_f64, 0.0, 0.0);
        let mut action = act(self.group, 0, self.random);
        while (0..rings.len()).any(|ring| next[ring] < rings[ring].len()) {
            for ring in 0..rings.len() {
                if let (Some(tuple), f64::NEG_INFINITY) = (rings[ring].get(next[ring]), ready_ns[ring]) {
                    let transit_ns = tuple.edge.map_or(0.0, |edge| self.instance.hop(edge).transit_ns);
                    ready_ns[ring] = tuple.in_order_ns + transit_ns * action.transit_share;
                }
            }
            let has_tuple = |ring: &usize| ready_ns[*ring] > f64::NEG_INFINITY;
            let open: Vec<usize> = (0..rings.len()).filter(has_tuple).collect();
            let earliest_ns = open.iter().map(|&ring| ready_ns[ring]).fold(f64::INFINITY, f64::min);
            if earliest_ns > now {
                (now, stalled_ns, busy_since) = (earliest_ns, 0.0, earliest_ns);
            }
            let ready: Vec<usize> = open.into_iter().filter(|&ring| ready_ns[ring] <= now).collect();
            let ring = ready[self.random.below(ready.len())];
            let tuple = rings[ring][next[ring]];
            (next[ring], ready_ns[ring]) = (next[ring] + 1, f64::NEG_INFINITY);
            let earned_ns = bounds.stall_max_ns + bounds.stall_ratio * (now - busy_since);
            let stall_ns =
                (earned_ns - stalled_ns).max(0.0) / (1.0 - bounds.stall_ratio) * action.stall_share;
            stalled_ns += stall_ns;
            now += stall_ns;
            let receive_ns = tuple.edge.map_or(0.0, |edge| self.instance.hop(edge).receive_ns);
            now += receive_ns * action.work_share;
            let from = sent.len();
            self.work(tuple.operator, tuple, action, &mut now, sent);
            if action.is_sent_last {
                sent[from..].iter_mut().for_each(|(_, output)| output.sent_ns = now);
            }
            done.push(Done { tuple, core, done_ns: now });
            action = act(self.group, done.len() - first, self.random);
        }
    }

    /// Runs an operator and its successors in its group.
    fn work(
        &mut self,
        operator: usize,
        tuple: Tuple,
        action: Action,
        now: &mut f64,
        sent: &mut Vec<(f64, Tuple)>,
    ) {
        let instance = self.instance;
        *now += instance.work.service_max_ns[operator] * action.work_share;
        for (index, edge) in instance.pipeline.edges().iter().enumerate() {
            if edge.from != operator {
                continue;
            }
            let most = instance.work.outputs_max[index] as usize;
            let outputs = if action.is_fruitful { most } else { self.random.below(most + 1) };
            for _ in 0..outputs {
                if instance.group_of(edge.to) == self.group {
                    self.work(edge.to, tuple, action, now, sent);
                } else {
                    *now += instance.hop(index).send_ns * action.work_share;
                    let output = Tuple { edge: Some(index), operator: edge.to, sent_ns: *now, ..tuple };
                    sent.push((tuple.in_order_ns, output));
                }
            }
        }
    }
}
