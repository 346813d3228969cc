//! The controller under constant rates, steps and ramps with the noise of counts.

use sakiyomi_placement::{
    Action, Arrivals, ControlSettings, Controller, Hop, Operator, Pipeline, PlanTable, Planner, Settings,
    Topology,
};

use crate::simulation::{Random, count};

/// Random runs of each kind.
const RUNS: u64 = 60;

/// Time between samples.
const SAMPLE_NS: u64 = 10_000_000;

/// Returns plans on one to eight cores, for rates up to `highest_per_s`.
fn table(highest_per_s: f64) -> PlanTable {
    let operators = vec![Operator::new(1e9 * 0.8 / highest_per_s); 8];
    let pipeline = Pipeline::chain(operators, &[1.0; 7]).unwrap();
    let topology = Topology::uniform(8, Hop { transit_ns: 0.1 / highest_per_s * 1e9, ..Hop::FREE }).unwrap();
    let planner = Planner::new(&pipeline, &topology, Settings::default()).unwrap();
    let table = planner.table(Arrivals::poisson(1.0).unwrap(), highest_per_s / 50.0..=highest_per_s).unwrap();
    assert!(table.entries().len() > 3, "{table:?}");
    table
}

/// Returns the controller's actions, each with its time in seconds, while the rate at each second is `rate_per_s`.
fn run(
    controller: &mut Controller,
    seconds: f64,
    random: &mut Random,
    rate_per_s: impl Fn(f64) -> f64,
) -> Vec<(f64, Action)> {
    let (mut actions, mut arrived) = (Vec::new(), 0);
    let sample_s = SAMPLE_NS as f64 * 1e-9;
    for sample in 0..(seconds / sample_s) as u64 {
        let now_s = sample as f64 * sample_s;
        let action = controller.on_count(sample * SAMPLE_NS, arrived);
        actions.extend(action.map(|action| (now_s, action)));
        // A step falls anywhere into a sample.
        let parts = (0..10).map(|part| rate_per_s(now_s + (f64::from(part) + 0.5) * sample_s / 10.0));
        arrived += count(parts.sum::<f64>() / 10.0 * sample_s, random);
    }
    actions
}

/// Returns a rate between the lowest and highest of `table`, often near a limit of a plan.
fn any_rate(table: &PlanTable, random: &mut Random) -> f64 {
    let (highest, _) = table.entries().last().unwrap();
    if random.below(2) == 0 {
        return random.between(0.05, 0.95) * highest;
    }
    let (limit, _) = table.entries()[random.below(table.entries().len() - 1)];
    limit * random.between(0.88, 1.05)
}

#[test]
fn a_constant_rate_with_noise_changes_the_plan_once_at_most() {
    let mut changes = 0;
    for highest_per_s in [2e3, 1e5, 3e6] {
        let table = table(highest_per_s);
        for seed in 0..RUNS {
            let random = &mut Random::new(seed);
            let rate = any_rate(&table, random);
            let mut controller = Controller::new(table.clone(), ControlSettings::default()).unwrap();
            let actions = run(&mut controller, 10.0, random, |_| rate);
            // The first action chooses the initial plan.
            assert!((1..=2).contains(&actions.len()), "seed {seed}, {rate} of {highest_per_s}: {actions:?}");
            changes += actions.len() - 1;
            let held_per_s = table.entries()[controller.plan().unwrap()].0;
            assert!(held_per_s > rate * 0.9, "seed {seed}, {rate}: {held_per_s}");
        }
    }
    assert!(changes > 0);
}

