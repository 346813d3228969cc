//! Random drives and loads. Drives are small, a few thousand sectors at most, so that few requests reach every edge
//! case.

use std::fmt;
use std::ops::{Deref, DerefMut};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use sakiyomi_drive::Geometry;
use sakiyomi_drive::spec::{
    CacheSpec, Consumed, DriveSpec, GeometrySpec, InterfaceSpec, Layout, Overhead, OverheadSpec, QueuePolicy,
    QueueSpec, ReadAheadMode, ReadAheadSpec, Replacement, SeekSpec, SegmentMode, SegmentSpec, ServoSpec,
    SignedNanos, SparesPer, SpecError, WriteOnCached, WriteShare, WriteSpec, ZoneSpec,
};
use sakiyomi_model::{Bytes, Extent, Lba, Nanos, Op, Request, RequestId, Sectors, StreamId};

const SECTOR: u64 = 512;

/// A drive whose debug output is its TOML, which reproduces a failing test.
#[derive(Clone)]
pub(crate) struct Spec(pub(crate) DriveSpec);

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.to_toml())
    }
}

impl Deref for Spec {
    type Target = DriveSpec;
    fn deref(&self) -> &DriveSpec {
        &self.0
    }
}

impl DerefMut for Spec {
    fn deref_mut(&mut self) -> &mut DriveSpec {
        &mut self.0
    }
}

/// Generates a drive with random settings.
pub(crate) fn drive() -> impl Strategy<Value = Spec> {
    (geometry(), servo(), queue(), cache(), interface()).prop_map(
        |(geometry, servo, queue, cache, interface)| {
            let name = "random".to_owned();
            let mut spec =
                DriveSpec { name, geometry, servo, queue, cache, interface, smr: None, array: None };
            let whole = GeometrySpec { sectors: None, ..spec.geometry.clone() };
            let holds = Geometry::new(&whole, &spec.servo).capacity().0;
            spec.geometry.sectors = spec.geometry.sectors.map(|sectors| sectors.min(holds));
            let settles_too_early =
                |error| matches!(error, SpecError::Impossible { key, .. } if key == "servo.write_settle");
            if spec.check().is_err_and(settles_too_early) {
                spec.servo.write_settle = SignedNanos(0);
            }
            spec.check().expect("random drives are possible by construction");
            Spec(spec)
        },
    )
}

pub(crate) fn geometry() -> impl Strategy<Value = GeometrySpec> {
    let layout = select(vec![Layout::Cylinder, Layout::Zigzag, Layout::Serpentine]);
    (1u32..=4, layout, vec(rough_zone(), 1..=3), option::weighted(0.2, 1u64..600)).prop_map(
        |(heads, layout, zones, sectors)| {
            let mut next = 0;
            let zones = zones
                .into_iter()
                .map(|rough| {
                    let zone = rough.fit(heads, layout, next);
                    next = zone.first_cylinder.unwrap_or(next) + zone.cylinders;
                    zone
                })
                .collect();
            GeometrySpec { sector: Bytes(SECTOR), physical_sector: None, heads, layout, sectors, zones }
        },
    )
}

/// A zone with defects not yet limited to its size.
#[derive(Clone, Debug)]
struct RoughZone {
    gap: Option<u32>,
    cylinders: u32,
    track: u32,
    skews: [Option<f64>; 3],
    spares: (SparesPer, u32, u32),
    reserved: u64,
    slips: Vec<u64>,
    remaps: Vec<(u64, u64)>,
}

fn rough_zone() -> impl Strategy<Value = RoughZone> {
    let skew = || option::of((0u32..=20).prop_map(|quarters| f64::from(quarters) / 4.0));
    let per = select(vec![SparesPer::Zone, SparesPer::Cylinder, SparesPer::Track]);
    let defects = (vec(any::<u64>(), 0..4), vec((any::<u64>(), any::<u64>()), 0..4));
    let size = (option::weighted(0.3, 0u32..4), 1u32..=6, 1u32..=24);
    let held_back = ((per, 0u32..8, 1u32..4), prop_oneof![Just(0), 0u64..60]);
    (size, [skew(), skew(), skew()], held_back, defects).prop_map(
        |((gap, cylinders, track), skews, (spares, reserved), (slips, remaps))| RoughZone {
            gap,
            cylinders,
            track,
            skews,
            spares,
            reserved,
            slips,
            remaps,
        },
    )
}

