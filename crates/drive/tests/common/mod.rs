//! Shared by the tests: a small drive with known parameters, and functions that run it.
#![allow(dead_code)] // each test file uses its own part

use sakiyomi_drive::log::{CacheChange, CacheEvent, DiskCause, DiskEvent, Event};
use sakiyomi_drive::observe::{Chunking, Observation, Summary};
use sakiyomi_drive::replay::{Arrival, HostSide, Pace, Replay, ReplayObserver};
use sakiyomi_drive::spec::{DriveSpec, SeekSpec};
use sakiyomi_drive::{Drive, Geometry, Usage};
use sakiyomi_model::{
    Breakdown, Bytes, Class, Completion, Detail, Device, Extent, Lba, Nanos, Op, ReadClass, Sectors,
    StreamId, WriteClass,
};

pub(crate) const FULL_HIT: Class = Class::Read(ReadClass::FullHit);
pub(crate) const ACTIVE_HIT: Class = Class::Read(ReadClass::ActiveHit);
pub(crate) const NEAR_MISS: Class = Class::Read(ReadClass::NearMiss);
pub(crate) const PURGED_MISS: Class = Class::Read(ReadClass::PurgedMiss);
pub(crate) const PURE_MISS: Class = Class::Read(ReadClass::PureMiss);
pub(crate) const ABSORBED: Class = Class::Write(WriteClass::Absorbed);
pub(crate) const MEDIA: Class = Class::Write(WriteClass::Media);

/// 6000 rpm (10 ms per revolution), 4 heads, two zones, one sector of cache, no overhead, an infinitely fast link.
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

/// Returns `bare` with some keys set.
pub(crate) fn with(settings: &[(&str, &str)]) -> DriveSpec {
    let mut spec = bare();
    for (key, value) in settings {
        spec.set(key, value).expect("a setting of the test");
    }
    spec.check().expect("settings of the test fit");
    spec
}

/// Returns `bare` with a write cache of 128 sectors that destages only when it must, and some keys set.
pub(crate) fn writing(settings: &[(&str, &str)]) -> DriveSpec {
    let mut all = vec![
        ("cache.write.enabled", "true"),
        ("cache.write.limit", "64KiB"),
        ("cache.write.high_watermark", "1"),
        ("cache.write.low_watermark", "1"),
        ("cache.write.idle_delay", "0"),
        ("cache.write.max_age", "0"),
    ];
    all.extend(settings);
    with(&all)
}

/// One revolution of `bare`, in nanoseconds.
pub(crate) const TURN: u64 = 10_000_000;
/// Time of one sector of its first zone to pass, in nanoseconds.
pub(crate) const SECTOR: u64 = 20_000;
/// Sectors per track of its first zone.
pub(crate) const TRACK: u64 = 500;
/// Sectors per cylinder of its first zone.
pub(crate) const CYLINDER: u64 = 2000;