#[test]
fn a_step_of_the_rate_has_its_plan_within_a_tenth_of_a_second() {
    let table = table(1e6);
    for seed in 0..RUNS {
        let random = &mut Random::new(seed);
        let before = any_rate(&table, random) * 0.5;
        let after = (before * random.between(1.3, 10.0)).min(9.5e5);
        let at_s = random.between(1.0, 1.2);
        let mut controller = Controller::new(table.clone(), ControlSettings::default()).unwrap();
        let actions = run(&mut controller, at_s + 0.1, random, |now| if now < at_s { before } else { after });
        let held_per_s = table.entries()[controller.plan().unwrap()].0;
        // An excess within the noise is not detected.
        assert!(
            held_per_s > after * (1.0 - 6.0 / (after * 0.06).sqrt()),
            "seed {seed}, {before} to {after}: {actions:?}"
        );
        assert!(actions.len() <= 3, "seed {seed}, {before} to {after}: {actions:?}");
    }
}

#[test]
fn a_step_down_gives_cores_back_within_a_second() {
    let table = table(1e6);
    for seed in 0..RUNS {
        let random = &mut Random::new(seed);
        let (before, after) = (random.between(0.7, 0.95) * 1e6, random.between(0.02, 0.4) * 1e6);
        let mut controller = Controller::new(table.clone(), ControlSettings::default()).unwrap();
        let actions = run(&mut controller, 2.0, random, |now| if now < 1.0 { before } else { after });
        let plan = controller.plan().unwrap();
        let needed = table.entries().partition_point(|&(up_to, _)| up_to < after / 0.85);
        assert!(plan <= needed, "seed {seed}, {before} to {after}: {plan}, {needed}, {actions:?}");
    }
}

#[test]
fn a_rising_rate_has_its_plan_by_the_time_that_the_present_one_is_exceeded() {
    let table = table(1e6);
    let (mut early, mut in_time) = (0, 0);
    for seed in 0..RUNS {
        let random = &mut Random::new(seed);
        let limit = table.entries()[random.below(table.entries().len() - 1)].0;
        let slope_per_s2 = limit * random.between(0.1, 1.0);
        let begin = limit * 0.5;
        let settings = ControlSettings::default().with_reaction_ns(50_000_000);
        let mut controller = Controller::new(table.clone(), settings).unwrap();
        let steady_s = 0.6;
        let crossing_s = steady_s + (limit - begin) / slope_per_s2;
        let actions = run(&mut controller, crossing_s + 0.6, random, |now| {
            begin + slope_per_s2 * (now - steady_s).max(0.0)
        });
        let live_s = actions.iter().filter_map(|&(at_s, action)| match action {
            Action::Adopt { plan, .. } if table.entries()[plan].0 > limit => Some(at_s + 0.05),
            _ => None,
        });
        let live_s = live_s.fold(f64::INFINITY, f64::min);
        // Plans keep 15 % of each core free: an excess within the noise may use two thirds of that.
        let excess = slope_per_s2 * (live_s - crossing_s) / limit;
        assert!(excess < 0.1, "seed {seed}: {live_s} after {crossing_s}, {actions:?}");
        in_time += u64::from(excess < 0.01);
        early += u64::from(live_s <= crossing_s);
    }
    assert!(early * 2 > RUNS && in_time * 5 > RUNS * 4, "{early} early, {in_time} in time");
}

#[test]
fn more_than_all_plans_hold_is_said_once() {
    let table = table(1e6);
    let mut controller = Controller::new(table, ControlSettings::default()).unwrap();
    let random = &mut Random::new(1);
    let actions = run(&mut controller, 5.0, random, |now| if now < 1.0 { 5e5 } else { 1.5e6 });
    let overloads = actions.iter().filter(|(_, action)| matches!(action, Action::Overload { .. }));
    assert_eq!(overloads.count(), 1, "{actions:?}");
    assert_eq!(controller.plan(), Some(controller.table().entries().len() - 1));
}

