//! What a drive is made of, as its TOML file says it.
//!
//! A [`DriveSpec`] is plain data: [`DriveSpec::from_toml`] reads and checks it, [`DriveSpec::set`] changes one key,
//! [`explain`] says what each key means. The simulator builds its own, faster structures from it.

mod builtin;
mod check;
mod disksim;
mod edit;
mod explain;

use sakiyomi_model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

pub use builtin::{BUILTIN, Builtin, builtin};
pub use check::SpecError;
pub use disksim::Imported;
pub use explain::{Explanation, explain};

/// A drive: every figure that the model uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveSpec {
    /// Maker and model.
    pub name: String,
    /// Where sectors lie.
    pub geometry: GeometrySpec,
    /// How the arm and the platters move.
    pub servo: ServoSpec,
    /// Which waiting command is next.
    #[serde(default)]
    pub queue: QueueSpec,
    /// What is kept in the buffer.
    #[serde(default)]
    pub cache: CacheSpec,
    /// The way to the host.
    #[serde(default)]
    pub interface: InterfaceSpec,
}

/// Where sectors lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeometrySpec {
    /// Bytes in a sector: 256 B to 4 KiB, a power of two.
    pub sector: Bytes,
    /// Recording surfaces.
    pub heads: u32,
    /// In which order tracks are numbered.
    #[serde(default)]
    pub layout: Layout,
    /// Addressable sectors, where the drive offers fewer than its zones hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors: Option<u64>,
    /// From the outer rim inwards.
    pub zones: Vec<ZoneSpec>,
}

/// In which order tracks are numbered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// All heads of a cylinder, from head 0, then the next cylinder.
    #[default]
    Cylinder,
    /// All heads of a cylinder, the order of heads turning round at each cylinder.
    Zigzag,
    /// All cylinders of a zone under one head, then back under the next.
    Serpentine,
}

/// Cylinders with equally many sectors on a track.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// The first cylinder; by default the one after the zone before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_cylinder: Option<u32>,
    /// How many cylinders.
    pub cylinders: u32,
    /// Physical sectors on a track.
    pub sectors_per_track: u32,
    /// Angle between the first sectors of successive tracks of one cylinder, in sectors; by default as many as pass
    /// during a head switch, settled to write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub track_skew: Option<f64>,
    /// The same from a cylinder's last track to the next cylinder's first; by default as many as pass while the
    /// arm moves on by one and the head changes, settled to write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cylinder_skew: Option<f64>,
    /// Angle of the zone's first sector, in sectors.
    #[serde(default, skip_serializing_if = "is_default")]
    pub offset: f64,
    /// Sectors at the zone's start that carry no address: the drive's own data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reserved_front: u64,
    /// Sectors held back as spares, per `spares_per`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spares: u32,
    /// What `spares` counts for; spares lie at its end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spares_per: SparesPer,
    /// Successive cylinders that share their spares, where spares are counted per cylinder: one unless given.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub spares_range: u32,
    /// Defective sectors passed over when the drive was formatted: the numbering slips past them, into the spares at
    /// the end. Counted in physical sectors from the zone's start, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<u64>,
    /// Sectors that turned bad later: `[from, to]`, both in physical sectors from the zone's start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaps: Vec<[u64; 2]>,
}

/// The unit at whose end spares lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SparesPer {
    /// Each zone.
    #[default]
    Zone,
    /// Each cylinder, or each range of `spares_range` cylinders.
    Cylinder,
    /// Each track.
    Track,
}

/// How the arm and the platters move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServoSpec {
    /// Revolutions a minute.
    pub rpm: f64,
    /// From one head of a cylinder to another, until it is on track.
    pub head_switch: Nanos,
    /// Added to the time until the head is on track, where a write begins anew or goes on to another track.
    #[serde(default)]
    pub write_settle: SignedNanos,
    /// Share of the arm's movements after which it is not yet on track: the sector is taken a turn later.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lost_turns: f64,
    /// Arm movement, settling for a read included.
    pub seek: SeekSpec,
    /// Arm movement before a write, where it was measured apart; `write_settle` is added to it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seek_write: Option<SeekSpec>,
}

