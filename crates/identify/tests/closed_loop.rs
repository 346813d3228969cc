//! Drives that the identification has not seen, through `model::Device` only, in virtual time.
//!
//! `SAKIYOMI_SECRET_DRIVES=30 cargo test --release -p sakiyomi-identify --test closed_loop` tries more of them.

use std::collections::VecDeque;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_drive::fixed::{Fixed, FixedSpec};
use sakiyomi_drive::spec::{BUILTIN, Consumed, DriveSpec};
use sakiyomi_drive::{Drive, Geometry};
use sakiyomi_identify::{Action, Survey, Surveyed, fit, flat, heads, rotation, zones};
use sakiyomi_model::{Device, Lba, Nanos, Op, Request, RequestId, StreamId};
use sakiyomi_validate::{Pace, free, judge};

const BASE: &str = r#"
    name = "base"
    queue.depth = 8
    cache = { size = "256KiB", segments = { count = 4 }, read_ahead = { mode = "segment" }, write = { limit = "64KiB" } }
    [geometry]
    sector = "512B"
    heads = 4
    zones = [
        { cylinders = 1000, sectors_per_track = 240 },
        { cylinders = 1000, sectors_per_track = 180 },
    ]
    [servo]
    rpm = 7200
    head_switch = "1ms"
    seek = { curve = "datasheet", track_to_track = "1ms", average = "8ms", full_stroke = "16ms" }
"#;

/// Surveys a device in virtual time.
fn surveyed(device: &mut dyn Device, until: Nanos, seed: u64) -> Surveyed {
    let mut survey = Survey::new(device.capacity(), device.sector(), until, seed);
    let (mut now, mut host, mut done) = (Nanos::ZERO, VecDeque::new(), Vec::new());
    loop {
        while let Some(request) = host.pop_front() {
            if let Err(full) = device.submit(now, request) {
                host.push_front(full.0);
                break;
            }
        }
        let to = match survey.poll(now) {
            Action::Finished => return survey.into_surveyed(),
            Action::Read(probe) => {
                let (id, extent) = (RequestId(probe.id), probe.extent);
                host.push_back(Request {
                    id,
                    stream: StreamId(0),
                    op: Op::Read,
                    fua: false,
                    extent,
                    arrival: now,
                });
                continue;
            }
            Action::Pause(until) => device.next_event().map_or(until, |event| event.min(until)),
            Action::Await => device.next_event().expect("a read is in flight"),
        };
        now = to.max(now);
        device.advance(now, &mut done);
        for completion in done.drain(..) {
            survey.completed(completion.request.id.0, completion.request.arrival, completion.finish);
        }
    }
}

/// Numbers in a range.
struct Chance(Pcg64);

impl Chance {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.0.next_u64() as usize % all.len()]
    }
}

/// A drive with parameters and policies of its own.
fn secret(seed: u64) -> DriveSpec {
    let mut chance = Chance(Pcg64::seed_from_u64(seed));
    let nominal: f64 = chance.one_of(&["4200", "5400", "5900", "7200", "10000", "15000"]).parse().unwrap();
    let rpm = nominal * chance.between(0.998, 1.002);
    let track_to_track = chance.between(0.5, 2.0);
    let average = track_to_track + chance.between(3.0, 8.0);
    let full = average * chance.between(1.8, 2.2);
    let curve = format!(
        "{{ curve = \"datasheet\", track_to_track = \"{track_to_track:.3}ms\", average = \"{average:.3}ms\", \
         full_stroke = \"{full:.3}ms\" }}"
    );
    let settings = [
        ("servo.rpm", rpm.to_string()),
        ("servo.seek", curve),
        ("interface.overhead.read_miss", format!("{:.0}us", chance.between(50.0, 1500.0))),
        ("interface.overhead.read_hit", format!("{:.0}us", chance.between(30.0, 600.0))),
        ("interface.link_rate", format!("{:.0}MB", chance.between(20.0, 150.0))),
        ("cache.read_ahead.after_sequential", chance.one_of(&["0", "1", "2"]).to_owned()),
        ("cache.segments.consumed", chance.one_of(&["keep", "overwrite", "discard"]).to_owned()),
        ("cache.segments.count", chance.one_of(&["1", "2", "4"]).to_owned()),
    ];
    let base = DriveSpec::from_toml(BASE, "base").unwrap();
    base.with_settings(settings.iter().map(|(key, value)| (*key, value.as_str()))).unwrap()
}

/// Number of drives that are fitted, which takes long.
fn secrets() -> u64 {
    std::env::var("SAKIYOMI_SECRET_DRIVES").map_or(1, |count| count.parse().expect("a number of drives"))
}

