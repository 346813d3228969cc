//! Rings and delays of placed graphs against what their certificate promises: every group of a placement,
//! tuple by tuple, with stalls, service times, numbers of outputs and orders of service that the bounds allow.

use sakiyomi_placement::{
    ArrivalBounds, Arrivals, Edge, Error, Group, Hop, Idle, Key, Model, Operator, Pipeline, Placement,
    PlacementCertificate, Topology, WorkBounds,
};

use crate::simulation::Random;

/// Random placements of each kind.
const INSTANCES: u64 = 120;

/// Tuples of the input of each.
const TUPLES: usize = 600;

/// A placed pipeline with its declared bounds.
#[derive(Debug)]
struct Instance {
    pipeline: Pipeline,
    topology: Topology,
    placement: Placement,
    arrivals: ArrivalBounds,
    work: WorkBounds,
}

/// How a tuple is processed: shares of what the bounds allow.
#[derive(Clone, Copy)]
struct Action {
    stall_share: f64,
    work_share: f64,
    transit_share: f64,
    /// Whether each edge gets as many tuples as its bound allows; otherwise a random number.
    is_fruitful: bool,
    /// Whether all outputs are sent at the end, and not one by one.
    is_sent_last: bool,
}

/// A tuple on its way into a group.
#[derive(Clone, Copy, Debug)]
struct Tuple {
    edge: Option<usize>,
    operator: usize,
    /// When its tuple of the input arrived.
    origin_ns: f64,
    /// When it came into its ring.
    sent_ns: f64,
    /// When all tuples before it have come as well: replicas overtake each other.
    in_order_ns: f64,
}

/// A tuple that a core has done with.
struct Done {
    tuple: Tuple,
    core: usize,
    done_ns: f64,
}

/// A group at work.
struct Run<'a> {
    instance: &'a Instance,
    group: usize,
    random: &'a mut Random,
}

impl Instance {
    fn certificate(&self) -> PlacementCertificate {
        self.try_certificate(self.arrivals).unwrap()
    }

    fn try_certificate(&self, arrivals: ArrivalBounds) -> Result<PlacementCertificate, Error> {
        let any_rate = Arrivals::constant(1.0).unwrap();
        let model = Model::new(&self.pipeline, &self.topology, Idle::Spin, any_rate);
        model.certificate(&self.placement, arrivals, &self.work)
    }

