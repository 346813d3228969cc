//! Streams whose rings are small, whose placement changes, and whose input is too much: nothing is lost or out of order.

use rand_core::Rng;
use rand_pcg::Pcg64;
use sakiyomi_model::Nanos;
use sakiyomi_placement::{
    Arrivals, ControlSettings, Controller, Group, Hop, Idle, Key, Model, Operator, Pipeline, Placement,
    Planner, Settings, Topology,
};
use sakiyomi_scenario::stream::{
    ArrivalPattern, Control, OverloadPolicy, Service, Spacing, Stall, StreamOutcome, StreamSettings,
    StreamSpec, simulate,
};

const HOP: Hop =
    Hop { send_ns: 20.0, transit_ns: 150.0, receive_ns: 40.0, wake_ns: 20_000.0, waker_ns: 8000.0 };

/// Random placements of a row of keyed operators on two domains of four cores.
struct Random(Pcg64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }

    fn placement(&mut self, operators: usize) -> Placement {
        let mut free = [vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
        let mut groups: Vec<Group> = Vec::new();
        for operator in 0..operators {
            let is_full = free.iter().all(Vec::is_empty);
            if operator > 0 && (is_full || self.below(2) == 0) {
                groups.last_mut().unwrap().operators.push(operator);
                continue;
            }
            let mut domain = self.below(2);
            if free[domain].is_empty() {
                domain = 1 - domain;
            }
            let index = self.below(free[domain].len());
            groups.push(Group { operators: vec![operator], cores: vec![free[domain].remove(index)] });
        }
        for group in &mut groups {
            let is_end = group.operators[0] == 0 || group.operators.contains(&(operators - 1));
            let domain = group.cores[0] / 4;
            for _ in 0..if is_end { 0 } else { self.below(3) } {
                group.cores.extend(free[domain].pop());
            }
        }
        Placement { groups }
    }
}

fn keyed_row(operators: usize) -> Pipeline {
    let operators =
        (0..operators).map(|_| Operator::new(400.0).with_scv(0.5).with_key(0)).collect::<Vec<_>>();
    let selectivities = vec![1.0; operators.len() - 1];
    let key = Key { max_share: vec![1.0, 0.55, 0.4, 0.3] };
    Pipeline::keyed_chain(operators, &selectivities, vec![key]).unwrap()
}

/// Each tuple gives a result, in order.
#[track_caller]
fn assert_whole(outcome: &StreamOutcome, case: &str) {
    let results: u64 = outcome.intervals.iter().map(|interval| interval.latency.results).sum();
    assert_eq!(results, outcome.arrived_tuples, "{case}");
    assert_eq!(outcome.reordered_results, 0, "{case}");
}

#[test]
fn nothing_is_lost_or_out_of_order_while_the_placement_changes() {
    let topology = Topology::two_level(vec![4, 4], HOP, Hop { transit_ns: 400.0, ..HOP }).unwrap();
    let (mut changes, mut refused) = (0, 0);
    for seed in 0..30 {
        let mut random = Random(Pcg64::new(seed, 1));
        let operators = 2 + random.below(6);
        let pipeline = keyed_row(operators);
        let settings = StreamSettings {
            ring_slots: [1, 3, 64][random.below(3)],
            entry_slots: 1 + random.below(100),
            idle: [Idle::Spin, Idle::Park { spin_ns: 2000.0 }][random.below(2)],
            ..StreamSettings::new(Nanos::MILLISECOND * 12, seed as u64)
        };
        let arrivals = ArrivalPattern::steady([3e5, 1e6, 4e6][random.below(3)], Spacing::Poisson);
        let placement = random.placement(operators);
        let mut spec = StreamSpec::new(&pipeline, &topology, placement, arrivals, settings);
        spec.relocations =
            (1..60).map(|at| (Nanos::MICROSECOND * 200 * at, random.placement(operators))).collect();
        let outcome = simulate(&spec).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_whole(&outcome, &format!("seed {seed}"));
        assert_eq!(outcome.operator_steps, outcome.arrived_tuples * operators as u64, "seed {seed}");
        changes += outcome.relocations.len();
        refused += outcome.unreachable_placements;
    }
    assert!(changes > 2000 && refused == 0, "{changes} changes, {refused} refused");
}