impl RoughZone {
    fn fit(self, heads: u32, layout: Layout, next: u32) -> ZoneSpec {
        let track = u64::from(self.track);
        let total = track * u64::from(heads) * u64::from(self.cylinders);
        let (mut per, wanted, mut range) = self.spares;
        if per == SparesPer::Cylinder && layout == Layout::Serpentine {
            per = SparesPer::Zone;
        }
        if per != SparesPer::Cylinder {
            range = 1;
        }
        let unit = match per {
            SparesPer::Zone => total,
            SparesPer::Cylinder => track * u64::from(heads * range),
            SparesPer::Track => track,
        };
        let smallest = if total % unit == 0 { unit } else { total % unit };
        let spares = u64::from(wanted).min(smallest - 1);
        let mut slips: Vec<u64> = self.slips.iter().map(|slip| slip % total).collect();
        slips.sort_unstable();
        slips.dedup();
        if per == SparesPer::Zone {
            slips.truncate((total - 1) as usize);
        } else {
            let units = slips.chunk_by(|a, b| a / unit == b / unit);
            slips = units.flat_map(|slips| slips.iter().take(spares as usize)).copied().collect();
        }
        let lost = (spares * total.div_ceil(unit)).max(slips.len() as u64);
        let skew = |x: Option<f64>| x.map(|x| x.min(track as f64));
        let mut zone = ZoneSpec {
            first_cylinder: self.gap.map(|gap| next + gap),
            cylinders: self.cylinders,
            sectors_per_track: self.track,
            track_skew: skew(self.skews[0]),
            cylinder_skew: skew(self.skews[1]),
            offset: skew(self.skews[2]).unwrap_or(0.0),
            reserved_front: self.reserved.min(total - lost - 1),
            spares: spares as u32,
            spares_per: per,
            spares_range: range,
            slips,
            remaps: Vec::new(),
        };
        zone.remaps = remaps(&zone, heads, &self.remaps);
        zone
    }
}

/// Returns remaps from distinct addressed sectors to distinct spare ones.
fn remaps(zone: &ZoneSpec, heads: u32, wanted: &[(u64, u64)]) -> Vec<[u64; 2]> {
    let carries = crate::platter::carries_address(zone, heads);
    let among =
        |addressed: bool| (0..carries.len() as u64).filter(move |i| carries[*i as usize] == addressed);
    let mut from: Vec<u64> = among.clone()(true).collect();
    let mut to: Vec<u64> = among(false).filter(|spare| !zone.slips.contains(spare)).collect();
    let mut remaps = Vec::new();
    for (a, b) in wanted {
        if from.is_empty() || to.is_empty() {
            break;
        }
        let pair =
            [from.remove((*a % from.len() as u64) as usize), to.remove((*b % to.len() as u64) as usize)];
        remaps.push(pair);
    }
    remaps.sort_unstable();
    remaps
}

pub(crate) fn servo() -> impl Strategy<Value = ServoSpec> {
    let rpm = prop_oneof![select(vec![5400.0, 6000.0, 7200.0, 10_000.0, 15_000.0]), 3000.0..20_000.0f64];
    let settle = select(vec![0, 200_000, -100_000, 777_777]);
    (rpm, nanos(0..2_000_000), settle, seek(), option::weighted(0.3, seek())).prop_map(
        |(rpm, head_switch, settle, seek, seek_write)| ServoSpec {
            rpm,
            head_switch,
            write_settle: SignedNanos(settle),
            lost_turns: 0.0,
            seek,
            seek_write,
        },
    )
}

fn seek() -> impl Strategy<Value = SeekSpec> {
    let table = vec((1u32..6, 0u64..9_000_000), 1..4).prop_map(|steps| {
        let mut distance = 0;
        let points = steps.into_iter().map(|(step, time)| {
            distance += step;
            (distance, Nanos(time))
        });
        SeekSpec::Table { points: points.collect() }
    });
    // Time of a new access with the arm already on the cylinder.
    let in_place = option::of(prop_oneof![nanos(0..50_000), nanos(0..3_000_000)]);
    let table = (in_place, table).prop_map(|(in_place, table)| match table {
        SeekSpec::Table { points } => {
            SeekSpec::Table { points: in_place.map(|time| (0, time)).into_iter().chain(points).collect() }
        }
        other => other,
    });
    let pieces = [nanos(0..3_000_000), nanos(0..800_000), nanos(0..8_000_000), nanos(0..90_000)];
    let pieces = (0u32..8, pieces, vec(nanos(0..4_000_000), 0..3)).prop_map(
        |(threshold, [short_base, short_per_root, long_base, long_per_cylinder], first)| SeekSpec::TwoPiece {
            threshold,
            short_base,
            short_per_root,
            long_base,
            long_per_cylinder,
            first,
        },
    );
    prop_oneof![table, pieces]
}