#[test]
fn counts_that_begin_again_and_times_that_stand_still_are_passed_over() {
    let mut controller = Controller::new(table(1e6), ControlSettings::default()).unwrap();
    for sample in 0..10 {
        controller.on_count(sample * SAMPLE_NS, sample * 1000);
    }
    let plan = controller.plan();
    assert!(plan.is_some());
    assert_eq!(controller.on_count(9 * SAMPLE_NS, 1 << 40), None);
    assert_eq!(controller.on_count(10 * SAMPLE_NS, 0), None);
    for sample in 11..20 {
        assert_eq!(controller.on_count(sample * SAMPLE_NS, (sample - 10) * 1000), None);
    }
    assert_eq!(controller.plan(), plan);
    assert!((controller.rate_per_s().unwrap() / 1e5 - 1.0).abs() < 1e-6);
}

#[test]
fn settings_out_of_range_are_refused() {
    let refused = |settings| Controller::new(table(1e6), settings).is_err();
    assert!(refused(ControlSettings::default().with_hysteresis_ratio(1.0)));
    assert!(refused(ControlSettings::default().with_dispersion(f64::NAN)));
    assert!(refused(ControlSettings::default().with_settle_ns(0)));
}

/// Returns the actions, each with its time in seconds, of a controller that receives the count at each sample.
fn told(
    controller: &mut Controller,
    sample_ns: u64,
    seconds: f64,
    mut arrived: impl FnMut(u64) -> u64,
) -> Vec<(f64, Action)> {
    let samples = 0..(seconds * 1e9) as u64 / sample_ns;
    let action = |sample: u64| {
        let now_ns = sample * sample_ns;
        controller.on_count(now_ns, arrived(now_ns)).map(|action| (now_ns as f64 * 1e-9, action))
    };
    samples.filter_map(action).collect()
}

#[test]
fn input_in_batches_has_its_plan() {
    let table = table(1e6);
    let held_per_s = |controller: &Controller| table.entries()[controller.plan().unwrap()].0;
    // 1500 tuples every 15 ms, and four times as many from the second second on.
    let mut controller = Controller::new(table.clone(), ControlSettings::default()).unwrap();
    let batches =
        |now_ns: u64| 1500 * (now_ns / 15_000_000 + 3 * (now_ns.saturating_sub(2_000_000_000) / 15_000_000));
    let actions = told(&mut controller, SAMPLE_NS, 1.9, batches);
    assert!(held_per_s(&controller) >= 9e4 && actions[0].0 < 0.2 && actions.len() <= 2, "{actions:?}");
    let mut controller = Controller::new(table.clone(), ControlSettings::default()).unwrap();
    let actions = told(&mut controller, SAMPLE_NS, 4.0, batches);
    assert!(held_per_s(&controller) >= 4e5 && actions.last().unwrap().0 < 2.2, "{actions:?}");
    for seed in 0..RUNS {
        let random = &mut Random::new(seed);
        let mut controller = Controller::new(table.clone(), ControlSettings::default()).unwrap();
        let mut arrived = 0;
        let actions = told(&mut controller, SAMPLE_NS, 5.0, |now_ns| {
            let rate_per_s = if now_ns < 2_000_000_000 { 1e5 } else { 5e5 };
            arrived += 100 * count(rate_per_s / 100.0 * 0.01, random);
            arrived
        });
        let first_s = actions.first().map_or(f64::INFINITY, |action| action.0);
        assert!(first_s < 0.2 && actions.len() <= 6, "seed {seed}: {actions:?}");
        assert!(held_per_s(&controller) >= 4.4e5, "seed {seed}: {actions:?}");
    }
}

#[test]
fn arrivals_at_equal_intervals_are_not_taken_for_steps() {
    let settings = ControlSettings::default().with_dispersion(0.0);
    for rate_per_s in [100_050, 123_457, 3_333, 71] {
        let mut controller = Controller::new(table(1e6), settings).unwrap();
        let actions = told(&mut controller, SAMPLE_NS, 5.0, |now_ns| now_ns * rate_per_s / 1_000_000_000);
        assert!(actions.len() <= 2 && actions[0].0 < 0.1, "{rate_per_s}: {actions:?}");
        let error = controller.rate_per_s().unwrap() / rate_per_s as f64 - 1.0;
        assert!(error.abs() < 0.05, "{rate_per_s}: {error}");
    }
}