#[test]
fn a_full_ring_holds_the_source_back_or_sheds_and_the_core_before_it_works_on() {
    let pipeline = Pipeline::chain(vec![Operator::new(100.0), Operator::new(1000.0)], &[1.0]).unwrap();
    let topology = Topology::uniform(2, HOP).unwrap();
    let group = |operator| Group { operators: vec![operator], cores: vec![operator] };
    let placement = Placement { groups: vec![group(0), group(1)] };
    let run = |overload| {
        let until = Nanos::MILLISECOND * 20;
        let settings =
            StreamSettings { ring_slots: 8, entry_slots: 16, overload, ..StreamSettings::new(until, 1) };
        let arrivals = ArrivalPattern::steady(2e6, Spacing::Constant);
        simulate(&StreamSpec::new(&pipeline, &topology, placement.clone(), arrivals, settings)).unwrap()
    };
    let waited = run(OverloadPolicy::Wait);
    assert_whole(&waited, "waits");
    assert_eq!((waited.arrived_tuples, waited.shed_tuples), (39_999, 0));
    assert!(waited.held_back_tuples > 19_000, "{}", waited.held_back_tuples);
    // 40,000 tuples of 1040 ns each, of which the last one was to come after 20 ms.
    assert!((waited.elapsed.as_millis_f64() - 41.6).abs() < 0.1, "{:?}", waited.elapsed);
    assert!((waited.latency.max.as_millis_f64() - 21.6).abs() < 0.1, "{:?}", waited.latency);
    let shed = run(OverloadPolicy::Shed);
    assert_whole(&shed, "sheds");
    assert_eq!(shed.arrived_tuples + shed.shed_tuples, 39_999);
    assert!((shed.shed_tuples as f64 / 39_999.0 - (1.0 - 1.0 / 2.08)).abs() < 0.01, "{}", shed.shed_tuples);
    assert!(shed.latency.max < Nanos::MICROSECOND * 28, "{:?}", shed.latency);
    for outcome in [waited, shed] {
        assert!(outcome.rings.iter().all(|ring| ring.high_water_tuples <= 16), "{:?}", outcome.rings);
        assert!(outcome.rings.iter().any(|ring| ring.times_full > 1000), "{:?}", outcome.rings);
    }
}

/// A step from 0.4 to 2 million tuples a second and back, of a row that needs one core and then several.
#[test]
fn the_controller_follows_a_step_without_loss() {
    let operators: Vec<Operator> = [400.0, 300.0, 500.0, 300.0].map(Operator::new).to_vec();
    let pipeline = Pipeline::chain(operators, &[1.0; 3]).unwrap();
    let topology = Topology::two_level(vec![4, 4], HOP, Hop { transit_ns: 400.0, ..HOP }).unwrap();
    let planner = Planner::new(&pipeline, &topology, Settings::default()).unwrap();
    let table = planner.table(Arrivals::poisson(1.0).unwrap(), 1e4..=1.2e6).unwrap();
    let at = |millis: u64| Nanos::MILLISECOND * millis;
    let steps = [(at(0), 1e5), (at(300), 1.1e6), (at(450), 1e5)];
    let arrivals = ArrivalPattern::steps(&steps, Spacing::Poisson);
    let settings = StreamSettings { interval: at(50), ..StreamSettings::new(at(700), 3) };
    let placement = table.get(1e5).unwrap().placement.clone();
    let mut spec = StreamSpec::new(&pipeline, &topology, placement, arrivals, settings);
    let settings = ControlSettings::default().with_settle_ns(100_000_000).with_reaction_ns(1_000_000);
    spec.control = Some(Control {
        controller: Controller::new(table.clone(), settings).unwrap(),
        planner,
        sample: at(10),
        reaction: at(1),
    });
    let outcome = simulate(&spec).unwrap();
    assert_whole(&outcome, "step");
    let used: Vec<usize> = outcome.cores_used.iter().map(|used| used.1).collect();
    let most = table.get(1.1e6).unwrap().placement.cores_used();
    assert!(most >= 2 && *used.iter().max().unwrap() >= most, "{used:?}");
    let up = outcome.relocations.first().unwrap();
    assert!((at(300)..at(400)).contains(&up.at), "{up:?}");
    assert_eq!(*used.last().unwrap(), 1, "{:?}", outcome.cores_used);
    assert!(outcome.relocations.iter().all(|relocation| relocation.pause < Nanos::MICROSECOND * 20));
    // The step has its backlog worked off, and the latency is again that of the plan.
    let steady = outcome.intervals[8].latency;
    assert!(steady.p99 < Nanos::MICROSECOND * 20, "{:?}", outcome.intervals);
}