fn nanos(range: std::ops::Range<u64>) -> impl Strategy<Value = Nanos> {
    range.prop_map(Nanos)
}

/// Generates zero in half of the cases.
fn some_nanos(range: std::ops::Range<u64>) -> impl Strategy<Value = Nanos> {
    prop_oneof![Just(Nanos::ZERO), nanos(range)]
}

fn sectors(range: std::ops::Range<u64>) -> impl Strategy<Value = Bytes> {
    range.prop_map(|sectors| Bytes(sectors * SECTOR))
}

pub(crate) fn queue() -> impl Strategy<Value = QueueSpec> {
    let policy = select(vec![
        QueuePolicy::Fcfs,
        QueuePolicy::Sstf,
        QueuePolicy::Look,
        QueuePolicy::CLook,
        QueuePolicy::Sptf,
    ]);
    let times = (some_nanos(0..60_000_000), some_nanos(0..2_000_000), some_nanos(0..20_000_000));
    (1u32..12, policy, select(vec![0.0, 0.1, 1.0, 5.0]), 1u32..16, times).prop_map(
        |(depth, policy, age_weight, window, (age_limit, rpo_margin, read_preference))| QueueSpec {
            depth,
            policy,
            age_weight,
            age_limit,
            window,
            rpo_margin,
            read_preference,
        },
    )
}

pub(crate) fn cache() -> impl Strategy<Value = CacheSpec> {
    let near = option::of(sectors(0..40));
    (sectors(24..160), segments(), read_ahead(), write(), near, prop_oneof![0u32..8, Just(1000)]).prop_map(
        |(size, segments, read_ahead, mut write, near_window, ghosts)| {
            // The space left for reads must hold a sector per segment.
            let most = size.0.saturating_sub(8 * SECTOR).max(SECTOR);
            write.limit = Bytes(write.limit.0.min(most));
            CacheSpec { size, segments, read_ahead, write, near_window, ghosts }
        },
    )
}

fn segments() -> impl Strategy<Value = SegmentSpec> {
    let replacement = select(vec![
        Replacement::Lru,
        Replacement::Fifo,
        Replacement::ConsumedFirst,
        Replacement::LeastRecentlySequential,
    ]);
    let mode = select(vec![SegmentMode::Fixed, SegmentMode::Adaptive]);
    let consumed = select(vec![Consumed::Keep, Consumed::Overwrite, Consumed::Discard]);
    (mode, 1u32..=8, replacement, consumed).prop_map(|(mode, count, replacement, consumed)| SegmentSpec {
        mode,
        count,
        replacement,
        consumed,
    })
}

