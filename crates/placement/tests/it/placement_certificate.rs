//! Rings and delays of placed graphs compared with the bounds of their certificate.

use sakiyomi_placement::{
    ArrivalBounds, Arrivals, Edge, Error, Group, Hop, Idle, Key, Model, Operator, Pipeline, Placement,
    PlacementCertificate, ReplicaBounds, Topology, WorkBounds,
};

use crate::bounded_simulation::{Action, Instance};
use crate::simulation::Random;

/// Random placements of each kind.
const INSTANCES: u64 = 60;

const HOP: Hop = Hop { send_ns: 20.0, transit_ns: 150.0, receive_ns: 60.0, wake_ns: 0.0, waker_ns: 0.0 };

/// Shape of a random pipeline.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Chain,
    Tree,
    Graph,
}

/// Returns a random placement of up to six operators, whose busiest core has a utilization of up to 95 %.
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
    // Shares are not bounded: any division of the tuples among replicas is permitted.
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

/// Returns an action within the bounds.
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
    assert!(joins > 30 && replicated > 15, "{joins} with joins, {replicated} with replicas");
}

/// Returns an action that exhausts the bounds at this tuple, or uses nothing of them.
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
            // Each group stalls at its first tuple, and then passes on all accumulated tuples at once.
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
        // Tuples of each group per tuple of the input; the groups of a chain are in its order.
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

fn chain() -> Pipeline {
    Pipeline::chain(vec![Operator::new(500.0), Operator::new(800.0)], &[1.0]).unwrap()
}

