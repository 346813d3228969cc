//! The figures that a fit may change, and the switches that it tries.

use sakiyomi_drive::spec::{DriveSpec, Overhead, ReadAheadMode, SeekSpec, SignedNanos};
use sakiyomi_model::{Bytes, Nanos};

use super::evidence::Sample;

/// A figure of a drive.
pub(super) struct Parameter {
    /// Its key.
    pub(super) key: &'static str,
    /// Its value, in nanoseconds, bytes a second or as a share; `None` where this drive has none.
    pub(super) get: fn(&DriveSpec) -> Option<f64>,
    /// Sets it; what cannot be is cut to what can.
    pub(super) set: fn(&mut DriveSpec, f64),
    /// Sets it to the value of another drive of the same kind.
    pub(super) put_back: fn(&mut DriveSpec, &DriveSpec),
    /// A step is a share of the value, or of this where the value is smaller.
    pub(super) small: f64,
    /// Its unit.
    pub(super) unit: Unit,
    /// The requests that depend on it.
    pub(super) sample: Sample,
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Time,
    BytesPerSecond,
    Share,
}

impl Unit {
    /// Returns a value as a drive's file has it.
    pub(super) fn write(self, value: f64) -> String {
        match self {
            Unit::Time => {
                let sign = if value < 0.0 { "-" } else { "" };
                format!("{sign}{}", Nanos(value.abs().round() as u64))
            }
            Unit::BytesPerSecond => Bytes(value.round() as u64).to_string(),
            Unit::Share => value.to_string(),
        }
    }
}

/// A setting of a drive with few discrete values.
pub(super) struct Switch {
    /// Its key.
    pub(super) key: &'static str,
    /// Its value, as a drive's file has it.
    pub(super) get: fn(&DriveSpec) -> String,
    /// The requests that depend on it.
    pub(super) sample: Sample,
}

/// Typical duration of a part of an access.
const ACCESS_PART_TYPICAL_NS: f64 = 1_000_000.0;

/// Typical share of the arm's movements that lose a revolution.
const LOST_TURNS_TYPICAL_RATIO: f64 = 0.04;

macro_rules! overhead {
    ($kind:ident, $sample:expr) => {
        Parameter {
            key: concat!("interface.overhead.", stringify!($kind)),
            get: |spec| Some(mean(spec.interface.overhead.$kind)),
            set: |spec, value| {
                let all = &mut spec.interface.overhead.$kind;
                *all = moved(*all, value - mean(*all));
            },
            put_back: |spec, start| spec.interface.overhead.$kind = start.interface.overhead.$kind,
            small: ACCESS_PART_TYPICAL_NS,
            unit: Unit::Time,
            sample: $sample,
        }
    };
}

macro_rules! seek {
    ($kind:ident, $field:ident, $sample:expr) => {
        Parameter {
            key: concat!("servo.seek.", stringify!($field)),
            get: |spec| match &spec.servo.seek {
                SeekSpec::$kind { $field, .. } => Some($field.0 as f64),
                _ => None,
            },
            set: |spec, value| {
                if let SeekSpec::$kind { $field, .. } = &mut spec.servo.seek {
                    *$field = nanos(value);
                }
            },
            put_back: |spec, start| {
                if let (SeekSpec::$kind { $field, .. }, SeekSpec::$kind { $field: before, .. }) =
                    (&mut spec.servo.seek, &start.servo.seek)
                {
                    *$field = *before;
                }
            },
            small: ACCESS_PART_TYPICAL_NS,
            unit: Unit::Time,
            sample: $sample,
        }
    };
}

/// Read-ahead modes that are tried.
const READ_AHEAD: [ReadAheadMode; 3] = [ReadAheadMode::Off, ReadAheadMode::TrackEnd, ReadAheadMode::Segment];

/// Settings of which [`switched`] tries every value.
pub(super) fn switches() -> [Switch; 3] {
    [
        Switch {
            key: "cache.read_ahead.mode",
            get: |spec| {
                let entries = spec.entries();
                let mode = entries.into_iter().find(|(key, _)| key == "cache.read_ahead.mode");
                mode.map_or_else(String::new, |(_, mode)| mode)
            },
            sample: Sample::SequentialReads,
        },
        Switch {
            key: "interface.overlap",
            get: |spec| spec.interface.overlap.to_string(),
            sample: Sample::Reads,
        },
        Switch {
            key: "cache.write.enabled",
            get: |spec| spec.cache.write.enabled.to_string(),
            sample: Sample::Writes,
        },
    ]
}

/// Returns the given drive, and all others that differ from it in switches only, without duplicates.
pub(super) fn switched(start: &DriveSpec) -> Vec<DriveSpec> {
    let mut drives = vec![start.clone()];
    for mode in [start.cache.read_ahead.mode].into_iter().chain(READ_AHEAD) {
        for overlap in [true, false] {
            for cached in [true, false] {
                let mut spec = start.clone();
                spec.cache.read_ahead.mode = mode;
                spec.interface.overlap = overlap;
                spec.cache.write.enabled = cached;
                if !drives.contains(&spec) {
                    drives.push(spec);
                }
            }
        }
    }
    drives
}

