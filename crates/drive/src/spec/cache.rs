//! Buffer parameters: read segments, read-ahead, write cache (`cache.*`).

use sakiyomi_model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Parameters of the buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheSpec {
    /// Size of the whole buffer.
    pub size: Bytes,
    /// Segmentation for reads.
    pub segments: SegmentSpec,
    /// Read-ahead.
    pub read_ahead: ReadAheadSpec,
    /// Write cache.
    pub write: WriteSpec,
    /// Distance after cached data within which a read is a near miss; by default the size of a segment (of `count`
    /// equal ones), which is the longest read-ahead that the buffer could hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub near_window: Option<Bytes>,
    /// Number of evicted ranges remembered, to distinguish purged misses from pure ones.
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

/// Segmentation of the buffer for reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SegmentSpec {
    /// Equal segments, or sized by each read.
    pub mode: SegmentMode,
    /// Number of segments; with `adaptive`, the maximum.
    pub count: u32,
    /// Replacement policy.
    pub replacement: Replacement,
    /// Handling of sectors that the host has read.
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

/// Sizing of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentMode {
    /// `count` equal segments.
    #[default]
    Fixed,
    /// Each segment is as large as the read and its read-ahead, while the buffer has space.
    Adaptive,
}

/// Replacement policies of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// Least recently used.
    #[default]
    Lru,
    /// First in, first out.
    Fifo,
    /// A segment that the host has read to its end, else the least recently used.
    ConsumedFirst,
    /// Least recently read sequentially: random reads replace one another before they replace streams.
    LeastRecentlySequential,
}

/// Handling of sectors in a segment that the host has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consumed {
    /// The last request's sectors stay: read-ahead uses only the rest of the segment.
    Keep,
    /// They stay until read-ahead needs their space.
    #[default]
    Overwrite,
    /// They are discarded at once: reading them again is a miss.
    Discard,
}

/// Read-ahead parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadAheadSpec {
    /// Extent of read-ahead.
    pub mode: ReadAheadMode,
    /// Minimum read-ahead before a waiting command gets the arm.
    pub min: Bytes,
    /// Maximum read-ahead beyond the request.
    pub max: Bytes,
    /// Starts only while no command waits; `min` is then ignored.
    pub idle_only: bool,
    /// Starts only after this many sequential commands; 0: always.
    pub after_sequential: u32,
    /// Reads the track from the position at which the head settles, not only from the first sector requested.
    pub on_arrival: bool,
    /// Resumes when a hit finds the arm idle.
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

/// Extents of read-ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadAheadMode {
    /// No read-ahead.
    Off,
    /// To the end of the track.
    TrackEnd,
    /// To the end of the track after that one.
    NextTrack,
    /// To the end of the cylinder.
    CylinderEnd,
    /// Up to `max` bytes.
    #[default]
    Fixed,
    /// Until the segment is full.
    Segment,
}

/// Write cache parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WriteSpec {
    /// Acknowledges writes from the cache.
    pub enabled: bool,
    /// Shares the buffer with reads, or has a part of its own.
    pub share: WriteShare,
    /// Maximum amount of dirty data.
    pub limit: Bytes,
    /// Share of `limit` at which destaging begins, 0 to 1.
    pub high_watermark: f64,
    /// Share of `limit` at which destaging ends.
    pub low_watermark: f64,
    /// Destages after the drive was idle this long; zero: never for this reason.
    pub idle_delay: Nanos,
    /// Destages data that has been dirty for longer; zero: never for this reason.
    pub max_age: Nanos,
    /// Number of the oldest dirty ranges among which the one with the shortest positioning time is chosen.
    pub window: u32,
    /// Merges adjacent and overlapping dirty ranges.
    pub coalesce: bool,
    /// Maximum amount written to the medium in one access.
    pub destage_max: Bytes,
    /// Effect of a write on cached reads of the same sectors.
    pub on_cached: WriteOnCached,
    /// Keeps written data readable from the cache after destaging.
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

/// Allocation of the write cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteShare {
    /// Dirty data takes space from reads as needed.
    #[default]
    Shared,
    /// Dirty data has its own part: `limit` is permanently taken from the buffer.
    Separate,
}

/// Effect of a write on cached reads of the same sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteOnCached {
    /// They are dropped, and a running read-ahead of them ends.
    #[default]
    Invalidate,
    /// They take the new content.
    Update,
}
