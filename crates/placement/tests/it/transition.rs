//! Mapping of placements near others, and the changes that lead from one to another.

use sakiyomi_placement::{
    Arrivals, Constraints, Distance, Edge, Error, Group, Hop, Key, Model, Move, Operator, Pipeline,
    Placement, Planner, Settings, Topology,
};

use crate::simulation::Random;

const HOP: Hop = Hop { send_ns: 20.0, transit_ns: 150.0, receive_ns: 40.0, wake_ns: 0.0, waker_ns: 0.0 };

/// Random pairs of placements of each kind.
const INSTANCES: u64 = 500;

/// A pipeline on few cores.
#[derive(Debug)]
struct Instance {
    pipeline: Pipeline,
    topology: Topology,
    constraints: Constraints,
}

impl Instance {
    /// Returns up to six operators in a graph, on domains with these numbers of cores.
    fn random(random: &mut Random, domains: Vec<usize>, pins: usize) -> Instance {
        let count = 1 + random.below(6);
        let mut edges = Vec::new();
        for to in 1..count {
            let parent = random.below(to);
            for from in 0..to {
                if from == parent || random.below(4) == 0 {
                    edges.push(Edge { from, to, selectivity: 1.0 });
                }
            }
        }
        let operators = vec![Operator::new(500.0).with_key(0); count];
        let key = Key { max_share: vec![1.0, 0.5, 0.4] };
        let pipeline = Pipeline::graph(operators, edges, &[(0, 1.0)], vec![key]).unwrap();
        let far = Hop { transit_ns: 500.0, ..HOP };
        let topology = Topology::two_level(domains, HOP, far).unwrap();
        let instance = Instance { pipeline, topology, constraints: Constraints::default() };
        loop {
            let mut constraints = Constraints::default();
            for _ in 0..random.below(pins + 1) {
                constraints = constraints.pin(random.below(count), random.below(instance.topology.cores()));
            }
            if pins > 0 && random.below(2) == 0 {
                constraints = constraints.reserve(random.below(instance.topology.cores()));
            }
            if instance.unconstrained().with_constraints(&constraints).is_ok() {
                return Instance { constraints, ..instance };
            }
        }
    }

    fn unconstrained(&self) -> Planner<'_> {
        Planner::new(&self.pipeline, &self.topology, Settings::default()).unwrap()
    }

    fn planner(&self) -> Planner<'_> {
        self.unconstrained().with_constraints(&self.constraints).unwrap()
    }

    fn model(&self) -> Model<'_> {
        self.planner().model(Arrivals::constant(1.0).unwrap())
    }

    /// Returns a random valid placement; `None` if trials find none.
    fn placement(&self, random: &mut Random, is_replicated: bool) -> Option<Placement> {
        (0..2000).find_map(|_| {
            let mut cores: Vec<usize> = (0..self.topology.cores()).collect();
            let mut groups: Vec<Group> = Vec::new();
            for operator in 0..self.pipeline.operators().len() {
                let index = random.below(groups.len() + 2);
                if let Some(group) = groups.get_mut(index) {
                    group.operators.push(operator);
                    continue;
                }
                let pinned = self.constraints.pinned().find(|&(pinned, _)| pinned == operator);
                let mut own = Vec::new();
                for _ in 0..if is_replicated { 1 + random.below(3) } else { 1 } {
                    if cores.is_empty() {
                        break;
                    }
                    let index = cores.iter().position(|&core| pinned.is_some_and(|(_, own)| own == core));
                    own.push(cores.remove(index.unwrap_or_else(|| random.below(cores.len()))));
                }
                groups.push(Group { operators: vec![operator], cores: own });
            }
            let placement = Placement { groups };
            self.model().check(&placement).is_ok().then_some(placement)
        })
    }
}

/// Returns the number of operators, each replica counted, that stay where they were.
fn kept(placement: &Placement, current: &Placement) -> usize {
    let runs = |placement: &Placement| -> Vec<(usize, usize)> {
        let runs = |group: &Group| -> Vec<(usize, usize)> {
            group
                .operators
                .iter()
                .flat_map(|&operator| group.cores.iter().map(move |&core| (operator, core)))
                .collect()
        };
        placement.groups.iter().flat_map(runs).collect()
    };
    let current = runs(current);
    runs(placement).iter().filter(|run| current.contains(run)).count()
}

/// Returns all permutations of `0..count`.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let longer = |shorter: Vec<usize>| {
        (0..count).map(move |at| {
            let mut longer = shorter.clone();
            longer.insert(at, count - 1);
            longer
        })
    };
    permutations(count - 1).into_iter().flat_map(longer).collect()
}

