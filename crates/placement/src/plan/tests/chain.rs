//! The dynamic programs are exact.

use super::brute::best_chain;
use super::random::{FarHops, Instance, Random};
use crate::plan::descent::{Candidate, SOLVED_MAX};
use crate::plan::parts::placement;
use crate::plan::segments::Segments;
use crate::plan::{Method, Optimality, simple};

/// Random chains of each kind.
const INSTANCES: u64 = 600;

/// The program that is exact on every topology.
const EXACT: Method = Method::Capacity { states_max: usize::MAX };

fn by(method: Method, instance: &Instance) -> Option<Candidate> {
    let model = instance.model();
    let segments = Segments::new(&model, &instance.settings);
    let (best, optimality) = method.best(&segments, &instance.settings, SOLVED_MAX);
    assert_eq!(optimality, Optimality::Exact);
    best
}

fn is_same(one: &Option<Candidate>, other: &Option<Candidate>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => {
            one.cores() == other.cores() && (one.latency_ns() / other.latency_ns() - 1.0).abs() < 1e-9
        }
        _ => false,
    }
}

/// Compares both programs with exhaustive search; returns the number of instances that have a plan, and of those
/// for which the simple program misses the optimum.
fn compare(far: FarHops, operators: usize, is_keyed: bool) -> (u64, u64) {
    compare_all(|random| random.chain(operators, far, is_keyed))
}

fn compare_all(instance: impl Fn(&mut Random) -> Instance) -> (u64, u64) {
    let (mut planned, mut missed, mut multi) = (0, 0, 0);
    for seed in 0..INSTANCES {
        let instance = instance(&mut Random::new(seed));
        let best = best_chain(&instance);
        let exact = by(EXACT, &instance);
        assert!(is_same(&exact, &best), "seed {seed}: {exact:?} instead of {best:?} of {instance:?}");
        let is_equal = is_same(&by(Method::Simple, &instance), &best);
        if simple::is_exact(&instance.model()) {
            assert!(is_equal, "seed {seed}: the simple dynamic program misses {best:?} of {instance:?}");
        }
        planned += u64::from(best.is_some());
        missed += u64::from(!is_equal);
        multi += u64::from(best.is_some_and(|best| best.cores() > 1));
    }
    assert!(multi > INSTANCES / 8, "only {multi} need several cores");
    (planned, missed)
}

#[test]
fn the_dynamic_programs_find_the_best_plan_on_equal_cores() {
    let (planned, missed) = compare(FarHops::Uniform, 6, false);
    assert!(planned > INSTANCES / 2 && missed == 0, "{planned} planned, {missed} missed");
}

#[test]
fn the_dynamic_programs_find_the_best_plan_where_far_hops_are_slower() {
    let (planned, _) = compare(FarHops::Slower, 5, false);
    assert!(planned > INSTANCES / 2, "{planned}");
}

#[test]
fn only_the_exact_dynamic_program_finds_the_best_plan_where_receiving_from_far_is_dear() {
    let (planned, missed) = compare(FarHops::Dear, 5, false);
    assert!(planned > INSTANCES / 2 && missed > INSTANCES / 50, "{planned} planned, {missed} missed");
}

#[test]
fn the_dynamic_programs_find_the_best_replicas() {
    for far in [FarHops::Uniform, FarHops::Slower, FarHops::Dear] {
        let (planned, _) = compare(far, 5, true);
        assert!(planned > INSTANCES / 2, "{far:?}: {planned}");
    }
}

#[test]
fn the_dynamic_programs_honor_pinned_operators_and_reserved_cores() {
    for far in [FarHops::Uniform, FarHops::Slower, FarHops::Dear] {
        for is_keyed in [false, true] {
            let (planned, _) = compare_all(|random| {
                let instance = random.chain(5, far, is_keyed);
                random.constrain(instance)
            });
            assert!(planned > INSTANCES / 4, "{far:?}, keys {is_keyed}: {planned}");
        }
    }
}

#[test]
fn the_figures_of_a_plan_are_those_of_its_placement() {
    for seed in 0..INSTANCES {
        let instance = Random::new(seed).chain(8, FarHops::Dear, seed % 2 == 0);
        let Ok(plan) = instance.planner().plan(instance.arrivals) else { continue };
        assert_eq!(plan.optimality, Optimality::Exact);
        let figures = instance.model().figures(&plan.placement);
        assert_eq!(figures.as_ref(), Ok(&plan.figures), "seed {seed}");
        let claimed = by(Method::of(&instance.model()), &instance).unwrap().latency_ns();
        assert!((plan.figures.latency_ns / claimed - 1.0).abs() < 1e-9, "seed {seed}: {plan:?}");
    }
}

#[test]
fn a_sample_of_states_gives_valid_plans_that_are_nearly_the_best() {
    let (mut sampled, mut planned, mut near) = (0, 0, 0);
    for seed in 0..INSTANCES {
        let instance = Random::new(seed).chain(8, FarHops::Dear, false);
        let (model, settings) = (instance.model(), &instance.settings);
        let segments = Segments::new(&model, settings);
        let (found, optimality) = Method::Capacity { states_max: 6 }.best(&segments, settings, SOLVED_MAX);
        sampled += u64::from(optimality == Optimality::Heuristic);
        let Some(best) = by(EXACT, &instance) else { continue };
        planned += 1;
        let Some(found) = found else { continue };
        let figures = model.figures(&placement(&found.parts, &model)).unwrap();
        assert_eq!(settings.excess(figures.utilization_max()), 0.0, "seed {seed}: {found:?}");
        let ratio = figures.latency_ns / best.latency_ns();
        near += u64::from(ratio < 1.0 + 2.0 * settings.latency_slack_ratio);
    }
    assert!(sampled > INSTANCES / 12 && near * 100 >= planned * 95, "{sampled}, {near} of {planned}");
}

#[test]
fn a_plan_without_all_limits_of_the_wait_does_not_claim_to_be_the_best() {
    let mut unproven = 0;
    for seed in 0..INSTANCES {
        let instance = Random::new(seed).chain(8, FarHops::Uniform, false);
        let (model, settings) = (instance.model(), &instance.settings);
        let segments = Segments::new(&model, settings);
        let (found, optimality) = Method::Simple.best(&segments, settings, 2);
        let best = by(Method::Simple, &instance);
        assert_eq!(found.is_some(), best.is_some(), "seed {seed}");
        unproven += u64::from(optimality == Optimality::Heuristic);
        assert!(optimality == Optimality::Heuristic || is_same(&found, &best), "seed {seed}: {found:?}");
    }
    assert!(unproven > INSTANCES / 20, "{unproven}");
}

#[test]
fn long_chains_on_few_cores_need_a_few_dozen_dynamic_programs() {
    for seed in 0..20 {
        let instance = Random::new(seed).chain(30, FarHops::Uniform, false);
        let (model, settings) = (instance.model(), &instance.settings);
        let segments = Segments::new(&model, settings);
        assert_eq!(Method::Simple.best(&segments, settings, 48).1, Optimality::Exact, "seed {seed}");
    }
}
