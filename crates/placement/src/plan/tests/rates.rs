//! Tables of plans, and rates that no plan sustains.

use super::random::{FarHops, Instance, Random};
use crate::{
    Arrivals, Constraints, Edge, Hop, Idle, Key, Limit, Operator, Optimality, Pipeline, Planner, Settings,
    Shortfall, Topology,
};

/// Random chains.
const INSTANCES: u64 = 60;

#[test]
fn a_table_has_nearly_the_best_plan_of_each_rate() {
    for seed in 0..INSTANCES {
        let Instance { pipeline, topology, settings, arrivals, .. } =
            Random::new(seed).chain(8, FarHops::Dear, false);
        let settings = Settings { idle: Idle::Spin, ..settings };
        let planner = Planner::new(&pipeline, &topology, settings).unwrap();
        let highest = match planner.plan(arrivals) {
            Ok(_) => arrivals.rate_per_s(),
            Err(shortfall) => shortfall.held_per_s,
        };
        let table = planner.table(arrivals, highest / 100.0..=highest).unwrap();
        for percent in (1..=100).step_by(3) {
            let rate = (highest * f64::from(percent) / 100.0).min(highest);
            let plan = table.get(rate).expect("the rate is in the table");
            let figures = planner.model(arrivals.at(rate)).figures(&plan.placement).unwrap();
            let best = planner.plan(arrivals.at(rate)).unwrap();
            let ratio = figures.latency_ns / best.figures.latency_ns;
            assert_eq!(settings.excess(figures.utilization_max()), 0.0, "seed {seed}, {percent} %: {plan:?}");
            assert!(ratio < 1.1, "seed {seed}, {percent} %: {ratio}, {plan:?} instead of {best:?}");
        }
        assert_eq!(table.get(highest * 1.001), None);
    }
}

#[test]
fn the_rate_that_is_held_has_a_plan_and_a_little_more_has_none() {
    let mut short = 0;
    for seed in 0..INSTANCES * 5 {
        let instance = Random::new(seed).chain(6, FarHops::Dear, seed % 2 == 0);
        let Instance { pipeline, topology, settings, arrivals, .. } = instance;
        let settings = Settings { idle: Idle::Spin, ..settings };
        let planner = Planner::new(&pipeline, &topology, settings).unwrap();
        let Err(shortfall) = planner.plan(arrivals) else { continue };
        short += 1;
        assert!(planner.plan(arrivals.at(shortfall.held_per_s)).is_ok(), "seed {seed}: {shortfall}");
        assert!(planner.plan(arrivals.at(shortfall.held_per_s * 1.001)).is_err(), "seed {seed}: {shortfall}");
        assert!(shortfall.missing_per_s() > 0.0, "seed {seed}: {shortfall}");
    }
    assert!(short > INSTANCES / 2, "{short}");
}

#[test]
fn a_shortfall_says_what_limits_the_rate() {
    let topology = Topology::uniform(2, Hop::FREE).unwrap();
    let said = |services_ns: &[f64]| {
        let operators = services_ns.iter().map(|&service_ns| Operator::new(service_ns)).collect();
        let pipeline = Pipeline::chain(operators, &vec![1.0; services_ns.len() - 1]).unwrap();
        let settings = Settings { utilization_max: 0.8, ..Settings::default() };
        let planner = Planner::new(&pipeline, &topology, settings).unwrap();
        let shortfall = planner.plan(Arrivals::constant(2e6).unwrap()).unwrap_err();
        (shortfall.limit, shortfall.held_per_s.round(), shortfall.to_string())
    };
    let (limit, held, text) = said(&[100.0, 800.0]);
    assert_eq!(limit, Limit::Operator { operator: 1, replicas_max: 1 });
    assert!((held / 1e6 - 1.0).abs() < 0.001, "{held}");
    assert!(text.starts_with("no plan sustains 2000000 tuples/s: short by 1000"), "{text}");
    let advice =
        "operator 1 alone is too slow: make it faster, or replicate it by a key between other operators";
    assert!(text.ends_with(advice), "{text}");
    let (limit, _, text) = said(&[300.0, 300.0, 300.0]);
    assert_eq!(limit, Limit::Cores(2));
    assert!(text.ends_with("2 cores are too few: add cores"), "{text}");
}

/// Returns the shortfall of a keyed operator of 1000 ns between two fast ones.
fn of_replicas(topology: &Topology, rate_per_s: f64) -> Shortfall {
    let keyed = Operator { key: Some(0), ..Operator::new(1000.0) };
    let operators = vec![Operator::new(10.0), keyed, Operator::new(10.0)];
    let key = Key { max_share: vec![1.0, 0.5, 0.34, 0.25] };
    let pipeline = Pipeline::keyed_chain(operators, &[1.0, 1.0], vec![key]).unwrap();
    let planner = Planner::new(&pipeline, topology, Settings::default()).unwrap();
    planner.plan(Arrivals::constant(rate_per_s).unwrap()).unwrap_err()
}

#[test]
fn what_is_replicated_already_is_not_to_be_replicated() {
    let shortfall = of_replicas(&Topology::uniform(8, Hop::FREE).unwrap(), 5e6);
    assert_eq!(shortfall.limit, Limit::Operator { operator: 1, replicas_max: 4 });
    assert!(shortfall.to_string().contains("too slow even with 4 replicas"), "{shortfall}");
    // Replicas share a domain: six cores in threes are three for each operator.
    let shortfall = of_replicas(&Topology::two_level(vec![3, 3], Hop::FREE, Hop::FREE).unwrap(), 3e6);
    assert_eq!(shortfall.limit, Limit::Operator { operator: 1, replicas_max: 3 });
}