#[test]
#[allow(clippy::print_stdout)] // the drives without a result, with --nocapture
fn the_rotation_of_a_drive_is_within_its_interval_or_not_stated() {
    let count = 20;
    let (mut within, mut found) = (0, 0);
    for seed in 0..count {
        let spec = secret(seed);
        let survey = surveyed(&mut Drive::new(&spec).unwrap(), Nanos(60_000_000_000), seed);
        let rpm = spec.servo.rpm;
        let Some(rotation) = rotation(&survey.returns) else {
            println!("{seed}: {rpm} rpm not found in {} ends", survey.returns.len());
            continue;
        };
        let [low, high] = rotation.interval;
        assert!((high - low) / rpm < 0.001, "{seed}: {rotation:?}");
        // A revolution is a whole number of nanoseconds in the simulation.
        let resolution = rpm * rpm / 60e9;
        found += 1;
        within += u64::from((low - resolution..=high + resolution).contains(&rpm));
    }
    println!("{within} of {found} intervals hold, {count} drives");
    assert!(found * 2 > count && within * 100 >= found * 95, "{within} of {found} of {count}");
}

#[test]
fn storage_without_a_mechanism_is_not_taken_for_a_disk_and_its_parameters_are_found() {
    for text in [
        "fixed:latency=2ms,parallel=8,bandwidth=200MB,size=10GB",
        "fixed:latency=100us,parallel=32,bandwidth=2GB,size=10GB",
        "fixed:latency=500us,parallel=1,bandwidth=100MB,spread=0.3,size=10GB",
        "fixed:latency=1ms,parallel=4,size=10GB",
    ] {
        let truth: FixedSpec = text.parse().unwrap();
        let found = surveyed(&mut Fixed::new(truth, 7), Nanos(600_000_000_000), 3);
        assert_eq!(rotation(&found.returns), None, "{text}");
        let found = flat(&found).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() <= 0.05 * b;
        assert!(near(found.latency.0 as f64, truth.latency.0 as f64), "{text}: {found:?}");
        assert!(near(f64::from(found.parallel), f64::from(truth.parallel)), "{text}: {found:?}");
        assert_eq!(found.bandwidth.is_some(), truth.bandwidth.is_some(), "{text}: {found:?}");
        if let (Some(own), Some(real)) = (found.bandwidth, truth.bandwidth) {
            assert!(near(own.0 as f64, real.0 as f64), "{text}: {found:?}");
        }
        assert!((found.spread - truth.spread).abs() < 0.06, "{text}: {found:?}");
    }
}

#[test]
#[allow(clippy::print_stdout)] // the figures of each drive, with --nocapture
fn a_drive_fitted_to_its_own_survey_predicts_other_requests() {
    let (mut known, mut inside, mut ratios) = (0, 0, Vec::new());
    for seed in 100..100 + secrets() {
        let spec = secret(seed);
        let survey = |seed| surveyed(&mut Drive::new(&spec).unwrap(), Nanos(60_000_000_000), seed);
        let found = survey(seed);
        let mut start = DriveSpec::from_toml(BASE, "base").unwrap();
        start.servo.rpm = rotation(&found.returns).unwrap().rpm;
        let course = &found.course[..found.course.len().min(900)];
        let fitted = fit(&start, course, Pace::Closed, &mut |_| true).unwrap();
        let entries = spec.entries();
        let real = |key: &str| entries.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str());
        for estimate in fitted.parameters.iter().filter(|estimate| estimate.obstacle.is_none()) {
            let Some(real) = real(&estimate.key).and_then(|value| value.parse::<Nanos>().ok()) else {
                continue;
            };
            let Some([low, high]) = estimate.interval else { continue };
            known += 1;
            inside += u32::from((low..=high).contains(&(real.0 as f64)));
            println!("{seed}: {} {real} in {low:.0} to {high:.0}", estimate.key);
        }
        for policy in fitted.policies.iter().filter(|policy| policy.is_identified()) {
            if real(policy.key) != Some(&policy.to) {
                println!("{seed}: {} = {}, really {:?}", policy.key, policy.to, real(policy.key));
            }
        }
        // Other places, other pauses.
        let fresh = survey(seed + 1_000).course;
        let simulated = free(Drive::new(&fitted.spec).unwrap(), &fresh, Pace::Closed);
        let judged = judge(&fresh, &simulated, 0..fresh.len());
        println!("{seed}: rms {:.4} of the mean, {:?}", judged.rms_ratio, fitted.accepted);
        let unfitted =
            judge(&fresh, &free(Drive::new(&start).unwrap(), &fresh, Pace::Closed), 0..fresh.len());
        println!("{seed}: rms {:.4} of the mean before", unfitted.rms_ratio);
        ratios.push((judged.rms_ratio, unfitted.rms_ratio));
    }
    println!("{inside} of {known} intervals hold");
    assert!(ratios.iter().all(|(fitted, before)| fitted < before), "{ratios:?}");
}

