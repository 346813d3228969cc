//! Simulation speed in commands per second, without logs. `cargo bench -p sakiyomi-drive`; the target figures are in
//! `docs/results/simulation-speed.md`.
//!
//! The traces are generated in advance; drive, replay and statistics are measured, as `sim` runs them.

use std::path::Path;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use rand_core::Rng;
use sakiyomi_drive::observe::{Chunking, Observation, Summary};
use sakiyomi_drive::replay::{Arrival, Pace, Replay};
use sakiyomi_drive::spec::{DriveSpec, builtin};
use sakiyomi_drive::{Disk, Simulated};
use sakiyomi_model::{Bytes, Extent, Lba, Nanos, Op, Sectors, StreamId};
use sakiyomi_trace::generate::pc::PcParams;
use sakiyomi_trace::{ReadOptions, Trace};

fn main() {
    divan::main();
}

fn drive(settings: &[(&str, &str)]) -> DriveSpec {
    let mut spec = builtin("deskstar-7k250").expect("a built-in drive").spec();
    settings.iter().for_each(|(key, value)| spec.set(key, value).expect("a setting"));
    spec
}

fn read(lba: u64, sectors: u64) -> Arrival {
    Arrival {
        at: Nanos::ZERO,
        think: Nanos::ZERO,
        stream: StreamId(0),
        op: Op::Read,
        fua: false,
        extent: Extent::new(Lba(lba), Sectors(sectors)),
    }
}

fn replay(spec: &DriveSpec, pace: Pace, arrivals: &[Arrival]) -> Summary {
    match Disk::new(spec).expect("a drive") {
        Disk::Drive(mut drive) => replay_on(&mut *drive, pace, arrivals),
        Disk::Array(mut array) => replay_on(&mut *array, pace, arrivals),
    }
}

fn replay_on(drive: &mut impl Simulated, pace: Pace, arrivals: &[Arrival]) -> Summary {
    let mut observation = Observation::new(Chunking::Time(Nanos::SECOND), Nanos::ZERO, Bytes(512));
    let arrivals = arrivals.iter().copied().map(Ok::<_, std::convert::Infallible>);
    let host = Replay { pace, host_queue: 1 << 20 }.run(drive, arrivals, &mut observation).expect("no error");
    observation.finish(drive, host.end)
}

/// 99 of 100 reads hit data that an earlier read of the stream left in the buffer.
#[divan::bench]
fn hits(bencher: Bencher<'_, '_>) {
    const COMMANDS: usize = 400_000;
    let mut random = rand_pcg::Pcg64::new(1, 1);
    let reads: Vec<Arrival> = (0..COMMANDS)
        .map(|i| {
            let place =
                if i % 100 == 0 { random.next_u64() % 8 * 1_000_000 } else { random.next_u64() % 120 * 8 };
            read(place, 8)
        })
        .collect();
    let spec = drive(&[("cache.read_ahead.max", "512KiB"), ("cache.read_ahead.min", "512KiB")]);
    let hit_ratio = replay(&spec, Pace::Closed { outstanding: 1 }, &reads).tally.counts.hit_ratio();
    assert!(hit_ratio >= 0.95, "{hit_ratio}");
    bencher
        .counter(ItemsCount::new(COMMANDS))
        .bench_local(|| black_box(replay(black_box(&spec), Pace::Closed { outstanding: 1 }, &reads)));
}

/// Random reads over the whole drive, with SPTF over 32 queued commands.
#[divan::bench]
fn misses_sptf_32(bencher: Bencher<'_, '_>) {
    const COMMANDS: usize = 200_000;
    let mut random = rand_pcg::Pcg64::new(2, 1);
    let reads: Vec<Arrival> = (0..COMMANDS).map(|_| read(random.next_u64() % 60_000_000 * 8, 8)).collect();
    let spec = drive(&[("queue.depth", "32"), ("queue.policy", "sptf"), ("cache.read_ahead.mode", "off")]);
    bencher
        .counter(ItemsCount::new(COMMANDS))
        .bench_local(|| black_box(replay(black_box(&spec), Pace::Closed { outstanding: 32 }, &reads)));
}

/// Random reads alone, each of which evicts a segment, by the number of segments.
#[divan::bench(args = [1, 16, 256, 4096])]
fn misses_by_segments(bencher: Bencher<'_, '_>, segments: u32) {
    const COMMANDS: usize = 100_000;
    let mut random = rand_pcg::Pcg64::new(3, 1);
    let reads: Vec<Arrival> = (0..COMMANDS).map(|_| read(random.next_u64() % 60_000_000 * 8, 8)).collect();
    let segments = segments.to_string();
    let spec = drive(&[("cache.size", "64MiB"), ("cache.segments.count", &segments)]);
    bencher
        .counter(ItemsCount::new(COMMANDS))
        .bench_local(|| black_box(replay(black_box(&spec), Pace::Closed { outstanding: 1 }, &reads)));
}