fn read_ahead() -> impl Strategy<Value = ReadAheadSpec> {
    let mode = select(vec![
        ReadAheadMode::Off,
        ReadAheadMode::TrackEnd,
        ReadAheadMode::NextTrack,
        ReadAheadMode::CylinderEnd,
        ReadAheadMode::Fixed,
        ReadAheadMode::Segment,
    ]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (mode, sectors(0..30), 0u64..40, 0u32..3, flags).prop_map(
        |(mode, min, more, after_sequential, (idle_only, on_arrival, resume_on_hit))| ReadAheadSpec {
            mode,
            min,
            max: Bytes(min.0 + more * SECTOR),
            idle_only,
            after_sequential,
            on_arrival,
            resume_on_hit,
        },
    )
}

fn write() -> impl Strategy<Value = WriteSpec> {
    let share = select(vec![WriteShare::Shared, WriteShare::Separate]);
    let watermarks = (0.0..=1.0f64, 0.0..=1.0f64);
    let times = (some_nanos(0..40_000_000), some_nanos(0..80_000_000));
    let on_cached = select(vec![WriteOnCached::Invalidate, WriteOnCached::Update]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let most = (1u32..20, sectors(1..40));
    (share, sectors(1..80), watermarks, times, most, on_cached, flags).prop_map(
        |(
            share,
            limit,
            (a, b),
            (idle_delay, max_age),
            (window, destage_max),
            on_cached,
            (enabled, coalesce, keep),
        )| {
            WriteSpec {
                enabled,
                share,
                limit,
                high_watermark: a.max(b),
                low_watermark: a.min(b),
                idle_delay,
                max_age,
                window,
                coalesce,
                destage_max,
                on_cached,
                keep,
            }
        },
    )
}

pub(crate) fn interface() -> impl Strategy<Value = InterfaceSpec> {
    let rate = || {
        select(vec![100_000, 300_000, 1_000_000, 30_000_000, 150_000_000, 1_000_000_000_000]).prop_map(Bytes)
    };
    let watermark = prop_oneof![Just(0.0), 0.0..=1.0f64, Just(1.0)];
    let flags = (any::<bool>(), any::<bool>());
    (rate(), option::of(rate()), watermark, flags, overheads()).prop_map(
        |(link_rate, link_rate_write, read_watermark, (overlap, immediate_partial), overhead)| {
            InterfaceSpec { link_rate, link_rate_write, overlap, read_watermark, immediate_partial, overhead }
        },
    )
}

fn overheads() -> impl Strategy<Value = OverheadSpec> {
    let by_kind = (overhead(), overhead(), overhead(), overhead(), option::of(overhead()), overhead());
    let around = (some_nanos(0..200_000), some_nanos(0..100_000), option::of(some_nanos(0..100_000)));
    (by_kind, around).prop_map(
        |(
            (read_hit, read_miss, write_hit, write_miss, write_data, control),
            (reconnect, completion, completion_write),
        )| OverheadSpec {
            read_hit,
            read_miss,
            write_hit,
            write_miss,
            write_data,
            control,
            reconnect,
            completion,
            completion_write,
        },
    )
}

fn overhead() -> impl Strategy<Value = Overhead> {
    let by_command = (nanos(0..300_000), nanos(0..300_000), option::of(nanos(0..300_000)));
    prop_oneof![
        Just(Overhead::Same(Nanos::ZERO)),
        by_command.prop_map(|(after_read, after_write, in_sequence)| Overhead::After {
            after_read,
            after_write,
            in_sequence,
        }),
    ]
}

/// A request, before the drive's size is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Time since the previous request.
    pub(crate) gap: u64,
    pub(crate) op: Op,
    pub(crate) place: Place,
    pub(crate) sectors: u64,
    pub(crate) fua: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// A distance after the end of the previous request, in sectors.
    After(u64),
    /// One of a few addresses.
    Hot(u64),
    Anywhere(u64),
    /// Beyond the drive's end.
    Beyond(u64),
}

/// Generates a load with all operations, sequential and scattered addresses, and a few invalid ones.
pub(crate) fn load(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let op =
        prop_oneof![10 => Just(Op::Read), 6 => Just(Op::Write), 1 => Just(Op::Flush), 1 => Just(Op::Discard)];
    vec(step(op, prop_oneof![20 => 1u64..24, 1 => Just(0)], true), 1..most)
}

/// Generates a load of one kind of operation, all valid.
pub(crate) fn load_of(op: impl Strategy<Value = Op>, most: usize) -> impl Strategy<Value = Vec<Step>> {
    vec(step(op, 1u64..16, false), 1..most)
}

fn step(
    op: impl Strategy<Value = Op>,
    sectors: impl Strategy<Value = u64>,
    wrong: bool,
) -> impl Strategy<Value = Step> {
    let gap = prop_oneof![2 => Just(0), 6 => 0u64..3_000_000, 3 => 0u64..30_000_000, 1 => 0u64..300_000_000];
    let place = prop_oneof![
        6 => prop_oneof![Just(0), 0u64..30].prop_map(Place::After),
        4 => (0u64..8).prop_map(Place::Hot),
        6 => any::<u64>().prop_map(Place::Anywhere),
        u32::from(wrong) => prop_oneof![0u64..10, Just(u64::MAX)].prop_map(Place::Beyond),
    ];
    (gap, op, place, sectors, prop::bool::weighted(0.1)).prop_map(|(gap, op, place, sectors, fua)| Step {
        gap,
        op,
        place,
        sectors,
        fua,
    })
}

/// Returns the requests of a load on a drive of `capacity` sectors. All but the intentionally invalid ones fit the
/// drive.
pub(crate) fn requests(steps: &[Step], capacity: u64) -> Vec<Request> {
    let (mut now, mut last) = (0u64, 0u64);
    let request = |(index, step): (usize, &Step)| {
        now += step.gap;
        let sectors = if step.op == Op::Flush { 0 } else { step.sectors.min(capacity) };
        let most = capacity - sectors;
        let start = match step.place {
            Place::After(skip) => last.saturating_add(skip) % (most + 1),
            Place::Hot(which) => (which * 37) % (most + 1),
            Place::Anywhere(any) => any % (most + 1),
            Place::Beyond(by) => (most + 1).saturating_add(by),
        };
        last = start.saturating_add(sectors);
        Request {
            id: RequestId(index as u64),
            stream: StreamId(0),
            op: step.op,
            fua: step.fua,
            extent: Extent::new(Lba(start), Sectors(sectors)),
            arrival: Nanos(now),
        }
    };
    steps.iter().enumerate().map(request).collect()
}