#[test]
fn no_relabelling_of_the_same_cost_moves_fewer_operators() {
    let mut moved = 0;
    for seed in 0..INSTANCES / 4 {
        let random = &mut Random::new(seed);
        let domains = [vec![5], vec![2, 3], vec![2, 2], vec![1, 2, 2]][random.below(4)].clone();
        let instance = Instance::random(random, domains, 1);
        let placements = [(); 2].map(|()| instance.placement(random, true));
        let [Some(wanted), Some(current)] = placements else { continue };
        let near = instance.planner().near(&wanted, &current).unwrap();
        let figures = |placement: &Placement| {
            let arrivals = Arrivals::constant(1e5).unwrap();
            instance.planner().model(arrivals).figures(placement)
        };
        assert_eq!(figures(&near), figures(&wanted), "seed {seed}: {near:?}");
        let core = |placement: &Placement, group: usize| placement.groups[group].cores[0];
        let distances = |placement: &Placement| -> Vec<Distance> {
            let groups = 0..placement.groups.len();
            let pairs = groups.clone().flat_map(|one| groups.clone().map(move |other| (one, other)));
            let distance =
                |(one, other)| instance.topology.distance(core(placement, one), core(placement, other));
            pairs.map(distance).collect()
        };
        let relabelled = permutations(instance.topology.cores()).into_iter().filter_map(|cores| {
            let mut other = wanted.clone();
            let all = other.groups.iter_mut().flat_map(|group| &mut group.cores);
            all.for_each(|core| *core = cores[*core]);
            let is_same = distances(&other) == distances(&wanted) && figures(&other).is_ok();
            is_same.then(|| kept(&other, &current))
        });
        let best = relabelled.max().unwrap();
        assert_eq!(kept(&near, &current), best, "seed {seed}: {near:?} for {wanted:?} from {current:?}");
        moved += u64::from(best > kept(&wanted, &current));
    }
    assert!(moved > INSTANCES / 20, "{moved}");
}

/// Applies the changes; returns the intermediate placements.
#[track_caller]
fn follow(
    instance: &Instance,
    from: &Placement,
    to: &Placement,
    moves: &[Move],
    seed: u64,
) -> Vec<Placement> {
    let mut way = vec![from.clone()];
    for change in moves {
        let next = way.last().unwrap().after(change);
        let next = next.unwrap_or_else(|| panic!("seed {seed}: {change:?} does not fit {:?}", way.last()));
        assert_eq!(instance.model().check(&next), Ok(()), "seed {seed}: after {change:?} of {moves:?}");
        way.push(next);
    }
    // Replicas on the same cores are the same group, whatever their order.
    let sorted = |placement: &Placement| {
        let mut placement = placement.clone();
        placement.groups.iter_mut().for_each(|group| group.cores.sort_unstable());
        placement.groups.sort_by(|one, other| one.operators.cmp(&other.operators));
        placement
    };
    assert_eq!(way.last().map(sorted), Some(sorted(to)), "seed {seed}: {moves:?} from {from:?}");
    way
}

#[test]
fn replicas_that_stay_keep_their_index() {
    let mut kept = 0;
    for seed in 0..INSTANCES / 4 {
        let random = &mut Random::new(seed);
        let instance = Instance::random(random, vec![6], 0);
        let placements = [(); 2].map(|()| instance.placement(random, true));
        let [Some(mut wanted), Some(current)] = placements else { continue };
        if seed % 2 == 0 {
            // The groups stay, on cores in another order.
            wanted = current.clone();
            wanted.groups.iter_mut().for_each(|group| group.cores.reverse());
        }
        let moves = instance.planner().moves(&current, &wanted).unwrap();
        assert!(seed % 2 == 1 || moves.is_empty(), "seed {seed}: {moves:?} from {current:?}");
        let near = instance.planner().near(&wanted, &current).unwrap();
        assert!(seed % 2 == 1 || near == current, "seed {seed}: {near:?} near {current:?}");
        for group in &near.groups {
            let is_same = |other: &&Group| other.operators == group.operators;
            let Some(other) = current.groups.iter().find(is_same) else { continue };
            for (index, core) in other.cores.iter().enumerate().take(group.cores.len()) {
                let is_kept = !group.cores.contains(core) || group.cores[index] == *core;
                assert!(is_kept, "seed {seed}: {group:?} from {other:?}");
                kept += usize::from(group.cores.len() > 1 && group.cores.contains(core));
            }
        }
    }
    assert!(kept > 20, "{kept}");
}

