//! The figures that a fit may change, and the switches that it tries.

use sakiyomi_drive::spec::{DriveSpec, Overhead, ReadAheadMode, SeekSpec, SignedNanos};
use sakiyomi_model::{Bytes, Nanos};

/// A figure of a drive.
pub(super) struct Parameter {
    /// Its value, in nanoseconds or bytes a second; `None` where this drive has none.
    pub(super) get: fn(&DriveSpec) -> Option<f64>,
    /// Sets it; what cannot be is cut to what can.
    pub(super) set: fn(&mut DriveSpec, f64),
    /// A step is a share of the value, or of this where the value is smaller.
    pub(super) small: f64,
}

/// Some 1 ms: what the parts of an access take.
const PART: f64 = 1_000_000.0;

/// Some 4 %: of the arm's movements, what loses a turn.
const SHARE: f64 = 0.04;

macro_rules! overhead {
    ($kind:ident) => {
        Parameter {
            get: |spec| Some(mean(spec.interface.overhead.$kind)),
            set: |spec, value| {
                let all = &mut spec.interface.overhead.$kind;
                *all = moved(*all, value - mean(*all));
            },
            small: PART,
        }
    };
}

macro_rules! seek {
    ($kind:ident, $field:ident) => {
        Parameter {
            get: |spec| match &spec.servo.seek {
                SeekSpec::$kind { $field, .. } => Some($field.0 as f64),
                _ => None,
            },
            set: |spec, value| {
                if let SeekSpec::$kind { $field, .. } = &mut spec.servo.seek {
                    *$field = nanos(value);
                }
            },
            small: PART,
        }
    };
}

/// The drive as it is, and with its switches set otherwise: every drive is there once.
pub(super) fn switched(start: &DriveSpec) -> Vec<DriveSpec> {
    let mut drives = vec![start.clone()];
    let modes = [ReadAheadMode::Off, ReadAheadMode::TrackEnd, ReadAheadMode::Segment];
    for mode in [start.cache.read_ahead.mode].into_iter().chain(modes) {
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

/// All figures, those that matter most first.
pub(super) fn parameters() -> Vec<Parameter> {
    let overheads = [
        overhead!(read_miss),
        overhead!(write_miss),
        overhead!(read_hit),
        overhead!(write_hit),
        Parameter {
            get: |spec| Some(spec.interface.link_rate.0 as f64),
            set: |spec, value| spec.interface.link_rate = rate(value),
            small: 0.0,
        },
        Parameter {
            get: |spec| Some(spec.interface.link_rate_write.unwrap_or(spec.interface.link_rate).0 as f64),
            set: |spec, value| spec.interface.link_rate_write = Some(rate(value)),
            small: 0.0,
        },
    ];
    let servo = [
        Parameter {
            get: |spec| Some(spec.servo.write_settle.0 as f64),
            set: |spec, value| spec.servo.write_settle = SignedNanos(value.round() as i64),
            small: PART,
        },
        Parameter {
            get: |spec| Some(spec.servo.head_switch.0 as f64),
            set: |spec, value| spec.servo.head_switch = nanos(value),
            small: PART,
        },
        Parameter {
            get: |spec| Some(spec.servo.lost_turns),
            set: |spec, value| spec.servo.lost_turns = (value.clamp(0.0, 1.0) * 1e4).round() / 1e4,
            small: SHARE,
        },
    ];
    overheads.into_iter().chain(servo).chain(seeks()).collect()
}

/// The seek curve, whatever its kind.
fn seeks() -> [Parameter; 6] {
    [
        seek!(Datasheet, track_to_track),
        seek!(Datasheet, average),
        seek!(TwoPiece, short_base),
        seek!(TwoPiece, short_per_root),
        seek!(TwoPiece, long_base),
        // A measured table is moved as a whole, by its first value.
        Parameter {
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
            small: PART,
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
