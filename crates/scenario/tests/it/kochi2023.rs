//! Regulated programs in an experiment: the same figures as from the regulated drive itself, and the results of the
//! thesis.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_drive::Drive;
use sakiyomi_drive::spec::{DriveSpec, builtin};
use sakiyomi_model::{Device, Extent, Lba, Nanos, Op, Request, RequestId, Sectors, StreamId};
use sakiyomi_regulate::{Owner, Percent, Policy, RegulatedDevice, Settings, Timing};
use sakiyomi_scenario::{AllowanceSource, Outcome, Regulation, RunError, Scenario, run};

const PROGRAMS: u32 = 10;
const FILE: u64 = 2 << 30;
const SEEDS: u32 = 2;

/// A shorter version of scenarios/kochi2023-accuracy.toml.
fn scenario(keys: &[(&str, &str)]) -> Scenario {
    let text = "
        name = 'Kochi 2023, short'
        [run]
        until = 'first'
        warm_up = '5s'
        cool_down = '5s'
        [drive]
        model = 'scorpio-wd10tpvx'
        set = { 'queue.age_weight' = '0.09' }
        [queue]
        scheduler = 'noop'
        [regulate]
        policy = 'deadline'
        [[process]]
        name = 'target'
        rate = 20
        size = '2GiB'
        call = '4KiB'
        access = 'random'
        direct = true
        reads = 1000
        [[process]]
        name = 'other'
        count = 9
        size = '2GiB'
        call = '4KiB'
        access = 'random'
        direct = true
    ";
    let mut scenario = Scenario::from_toml(text, "test").unwrap_or_else(|error| panic!("{error}"));
    for (key, value) in keys {
        scenario.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    scenario
}

fn spec(scenario: &Scenario) -> DriveSpec {
    builtin(scenario.drive.model.as_ref().expect("a drive")).expect("a built-in drive").spec()
}

fn outcome(scenario: &Scenario, repetition: u32) -> Outcome {
    run(scenario, Some(&spec(scenario)), repetition).unwrap_or_else(|error| panic!("{error}"))
}

fn regulation(keys: &[(&str, &str)]) -> Regulation {
    let scenario = scenario(keys);
    let runs: Vec<Regulation> =
        (0..SEEDS).map(|seed| outcome(&scenario, seed).regulation.expect("it is regulated")).collect();
    Regulation::medians(&runs.iter().collect::<Vec<_>>()).expect("there are runs")
}

/// The reference: the same readers in a simple loop around the regulated drive.
struct Plain {
    device: RegulatedDevice<Drive>,
    random: Vec<Pcg64>,
    next_id: u64,
}

impl Plain {
    fn new(scenario: &Scenario, settings: Settings) -> Plain {
        let mut spec = spec(scenario);
        for (key, value) in &scenario.drive.set {
            spec.set(key, value).unwrap();
        }
        let mut seed = Pcg64::seed_from_u64(scenario.run.seed);
        let mut drive = Drive::new(&spec).unwrap();
        drive.turn_spindle(Nanos(seed.next_u64() % drive.revolution().0));
        let random = (0..PROGRAMS).map(|_| Pcg64::seed_from_u64(seed.next_u64())).collect();
        let mut device = RegulatedDevice::new(drive, settings);
        device.keep_timings();
        device.set_rate(Nanos::ZERO, Owner(0), Percent::new(20).unwrap()).unwrap();
        Plain { device, random, next_id: 0 }
    }

    fn ask(&mut self, now: Nanos, program: u32) {
        let place = self.random[program as usize].next_u64() % (FILE / 4096) * 4096;
        let extent = Extent::new(Lba((u64::from(program) * FILE + place) / 512), Sectors(8));
        let (id, stream) = (RequestId(self.next_id), StreamId(program));
        self.next_id += 1;
        let request = Request { id, stream, op: Op::Read, fua: false, extent, arrival: now };
        self.device.submit(now, request).unwrap();
    }

    /// Runs until the first program has done `ios` I/Os; returns its I/Os, and the ends of all programs' I/Os.
    fn run(mut self, ios: usize) -> (Vec<Timing>, Vec<Nanos>) {
        (0..PROGRAMS).for_each(|program| self.ask(Nanos::ZERO, program));
        let (mut timings, mut ends, mut done) = (Vec::new(), Vec::new(), Vec::new());
        while timings.len() < ios {
            let now = self.device.next_event().unwrap();
            self.device.advance(now, &mut done);
            self.device.take_timings(&mut timings);
            for completion in done.drain(..) {
                ends.push(completion.finish);
                self.ask(now, completion.request.stream.0);
            }
        }
        (timings, ends)
    }
}

#[test]
fn figures_are_those_of_the_regulated_drive_itself() {
    for (policy, settings) in
        [("deadline", Policy::Deadline.settings()), ("thesis", Policy::Thesis.settings())]
    {
        let scenario = scenario(&[("regulate.policy", policy)]);
        let regulation = outcome(&scenario, 0).regulation.unwrap();
        let (timings, ends) = Plain::new(&scenario, settings).run(1000);
        let (from, to) = (Nanos::SECOND * 5, *ends.last().unwrap() - Nanos::SECOND * 5);
        let counted: Vec<&Timing> = timings
            .iter()
            .filter(|timing| timing.arrived >= from && timing.arrived + timing.took < to)
            .collect();
        let count = counted.len() as f64;
        let ratios: Vec<f64> =
            counted.iter().map(|timing| timing.took.0 as f64 / timing.ideal.0 as f64).collect();
        let mean = counted.iter().map(|timing| timing.took.0 as f64).sum::<f64>() / count;
        let squares = counted.iter().map(|timing| (timing.took.0 as f64 - mean).powi(2)).sum::<f64>();
        let late = counted.iter().filter(|timing| timing.took > timing.ideal).count() as f64;
        let mut sorted = ratios.clone();
        sorted.sort_by(f64::total_cmp);

        let kept = &regulation.owners[0];
        assert_eq!((kept.name.as_str(), kept.ios), ("target", counted.len() as u64), "{policy}");
        assert_eq!(kept.accuracy, ratios.iter().sum::<f64>() / count, "{policy}");
        assert_eq!(kept.cov, (squares / count).sqrt() / mean, "{policy}");
        assert_eq!(kept.p99, sorted[counted.len() * 99 / 100], "{policy}");
        assert_eq!(kept.late, late / count, "{policy}");
        assert_eq!(regulation.measured, to - from, "{policy}");
        let all = ends.iter().filter(|&&end| end >= from && end < to).count() as f64;
        assert_eq!(regulation.iops, all / (to - from).as_secs_f64(), "{policy}");
    }
}

#[test]
fn the_same_seed_gives_the_same_outcome_and_another_one_another() {
    let scenario = scenario(&[("process.target.reads", "400")]);
    assert_eq!(outcome(&scenario, 0), outcome(&scenario, 0));
    assert_ne!(outcome(&scenario, 0), outcome(&scenario, 1));
}

#[test]
fn the_formula_misses_where_the_drive_reorders_and_the_correction_settles_below_it() {
    let long = ("process.target.reads", "2000");
    let formula = regulation(&[("regulate.policy", "formula"), long]);
    assert_eq!((formula.decided_by, formula.formula), (AllowanceSource::Formula, 4));
    assert_eq!((formula.allowance.course.as_slice(), formula.allowance.reached), ([(0, 4)].as_slice(), 4));
    assert!(formula.owners[0].accuracy > 1.1, "{}", formula.owners[0].accuracy);
    // Figures 6.3 and 6.6: on PC2 at 20 % from 4 to 3, with good accuracy.
    let thesis = regulation(&[("regulate.policy", "thesis"), long]);
    assert_eq!(thesis.reached, [3; SEEDS as usize]);
    assert!(thesis.owners[0].accuracy <= 1.1, "{}", thesis.owners[0].accuracy);
    assert!(thesis.iops < formula.iops);
    // Section 6.5: on PC2 at 15 % it settles at 4, one below the published best.
    let below = regulation(&[("regulate.policy", "thesis"), ("process.target.rate", "15"), long]);
    assert_eq!((below.formula, below.reached.as_slice()), (5, [4; SEEDS as usize].as_slice()));
}

#[test]
fn a_drive_that_keeps_the_order_needs_no_correction() {
    let first = [("drive.model", "scorpio-wd1200bevs"), ("drive.set.queue.policy", "fcfs")];
    for (rate, formula) in [("10", 9), ("20", 4), ("30", 2)] {
        let policy = ("regulate.policy", "thesis");
        let thesis = regulation(&[first[0], first[1], policy, ("process.target.rate", rate)]);
        assert_eq!(
            (thesis.formula, thesis.reached.as_slice()),
            (formula, [formula; SEEDS as usize].as_slice())
        );
        assert!(thesis.owners[0].accuracy <= 1.1, "{rate} %: {}", thesis.owners[0].accuracy);
    }
}

#[test]
fn ours_is_exact_and_constant() {
    for rate in ["15", "30"] {
        let ours = regulation(&[("process.target.rate", rate), ("process.target.reads", "1500")]);
        let kept = &ours.owners[0];
        assert!(
            (kept.accuracy - 1.0).abs() <= 0.03 && kept.cov <= 0.06 && kept.p99 <= 1.2,
            "{rate} %: {kept:?}"
        );
        assert_eq!(ours.decided_by, AllowanceSource::Deadlines);
    }
}

#[test]
fn several_programs_each_have_their_rate() {
    let several = scenario(&[("process.other.count", "2"), ("process.other.rate", "15")]);
    let several = outcome(&several, 0).regulation.unwrap();
    let rates: Vec<(&str, String)> =
        several.owners.iter().map(|kept| (kept.name.as_str(), kept.rate.to_string())).collect();
    let expected = [("target", "20 %"), ("other.1", "15 %"), ("other.2", "15 %")];
    assert_eq!(rates, expected.map(|(name, rate)| (name, rate.to_owned())));
    // Each of the two at 15 % waits for the other and for the one at 20 %: 100/15 - 2 - 1.
    assert_eq!(several.formula, 3);
    assert!(several.owners[1].ideal > several.owners[0].ideal);
}

#[test]
fn a_rate_by_time_is_that_time_whatever_the_device_needs() {
    let by_time = outcome(&scenario(&[("process.target.rate", "every 60ms")]), 0).regulation.unwrap();
    let kept = &by_time.owners[0];
    assert_eq!((kept.rate.to_string().as_str(), kept.ideal), ("every 60 ms", Nanos::MILLISECOND * 60));
    assert!((kept.accuracy - 1.0).abs() < 0.02, "{kept:?}");
    // 60 ms correspond to this many I/Os of the drive, one of which is its own.
    assert!((4..=10).contains(&by_time.formula), "{}", by_time.formula);
}

#[test]
fn without_a_rate_only_the_throughput_is_known() {
    let free = outcome(&scenario(&[("process.target.rate", "0")]), 0).regulation.unwrap();
    assert!(free.owners.is_empty() && free.iops > 0.0 && free.longest_other > Nanos::ZERO);
    let mut plain = scenario(&[("process.target.rate", "0")]);
    plain.regulate = None;
    assert_eq!(outcome(&plain, 0).regulation, None);
}

#[test]
fn what_cannot_be_kept_or_measured_is_refused_in_words() {
    let refused = |keys: &[(&str, &str)]| {
        let scenario = scenario(keys);
        run(&scenario, Some(&spec(&scenario)), 0).map(|_| ()).unwrap_err()
    };
    let words = |keys: &[(&str, &str)]| refused(keys).to_string();
    assert!(matches!(refused(&[("process.other.rate", "20")]), RunError::Rate { .. }));
    assert!(words(&[("process.other.rate", "20")]).starts_with("the rate of process other."));
    assert!(words(&[("process.target.rate", "101")]).contains("process.0.rate: 1 to 100 percent"));
    assert!(words(&[("run.warm_up", "1h")]).contains("run.warm_up and run.cool_down"));
    assert!(words(&[("drive.set.queue.depth", "4"), ("regulate.depth", "8")]).contains("takes 4 requests"));
    assert!(words(&[("process.other.count", "2000")]).contains("1000 programs at most"));
    assert!(words(&[("process.other.count", "0")]).contains("process.1.count: at least 1"));
    assert!(words(&[("run.until", "all")]).contains("never ends; give it `reads`"));
    let late = [("process.other.rate", "5"), ("process.other.count", "1"), ("process.other.start", "10h")];
    assert!(words(&late).contains("process other has a rate and no I/O within"));
}

#[test]
fn every_value_that_the_files_vary_is_possible() {
    for text in [
        include_str!("../../../../scenarios/kochi2023-accuracy.toml"),
        include_str!("../../../../scenarios/kochi2023-allowance.toml"),
        include_str!("../../../../scenarios/kochi2023-release.toml"),
        include_str!("../../../../scenarios/kochi2023-several.toml"),
    ] {
        let base = Scenario::from_toml(text, "a file").unwrap_or_else(|error| panic!("{error}"));
        let programs: u32 = base.process.iter().map(|process| process.count).sum();
        assert_eq!(programs, PROGRAMS, "{}", base.name);
        for (key, values) in &base.vary {
            for value in values {
                let mut scenario = base.clone();
                scenario.set(key, value).unwrap_or_else(|error| panic!("{}: {error}", base.name));
                scenario.check().unwrap_or_else(|error| panic!("{}: {key}={value}: {error}", base.name));
            }
        }
        for published in &base.published {
            for (key, value) in &published.at {
                assert!(base.vary[key].contains(value), "{}: {key} is never {value}", base.name);
            }
        }
    }
}

#[test]
fn a_shallow_device_is_given_no_more_than_it_takes() {
    let shallow = scenario(&[("drive.set.queue.depth", "1"), ("process.target.reads", "300")]);
    let kept = outcome(&shallow, 0).regulation.unwrap();
    assert!(kept.owners[0].accuracy >= 1.0 && kept.iops > 0.0);
}