#[test]
fn selectivities_shift_the_load_between_cores() {
    let pipeline = Pipeline::chain(vec![Operator::new(100.0), Operator::new(1000.0)], &[0.1]).unwrap();
    let topology = Topology::uniform(2, Hop::FREE).unwrap();
    let group = |operator| Group { operators: vec![operator], cores: vec![operator] };
    let placement = Placement { groups: vec![group(0), group(1)] };
    let settings = StreamSettings { measure_from: Nanos::ZERO, ..StreamSettings::new(Nanos::SECOND / 5, 4) };
    let arrivals = ArrivalPattern::steady(5e5, Spacing::Poisson);
    let mut spec = StreamSpec::new(&pipeline, &topology, placement, arrivals, settings);
    spec.selectivities = vec![(Nanos::SECOND / 10, 0, 0.9)];
    let outcome = simulate(&spec).unwrap();
    let hops: Vec<f64> = outcome
        .intervals
        .iter()
        .take(2)
        .map(|interval| interval.hops as f64 / interval.arrived_tuples as f64)
        .collect();
    assert!((hops[0] - 0.1).abs() < 0.01 && (hops[1] - 0.9).abs() < 0.01, "{hops:?}");
    assert!((outcome.cores[1].utilization - 0.25).abs() < 0.01, "{:?}", outcome.cores);
}

#[test]
fn a_stalled_core_delays_what_comes_meanwhile() {
    let pipeline = Pipeline::chain(vec![Operator::new(100.0)], &[]).unwrap();
    let topology = Topology::uniform(1, Hop::FREE).unwrap();
    let placement = Placement { groups: vec![Group { operators: vec![0], cores: vec![0] }] };
    let settings = StreamSettings { measure_from: Nanos::ZERO, ..StreamSettings::new(Nanos::MILLISECOND, 4) };
    let arrivals = ArrivalPattern::steady(1e6, Spacing::Constant);
    let mut spec = StreamSpec::new(&pipeline, &topology, placement, arrivals, settings);
    spec.stalls = vec![Stall { core: 0, at: Nanos(500_500), length: Nanos(50_000) }];
    let outcome = simulate(&spec).unwrap();
    assert_eq!(outcome.latency.max, Nanos(49_600));
    assert_eq!(outcome.rings[0].high_water_tuples, 50);
    assert_eq!(outcome.cores[0].busy, Nanos(99_900));
}

