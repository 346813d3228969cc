//! Rates that were granted by the profile of a drive are kept, whatever the others do.

#[path = "../../examples/any_rival/world.rs"]
#[allow(dead_code)] // the example uses more of it
mod world;

use std::sync::Arc;

use sakiyomi_drive::fixed::{Fixed, FixedSpec};
use sakiyomi_drive::spec::builtin;
use sakiyomi_model::{
    Bytes, Completion, Device, Extent, Lba, Nanos, Op, Request, RequestId, Sectors, StreamId,
};
use sakiyomi_regulate::{Arrivals, Owner, Profile, RateError, RegulatedDevice, Requested, Settings, measure};
use world::{Figures, Mechanism, Outcome, Pattern, Process, Storage, Think, World, percent};

const FAST: &str = "deskstar-p7k500";
const SLOW: &str = "scorpio-wd1200bevs";

struct Bench {
    storage: Storage,
    profile: Arc<Profile>,
}

impl Bench {
    fn new(drive: &str) -> Bench {
        Bench::of(Storage::Disk(Box::new(builtin(drive).unwrap().spec())))
    }

    fn of(storage: Storage) -> Bench {
        let profile = storage.profile();
        Bench { storage, profile }
    }

    fn run(&self, processes: &[Process], seed: u64, ios: u32) -> Option<Outcome> {
        let (storage, profile, mechanism) = (&self.storage, &self.profile, Mechanism::Profile);
        World { storage, profile, mechanism, processes, span: 1.0, seed, ios }.run()
    }

    fn device(&self) -> RegulatedDevice<Box<dyn Device + Send>> {
        let drive = self.storage.device(1);
        RegulatedDevice::with_profile(drive, Settings::default(), Arc::clone(&self.profile), 0.0)
    }
}

fn is_kept(figures: &Figures) -> bool {
    (figures.accuracy - 1.0).abs() <= 0.03 && figures.cov <= 0.06 && figures.p99 <= 1.2
}

fn others(pattern: Pattern, op: Op) -> Vec<Process> {
    vec![Process { op, ..Process::other(pattern) }; 9]
}

fn back_to_back(rate: u32) -> Requested {
    Requested { arrivals: Arrivals::BackToBack, ..percent(rate) }
}

#[test]
fn a_random_reader_is_kept_beside_anything() {
    let beside = [
        (Pattern::Random(4 << 10), Op::Read),
        (Pattern::Random(1 << 20), Op::Read),
        (Pattern::Mixed, Op::Read),
        (Pattern::Sequential(64 << 10), Op::Read),
        (Pattern::Bursts, Op::Read),
        (Pattern::Random(4 << 10), Op::Write),
        (Pattern::Random(1 << 20), Op::Write),
    ];
    for (drive, rate, thinks) in [(FAST, 11, true), (SLOW, 34, true), (FAST, 58, false)] {
        let bench = Bench::new(drive);
        for (seed, (pattern, op)) in beside.into_iter().enumerate() {
            let ideal = percent(rate).rate.ideal(bench.profile.service());
            let owner = if thinks {
                Process::owner(percent(rate), Think::Random(ideal / 3))
            } else {
                Process::owner(back_to_back(rate), Think::None)
            };
            let outcome = bench.run(&[vec![owner], others(pattern, op)].concat(), seed as u64, 400).unwrap();
            let figures = outcome.worst();
            assert!(is_kept(&figures), "{drive}, {rate} % beside {pattern:?} {op:?}: {figures:?}");
            // Above 45 % hardly anything fits between two requests of the owner.
            assert!(outcome.others > 0.0 || rate > 45, "{drive}, {rate} %: nothing for {pattern:?}");
        }
    }
}

#[test]
fn a_sequential_reader_is_never_late() {
    let bench = Bench::new(SLOW);
    for pattern in [Pattern::Random(4 << 10), Pattern::Mixed] {
        for size in [4 << 10, 100 << 10] {
            let owner =
                Process { pattern: Pattern::Sequential(size), ..Process::owner(percent(31), Think::None) };
            let processes = [vec![owner], others(pattern, Op::Read)].concat();
            let figures = bench.run(&processes, 5, ((24 << 20) / size) as u32).unwrap().worst();
            assert!(figures.cov < 0.001 && figures.worst < 1.01, "{size} beside {pattern:?}: {figures:?}");
        }
    }
}

#[test]
fn several_owners_are_kept() {
    let bench = Bench::new(FAST);
    for rates in [&[3; 21][..], &[33, 18, 9], &[22, 22, 22]] {
        let owners = rates.iter().map(|&rate| Process::owner(percent(rate), Think::None));
        let processes: Vec<Process> = owners.chain(others(Pattern::Mixed, Op::Read)).collect();
        let figures = bench.run(&processes, 9, 200).unwrap().worst();
        let kept = figures.accuracy <= 1.05 && figures.cov <= 0.08 && figures.p99 <= 1.25;
        assert!(kept, "{rates:?}: {figures:?}");
    }
}

