//! A drive to begin an identification with, of which only what a survey shows directly is known.

use sakiyomi_drive::spec::{
    CacheSpec, DriveSpec, GeometrySpec, InterfaceSpec, Overhead, QueueSpec, ReadAheadMode, SeekSpec,
    ServoSpec, SparesPer, ZoneSpec,
};
use sakiyomi_drive::{Drive, Geometry};
use sakiyomi_model::{Bytes, Nanos, Sectors};
use sakiyomi_validate::{Pace, free, judge};

use crate::cache::ReadCache;
use crate::rotation::Rotation;
use crate::survey::{OfSize, Surveyed};
use crate::tracks::{Tracks, Zone, heads, width, zones};

/// Heads where the skews do not tell their number. The seek curve counts in cylinders, and is found for as many heads.
const ASSUMED_HEADS: u32 = 4;
/// Overheads of a read from the medium that are tried.
const READ_OVERHEADS: [Nanos; 7] = [
    Nanos(50_000),
    Nanos(150_000),
    Nanos(300_000),
    Nanos(500_000),
    Nanos(800_000),
    Nanos(1_100_000),
    Nanos(1_500_000),
];
/// Mean seek times that are tried, by that which follows from the overhead: the mean of some random reads is not exact.
const MEAN_SEEK_RATIOS: [f64; 4] = [0.85, 0.92, 1.0, 1.08];
/// Full strokes of the arm that are tried, by the mean seek time.
const FULL_STROKE_RATIOS: [f64; 4] = [1.7, 1.9, 2.1, 2.3];
/// Bounds of the mean seek time.
const SEEK_RANGE: [Nanos; 2] = [Nanos(1_000_000), Nanos(40_000_000)];
/// Largest segment.
const SEGMENT_MAX: Bytes = Bytes(64 << 20);

impl Surveyed {
    /// Returns a drive of `capacity` sectors with the rotation, the zones, the skews and the read cache of the survey, and
    /// the overhead and seeks that simulate its course best; the other parameters are usual ones. `None` if no tracks
    /// were found.
    #[must_use]
    pub fn drive(&self, capacity: Sectors, sector: Bytes, rotation: &Rotation) -> Option<DriveSpec> {
        let geometry = self.geometry(capacity, sector)?;
        let first = &geometry.zones[0];
        let turn = rotation.turn_ns();
        let time = |skew: Option<f64>| {
            skew.map(|skew| Nanos((skew / f64::from(first.sectors_per_track) * turn) as u64))
        };
        // A skew covers the time of what it is for, and is rounded up to a whole sector.
        let head_switch = time(first.track_skew).unwrap_or(Nanos(1_000_000));
        let track_to_track = time(first.cylinder_skew).unwrap_or(head_switch);
        let spec = DriveSpec {
            name: "measured drive".to_owned(),
            geometry,
            servo: ServoSpec {
                rpm: rotation.rpm,
                head_switch,
                write_settle: Default::default(),
                lost_turns: 0.0,
                seek: SeekSpec::Datasheet {
                    track_to_track,
                    average: track_to_track,
                    full_stroke: track_to_track,
                },
                seek_write: None,
            },
            queue: QueueSpec::default(),
            cache: self.cache.spec(sector),
            interface: InterfaceSpec::default(),
            smr: None,
            array: None,
        };
        self.timed(&spec, turn, track_to_track)
    }

    /// Returns the drive with the overhead and the seek times with which the course is simulated best. A random read
    /// takes the overhead, a mean seek and half a revolution, so that the mean seek follows from the overhead, about.
    fn timed(&self, drive: &DriveSpec, turn: f64, track_to_track: Nanos) -> Option<DriveSpec> {
        let random = self.sizes.first().map_or(0.0, OfSize::mean);
        let choices = READ_OVERHEADS.iter().flat_map(|overhead| {
            MEAN_SEEK_RATIOS
                .iter()
                .flat_map(move |mean| FULL_STROKE_RATIOS.map(|full| (*overhead, *mean, full)))
        });
        let specs = choices.filter_map(|(overhead, mean, full)| {
            let average = (random - turn / 2.0 - overhead.0 as f64) * mean;
            let average =
                Nanos(average.max(0.0) as u64).clamp(SEEK_RANGE[0], SEEK_RANGE[1]).max(track_to_track);
            let full_stroke = Nanos((average.0 as f64 * full) as u64);
            let mut spec = drive.clone();
            spec.servo.seek = SeekSpec::Datasheet { track_to_track, average, full_stroke };
            spec.interface.overhead.read_miss = Overhead::Same(overhead);
            spec.check().is_ok().then_some(spec)
        });
        let error = |spec: &DriveSpec| {
            let simulated = free(Drive::new(spec).ok()?, &self.course, Pace::Closed);
            Some(judge(&self.course, &simulated, 0..self.course.len()).rms_ratio)
        };
        let judged = specs.filter_map(|spec| Some((error(&spec)?, spec)));
        judged.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, spec)| spec)
    }

    /// Returns the drive with the zones of the survey, if its own have tracks of other lengths; its heads stay.
    #[must_use]
    pub fn with_tracks(&self, drive: &DriveSpec, capacity: Sectors) -> DriveSpec {
        if self.tracks.is_empty() || agrees(drive, &self.tracks) {
            return drive.clone();
        }
        let mut own = drive.clone();
        let count = heads(&self.tracks).unwrap_or(drive.geometry.heads);
        own.geometry.heads = count;
        own.geometry.zones = zone_specs(&zones(&self.tracks), capacity, count);
        own.geometry.sectors = Some(capacity.0);
        if own.check().is_ok() { own } else { drive.clone() }
    }

    fn geometry(&self, capacity: Sectors, sector: Bytes) -> Option<GeometrySpec> {
        let found = zones(&self.tracks);
        let heads = heads(&self.tracks).unwrap_or(ASSUMED_HEADS);
        (!found.is_empty()).then(|| GeometrySpec {
            sector,
            physical_sector: None,
            heads,
            layout: Default::default(),
            sectors: Some(capacity.0),
            zones: zone_specs(&found, capacity, heads),
        })
    }
}