/// Returns all figures, those that matter most first.
pub(super) fn parameters() -> Vec<Parameter> {
    let overheads = [
        overhead!(read_miss, Sample::ReadMisses),
        overhead!(write_miss, Sample::MediaWrites),
        overhead!(read_hit, Sample::ReadHits),
        overhead!(write_hit, Sample::CachedWrites),
        Parameter {
            key: "interface.link_rate",
            get: |spec| Some(spec.interface.link_rate.0 as f64),
            set: |spec, value| spec.interface.link_rate = rate(value),
            put_back: |spec, start| spec.interface.link_rate = start.interface.link_rate,
            small: 0.0,
            unit: Unit::BytesPerSecond,
            sample: Sample::Reads,
        },
        Parameter {
            key: "interface.link_rate_write",
            get: |spec| Some(spec.interface.link_rate_write.unwrap_or(spec.interface.link_rate).0 as f64),
            set: |spec, value| spec.interface.link_rate_write = Some(rate(value)),
            put_back: |spec, start| spec.interface.link_rate_write = start.interface.link_rate_write,
            small: 0.0,
            unit: Unit::BytesPerSecond,
            sample: Sample::Writes,
        },
    ];
    let servo = [
        Parameter {
            key: "servo.write_settle",
            get: |spec| Some(spec.servo.write_settle.0 as f64),
            set: |spec, value| spec.servo.write_settle = SignedNanos(value.round() as i64),
            put_back: |spec, start| spec.servo.write_settle = start.servo.write_settle,
            small: ACCESS_PART_TYPICAL_NS,
            unit: Unit::Time,
            sample: Sample::MediaWrites,
        },
        Parameter {
            key: "servo.head_switch",
            get: |spec| Some(spec.servo.head_switch.0 as f64),
            set: |spec, value| spec.servo.head_switch = nanos(value),
            put_back: |spec, start| spec.servo.head_switch = start.servo.head_switch,
            small: ACCESS_PART_TYPICAL_NS,
            unit: Unit::Time,
            sample: Sample::TrackChanges,
        },
        Parameter {
            key: "servo.lost_turns",
            get: |spec| Some(spec.servo.lost_turns),
            set: |spec, value| spec.servo.lost_turns = (value.clamp(0.0, 1.0) * 1e4).round() / 1e4,
            put_back: |spec, start| spec.servo.lost_turns = start.servo.lost_turns,
            small: LOST_TURNS_TYPICAL_RATIO,
            unit: Unit::Share,
            sample: Sample::Seeks,
        },
    ];
    overheads.into_iter().chain(servo).chain(seeks()).collect()
}

/// Returns the seek curve, whatever its kind.
fn seeks() -> [Parameter; 6] {
    [
        seek!(Datasheet, track_to_track, Sample::ShortSeeks),
        seek!(Datasheet, average, Sample::Seeks),
        seek!(TwoPiece, short_base, Sample::ShortSeeks),
        seek!(TwoPiece, short_per_root, Sample::ShortSeeks),
        seek!(TwoPiece, long_base, Sample::LongSeeks),
        // A measured table is moved as a whole, by its first value.
        Parameter {
            key: "servo.seek.points",
            get: |spec| match &spec.servo.seek {
                SeekSpec::Table { points } => points.first().map(|point| point.1.0 as f64),
                _ => None,
            },
            set: |spec, value| {
                if let SeekSpec::Table { points } = &mut spec.servo.seek {
                    let by = value - points.first().map_or(0.0, |point| point.1.0 as f64);
                    points.iter_mut().for_each(|point| point.1 = nanos(point.1.0 as f64 + by));
                }
            },
            put_back: |spec, start| spec.servo.seek = start.servo.seek.clone(),
            small: ACCESS_PART_TYPICAL_NS,
            unit: Unit::Time,
            sample: Sample::Seeks,
        },
    ]
}

fn nanos(value: f64) -> Nanos {
    Nanos(value.round().max(0.0) as u64)
}

fn rate(value: f64) -> Bytes {
    Bytes(value.round().max(1000.0) as u64)
}

/// Over the commands that may come before.
fn mean(overhead: Overhead) -> f64 {
    match overhead {
        Overhead::Same(time) => time.0 as f64,
        Overhead::After { after_read, after_write, .. } => (after_read.0 as f64 + after_write.0 as f64) / 2.0,
    }
}

/// All cases later by the same time.
fn moved(overhead: Overhead, by: f64) -> Overhead {
    let later = |time: Nanos| nanos(time.0 as f64 + by);
    match overhead {
        Overhead::Same(time) => Overhead::Same(later(time)),
        Overhead::After { after_read, after_write, in_sequence } => Overhead::After {
            after_read: later(after_read),
            after_write: later(after_write),
            in_sequence: in_sequence.map(later),
        },
    }
}