#[test]
fn the_ideal_time_does_not_depend_on_the_others() {
    let bench = Bench::new(FAST);
    let ideal = |beside: &[Process]| {
        let owner = vec![Process::owner(percent(20), Think::None)];
        bench.run(&[owner, beside.to_vec()].concat(), 3, 200).unwrap().worst().ideal_ms
    };
    let alone = ideal(&[]);
    // Sequential readers of 4 KiB hit the drive's cache nearly always.
    for beside in [Pattern::Random(4096), Pattern::Sequential(4096), Pattern::Random(1 << 20)] {
        assert_eq!(ideal(&others(beside, Op::Read)), alone, "{beside:?}");
    }
}

#[test]
fn what_cannot_be_kept_is_refused_with_what_can() {
    let bench = Bench::new(FAST);
    let mut device = bench.device();
    let error = device.set_rate(Nanos::ZERO, Owner(1), percent(80)).unwrap_err();
    let RateError::Late { best: Some(best), back_to_back: Some(more), others: false, .. } = error else {
        panic!("{error:?}")
    };
    let words = error.to_string();
    assert!(
        words.starts_with("80 % cannot be kept: each I/O has 15.75")
            && words.contains(&format!("; {best} can, and {more} if")),
        "{words}"
    );
    device.set_rate(Nanos::ZERO, Owner(1), best).unwrap();
    let RateError::Late { others: true, best: Some(second), .. } =
        device.set_rate(Nanos::ZERO, Owner(2), percent(70)).unwrap_err()
    else {
        panic!("it must name the existing rates")
    };
    device.set_rate(Nanos::ZERO, Owner(2), second).unwrap();
    // A refused rate has changed nothing; a cleared one is free again.
    device.clear_rate(Nanos::ZERO, Owner(2));
    device.set_rate(Nanos::ZERO, Owner(1), Requested { rate: more, arrivals: Arrivals::BackToBack }).unwrap();
    assert!(device.set_rate(Nanos::ZERO, Owner(1), percent(100)).is_err());
}

/// Runs four readers for a time; returns their I/Os.
fn four_readers(device: &mut RegulatedDevice<Box<dyn Device + Send>>, time: Nanos) -> u64 {
    let (mut now, mut ended, mut count) = (Nanos::ZERO, Vec::<Completion>::new(), 0u64);
    let read = |n: u64, now: Nanos| Request {
        id: RequestId(n),
        stream: StreamId(5000 + (n % 4) as u32),
        op: Op::Read,
        fua: false,
        extent: Extent::new(Lba(n * 7_919_993 % 900_000_000 / 8 * 8), Sectors(8)),
        arrival: now,
    };
    (0..4).for_each(|n| device.submit(now, read(n, now)).unwrap());
    while now < time {
        now = now.max(device.next_event().unwrap());
        device.advance(now, &mut ended);
        for _ in ended.drain(..) {
            count += 1;
            device.submit(now, read(count + 4, now)).unwrap();
        }
    }
    count
}

#[test]
fn a_thousand_idle_owners_of_best_effort_take_nothing_from_the_others() {
    let bench = Bench::new(FAST);
    let free = four_readers(&mut bench.device(), Nanos::SECOND * 20);
    let mut device = bench.device();
    for owner in 0..1000 {
        device.set_rate_anyway(Nanos::ZERO, Owner(owner), percent(1 + owner % 100)).unwrap();
    }
    let beside = four_readers(&mut device, Nanos::SECOND * 20);
    assert!(beside * 100 >= free * 95, "{beside} of {free}");
}

#[test]
fn the_profile_of_a_device_is_what_it_does() {
    let spec: FixedSpec = "latency=1ms,parallel=4".parse().unwrap();
    let profile = measure(&mut Fixed::new(spec, 1));
    let read = profile.random(Op::Read, Bytes(4096));
    assert_eq!((read.mean, read.variance), (1e6, 0.0));
    assert_eq!([profile.batch(4).mean, profile.behind(2).mean], [1e6, 1e6]);

    let drive = Bench::new(FAST).profile;
    assert_eq!(Arc::as_ref(&drive), Bench::new(FAST).profile.as_ref(), "it is deterministic");
    let sizes = [4, 64, 256, 1024].map(|kib| drive.random(Op::Read, Bytes(kib << 10)).mean);
    assert!(sizes.is_sorted(), "{sizes:?}");
    let [near, far] = [0.001, 0.5].map(|distance| drive.at_distance(Op::Read, distance, Bytes(4096)).mean);
    assert!(near < 0.6 * far, "{near} {far}");
    let continuing = drive.continuing(Op::Read, Bytes(64 << 10)).mean;
    assert!(continuing < 0.2 * near, "{continuing}");
}