/// Seek time over a distance in cylinders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "curve", rename_all = "snake_case", deny_unknown_fields)]
pub enum SeekSpec {
    /// Through the three points of a datasheet (Lee's curve; `docs/model.md`, seek).
    Datasheet {
        /// To the neighbouring cylinder.
        track_to_track: Nanos,
        /// Mean over all pairs of cylinders.
        average: Nanos,
        /// From the first cylinder to the last.
        full_stroke: Nanos,
    },
    /// Square root below a threshold, linear from it on (Ruemmler & Wilkes 1994).
    TwoPiece {
        /// The first distance of the linear piece, in cylinders.
        threshold: u32,
        /// The root piece's constant.
        short_base: Nanos,
        /// Times the square root of the distance.
        short_per_root: Nanos,
        /// The linear piece's constant.
        long_base: Nanos,
        /// Times the distance.
        long_per_cylinder: Nanos,
        /// Times of the first distances, from one cylinder on, measured: they stand in place of the curve.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        first: Vec<Nanos>,
    },
    /// Measured points, ascending, with straight lines between. A point for distance 0 is what an access that begins
    /// anew takes where the arm stands already; without one it takes nothing.
    Table {
        /// `[cylinders, "duration"]`.
        points: Vec<(u32, Nanos)>,
    },
}

/// Which waiting command is next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSpec {
    /// Commands accepted at once, 1 to 256.
    pub depth: u32,
    /// The rule of choice.
    pub policy: QueuePolicy,
    /// SPTF: how much of a command's waiting time counts against its positioning time (ASPTF), 0 or more.
    pub age_weight: f64,
    /// A command that waited longer goes first; zero: none does.
    pub age_limit: Nanos,
    /// Only this many of the oldest commands are looked at.
    pub window: u32,
    /// SPTF: a command whose sector would come round within this time after the arm arrives is taken to miss it.
    pub rpo_margin: Nanos,
    /// How much worse a read may be than a write and still go first.
    pub read_preference: Nanos,
}

impl Default for QueueSpec {
    fn default() -> QueueSpec {
        QueueSpec {
            depth: 32,
            policy: QueuePolicy::Sptf,
            age_weight: 0.0,
            age_limit: Nanos::ZERO,
            window: 256,
            rpo_margin: Nanos::ZERO,
            read_preference: Nanos::ZERO,
        }
    }
}

/// The rule by which the next command is chosen, at every command end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueuePolicy {
    /// First come, first served.
    Fcfs,
    /// Shortest seek time first.
    Sstf,
    /// Elevator: on in one direction while something waits there, then back.
    Look,
    /// Elevator in one direction only, then from the start again.
    CLook,
    /// Shortest positioning time (seek and rotation) first: what drive makers call RPO.
    #[default]
    Sptf,
}

/// What is kept in the buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheSpec {
    /// The whole buffer.
    pub size: Bytes,
    /// How it is cut up for reads.
    pub segments: SegmentSpec,
    /// What is read beyond what was asked.
    pub read_ahead: ReadAheadSpec,
    /// What happens to writes.
    pub write: WriteSpec,
    /// A read this near after something cached is a near miss; by default the size of a segment (of `count` equal
    /// ones), which is the longest read-ahead that the buffer could hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub near_window: Option<Bytes>,
    /// How many evicted ranges are remembered, to tell purged misses from pure ones.
    pub ghosts: u32,
}

impl Default for CacheSpec {
    fn default() -> CacheSpec {
        CacheSpec {
            size: Bytes(8 << 20),
            segments: SegmentSpec::default(),
            read_ahead: ReadAheadSpec::default(),
            write: WriteSpec::default(),
            near_window: None,
            ghosts: 1024,
        }
    }
}

/// How the buffer is cut up for reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SegmentSpec {
    /// Equal parts, or as large as each read needs.
    pub mode: SegmentMode,
    /// How many; with `adaptive`, at most.
    pub count: u32,
    /// Which one makes room.
    pub replacement: Replacement,
    /// What becomes of sectors that the host has read.
    pub consumed: Consumed,
}

impl Default for SegmentSpec {
    fn default() -> SegmentSpec {
        SegmentSpec {
            mode: SegmentMode::Fixed,
            count: 16,
            replacement: Replacement::Lru,
            consumed: Consumed::Overwrite,
        }
    }
}