fn chain_of_two(work: WorkBounds) -> Result<PlacementCertificate, Error> {
    let pipeline = chain();
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
        ..WorkBounds::of_means(&chain(), 1.0).with_stalls(10_000.0, 0.0)
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

/// Returns the certificate of a tandem of three operators, the second on two replicas with equal mean shares, at 1e6
/// tuples/s.
fn replicated(bounds: Option<ReplicaBounds>) -> Result<PlacementCertificate, Error> {
    let operators = [10.0, 1900.0, 10.0].map(|service_ns| Operator::new(service_ns).with_key(0)).to_vec();
    let key = Key { max_share: vec![1.0, 0.5] };
    let pipeline = Pipeline::keyed_chain(operators, &[1.0, 1.0], vec![key]).unwrap();
    let topology = Topology::uniform(4, Hop::FREE).unwrap();
    let group = |operator: usize, cores: &[usize]| Group { operators: vec![operator], cores: cores.to_vec() };
    let placement = Placement { groups: vec![group(0, &[0]), group(1, &[1, 2]), group(2, &[3])] };
    let work = WorkBounds::of_means(&pipeline, 1.0);
    let work = bounds.iter().fold(work, |work, &bounds| work.with_replicas(0, bounds));
    let model = Model::new(&pipeline, &topology, Idle::Spin, Arrivals::constant(1.0)?);
    model.certificate(&placement, ArrivalBounds { burst_tuples: 1.0, rate_per_s: 1e6 }, &work)
}

#[test]
fn a_mean_share_of_a_replica_is_not_a_bound() {
    assert!(matches!(replicated(None), Err(Error::Overflow { stage: 1, .. })));
    for run in [1, 3, 10, 100] {
        // A run of tuples to one replica, then as many to the other: half of a run exceeds the mean share.
        let bounds = ReplicaBounds { share: 0.5, burst_tuples: run as f64 / 2.0 };
        let certificate = replicated(Some(bounds)).unwrap();
        let (mut busy_until_ns, mut ends_ns, mut most) = ([0.0_f64; 2], [vec![], vec![]], 0);
        for tuple in 0..20 * run {
            let (now_ns, replica) = (1000.0 * tuple as f64 + 10.0, tuple / run % 2);
            busy_until_ns[replica] = busy_until_ns[replica].max(now_ns) + 1900.0;
            ends_ns[replica].push(busy_until_ns[replica]);
            most = most.max(ends_ns[replica].iter().filter(|&&end_ns| end_ns > now_ns).count());
        }
        let ring = certificate.rings[1].tuples as usize;
        assert!(most <= ring && ring <= 3 * most + 4, "runs of {run}: {most} of {ring}");
    }
    assert!(replicated(Some(ReplicaBounds { share: 0.4, burst_tuples: 9.0 })).is_err());
    assert!(replicated(Some(ReplicaBounds { share: 0.5, burst_tuples: -1.0 })).is_err());
}

#[test]
fn any_entry_may_receive_the_whole_input_unless_it_is_bounded() {
    let edge = |from| Edge { from, to: 2, selectivity: 1.0 };
    let operators = vec![Operator::new(100.0); 3];
    let entries = [(0, 0.5), (1, 0.5)];
    let pipeline = Pipeline::graph(operators, vec![edge(0), edge(1)], &entries, Vec::new()).unwrap();
    let topology = Topology::uniform(2, Hop::FREE).unwrap();
    let model = Model::new(&pipeline, &topology, Idle::Spin, Arrivals::constant(1.0).unwrap());
    let group = |operators: &[usize], core| Group { operators: operators.to_vec(), cores: vec![core] };
    let placement = Placement { groups: vec![group(&[0], 0), group(&[1, 2], 1)] };
    let arrivals = ArrivalBounds { burst_tuples: 100.0, rate_per_s: 1e6 };
    let certificate = |work: &WorkBounds| model.certificate(&placement, arrivals, work);
    let work = WorkBounds::of_means(&pipeline, 1.0);
    let all = certificate(&work).unwrap();
    assert!(all.rings.iter().all(|ring| ring.tuples >= 100), "{all:?}");
    assert!((all.load_max[0] - 0.1).abs() < 1e-9, "{all:?}");
    let half = ArrivalBounds { burst_tuples: 60.0, rate_per_s: 5e5 };
    let bounded = certificate(&work.clone().with_entry(0, half)).unwrap();
    assert!((60..100).contains(&bounded.rings[0].tuples), "{bounded:?}");
    assert!((bounded.load_max[0] - 0.05).abs() < 1e-9, "{bounded:?}");
    assert!(certificate(&work.with_entry(2, half)).is_err());
}

#[test]
fn a_row_of_diamonds_is_certified_in_one_pass() {
    let diamonds = 48;
    let ends = |diamond: usize| {
        [(0, 1), (0, 2), (1, 3), (2, 3)].map(|(from, to)| (3 * diamond + from, 3 * diamond + to))
    };
    let edges = (0..diamonds).flat_map(ends).map(|(from, to)| Edge { from, to, selectivity: 1.0 }).collect();
    let count = 3 * diamonds + 1;
    let pipeline =
        Pipeline::graph(vec![Operator::new(100.0); count], edges, &[(0, 1.0)], Vec::new()).unwrap();
    let topology = Topology::uniform(1, Hop::FREE).unwrap();
    let model = Model::new(&pipeline, &topology, Idle::Spin, Arrivals::constant(1.0).unwrap());
    let placement = Placement { groups: vec![Group { operators: (0..count).collect(), cores: vec![0] }] };
    let work = WorkBounds::of_means(&pipeline, 1.0);
    let arrivals = ArrivalBounds { burst_tuples: 1.0, rate_per_s: 1e-9 };
    let load_max = model.certificate(&placement, arrivals, &work).unwrap().load_max[0];
    // The last operator runs 2^48 times per tuple of the input, the three of diamond `d` 2^d times each.
    let runs = 3.0 * (2.0_f64.powi(diamonds as i32) - 1.0) + 2.0_f64.powi(diamonds as i32);
    assert!((load_max / (runs * 100.0 * 1e-18) - 1.0).abs() < 1e-9, "{load_max}");
    let many = WorkBounds { outputs_max: vec![u32::MAX; 4 * diamonds], ..work };
    let refused = model.certificate(&placement, arrivals, &many).unwrap_err().to_string();
    assert!(refused.contains("largest number of outputs is 4294967295"), "{refused}");
}