#[test]
fn impossible_streams_are_refused_with_a_remedy() {
    let pipeline = keyed_row(3);
    let topology = Topology::uniform(2, HOP).unwrap();
    let placement = Placement { groups: vec![Group { operators: vec![0, 1, 2], cores: vec![0] }] };
    let settings = StreamSettings::new(Nanos::MILLISECOND, 1);
    let arrivals = ArrivalPattern::steady(1e6, Spacing::Constant);
    let good = StreamSpec::new(&pipeline, &topology, placement, arrivals, settings);
    let refused = |change: &dyn Fn(&mut StreamSpec<'_>)| {
        let mut spec = good.clone();
        change(&mut spec);
        simulate(&spec).unwrap_err().to_string()
    };
    type Change = dyn Fn(&mut StreamSpec<'_>);
    let cases: [(&str, &Change); 6] = [
        ("operator 3 does not exist", &|spec| spec.inputs[0].0 = 3),
        ("slots of a ring is 0; it must be 1 or more", &|spec| spec.settings.ring_slots = 0),
        ("core 5 must exist", &|spec| spec.placement.groups[0].cores = vec![5]),
        ("rate in tuples/s is -1", &|spec| {
            spec.inputs[0].1 = ArrivalPattern::steady(-1.0, Spacing::Constant);
        }),
        ("number of measured service times is 0", &|spec| {
            spec.services.insert(0, Service::Measured { bins: vec![(1.0, 0)] });
        }),
        ("edge whose selectivity changes is 2", &|spec| spec.selectivities = vec![(Nanos::ZERO, 2, 1.0)]),
    ];
    for (text, change) in cases {
        let refused = refused(change);
        assert!(refused.contains(text), "{refused} instead of {text}");
    }
    let any_rate = Arrivals::constant(1.0).unwrap();
    assert!(Model::new(&pipeline, &topology, Idle::Spin, any_rate).check(&good.placement).is_ok());
}

/// The paper's experiment, shortened: the rate shifts, and so does the best plan.
#[test]
fn in_each_steady_phase_the_controller_is_as_good_as_the_best_plan_of_that_phase() {
    let operators: Vec<Operator> = [400.0, 300.0, 500.0, 300.0].map(Operator::new).to_vec();
    let pipeline = Pipeline::chain(operators, &[1.0; 3]).unwrap();
    let topology = Topology::two_level(vec![4, 4], HOP, Hop { transit_ns: 400.0, ..HOP }).unwrap();
    let planner = Planner::new(&pipeline, &topology, Settings::default()).unwrap();
    let table = planner.table(Arrivals::poisson(1.0).unwrap(), 1e4..=1.2e6).unwrap();
    let at = |millis: u64| Nanos::MILLISECOND * millis;
    let phases = [(at(0), 1e5), (at(250), 1e6), (at(500), 4e5), (at(750), 1e5)];
    let run = |placement: &Placement, is_controlled: bool| {
        let arrivals = ArrivalPattern::steps(&phases, Spacing::Poisson);
        let settings = StreamSettings { interval: at(50), ..StreamSettings::new(at(1000), 3) };
        let mut spec = StreamSpec::new(&pipeline, &topology, placement.clone(), arrivals, settings);
        let settings = ControlSettings::default().with_settle_ns(50_000_000).with_reaction_ns(1_000_000);
        spec.control = is_controlled.then(|| Control {
            controller: Controller::new(table.clone(), settings).unwrap(),
            planner,
            sample: at(10),
            reaction: at(1),
        });
        simulate(&spec).unwrap()
    };
    let plan = |rate_per_s: f64| &table.get(rate_per_s).unwrap().placement;
    let ours = run(plan(1e5), true);
    assert_whole(&ours, "controlled");
    for (phase, &(from, rate_per_s)) in phases.iter().enumerate() {
        let oracle = run(plan(rate_per_s), false);
        // The last 100 ms of each phase.
        for interval in [from.0 / 50_000_000 + 3, from.0 / 50_000_000 + 4] {
            let [ours, oracle] = [&ours, &oracle].map(|outcome| outcome.intervals[interval as usize]);
            let (mean, least) = (ours.latency.mean_ns, oracle.latency.mean_ns);
            // The oracle may still have tuples of an earlier phase that it does not hold.
            assert!(mean <= least * 1.06, "phase {phase}: {mean} of {least}");
            assert!(
                ours.cores <= oracle.cores.max(plan(rate_per_s / 0.9).cores_used()),
                "phase {phase}: {ours:?}"
            );
        }
    }
    let static_one = run(plan(1e5), false).latency.mean_ns;
    assert!(static_one > 10.0 * ours.latency.mean_ns, "{static_one} of {}", ours.latency.mean_ns);
}
