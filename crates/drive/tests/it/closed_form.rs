//! Cases with a closed-form result (`docs/explanation/model.md`, "Checks with closed answers").

use crate::common::{ALONE, Random, bare, read, run, run_iter, sustained, with, write};
use sakiyomi_drive::replay::Pace;
use sakiyomi_drive::spec::{BUILTIN, DriveSpec, SeekSpec};
use sakiyomi_drive::{Drive, Geometry};
use sakiyomi_model::{Device, Lba, Nanos};

const REVOLUTION_MS: f64 = 10.0;

/// Returns the mean seek time over all ordered pairs of uniformly distributed addresses, in milliseconds.
fn expected_seek_ms(spec: &DriveSpec) -> f64 {
    let SeekSpec::Datasheet { track_to_track, average, full_stroke } = spec.servo.seek else {
        unreachable!()
    };
    let [least, mean, most] = [track_to_track, average, full_stroke].map(Nanos::as_millis_f64);
    let n = 3999.0f64;
    let root = (15.0 * mean - 10.0 * least - 5.0 * most) / (3.0 * n.sqrt());
    let linear = (7.0 * least - 15.0 * mean + 8.0 * most) / (3.0 * n);
    let seek = |d: f64| if d == 0.0 { 0.0 } else { root * (d - 1.0).sqrt() + linear * (d - 1.0) + least };
    // Zone 0 holds 5/8 of the addresses, zone 1 the rest, each over 2000 cylinders. Every fifth cylinder is sampled.
    let weight = |c: u32| if c < 2000 { 5.0 / 8.0 } else { 3.0 / 8.0 };
    let cylinders = || (0..4000u32).step_by(5);
    let (mut sum, mut weights) = (0.0, 0.0);
    for from in cylinders() {
        for to in cylinders() {
            let w = weight(from) * weight(to);
            sum += w * seek(f64::from(from.abs_diff(to)));
            weights += w;
        }
    }
    sum / weights
}

#[test]
fn random_reads_alone_take_seek_plus_half_a_turn_plus_transfer() {
    let spec = with(&[("interface.overhead.read_miss", "0.4ms")]);
    let capacity = Drive::new(&spec).unwrap().capacity().0;
    let mut random = Random::new(7);
    let reads = (0..40_000).map(|_| read(random.below(capacity / 8) * 8, 8));
    let (summary, _) = run_iter(&spec, ALONE, reads);
    let transfer = 8.0 * REVOLUTION_MS * (5.0 / 8.0 / 500.0 + 3.0 / 8.0 / 300.0);
    let expected = 0.4 + expected_seek_ms(&spec) + REVOLUTION_MS / 2.0 + transfer;
    let mean = summary.tally.response(|_| true).mean().as_millis_f64();
    assert!((mean / expected - 1.0).abs() < 0.01, "simulated {mean} ms, expected {expected} ms");
}

#[test]
fn sequential_reads_run_at_the_sustained_rate_on_every_builtin_drive() {
    for builtin in BUILTIN {
        let spec = builtin.spec();
        let expected = sustained(&spec);
        let reads = (0..4000u64).map(|i| read(i * 256, 256));
        let (summary, host) = run_iter(&spec, ALONE, reads);
        let rate = summary.tally.counts.read_bytes.0 as f64 / host.end.as_secs_f64();
        assert!(
            (rate / expected - 1.0).abs() < 0.01,
            "{}: {rate:.0} B/s, expected {expected:.0}",
            builtin.id
        );
    }
}

/// Returns the rate of sequential writes into a full cache, in megabytes per second.
fn sequential_writes(spec: &DriveSpec, sectors: u64, outstanding: usize) -> f64 {
    let fill = spec.cache.write.limit.0 / 512 / sectors;
    let more = (1 << 17) / sectors;
    let until = |count: u64| {
        let writes = (0..count).map(|i| write(i * sectors, sectors));
        run_iter(spec, Pace::Closed { outstanding }, writes).1.end.as_secs_f64()
    };
    (more * sectors * 512) as f64 / (until(2 * fill + more) - until(2 * fill)) / 1e6
}

#[test]
fn cached_sequential_writes_run_at_the_sustained_rate_on_every_builtin_drive() {
    for builtin in BUILTIN {
        let spec = builtin.spec();
        if spec.smr.is_some() {
            // Its media cache lies in the slowest zone.
            continue;
        }
        let expected = sustained(&spec) / 1e6;
        for (sectors, outstanding) in [(128, 1), (128, 8), (2048, 4)] {
            let rate = sequential_writes(&spec, sectors, outstanding);
            let what = format!("{}: {outstanding} of {sectors} sectors", builtin.id);
            assert!((rate / expected - 1.0).abs() < 0.02, "{what}: {rate:.1} MB/s, expected {expected:.1}");
        }
    }
}