#[test]
fn zones_skews_and_heads_are_found_by_the_angles_of_sectors() {
    let built_in = BUILTIN.iter().map(|drive| drive.spec()).filter(|spec| spec.smr.is_none());
    for (seed, spec) in (0..).zip(built_in.chain((0..6).map(secret))) {
        let name = &spec.name;
        let survey = surveyed(&mut Drive::new(&spec).unwrap(), Nanos(600_000_000_000), seed);
        let geometry = Geometry::new(&spec.geometry, &spec.servo);
        let found = zones(&survey.tracks);
        let lengths =
            |lengths: Vec<u32>| -> Vec<u32> { lengths.chunk_by(|a, b| a == b).map(|same| same[0]).collect() };
        let real = lengths(spec.geometry.zones.iter().map(|zone| zone.sectors_per_track).collect());
        let own = lengths(found.iter().map(|zone| zone.sectors_per_track.round() as u32).collect());
        assert_eq!(own, real, "{name}");
        for zone in &found {
            let [before, after] = zone.start.map(|at| geometry.run(at, 1));
            let length = zone.sectors_per_track.round() as u32;
            assert!(before.lba == Lba(0) || before.track_sectors != length, "{name}: {zone:?}");
            assert_eq!(after.track_sectors, length, "{name}: {zone:?}");
            // A place that could be its neighbor's by chance is none.
            let [low, high] = zone.interval;
            assert!(high - low < 0.2 && (low..high).contains(&f64::from(length)), "{name}: {zone:?}");
        }
        let heads = heads(&survey.tracks);
        assert!(heads.is_none_or(|heads| heads == spec.geometry.heads), "{name}: {heads:?}");
    }
}

#[test]
fn read_ahead_and_segments_are_found_by_what_is_served_at_once() {
    for seed in 0..10 {
        let spec = secret(seed);
        let found = surveyed(&mut Drive::new(&spec).unwrap(), Nanos(300_000_000_000), seed).cache;
        let (segments, read_ahead) = (&spec.cache.segments, &spec.cache.read_ahead);
        assert_eq!(found.after_sequential, Some(read_ahead.after_sequential), "{seed}: {found:?}");
        assert_eq!(found.segments, Some([segments.count, segments.count + 1]), "{seed}: {found:?}");
        let [low, high] = found.ahead.unwrap().map(|sectors| sectors.0 * 512);
        let segment = spec.cache.size.0 / u64::from(segments.count);
        // A page more or less, by whether what was read is kept.
        assert!((low..=high).contains(&segment), "{seed}: {found:?}, really {segment}");
        let is_gone = segments.consumed == Consumed::Discard;
        assert_eq!(found.consumed == Some(Consumed::Discard), is_gone, "{seed}: {found:?}");
    }
}

#[test]
#[allow(clippy::print_stdout)] // the figures of each drive, with --nocapture
fn a_drive_is_identified_from_nothing_but_its_survey() {
    for seed in 200..200 + secrets() {
        let spec = secret(seed);
        let survey = |seed| surveyed(&mut Drive::new(&spec).unwrap(), Nanos(120_000_000_000), seed);
        let found = survey(seed);
        let device = Drive::new(&spec).unwrap();
        let rotation = rotation(&found.returns).unwrap();
        let start = found.drive(device.capacity(), device.sector(), &rotation).unwrap();
        let course = &found.course;
        let fitted = fit(&start, course, Pace::Closed, &mut |_| true).unwrap();
        let fresh = survey(seed + 1_000).course;
        let of = |spec: &DriveSpec| {
            judge(&fresh, &free(Drive::new(spec).unwrap(), &fresh, Pace::Closed), 0..fresh.len()).rms_ratio
        };
        println!("{seed}: rms {:.4} of the mean, before {:.4}", of(&fitted.spec), of(&start));
        println!("    {:?}", found.cache);
        let entries = spec.entries();
        for (key, value) in fitted.spec.entries() {
            let real = entries.iter().find(|(own, _)| *own == key).map(|(_, value)| value.as_str());
            if real != Some(&value) && !key.starts_with("geometry") {
                println!("    {key} = {value}, really {real:?}");
            }
        }
        // A drive of other tracks and times is off by 0.4 to 0.6.
        assert!(of(&fitted.spec) < 0.15, "{seed}: {}", of(&fitted.spec));
    }
}