#[test]
fn a_group_is_not_repartitioned_to_no_cores_or_one_twice() {
    let placement = placement(&[(&[0], 0), (&[1, 2], 1)]);
    let repartition = |to: &[usize]| placement.after(&Move::Repartition { from: vec![1], to: to.to_vec() });
    assert_eq!((repartition(&[]), repartition(&[1, 1])), (None, None));
    assert_eq!(repartition(&[2, 1]).unwrap().groups[1].cores, [2, 1]);
}

#[test]
fn every_placement_on_the_way_is_valid() {
    let (mut pairs, mut longest, mut refused) = (0, 0, 0);
    for seed in 0..INSTANCES {
        let random = &mut Random::new(seed);
        let domains = [vec![1], vec![2], vec![3], vec![2, 2], vec![3, 3]][random.below(5)].clone();
        let pins = if seed % 2 == 0 { 0 } else { 2 };
        let instance = Instance::random(random, domains, pins);
        let placements = [(); 2].map(|()| instance.placement(random, true));
        let [Some(from), Some(to)] = placements else { continue };
        pairs += 1;
        match instance.planner().moves(&from, &to) {
            Ok(moves) => {
                follow(&instance, &from, &to, &moves, seed);
                longest = longest.max(moves.len());
                assert!(from != to || moves.is_empty(), "seed {seed}: {moves:?}");
            }
            Err(error) => {
                assert!(pins > 0 && error == Error::Moves, "seed {seed}: {error} from {from:?} to {to:?}");
                refused += 1;
            }
        }
    }
    assert!(pairs > INSTANCES / 2 && longest > 6 && refused * 100 < pairs, "{refused} of {pairs}, {longest}");
}

#[test]
fn no_core_has_more_to_do_on_the_way_where_cores_are_plenty() {
    for seed in 0..INSTANCES {
        let random = &mut Random::new(seed);
        let instance = Instance::random(random, vec![12], 0);
        let (from, to) =
            (instance.placement(random, false).unwrap(), instance.placement(random, false).unwrap());
        let moves = instance.planner().moves(&from, &to).unwrap();
        for placement in follow(&instance, &from, &to, &moves, seed) {
            let is_in = |group: &Group| {
                let has_all =
                    |other: &Group| group.operators.iter().all(|operator| other.operators.contains(operator));
                from.groups.iter().chain(&to.groups).any(has_all)
            };
            assert!(placement.groups.iter().all(is_in), "seed {seed}: {placement:?} of {moves:?}");
        }
    }
}

fn chain_on_two_cores() -> Instance {
    let pipeline = Pipeline::chain(vec![Operator::new(500.0); 3], &[1.0; 2]).unwrap();
    let topology = Topology::uniform(2, HOP).unwrap();
    Instance { pipeline, topology, constraints: Constraints::default() }
}

fn placement(groups: &[(&[usize], usize)]) -> Placement {
    let group =
        |&(operators, core): &(&[usize], usize)| Group { operators: operators.to_vec(), cores: vec![core] };
    Placement { groups: groups.iter().map(group).collect() }
}

#[test]
fn a_second_core_takes_the_tail_and_returns_it() {
    let instance = chain_on_two_cores();
    let (one, two) = (placement(&[(&[0, 1, 2], 0)]), placement(&[(&[0], 0), (&[1, 2], 1)]));
    let split = Move::Split { operators: vec![1, 2], from: 0, to: 1 };
    assert_eq!(instance.planner().moves(&one, &two), Ok(vec![split]));
    assert_eq!(instance.planner().moves(&two, &one), Ok(vec![Move::Fuse { from: 1, into: 0 }]));
}

#[test]
fn a_cut_moves_by_way_of_one_core_where_no_core_is_idle() {
    let instance = chain_on_two_cores();
    let (from, to) = (placement(&[(&[0], 0), (&[1, 2], 1)]), placement(&[(&[0, 1], 0), (&[2], 1)]));
    let moves = instance.planner().moves(&from, &to).unwrap();
    assert_eq!(moves.len(), 2, "{moves:?}");
    assert!(matches!(moves[0], Move::Fuse { .. }) && matches!(moves[1], Move::Split { .. }), "{moves:?}");
}

#[test]
fn placements_that_are_invalid_are_refused() {
    let instance = chain_on_two_cores();
    let (valid, circle) = (placement(&[(&[0, 1, 2], 0)]), placement(&[(&[0, 2], 0), (&[1], 1)]));
    assert!(instance.planner().moves(&valid, &circle).is_err());
    assert!(instance.planner().moves(&circle, &valid).is_err());
    assert!(instance.planner().near(&circle, &valid).is_err());
}