#[test]
fn cached_sequential_writes_lose_no_turn_to_settling_where_skews_are_the_default() {
    let settings = [
        ("servo.write_settle", "0.5ms"),
        ("cache.write.enabled", "true"),
        ("cache.write.limit", "512KiB"),
        ("cache.write.destage_max", "128KiB"),
    ];
    let spec = with(&settings);
    let (rate, expected) = (sequential_writes(&spec, 64, 2), sustained(&spec) / 1e6);
    assert!((rate / expected - 1.0).abs() < 0.02, "{rate:.1} MB/s, expected {expected:.1}");
}

#[test]
fn back_to_back_sequential_writes_without_cache_cost_a_revolution_each() {
    let writes: Vec<_> = (0..40).map(|i| write(i * 8, 8)).collect();
    let (summary, host) = run(&with(&[("interface.overhead.write_miss", "0.1ms")]), ALONE, &writes);
    // Each write just misses its first sector because of the processing time: a revolution, and the transfer.
    let expected = 40.0 * (REVOLUTION_MS + 8.0 * REVOLUTION_MS / 500.0);
    let took = host.end.as_millis_f64();
    assert!((took / expected - 1.0).abs() < 0.001, "{took} ms, expected {expected} ms");
    assert_eq!(summary.usage.seeks.write, 40);
}

#[test]
fn throughput_never_falls_with_queue_depth_under_plain_sptf() {
    let capacity = Drive::new(&bare()).unwrap().capacity().0;
    let mut before = 0.0;
    for depth in [1usize, 2, 4, 8, 16, 32, 64, 128] {
        let spec = with(&[("queue.depth", "256")]);
        let mut random = Random::new(11);
        let reads = (0..20_000).map(|_| read(random.below(capacity / 8) * 8, 8));
        let (summary, host) = run_iter(&spec, Pace::Closed { outstanding: depth }, reads);
        let iops = summary.tally.counts.commands as f64 / host.end.as_secs_f64();
        assert!(iops > before * 0.99, "depth {depth}: {iops} after {before}");
        before = iops;
    }
    assert!(before > 180.0, "SPTF at depth 128 should more than double the 70 IOPS of depth 1: {before}");
}

#[test]
fn the_mechanism_s_time_adds_up_to_the_elapsed_time_in_every_chunk() {
    for builtin in BUILTIN {
        let spec = builtin.spec();
        let capacity = Drive::new(&spec).unwrap().capacity().0;
        let mut random = Random::new(3);
        let mut next = 0;
        let arrivals: Vec<_> = (0..3000u64)
            .map(|i| {
                next = if random.below(3) == 0 {
                    random.below(capacity - 4096)
                } else {
                    next + random.below(300)
                };
                let sectors = 1 + random.below(256);
                let arrival = if random.below(3) == 0 { write(next, sectors) } else { read(next, sectors) };
                crate::common::at(i as f64 * 12.0 + random.below(100) as f64, arrival)
            })
            .collect();
        let mut arrivals = arrivals;
        arrivals.sort_by_key(|arrival| arrival.at);
        let (summary, host) = run(&spec, Pace::Open, &arrivals);
        assert_eq!(summary.usage.time.total(), host.end, "{}", builtin.id);
        for point in summary.series.points() {
            assert_eq!(point.usage.time.total(), point.end - point.start, "{}", builtin.id);
        }
        let commands: u64 = summary.series.points().iter().map(|point| point.counts.commands).sum();
        assert_eq!(commands, 3000);
    }
}

#[test]
fn a_skew_that_is_a_sector_too_small_costs_a_revolution_at_every_track() {
    let time = |skew: &str| {
        let spec = with(&[("geometry.zones.0.track_skew", skew)]);
        run(&spec, ALONE, &[read(0, 2000)]).1.end.as_millis_f64()
    };
    // A head switch takes 1 ms: 50 of 500 sectors. A cylinder has three of them.
    assert!((time("50") - (40.0 + 3.0)).abs() < 0.001, "{}", time("50"));
    assert!((time("49") - (40.0 + 3.0 * 10.98)).abs() < 0.001, "{}", time("49"));
    assert!((time("60") - (40.0 + 3.0 * 1.2)).abs() < 0.001, "{}", time("60"));
}

#[test]
fn lba_zero_lies_under_head_zero_at_the_index() {
    let spec = bare();
    let run = Geometry::new(&spec.geometry, &spec.servo).run(Lba(0), u64::MAX);
    assert_eq!((run.cylinder, run.head, run.first, run.sectors, run.angle), (0, 0, 0, 500, Nanos::ZERO));
}
