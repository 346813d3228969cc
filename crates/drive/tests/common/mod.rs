//! What the tests share: a small drive whose every figure is known, and ways to run it.
#![allow(dead_code)] // each test file uses its own part

use sakiyomi_drive::Drive;
use sakiyomi_drive::observe::{Chunking, Observation, Summary};
use sakiyomi_drive::replay::{Arrival, HostSide, Pace, Replay};
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::{Bytes, Extent, Lba, Nanos, Op, Sectors, StreamId};

/// 6000 rpm (10 ms a turn), 4 heads, two zones, no cache beyond a sector, no overhead, an instant link.
pub(crate) fn bare() -> DriveSpec {
    let toml = r#"
        name = "test drive"
        [geometry]
        sector = "512B"
        heads = 4
        [[geometry.zones]]
        cylinders = 2000
        sectors_per_track = 500
        [[geometry.zones]]
        cylinders = 2000
        sectors_per_track = 300
        [servo]
        rpm = 6000
        head_switch = "1ms"
        seek = { curve = "datasheet", track_to_track = "1.5ms", average = "8ms", full_stroke = "16ms" }
        [queue]
        depth = 32
        [cache]
        size = "1MiB"
        segments = { count = 16 }
        read_ahead = { mode = "off" }
        write = { enabled = false }
        [interface]
        link_rate = "1TB"
        overhead = { read_hit = "0", read_miss = "0", write_hit = "0", write_miss = "0", control = "0" }
    "#;
    DriveSpec::from_toml(toml, "test").expect("the test drive is possible")
}

/// `bare` with some keys set.
pub(crate) fn with(settings: &[(&str, &str)]) -> DriveSpec {
    let mut spec = bare();
    for (key, value) in settings {
        spec.set(key, value).expect("a setting of the test");
    }
    spec.check().expect("settings of the test fit");
    spec
}

pub(crate) fn request(op: Op, lba: u64, sectors: u64) -> Arrival {
    Arrival {
        at: Nanos::ZERO,
        think: Nanos::ZERO,
        stream: StreamId(0),
        op,
        fua: false,
        extent: Extent::new(Lba(lba), Sectors(sectors)),
    }
}

pub(crate) fn read(lba: u64, sectors: u64) -> Arrival {
    request(Op::Read, lba, sectors)
}

pub(crate) fn write(lba: u64, sectors: u64) -> Arrival {
    request(Op::Write, lba, sectors)
}

pub(crate) fn at(millis: f64, arrival: Arrival) -> Arrival {
    Arrival { at: Nanos::from_secs_f64(millis / 1e3), ..arrival }
}

/// Replays and observes.
pub(crate) fn run(spec: &DriveSpec, pace: Pace, arrivals: &[Arrival]) -> (Summary, HostSide) {
    run_iter(spec, pace, arrivals.iter().copied())
}

pub(crate) fn run_iter(spec: &DriveSpec, pace: Pace, arrivals: impl Iterator<Item = Arrival>) -> (Summary, HostSide) {
    let mut drive = Drive::new(spec).expect("a drive of the test");
    let mut observation = Observation::new(Chunking::Time(Nanos::SECOND), Nanos::ZERO, Bytes(512));
    let replay = Replay { pace, host_queue: 1 << 20 };
    let arrivals = arrivals.map(Ok::<_, std::convert::Infallible>);
    let host = replay.run(&mut drive, arrivals, &mut observation).expect("nothing fails here");
    (observation.finish(&drive, host.end), host)
}

pub(crate) const ALONE: Pace = Pace::Closed { outstanding: 1 };

/// A seeded stream of numbers, the same on every machine.
pub(crate) struct Random(rand_pcg::Pcg64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(rand_pcg::Pcg64::new(u128::from(seed), 0xa02bdbf7bb3c0a7))
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        use rand_core::Rng;
        self.0.next_u64() % bound
    }
}