#[test]
fn more_cores_are_not_asked_for_where_hops_use_all_their_time() {
    let hop = Hop { send_ns: 200.0, receive_ns: 300.0, ..Hop::FREE };
    let topology = Topology::uniform(8, hop).unwrap();
    let operators = vec![Operator::new(400.0); 4];
    let pipeline = Pipeline::chain(operators, &[1.0; 3]).unwrap();
    let planner = Planner::new(&pipeline, &topology, Settings::default()).unwrap();
    // 900 ns with both hops exceed the limit, and so do 800 ns of two operators without hops.
    let shortfall = planner.plan(Arrivals::constant(1.2e6).unwrap()).unwrap_err();
    assert!(matches!(shortfall.limit, Limit::Operator { operator: 1 | 2, .. }), "{shortfall}");
    assert!(shortfall.to_string().starts_with("no plan sustains"), "{shortfall}");
}

#[test]
fn a_search_says_that_it_found_none() {
    let topology = Topology::uniform(2, Hop::FREE).unwrap();
    let edges = [(0, 1), (0, 2)].map(|(from, to)| Edge { from, to, selectivity: 1.0 });
    let operators = vec![Operator::new(500.0); 3];
    let tree = Pipeline::graph(operators, edges.to_vec(), &[(0, 1.0)], Vec::new()).unwrap();
    let planner = Planner::new(&tree, &topology, Settings::default()).unwrap();
    let shortfall = planner.plan(Arrivals::constant(1e6).unwrap()).unwrap_err();
    assert_eq!(shortfall.optimality, Optimality::Heuristic);
    assert!(shortfall.to_string().starts_with("no plan was found that sustains 1000000"), "{shortfall}");
}

#[test]
fn rates_of_any_size_have_a_shortfall() {
    let topology = Topology::uniform(2, Hop::FREE).unwrap();
    let pipeline = Pipeline::chain(vec![Operator::new(500.0); 2], &[1.0]).unwrap();
    let planner = Planner::new(&pipeline, &topology, Settings::default()).unwrap();
    let shortfall = planner.plan(Arrivals::constant(1e303).unwrap()).unwrap_err();
    assert!((shortfall.held_per_s / 1.7e6 - 1.0).abs() < 0.001, "{shortfall}");
}

#[test]
fn a_table_says_what_was_asked_and_has_no_plan_of_an_unknown_rate() {
    let topology = Topology::uniform(2, Hop::FREE).unwrap();
    let pipeline = Pipeline::chain(vec![Operator::new(500.0); 2], &[1.0]).unwrap();
    let planner = Planner::new(&pipeline, &topology, Settings::default()).unwrap();
    let arrivals = Arrivals::constant(1.0).unwrap();
    assert_eq!(planner.table(arrivals, 1e6..=3e6).unwrap_err().asked_per_s, 3e6);
    assert_eq!(planner.table(arrivals, 1e5..=1e6).unwrap().get(f64::NAN), None);
}

#[test]
fn constrained_plans_hold_what_their_shortfall_says() {
    let mut short = 0;
    for seed in 0..INSTANCES * 2 {
        let random = &mut Random::new(seed);
        let instance = random.chain(6, FarHops::Dear, seed % 2 == 0);
        let mut instance = random.constrain(instance);
        instance.settings.idle = Idle::Spin;
        let (planner, arrivals) = (instance.planner(), instance.arrivals);
        let Err(shortfall) = planner.plan(arrivals) else { continue };
        short += 1;
        let plan = planner.plan(arrivals.at(shortfall.held_per_s)).unwrap();
        assert_eq!(instance.model().check(&plan.placement), Ok(()), "seed {seed}: {shortfall}");
        assert!(planner.plan(arrivals.at(shortfall.held_per_s * 1.001)).is_err(), "seed {seed}: {shortfall}");
    }
    assert!(short > INSTANCES / 4, "{short}");
}

#[test]
fn a_shortfall_names_pins_that_leave_no_plan() {
    let topology = Topology::uniform(3, Hop::FREE).unwrap();
    let pipeline = Pipeline::chain(vec![Operator::new(500.0); 3], &[1.0; 2]).unwrap();
    let constraints = Constraints::default().pin(0, 0).pin(1, 0).pin(2, 0);
    let planner = Planner::new(&pipeline, &topology, Settings::default()).unwrap();
    let planner = planner.with_constraints(&constraints).unwrap();
    let shortfall = planner.plan(Arrivals::constant(1.5e6).unwrap()).unwrap_err();
    assert_eq!(shortfall.limit, Limit::Pins);
    assert!(shortfall.to_string().ends_with("operators on their cores: let them move"), "{shortfall}");
    let reserved = Constraints::default().reserve(1).reserve(2);
    let planner = planner.with_constraints(&reserved).unwrap();
    assert_eq!(planner.plan(Arrivals::constant(1.5e6).unwrap()).unwrap_err().limit, Limit::Cores(1));
}

#[test]
fn constraints_that_cannot_be_kept_are_refused() {
    let topology = Topology::uniform(3, Hop::FREE).unwrap();
    let pipeline = Pipeline::chain(vec![Operator::new(500.0); 3], &[1.0; 2]).unwrap();
    let planner = Planner::new(&pipeline, &topology, Settings::default()).unwrap();
    let none = Constraints::default;
    for refused in [
        none().pin(3, 0),
        none().pin(0, 3),
        none().reserve(3),
        none().pin(0, 1).reserve(1),
        none().pin(0, 0).pin(1, 1).pin(2, 0),
        none().reserve(0).reserve(1).reserve(2),
    ] {
        assert!(planner.with_constraints(&refused).is_err(), "{refused:?}");
    }
}