/// Random reads with SPTF, by queue depth.
#[divan::bench(args = [1, 32, 256])]
fn misses_sptf(bencher: Bencher<'_, '_>, depth: usize) {
    misses_by_depth(bencher, "sptf", depth);
}

/// Random reads with FCFS, by queue depth.
#[divan::bench(args = [1, 32, 256])]
fn misses_fcfs(bencher: Bencher<'_, '_>, depth: usize) {
    misses_by_depth(bencher, "fcfs", depth);
}

fn misses_by_depth(bencher: Bencher<'_, '_>, policy: &str, depth: usize) {
    const COMMANDS: usize = 100_000;
    let mut random = rand_pcg::Pcg64::new(4, 1);
    let reads: Vec<Arrival> = (0..COMMANDS).map(|_| read(random.next_u64() % 60_000_000 * 8, 8)).collect();
    let text = depth.to_string();
    let spec = drive(&[("queue.depth", &text), ("queue.policy", policy), ("cache.read_ahead.mode", "off")]);
    bencher
        .counter(ItemsCount::new(COMMANDS))
        .bench_local(|| black_box(replay(black_box(&spec), Pace::Closed { outstanding: depth }, &reads)));
}

/// Requests of 4 KiB at random places, a third of them writes, on one drive and on arrays of four: RAID 5 and 6 read before
/// they write.
#[divan::bench(args = ["single", "raid0:4", "raid5:4", "raid6:4", "raid10:4"])]
fn arrays(bencher: Bencher<'_, '_>, array: &str) {
    const COMMANDS: usize = 100_000;
    let mut random = rand_pcg::Pcg64::new(5, 1);
    let requests: Vec<Arrival> = (0..COMMANDS)
        .map(|number| Arrival {
            op: if number % 3 == 0 { Op::Write } else { Op::Read },
            ..read(random.next_u64() % 60_000_000 * 8, 8)
        })
        .collect();
    let mut spec = drive(&[]);
    spec.array = (array != "single").then(|| array.parse().expect("an array"));
    bencher
        .counter(ItemsCount::new(COMMANDS))
        .bench_local(|| black_box(replay(black_box(&spec), Pace::Closed { outstanding: 8 }, &requests)));
}

/// The desktop workload of `trace generate pc`. An item is a simulated second, so items per second is the speedup over
/// real time.
#[divan::bench]
fn pc_seconds(bencher: Bencher<'_, '_>) {
    let records = PcParams::default().records(1).expect("the default parameters are valid");
    let commands: Vec<Arrival> = records
        .map(|record| Arrival {
            at: record.time,
            op: record.op,
            ..read(record.offset.0 / 512, record.length.0 / 512)
        })
        .collect();
    let spec = drive(&[("cache.read_ahead.max", "384KiB"), ("cache.read_ahead.min", "384KiB")]);
    let simulated = commands.last().map_or(Nanos::ZERO, |last| last.at).as_secs_f64();
    bencher
        .counter(ItemsCount::new(simulated as u64))
        .bench_local(|| black_box(replay(black_box(&spec), Pace::Open, &commands)));
}

/// DiskSim's measured drives and their traces, repeated ten times. DiskSim itself simulates 17 to 30 thousand commands
/// per second of the cheetah9LP.
#[divan::bench(args = ["atlas_III", "barracuda", "cheetah9LP", "hp_c2247a", "hp_c2490a"])]
fn measured_drive(bencher: Bencher<'_, '_>, name: &str) {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    let beside = |file: &str| {
        std::fs::read_to_string(traces.join("disksim").join(file)).map_err(|error| error.to_string())
    };
    let folder = if name == "cheetah9LP" { "" } else { "disksim" };
    let path = traces.join(folder).join(format!("{name}.trace.gz"));
    let trace = Trace::open(path, &ReadOptions::default()).expect("the trace is in the repository");
    let once: Vec<Arrival> = trace
        .map(|record| record.expect("the trace is whole"))
        .map(|record| Arrival {
            op: record.op,
            think: record.think.unwrap_or_default(),
            ..read(record.offset.0 / 512, record.length.0 / 512)
        })
        .collect();
    let commands = once.repeat(10);
    let [disk, system] = ["diskspecs", "parv"].map(|kind| format!("{name}.{kind}"));
    let [text, above] = [&disk, &system].map(|file| beside(file).expect("it is in the repository"));
    let spec = DriveSpec::from_disksim(&text, &disk, Some((&above, &system)), &mut |file| beside(file))
        .expect("a possible drive")
        .spec;
    bencher
        .counter(ItemsCount::new(commands.len()))
        .bench_local(|| black_box(replay(black_box(&spec), Pace::Closed { outstanding: 1 }, &commands)));
}