/// Returns when the head is over a sector of `bare`'s first cylinder, numbered from the index, at `after` or later.
/// (The track skew is 50 sectors, so head `h` has its sector 0 at the angle of sector `50 h`.)
pub(crate) fn comes_round(after: u64, sector_angle: u64) -> u64 {
    after + (sector_angle * SECTOR + TURN - after % TURN) % TURN
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

pub(crate) fn fua(lba: u64, sectors: u64) -> Arrival {
    Arrival { fua: true, ..write(lba, sectors) }
}

pub(crate) fn flush() -> Arrival {
    request(Op::Flush, 0, 0)
}

pub(crate) fn discard(lba: u64, sectors: u64) -> Arrival {
    request(Op::Discard, lba, sectors)
}

/// Spaces the requests 100 ms apart, so that each finds the drive idle, with the index under the heads.
pub(crate) fn apart(arrivals: &[Arrival]) -> Vec<Arrival> {
    arrivals.iter().enumerate().map(|(i, arrival)| at(100.0 * i as f64, *arrival)).collect()
}

pub(crate) fn at(millis: f64, arrival: Arrival) -> Arrival {
    Arrival { at: Nanos::from_secs_f64(millis / 1e3), ..arrival }
}

/// Replays and collects statistics.
pub(crate) fn run(spec: &DriveSpec, pace: Pace, arrivals: &[Arrival]) -> (Summary, HostSide) {
    run_iter(spec, pace, arrivals.iter().copied())
}

pub(crate) fn run_iter(
    spec: &DriveSpec,
    pace: Pace,
    arrivals: impl Iterator<Item = Arrival>,
) -> (Summary, HostSide) {
    let mut drive = Drive::new(spec).expect("a drive of the test");
    let mut observation = Observation::new(Chunking::Time(Nanos::SECOND), Nanos::ZERO, Bytes(512));
    let replay = Replay { pace, host_queue: 1 << 20 };
    let arrivals = arrivals.map(Ok::<_, std::convert::Infallible>);
    let host = replay.run(&mut drive, arrivals, &mut observation).expect("nothing fails here");
    (observation.finish(&drive, host.end), host)
}

/// The complete record of a run. Requests are identified by their index among the arrivals.
pub(crate) struct Story {
    /// Completions, in order.
    pub(crate) done: Vec<Completion>,
    log: Vec<Event>,
    pub(crate) usage: Usage,
}

impl Story {
    pub(crate) fn of(&self, request: u64) -> &Completion {
        let found = self.done.iter().find(|completion| completion.request.id.0 == request);
        found.unwrap_or_else(|| panic!("request {request} never ended"))
    }

    /// Returns when a request finished, in nanoseconds.
    pub(crate) fn finish(&self, request: u64) -> u64 {
        self.of(request).finish.0
    }

    /// Returns a request's time in the device, in nanoseconds.
    pub(crate) fn took(&self, request: u64) -> u64 {
        self.of(request).device_time().0
    }

    pub(crate) fn class(&self, request: u64) -> Class {
        self.detail(request).class
    }

    pub(crate) fn breakdown(&self, request: u64) -> Breakdown {
        self.detail(request).breakdown
    }

    fn detail(&self, request: u64) -> Detail {
        self.of(request).detail.expect("a drive tells how it served a command")
    }

    /// Returns the requests in the order in which they finished.
    pub(crate) fn order(&self) -> Vec<u64> {
        self.done.iter().map(|completion| completion.request.id.0).collect()
    }

    pub(crate) fn accesses(&self) -> Vec<DiskEvent> {
        let disk = |event: &Event| if let Event::Disk(access) = event { Some(*access) } else { None };
        self.log.iter().filter_map(disk).collect()
    }

    /// Returns the accesses that destaged dirty data.
    pub(crate) fn destages(&self) -> Vec<DiskEvent> {
        self.accesses().into_iter().filter(|access| access.cause == DiskCause::Destage).collect()
    }

    pub(crate) fn cache_events(&self, change: CacheChange) -> Vec<CacheEvent> {
        let cache = |event: &Event| if let Event::Cache(event) = event { Some(*event) } else { None };
        self.log.iter().filter_map(cache).filter(|event| event.change == change).collect()
    }
}

struct Collector(Vec<Completion>);

impl ReplayObserver for Collector {
    fn before(&mut self, _: &Drive, _: Nanos) {}

    fn completed(&mut self, _: &mut Drive, completion: &Completion, _: usize) {
        self.0.push(*completion);
    }
}

/// Replays in an open loop, and runs the drive until it is idle.
pub(crate) fn tell(spec: &DriveSpec, arrivals: &[Arrival]) -> Story {
    let mut drive = Drive::new(spec).expect("a drive of the test");
    drive.keep_log();
    let mut collector = Collector(Vec::new());
    let replay = Replay { pace: Pace::Open, host_queue: 1 << 20 };
    let arrivals = arrivals.iter().copied().map(Ok::<_, std::convert::Infallible>);
    let host = replay.run(&mut drive, arrivals, &mut collector).expect("nothing fails here");
    let mut now = host.end;
    while let Some(next) = drive.next_event() {
        now = next;
        drive.advance(now, &mut collector.0);
    }
    let mut log = Vec::new();
    drive.take_log(&mut log);
    Story { done: collector.0, log, usage: drive.usage(now) }
}

/// Returns the sustained rate in the first zone, in bytes per second.
pub(crate) fn sustained(spec: &DriveSpec) -> f64 {
    let geometry = Geometry::new(&spec.geometry, &spec.servo);
    let zone = &spec.geometry.zones[0];
    let heads = f64::from(spec.geometry.heads);
    let turn = geometry.revolution().as_secs_f64();
    // Skews are whole sectors: a switch takes the time of the skew.
    let sector = turn / f64::from(zone.sectors_per_track);
    let settle = Nanos(spec.servo.write_settle.0.max(0) as u64);
    let skew = |time: Nanos| ((time + settle).as_secs_f64() / sector).ceil() * sector;
    let SeekSpec::Datasheet { track_to_track, .. } = spec.servo.seek else { unreachable!() };
    let cylinder = (heads - 1.0) * skew(spec.servo.head_switch)
        + skew(track_to_track.max(spec.servo.head_switch))
        + heads * turn;
    512.0 * heads * f64::from(zone.sectors_per_track) / cylinder
}

pub(crate) const ALONE: Pace = Pace::Closed { outstanding: 1 };

/// A seeded random number generator, identical on every machine.
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

/// Returns the order in which `arrivals` finish with some keys set, on tracks without skew.
pub(crate) fn order(settings: &[(&str, &str)], arrivals: &[Arrival]) -> Vec<u64> {
    let mut all = vec![("geometry.zones.0.track_skew", "0")];
    all.extend(settings);
    tell(&with(&all), arrivals).order()
}

/// Returns a read that occupies the arm for the first revolution. Later arrivals are compared when it ends, with the
/// index under the heads; sectors of the next track before number 50 then pass during the head switch.
pub(crate) fn a_turn() -> Arrival {
    read(0, TRACK)
}
