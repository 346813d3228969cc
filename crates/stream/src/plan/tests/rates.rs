//! Tables of plans, and rates that no plan holds.

use super::random::{FarHops, Instance, Random};
use crate::{Arrivals, Hop, Idle, Limit, Operator, Pipeline, Planner, Settings, Topology};

/// Random chains.
const INSTANCES: u64 = 60;

#[test]
fn a_table_has_nearly_the_best_plan_of_each_rate() {
    for seed in 0..INSTANCES {
        let Instance { pipeline, topology, settings, arrivals } =
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
            assert_eq!(settings.excess(figures.utilisation_max()), 0.0, "seed {seed}, {percent} %: {plan:?}");
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
        let Instance { pipeline, topology, settings, arrivals } = instance;
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
        let settings = Settings { utilisation_max: 0.8, ..Settings::default() };
        let planner = Planner::new(&pipeline, &topology, settings).unwrap();
        let shortfall = planner.plan(Arrivals::constant(2e6).unwrap()).unwrap_err();
        (shortfall.limit, shortfall.held_per_s.round(), shortfall.to_string())
    };
    let (limit, held, text) = said(&[100.0, 800.0]);
    assert_eq!(limit, Limit::Operator(1));
    assert!((held / 1e6 - 1.0).abs() < 0.001, "{held}");
    assert!(text.starts_with("no plan holds 2000000 tuples/s: short by 1000"), "{text}");
    assert!(
        text.ends_with("operator 1 alone is too slow: make it faster or replicate it by a key"),
        "{text}"
    );
    let (limit, _, text) = said(&[300.0, 300.0, 300.0]);
    assert_eq!(limit, Limit::Cores(2));
    assert!(text.ends_with("2 cores are too few: add cores"), "{text}");
}