/// How segments get their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentMode {
    /// The buffer in `count` equal parts.
    #[default]
    Fixed,
    /// As large as the read and its read-ahead, while the buffer has room.
    Adaptive,
}

/// Which segment makes room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// Least recently used.
    #[default]
    Lru,
    /// Oldest.
    Fifo,
    /// One that the host has read to its end, else the least recently used.
    ConsumedFirst,
    /// Least recently read sequentially: random reads make room for one another before streams do.
    LeastRecentlySequential,
}

/// What becomes of sectors in a segment that the host has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consumed {
    /// What was asked for last stays: read-ahead takes only the rest of the segment.
    Keep,
    /// They stay until read-ahead needs their room.
    #[default]
    Overwrite,
    /// They are given up at once: to read them again is a miss.
    Discard,
}

/// What is read beyond what was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadAheadSpec {
    /// How far it goes.
    pub mode: ReadAheadMode,
    /// At least this much is read before a waiting command gets the arm.
    pub min: Bytes,
    /// At most this much is read beyond what was asked.
    pub max: Bytes,
    /// Begun only when no command waits, and `min` does not hold.
    pub idle_only: bool,
    /// Begun only after this many commands in sequence; 0: always.
    pub after_sequential: u32,
    /// The track is read from where the head comes down, not only from the first sector asked for.
    pub on_arrival: bool,
    /// Resumed when a hit finds the arm idle.
    pub resume_on_hit: bool,
}

impl Default for ReadAheadSpec {
    fn default() -> ReadAheadSpec {
        ReadAheadSpec {
            mode: ReadAheadMode::Fixed,
            min: Bytes::ZERO,
            max: Bytes(256 << 10),
            idle_only: false,
            after_sequential: 0,
            on_arrival: false,
            resume_on_hit: false,
        }
    }
}

/// How far read-ahead goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadAheadMode {
    /// Not at all.
    Off,
    /// To the end of the track.
    TrackEnd,
    /// To the end of the track after that one.
    NextTrack,
    /// To the end of the cylinder.
    CylinderEnd,
    /// `max` sectors.
    #[default]
    Fixed,
    /// Until the segment is full.
    Segment,
}

/// What happens to writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WriteSpec {
    /// Acknowledged from the cache.
    pub enabled: bool,
    /// Written data takes room from reads, or has a part of its own beside them.
    pub share: WriteShare,
    /// Dirty data held at most.
    pub limit: Bytes,
    /// Share of `limit` at which writing to the medium begins, 0 to 1.
    pub high_watermark: f64,
    /// Share of `limit` at which it ends again.
    pub low_watermark: f64,
    /// Written to the medium after the drive was idle this long; zero: never on that ground.
    pub idle_delay: Nanos,
    /// Written when dirty for longer than this; zero: never on that ground.
    pub max_age: Nanos,
    /// So many of the oldest dirty ranges are weighed for which the arm reaches soonest.
    pub window: u32,
    /// Adjacent and overlapping dirty ranges become one.
    pub coalesce: bool,
    /// The most written to the medium in one go.
    pub destage_max: Bytes,
    /// What a write does to cached reads of the same sectors.
    pub on_cached: WriteOnCached,
    /// Written data stays readable from the cache after it went to the medium.
    pub keep: bool,
}

impl Default for WriteSpec {
    fn default() -> WriteSpec {
        WriteSpec {
            enabled: true,
            share: WriteShare::Shared,
            limit: Bytes(4 << 20),
            high_watermark: 0.75,
            low_watermark: 0.5,
            idle_delay: Nanos(100_000_000),
            max_age: Nanos(10_000_000_000),
            window: 128,
            coalesce: true,
            destage_max: Bytes(1 << 20),
            on_cached: WriteOnCached::Invalidate,
            keep: false,
        }
    }
}

/// Whose room dirty data takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteShare {
    /// That of reads, as it is needed.
    #[default]
    Shared,
    /// Its own: `limit` is taken off the buffer for good.
    Separate,
}