impl ReadCache {
    /// Returns segments that hold what is read ahead, as many as were found.
    fn spec(&self, sector: Bytes) -> CacheSpec {
        let mut spec = CacheSpec::default();
        spec.read_ahead.mode =
            if self.after_sequential.is_some() { ReadAheadMode::Segment } else { ReadAheadMode::Off };
        spec.segments.consumed = self.consumed.unwrap_or_default();
        spec.read_ahead.after_sequential = self.after_sequential.unwrap_or(0);
        if let Some([count, _]) = self.segments {
            spec.segments.count = count;
        }
        if let Some([ahead, beyond]) = self.ahead {
            // The pages that were read are in the segment, too, as long as they are kept. Its size is the rounder number.
            let is_beyond = beyond.0.trailing_zeros() > ahead.0.trailing_zeros();
            let sectors = if is_beyond { beyond } else { ahead };
            let segment = Bytes(sectors.0.saturating_mul(sector.0).min(SEGMENT_MAX.0));
            spec.read_ahead.max = segment;
            spec.size = Bytes(segment.0 * u64::from(spec.segments.count));
            spec.write.limit = Bytes(spec.size.0 / 2);
        }
        spec
    }
}

/// Whether a drive has tracks of the lengths that were found.
fn agrees(drive: &DriveSpec, places: &[Tracks]) -> bool {
    /// Sectors by which a length may differ.
    const LENGTH_TOLERANCE: f64 = 0.5;
    let geometry = Geometry::new(&drive.geometry, &drive.servo);
    let capacity = geometry.capacity().0;
    let length = |lba| f64::from(geometry.run(lba, 1).track_sectors);
    let is_near = |place: &Tracks, at| {
        let tolerance = LENGTH_TOLERANCE.max(width(place));
        (length(at) - place.sectors_per_track).abs() <= tolerance
    };
    places
        .iter()
        .all(|place| place.end.0 < capacity && (is_near(place, place.start) || is_near(place, place.end)))
}

/// Returns whole cylinders of zones that begin in the middle of what is known of their start.
fn zone_specs(zones: &[Zone], capacity: Sectors, heads: u32) -> Vec<ZoneSpec> {
    let starts = zones.iter().map(|zone| u64::midpoint(zone.start[0].0, zone.start[1].0));
    let ends: Vec<u64> = starts.clone().skip(1).chain([capacity.0]).collect();
    let mut left = capacity.0;
    let count = zones.len();
    let specs = zones.iter().zip(starts.zip(ends)).enumerate().map(|(number, (zone, (start, end)))| {
        let track = zone.sectors_per_track.round().max(1.0) as u32;
        let cylinder = u64::from(track) * u64::from(heads);
        let wanted = (end - start + cylinder / 2) / cylinder;
        // The last zone has the rest, and a cylinder that is not full.
        let cylinders = if number + 1 == count { left.div_ceil(cylinder) } else { wanted }.max(1);
        left = left.saturating_sub(cylinders * cylinder);
        ZoneSpec {
            first_cylinder: None,
            cylinders: u32::try_from(cylinders).unwrap_or(u32::MAX),
            sectors_per_track: track,
            track_skew: zone.track_skew.map(thousandths),
            cylinder_skew: zone.cylinder_skew.or(zone.track_skew).map(thousandths),
            offset: 0.0,
            reserved_front: 0,
            spares: 0,
            spares_per: SparesPer::default(),
            spares_range: 1,
            slips: Vec::new(),
            remaps: Vec::new(),
        }
    });
    specs.collect()
}

fn thousandths(sectors: f64) -> f64 {
    (sectors * 1000.0).round() / 1000.0
}
