//! Decisions in virtual time: steps, ramps, noise, and loads that change.

mod world;

use sakiyomi_placement::{Idle, Placement, Settings};
use world::{Load, MS, World};

use crate::adapt::events::Reason;
use crate::adapt::graph::Graph;

/// Random runs of each kind.
const RUNS: u64 = 3;

/// Operators of a chain.
const OPERATORS: usize = 6;

/// Time in which a plan follows a step, and a sample more: the step falls anywhere into one.
const FOLLOWED_NS: u64 = 105 * MS;

fn chain() -> Graph {
    Graph::new(OPERATORS, (1..OPERATORS).map(|to| (to - 1, to)), vec![0])
}

/// A load of the chain by the mean time of its operators, which have different times, and a rate in relation to what one
/// core can do.
fn load(mean_ns: f64, share_of_core: f64) -> Load {
    let service_ns: Vec<f64> = [0.2, 1.4, 1.0, 1.2, 1.3, 0.9].map(|share| share * mean_ns).into();
    let one_core_per_s = 1e9 / service_ns.iter().sum::<f64>();
    let rates_per_s = vec![share_of_core * one_core_per_s];
    Load { service_ns, selectivity: vec![1.0; OPERATORS - 1], rates_per_s, hidden_ratio: 0.0 }
}

/// Times from 300 ns to 3 µs.
fn any_mean_ns(world: &mut World) -> f64 {
    300.0 * 10.0_f64.powf(world.uniform())
}

#[test]
fn a_step_up_has_its_plan_within_a_tenth_of_a_second_and_no_other_change() {
    for seed in 0..RUNS {
        let mut world = World::new(chain(), 4, seed);
        let mean_ns = any_mean_ns(&mut world);
        let (before, after) = (0.1 + 0.6 * world.uniform(), 1.0 + 1.2 * world.uniform());
        let step_ns = 700 * MS + (10.0 * world.uniform()) as u64 * MS;
        let with = |now_ns| load(mean_ns, if now_ns < step_ns { before } else { after });
        world.run(step_ns, with);
        assert_eq!(world.cores(), 1, "seed {seed}: {:?}", world.made);
        world.run(step_ns + FOLLOWED_NS, with);
        assert!(world.utilization_max(&with(step_ns)) < 1.0, "seed {seed}, {after}: {:?}", world.made);
        world.run(step_ns + 3_000 * MS, with);
        let changes = world.made.len();
        assert!((1..=3).contains(&changes), "seed {seed}, {before} to {after}: {:?}", world.made);
        assert!(world.late_ns < 5 * MS, "the backlog has been worked off");
        assert!(
            world.made.iter().all(|made| made.at_ns < step_ns + 1_500 * MS),
            "seed {seed}: {:?}",
            world.made
        );
    }
}

#[test]
fn a_step_down_gives_cores_back_within_a_second() {
    for seed in 0..RUNS {
        let mut world = World::new(chain(), 4, seed);
        let mean_ns = any_mean_ns(&mut world);
        let (before, after) = (1.2 + world.uniform(), 0.1 + 0.5 * world.uniform());
        let with = |now_ns| load(mean_ns, if now_ns < 1_000 * MS { before } else { after });
        world.run(1_000 * MS, with);
        assert!(world.cores() > 1, "seed {seed}: {:?}", world.made);
        world.run(2_000 * MS, with);
        assert_eq!(world.cores(), 1, "seed {seed}, {before} to {after}: {:?}", world.made);
    }
}

#[test]
fn a_constant_rate_changes_the_plan_twice_at_most() {
    for seed in 0..RUNS {
        let mut world = World::new(chain(), 4, seed);
        let mean_ns = any_mean_ns(&mut world);
        // Often near the rate that one core holds, by its reserve.
        let share = if seed % 2 == 0 { 0.8 + 0.1 * world.uniform() } else { 0.1 + 2.2 * world.uniform() };
        world.run(8_000 * MS, |_| load(mean_ns, share));
        assert!(world.made.len() <= 2, "seed {seed}, {share}: {:?}", world.made);
        let last_ns = world.made.last().map_or(0, |made| made.at_ns);
        assert!(last_ns < 5_000 * MS, "seed {seed}, {share}: {:?}", world.made);
    }
}

#[test]
fn a_core_that_is_saturated_from_the_start_is_left_within_a_tenth_of_a_second() {
    for seed in 0..RUNS {
        let mut world = World::new(chain(), 4, seed);
        let mean_ns = any_mean_ns(&mut world);
        let share = 1.1 + 1.2 * world.uniform();
        let with = |_| load(mean_ns, share);
        world.run(FOLLOWED_NS, with);
        assert!(world.utilization_max(&with(0)) < 1.0, "seed {seed}, {mean_ns}, {share}: {:?}", world.made);
        world.run(3_000 * MS, with);
        assert!(world.late_ns < 5 * MS && world.made.len() <= 3, "seed {seed}, {share}: {:?}", world.made);
    }
}

