//! Compression levels of spilled data.

use serde::Serialize;

/// A compression of spilled data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// None.
    #[default]
    None,
    /// LZ4 blocks.
    Lz4,
    /// Zstandard, level 1.
    Zstd,
    /// Zstandard, level 3.
    Zstd3,
}

/// Number of levels.
pub(crate) const LEVEL_COUNT: usize = 4;

/// The compression of the data that a job spills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpillCompression {
    /// The level that makes spilling fastest, chosen while spilling.
    #[default]
    Adaptive,
    /// One level.
    Fixed(Level),
}

/// Bytes spilled with one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LevelBytes {
    /// The level.
    pub level: Level,
    /// Bytes before compression.
    pub raw_bytes: u64,
    /// Bytes on disk.
    pub stored_bytes: u64,
}

impl Level {
    /// All levels, from the fastest.
    pub const ALL: [Level; LEVEL_COUNT] = [Level::None, Level::Lz4, Level::Zstd, Level::Zstd3];

    /// Its name in options and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::Lz4 => "lz4",
            Level::Zstd => "zstd",
            Level::Zstd3 => "zstd3",
        }
    }

    /// Returns the next faster level.
    pub(crate) fn lower(self) -> Option<Level> {
        (self as usize).checked_sub(1).map(|index| Level::ALL[index])
    }

    /// Returns a lower limit of its time per byte in nanoseconds, on a fast core and data that suits it.
    pub(crate) fn min_ns_per_byte(self) -> f64 {
        match self {
            Level::None => 0.0,
            Level::Lz4 => 0.2,
            Level::Zstd => 0.6,
            Level::Zstd3 => 1.2,
        }
    }

    /// Returns the usual time to restore a byte as a share of the time to compress it.
    pub(crate) fn restore_share(self) -> f64 {
        match self {
            Level::None => 0.0,
            Level::Lz4 => 0.35,
            Level::Zstd => 0.4,
            Level::Zstd3 => 0.25,
        }
    }
}