/// What a write does to cached reads of the same sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteOnCached {
    /// They are dropped, and a running read-ahead of them ends.
    #[default]
    Invalidate,
    /// They take the new content.
    Update,
}

/// The way to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InterfaceSpec {
    /// Link rate, in bytes a second.
    pub link_rate: Bytes,
    /// The same from the host to the drive, where it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_rate_write: Option<Bytes>,
    /// Data goes to the host while the rest is still coming from the medium.
    pub overlap: bool,
    /// With `overlap`: the share of what a read waits for that must have come from the medium before it goes to the
    /// host, 0 to 1.
    pub read_watermark: f64,
    /// Of a partial hit, the cached part goes to the host at once.
    pub immediate_partial: bool,
    /// Command processing, by kind.
    pub overhead: OverheadSpec,
}

impl Default for InterfaceSpec {
    fn default() -> InterfaceSpec {
        InterfaceSpec {
            link_rate: Bytes(150_000_000),
            link_rate_write: None,
            overlap: true,
            read_watermark: 0.0,
            immediate_partial: true,
            overhead: OverheadSpec::default(),
        }
    }
}

/// Command processing before anything else happens, by kind of command and of the command before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OverheadSpec {
    /// A read found in the cache.
    pub read_hit: Overhead,
    /// A read that needs the medium.
    pub read_miss: Overhead,
    /// A write taken into the cache.
    pub write_hit: Overhead,
    /// A write that goes to the medium: until the arm may set out.
    pub write_miss: Overhead,
    /// The same, until its data is asked for, where that is not when the arm may set out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_data: Option<Overhead>,
    /// Flush and discard.
    pub control: Overhead,
    /// Until the link is taken again for data that a read had to wait for.
    pub reconnect: Nanos,
    /// After the last byte, of any command.
    pub completion: Nanos,
    /// The same of a write that went to the medium, where it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_write: Option<Nanos>,
}

impl Default for OverheadSpec {
    fn default() -> OverheadSpec {
        OverheadSpec {
            read_hit: Overhead::Same(Nanos(50_000)),
            read_miss: Overhead::Same(Nanos(100_000)),
            write_hit: Overhead::Same(Nanos(50_000)),
            write_miss: Overhead::Same(Nanos(100_000)),
            write_data: None,
            control: Overhead::Same(Nanos(50_000)),
            reconnect: Nanos::ZERO,
            completion: Nanos::ZERO,
            completion_write: None,
        }
    }
}

/// One duration, or several by the command before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Overhead {
    /// The same after any command.
    Same(Nanos),
    /// By the command before.
    After {
        /// After a read.
        after_read: Nanos,
        /// After a write.
        after_write: Nanos,
        /// Where the command goes on where the one before it, of the same kind, ended; by default no exception.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        in_sequence: Option<Nanos>,
    },
}

/// The command before another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// It was a write.
    pub write: bool,
    /// It was of the same kind, and ended where the other one begins.
    pub continued: bool,
}

impl Overhead {
    /// The overhead after a command like that.
    #[must_use]
    pub fn after(self, before: Before) -> Nanos {
        match self {
            Overhead::Same(time) => time,
            Overhead::After { in_sequence: Some(time), .. } if before.continued => time,
            Overhead::After { after_write, .. } if before.write => after_write,
            Overhead::After { after_read, .. } => after_read,
        }
    }
}

/// A span that may be negative, in nanoseconds: `"-0.2ms"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignedNanos(pub i64);

impl Serialize for SignedNanos {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sign = if self.0 < 0 { "-" } else { "" };
        serializer.collect_str(&format_args!("{sign}{}", Nanos(self.0.unsigned_abs())))
    }
}

impl<'de> Deserialize<'de> for SignedNanos {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<SignedNanos, D::Error> {
        use serde::de::Error;
        let text = match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => text,
            other => other.to_string(),
        };
        let (negative, size) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.as_str()),
        };
        let size: Nanos = size.parse().map_err(D::Error::custom)?;
        let size = i64::try_from(size.0).map_err(|_| D::Error::custom("the duration is too large"))?;
        Ok(SignedNanos(if negative { -size } else { size }))
    }
}

fn one() -> u32 {
    1
}

fn is_one(value: &u32) -> bool {
    *value == 1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