#[test]
fn a_rising_rate_has_its_plan_before_a_source_is_behind() {
    for seed in 0..RUNS {
        let mut world = World::new(chain(), 4, seed);
        let mean_ns = any_mean_ns(&mut world);
        let slope = 0.2 + 1.0 * world.uniform();
        let share = |now_ns: u64| 0.3 + slope * now_ns.saturating_sub(500 * MS) as f64 * 1e-9;
        let mut late_max_ns = 0;
        while share(world.now_ns) < 2.2 {
            world.run(world.now_ns + 5 * MS, |now_ns| load(mean_ns, share(now_ns)));
            late_max_ns = late_max_ns.max(world.late_ns);
        }
        assert!(late_max_ns < 10 * MS, "seed {seed}, {slope}: {late_max_ns}, {:?}", world.made);
        assert!(world.made.iter().is_sorted_by_key(|made| made.cores), "seed {seed}: {:?}", world.made);
    }
}

#[test]
fn a_rate_that_no_plan_holds_is_told_once_and_the_best_plan_kept() {
    for seed in 0..RUNS {
        let mut world = World::new(chain(), 2, seed);
        let mean_ns = any_mean_ns(&mut world);
        let with = |now_ns| load(mean_ns, if now_ns < 500 * MS { 0.3 } else { 3.0 });
        world.run(3_000 * MS, with);
        assert_eq!((world.shortfalls, world.cores()), (1, 2), "seed {seed}: {:?}", world.made);
        assert!(world.made.len() <= 3, "seed {seed}: {:?}", world.made);
    }
}

#[test]
fn an_operator_that_becomes_slower_has_its_plan_within_a_fifth_of_a_second() {
    for seed in 0..RUNS {
        let mut world = World::new(chain(), 4, seed);
        let mean_ns = any_mean_ns(&mut world);
        let operator = 1 + (world.uniform() * 5.0) as usize;
        let with = |now_ns| {
            let mut load = load(mean_ns, 0.7);
            if now_ns >= 1_000 * MS {
                load.service_ns[operator] += 4.0 * mean_ns;
            }
            load
        };
        world.run(1_000 * MS, with);
        assert_eq!(world.cores(), 1, "seed {seed}");
        world.run(1_205 * MS, with);
        assert!(world.utilization_max(&with(1_000 * MS)) < 1.0, "seed {seed}: {:?}", world.made);
        world.run(5_000 * MS, with);
        assert!(world.made.len() <= 3 && world.late_ns < 5 * MS, "seed {seed}: {:?}", world.made);
        assert!(world.made.iter().all(|made| made.at_ns < 3_500 * MS), "seed {seed}: {:?}", world.made);
    }
}

#[test]
fn the_cut_follows_a_load_that_shifts_between_two_inputs() {
    // Two sources with an operator each, whose outputs are joined.
    let graph = || Graph::new(5, [(0, 2), (1, 3), (2, 4), (3, 4)], vec![0, 1]);
    for seed in 0..RUNS {
        let mut world = World::new(graph(), 2, seed);
        let with = |now_ns| Load {
            service_ns: vec![300.0, 300.0, 4_000.0, 4_000.0, 1_500.0],
            selectivity: vec![1.0, 1.0, 0.5, 0.5],
            rates_per_s: if now_ns < 1_000 * MS { vec![170e3, 60e3] } else { vec![60e3, 170e3] },
            hidden_ratio: 0.0,
        };
        let is_apart = |world: &World, one, other| world.group_of(one) != world.group_of(other);
        world.run(1_000 * MS, with);
        assert!(is_apart(&world, 2, 3) && !is_apart(&world, 3, 4), "seed {seed}: {:?}", world.made);
        world.run(1_250 * MS, with);
        assert!(is_apart(&world, 2, 3) && !is_apart(&world, 2, 4), "seed {seed}: {:?}", world.made);
        assert!(world.utilization_max(&with(1_000 * MS)) < 1.0);
        let made = world.made.len();
        world.run(5_000 * MS, with);
        assert!(world.made.len() <= made + 1, "seed {seed}: {:?}", world.made);
    }
}