#[test]
fn samples_of_any_length_are_enough_for_any_time_to_settle() {
    let table = table(1e6);
    for sample_ns in [1_000_000, SAMPLE_NS, 250_000_000] {
        for settle_ns in [20_000_000, 500_000_000, 60_000_000_000] {
            let case = format!("samples of {sample_ns} ns, settled in {settle_ns} ns");
            let settings = ControlSettings::default().with_settle_ns(settle_ns);
            let mut controller = Controller::new(table.clone(), settings).unwrap();
            let random = &mut Random::new(settle_ns + sample_ns);
            let (mut arrived, mut low_s) = (0, 0.0);
            let step_ns = 2_000_000_000 + sample_ns / 2;
            let settled_s = settle_ns as f64 * 1e-9 + 8.0 * sample_ns as f64 * 1e-9;
            let end_s = if sample_ns < SAMPLE_NS { 2.6 } else { 2.2 + settled_s };
            let actions = told(&mut controller, sample_ns, end_s, |now_ns| {
                let rate_per_s = match now_ns {
                    0..1_000_000_000 => 1e5,
                    now_ns if now_ns < step_ns => 6e5,
                    _ => 2e5,
                };
                arrived += count(rate_per_s * sample_ns as f64 * 1e-9, random);
                arrived
            });
            let up = actions.iter().find(|(_, action)| {
                matches!(action, Action::Adopt { plan, .. } if table.entries()[*plan].0 > 5.9e5)
            });
            let up_s = up.map_or(f64::INFINITY, |action| action.0 - 1.0);
            assert!(up_s <= 0.03 + 5.0 * sample_ns as f64 * 1e-9, "{case}: {actions:?}");
            if let Some((at_s, Action::Adopt { plan, .. })) = actions.last()
                && table.entries()[*plan].0 < 5e5
            {
                low_s = at_s - step_ns as f64 * 1e-9;
            }
            let is_in_time = low_s >= settle_ns as f64 * 1e-9 * 0.9 && low_s <= settled_s + 0.1;
            assert!(is_in_time || end_s < 2.0 + settled_s, "{case}: {actions:?}");
        }
    }
}

#[test]
fn late_samples_are_passed_over() {
    let mut controller = Controller::new(table(1e6), ControlSettings::default()).unwrap();
    for sample in 0..20 {
        controller.on_count(sample * SAMPLE_NS, sample * 1000);
        controller.on_count(sample.saturating_sub(2) * SAMPLE_NS, sample.saturating_sub(2) * 1000);
    }
    assert!(controller.plan().is_some());
    assert!((controller.rate_per_s().unwrap() / 1e5 - 1.0).abs() < 1e-6);
}

#[test]
fn a_table_that_is_replaced_is_used_with_what_is_known_of_the_rate() {
    let (roomy, scarce) = (table(1e6), table(5e5));
    let mut controller = Controller::new(roomy, ControlSettings::default()).unwrap();
    // 300,000 tuples per second.
    let count =
        |controller: &mut Controller, sample: u64| controller.on_count(sample * SAMPLE_NS, sample * 3_000);
    for sample in 0..100 {
        count(&mut controller, sample);
    }
    let rate_per_s = controller.rate_per_s();
    controller.replace_table(scarce.clone(), 0);
    assert_eq!((controller.rate_per_s(), controller.plan()), (rate_per_s, Some(0)));
    // The next count suffices to leave a plan that does not sustain the rate.
    let action = count(&mut controller, 100);
    assert!(matches!(action, Some(Action::Adopt { .. })), "{action:?}");
    assert!(scarce.entries()[controller.plan().unwrap()].0 > 2.9e5);
}
