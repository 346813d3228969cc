//! What is kept in the buffer, read ahead, and written later: `cache.*`.

use sakiyomi_model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

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