#[test]
fn the_best_cut_of_a_chain_is_found_when_work_shifts_past_a_filter() {
    // The loads of `examples/experiment`: a source, eight operators of which the fourth drops tuples, and a sink.
    const UNIT_NS: u64 = 2_000 * MS;
    let low = (20e3, 0.125);
    let (front, back) = ((110e3, 0.125), (55e3, 1.0));
    let loads = [low, low, front, back, low, back, front, low];
    let with = |now_ns: u64| {
        let (rate_per_s, passed_ratio) = loads[(now_ns / UNIT_NS) as usize];
        let mut selectivity = vec![1.0; 9];
        selectivity[4] = passed_ratio;
        let service_ns = vec![60.0, 2e3, 2e3, 2e3, 2e3, 4e3, 4e3, 4e3, 4e3, 40.0];
        Load { service_ns, selectivity, rates_per_s: vec![rate_per_s], hidden_ratio: 0.0 }
    };
    let graph = Graph::new(10, (1..10).map(|to| (to - 1, to)), vec![0]);
    // At the low rate a second core would be woken up for each tuple.
    let settings = Settings::default().with_idle(Idle::Park { spin_ns: 20e3 });
    let mut world = World::with(graph, 2, 1, settings);
    for unit in 0..loads.len() as u64 {
        let (begin_ns, load) = (unit * UNIT_NS, loads[unit as usize]);
        world.run(begin_ns + 1_000 * MS, with);
        let settled = world.made.len();
        let cores = if load == low { 1 } else { 2 };
        assert_eq!(world.cores(), cores, "unit {unit}: {:?}", world.made);
        // The next best cuts leave 0.88.
        let busiest = world.utilization_max(&with(begin_ns));
        assert!(busiest < 0.7, "unit {unit}: {busiest}, {:?}", world.decider_placement());
        assert!(world.is_held(), "unit {unit}: the plan is for the rate");
        world.run(begin_ns + UNIT_NS - MS, with);
        assert_eq!(world.made.len(), settled, "unit {unit}: {:?}", world.made);
    }
}

#[test]
fn a_core_that_holds_less_than_was_measured_is_left_when_its_source_falls_behind() {
    for seed in 0..RUNS {
        let mut world = World::new(chain(), 2, seed);
        let mean_ns = any_mean_ns(&mut world);
        // By the service times it is at 0.68, in fact at 1.13.
        let with = |now_ns| Load {
            hidden_ratio: if now_ns < 4_000 * MS { 0.0 } else { 0.4 },
            ..load(mean_ns, 0.68)
        };
        world.run(4_000 * MS, with);
        assert_eq!(world.cores(), 1, "seed {seed}: {:?}", world.made);
        world.made.clear();
        world.run(4_250 * MS, with);
        assert_eq!(world.cores(), 2, "seed {seed}: {:?}", world.made);
        assert_eq!(world.made[0].reason, Reason::FellBehind, "seed {seed}");
        world.run(7_000 * MS, with);
        assert!(world.made.len() == 1 && world.late_ns < 5 * MS, "seed {seed}: {:?}", world.made);
    }
}

#[test]
fn the_same_counters_give_the_same_changes() {
    let run = || -> (Vec<u64>, Placement) {
        let mut world = World::new(chain(), 4, 7);
        world.run(2_000 * MS, |now_ns| load(3e3, 0.3 + 1.5 * (now_ns / (400 * MS) % 2) as f64));
        (world.made.iter().map(|made| made.at_ns).collect(), world.decider_placement())
    };
    assert_eq!(run(), run());
}

#[test]
fn a_keyed_operator_gets_as_many_replicas_as_its_rate_needs_and_gives_them_back() {
    // A partition, two keyed operators and a merge.
    let groups = vec![None, None, Some(0), Some(0), None, None];
    let mut world = World::new(chain().with_replicas(groups, vec![6]), 8, 5);
    let with = |now_ns: u64| {
        let is_high = (800 * MS..2_500 * MS).contains(&now_ns);
        // No single core holds more than 250,000 tuples per second of the slowest operator.
        let service_ns = vec![100.0, 100.0, 4_000.0, 2_000.0, 100.0, 100.0];
        let rates_per_s = vec![if is_high { 500_000.0 } else { 20_000.0 }];
        Load { service_ns, selectivity: vec![1.0; OPERATORS - 1], rates_per_s, hidden_ratio: 0.0 }
    };
    world.run(800 * MS, with);
    assert_eq!((world.cores(), world.replicas_of(2)), (1, 1), "{:?}", world.made);
    world.run(1_800 * MS, with);
    assert!(world.utilization_max(&with(world.now_ns)) < 1.0, "{:?}", world.made);
    assert!((2..=6).contains(&world.replicas_of(2)), "{:?}", world.decider_placement());
    assert!(world.late_ns < 5 * MS && world.shortfalls == 0, "{:?}", world.made);
    world.run(6_000 * MS, with);
    assert_eq!((world.cores(), world.replicas_of(2)), (1, 1), "{:?}", world.made);
}