    /// Sets the rate to a share of the most that can be certified.
    fn load(mut self, share: f64) -> Instance {
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

    /// The groups, each after those that send to it; groups are numbered by their first operators, which is
    /// not always such an order.
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

    /// Runs the input, which enters at operator 0, through all groups; `act` is told the group, the number of
    /// the tuple there, and the source of figures.
    fn run(
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

    /// For each ring the share of its size that was filled at most; then the share of the delay.
    fn ratios(&self, done: &[Done]) -> (Vec<f64>, f64) {
        let certificate = self.certificate();
        let ratio = |ring: &sakiyomi_placement::RingBound| {
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

    /// The input that the bounds allow at the earliest.
    fn greedy_input(&self) -> Vec<f64> {
        let ArrivalBounds { burst_tuples, rate_per_s } = self.arrivals;
        (0..TUPLES).map(|index| ((index as f64 + 1.0 - burst_tuples) / rate_per_s * 1e9).max(0.0)).collect()
    }

    /// Input within the bounds: bursts, pauses and the long-run rate.
    fn random_input(&self, random: &mut Random) -> Vec<f64> {
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

/// Most tuples in a ring at once: each from the moment when it was sent until it is done.
fn most_in_ring(done: &[&Done]) -> usize {
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
    /// What the group has done with, and what it has sent to others.
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

    /// A core takes the tuples of its rings, in any order among rings. What it sends comes with the time at
    /// which the tuple that it stems from came in.
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

    /// Runs an operator and all that follows it in its group.
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

const HOP: Hop = Hop { send_ns: 20.0, transit_ns: 150.0, receive_ns: 60.0, wake_ns: 0.0, waker_ns: 0.0 };

/// Shape of a random pipeline.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Chain,
    Tree,
    Graph,
}

/// A random placement of up to six operators, whose busiest core can be used up to 95 %.
fn random_instance(random: &mut Random, shape: Shape) -> Instance {
    let count = 2 + random.below(5);
    let mut edges: Vec<Edge> = Vec::new();
    for to in 1..count {
        let parent = if shape == Shape::Chain { to - 1 } else { random.below(to) };
        for from in 0..to {
            if from == parent || shape == Shape::Graph && random.below(3) == 0 {
                edges.push(Edge { from, to, selectivity: 1.0 });
            }
        }
    }
    let outputs_max = edges.iter().map(|_| [1, 1, 1, 2, 3][random.below(5)]).collect();
    let services = (0..count).map(|_| random.between(100.0, 2000.0));
    let operators = services.map(|service_ns| Operator::new(service_ns).with_key(0)).collect();
    // Shares are not limited: any division of the tuples among replicas keeps to them.
    let pipeline =
        Pipeline::graph(operators, edges, &[(0, 1.0)], vec![Key { max_share: vec![1.0; 3] }]).unwrap();
    let far = Hop { transit_ns: 5000.0, ..HOP };
    let topology = Topology::two_level(vec![6, 6], HOP, far).unwrap();
    let stall_ratio = if random.below(2) == 0 { 0.0 } else { random.between(0.0, 0.4) };
    let work = WorkBounds { outputs_max, ..WorkBounds::of_means(&pipeline, 1.0) };
    let work = work.with_stalls(random.between(0.0, 50_000.0), stall_ratio);
    let arrivals = ArrivalBounds { burst_tuples: 11.0 + random.below(50) as f64, rate_per_s: 1.0 };
    let placement = Placement { groups: Vec::new() };
    let mut instance = Instance { pipeline, topology, placement, arrivals, work };
    while instance.placement.groups.is_empty() || instance.try_certificate(arrivals).is_err() {
        instance.placement = random_placement(random, count, shape == Shape::Graph);
    }
    let share = random.between(0.3, 0.95);
    instance.load(share)
}

fn random_placement(random: &mut Random, operators: usize, is_replicated: bool) -> Placement {
    let mut groups: Vec<Group> = Vec::new();
    let mut free = [(0..6).collect::<Vec<usize>>(), (6..12).collect()];
    for operator in 0..operators {
        let group = random.below(groups.len() + 2);
        if let Some(group) = groups.get_mut(group) {
            group.operators.push(operator);
            continue;
        }
        let domain = random.below(2);
        let replicas = if is_replicated { 1 + random.below(2) } else { 1 };
        let cores: Vec<usize> = (0..replicas).filter_map(|_| free[domain].pop()).collect();
        groups.push(Group { operators: vec![operator], cores });
    }
    Placement { groups }
}

/// Action within the bounds.
fn any_action(random: &mut Random, stall_odds: usize) -> Action {
    Action {
        stall_share: if random.below(stall_odds) == 0 { random.unit() } else { 0.0 },
        work_share: if random.below(2) == 0 { 1.0 } else { random.unit() },
        transit_share: 1.0,
        is_fruitful: random.below(2) == 0,
        is_sent_last: random.below(2) == 0,
    }
}

#[test]
fn no_ring_of_a_placement_exceeds_its_certificate_within_the_bounds() {
    let (mut joins, mut replicated) = (0, 0);
    for shape in [Shape::Chain, Shape::Tree, Shape::Graph] {
        for seed in 0..INSTANCES {
            let mut random = Random::new(seed);
            let instance = random_instance(&mut random, shape);
            let is_greedy = seed % 2 == 0;
            let input = if is_greedy { instance.greedy_input() } else { instance.random_input(&mut random) };
            let stall_odds = 1 + random.below(30);
            let done = instance.run(&input, &mut random, |_, _, random| any_action(random, stall_odds));
            let (rings, delay) = instance.ratios(&done);
            let is_kept = rings.iter().all(|&ratio| ratio <= 1.0) && delay <= 1.0 + 1e-9;
            assert!(is_kept, "{shape:?}, seed {seed}: {rings:?}, {delay} of {instance:?}");
            joins += usize::from(rings.len() > instance.placement.groups.len());
            replicated += usize::from(instance.placement.groups.iter().any(|group| group.cores.len() > 1));
        }
    }
    assert!(joins > 30 && replicated > 30, "{joins} with joins, {replicated} with replicas");
}

/// All that the bounds allow at this tuple, or nothing.
fn worst(is_slow: bool) -> Action {
    let share = f64::from(u8::from(is_slow));
    Action {
        stall_share: share,
        work_share: share,
        transit_share: 1.0,
        is_fruitful: true,
        is_sent_last: true,
    }
}

#[test]
fn the_worst_input_fills_each_ring_of_a_placed_tree_to_four_fifths() {
    let mut filled = 0;
    for shape in [Shape::Chain, Shape::Tree] {
        for seed in 0..INSTANCES {
            let mut random = Random::new(seed);
            let instance = random_instance(&mut random, shape);
            let has_joins = instance.certificate().rings.len() > instance.placement.groups.len();
            if has_joins {
                // Two edges lead from one group to another, and neither is the worse.
                continue;
            }
            // Each group stalls at its first tuple, and passes on at once all that has piled up meanwhile.
            let done = instance.run(&instance.greedy_input(), &mut random, |_, index, _| worst(index == 0));
            let (rings, _) = instance.ratios(&done);
            let is_full = rings.iter().all(|ratio| (0.8..=1.0).contains(ratio));
            assert!(is_full, "{shape:?}, seed {seed}: {rings:?} of {instance:?}");
            filled += 1;
        }
    }
    assert!(filled > INSTANCES, "{filled}");
}

#[test]
fn the_worst_input_of_a_placed_chain_is_delayed_by_four_fifths_of_the_bound() {
    for seed in 0..INSTANCES {
        let mut random = Random::new(seed);
        let instance = random_instance(&mut random, Shape::Chain);
        let groups = &instance.placement.groups;
        // Tuples of each group per tuple of the input; groups of a chain are in its order.
        let outputs = |group: &Group| -> usize {
            let before = 0..group.operators[0];
            before.map(|edge| instance.work.outputs_max[edge] as usize).product()
        };
        let siblings: Vec<usize> = groups.iter().map(outputs).collect();
        let load_max = instance.certificate().load_max;
        let slowest = (0..groups.len()).max_by(|&one, &other| load_max[one].total_cmp(&load_max[other]));
        let slowest = slowest.unwrap();
        let last_of_burst = instance.arrivals.burst_tuples as usize - 1;
        // The slowest always takes its time. Groups after it stall when the last tuple of the burst comes.
        let done = instance.run(&instance.greedy_input(), &mut random, |group, index, _| {
            let first = if group <= slowest { 0 } else { last_of_burst * siblings[group] };
            let end = if group == slowest { usize::MAX } else { first + siblings[group] };
            worst((first..end).contains(&index))
        });
        let (_, delay) = instance.ratios(&done);
        assert!((0.8..=1.0 + 1e-9).contains(&delay), "seed {seed}: {delay} of {instance:?}");
    }
}

fn chain_of_two(work: WorkBounds) -> Result<PlacementCertificate, Error> {
    let pipeline = Pipeline::chain(vec![Operator::new(500.0), Operator::new(800.0)], &[1.0]).unwrap();
    let topology = Topology::uniform(2, HOP).unwrap();
    let group = |operator: usize| Group { operators: vec![operator], cores: vec![operator] };
    let placement = Placement { groups: vec![group(0), group(1)] };
    let model = Model::new(&pipeline, &topology, Idle::Spin, Arrivals::constant(1.0)?);
    model.certificate(&placement, ArrivalBounds { burst_tuples: 10.0, rate_per_s: 1e6 }, &work)
}

#[test]
fn the_costs_of_hops_count() {
    let work = || WorkBounds {
        service_max_ns: vec![500.0, 800.0],
        outputs_max: vec![1],
        stall_max_ns: 10_000.0,
        stall_ratio: 0.0,
    };
    let certificate = chain_of_two(work()).unwrap();
    // 500 + 20 and 60 + 800 ns per tuple; 1e-3 tuples arrive per nanosecond.
    let sizes: Vec<u64> = certificate.rings.iter().map(|ring| ring.tuples).collect();
    assert_eq!(sizes, [21, 32]);
    assert_eq!(certificate.rings[1].edge, Some(0));
    assert!((certificate.delay_max_ns - (10_520.0 + 150.0 + 10_860.0 + 10.0 * 860.0)).abs() < 1e-6);
    assert!((certificate.load_max[1] - 0.86).abs() < 1e-9);
    let slow = WorkBounds { service_max_ns: vec![500.0, 941.0], ..work() };
    assert!(matches!(chain_of_two(slow), Err(Error::Overflow { stage: 1, .. })));
    assert!(chain_of_two(WorkBounds { outputs_max: Vec::new(), ..work() }).is_err());
    assert!(chain_of_two(work().with_stalls(0.0, 1.0)).is_err());
}
