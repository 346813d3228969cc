//! A run over time, and the distribution of its response times: the data of the charts.

use serde::{Deserialize, Serialize};

use crate::number;

use super::{DiskTime, ReadCounts, Seeks};

/// The division of a run into chunks (Hosogi 2013, table 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunking {
    /// The limit at which a chunk ends.
    pub mode: ChunkMode,
    /// The size of a chunk: nanoseconds, bytes or commands, by `mode`.
    pub size: u64,
    /// Number of chunks per [`ChunkPoint`].
    pub chunks_per_point: u64,
}

impl Chunking {
    /// Describes the division: `each 1.00 s of simulated time`.
    pub(super) fn describe(self) -> String {
        let size = match self.mode {
            ChunkMode::Time => format!("each {} of simulated time", number::duration(self.size)),
            ChunkMode::Bytes => format!("each {} requested", number::bytes(self.size)),
            ChunkMode::Commands => format!("each {} commands", number::count(self.size)),
        };
        match self.chunks_per_point {
            0 | 1 => size,
            merged => format!("{size}, {} drawn as one", number::count(merged)),
        }
    }
}

/// The limit of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkMode {
    /// A simulated time (Δtime).
    #[default]
    Time,
    /// A sum of command lengths (Δcapacity).
    Bytes,
    /// A number of commands (Δevents).
    Commands,
}

/// The indices of one chunk, or of several merged ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkPoint {
    /// Start on the simulated time line, in nanoseconds.
    pub start_ns: u64,
    /// End, likewise.
    pub end_ns: u64,
    /// Commands that ended in it.
    pub commands: u64,
    /// Reads among the commands.
    pub reads: u64,
    /// Writes among the commands.
    pub writes: u64,
    /// The reads by class.
    #[serde(flatten)]
    pub read_counts: ReadCounts,
    /// Positionings of the head.
    pub seeks: Seeks,
    /// Response times of the commands.
    pub response_ns: ResponseSummary,
    /// The disk's time by activity.
    pub disk_time_ns: DiskTime,
    /// Maximum length of the host's queue, in commands.
    pub backlog_max: u64,
}

/// The response times of a chunk, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseSummary {
    /// The mean, rounded.
    pub mean: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Maximum.
    pub max: u64,
}

/// A point of the ascending curve: `share_ratio` of the commands took at most `response_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Share of the commands, 0 to 1.
    pub share_ratio: f64,
    /// Response time in nanoseconds.
    pub response_ns: u64,
}

/// Number of commands with a response from `from_ns` up to `to_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistogramBin {
    /// Lower bound of the response time, inclusive.
    pub from_ns: u64,
    /// Upper bound, exclusive.
    pub to_ns: u64,
    /// Reads by class.
    #[serde(flatten)]
    pub read_counts: ReadCounts,
    /// Writes.
    pub writes: u64,
}

/// Returns the shares at which `count` times in ascending order are drawn: every 0.2 %, and denser towards the
/// slowest.
pub fn curve_shares(count: u64) -> impl Iterator<Item = f64> {
    let even = (0..=500).map(|step| f64::from(step) / 500.0 * 0.99);
    let tail = (1..=300).map(|step| 1.0 - 0.01 * 10f64.powf(-f64::from(step) / 100.0));
    even.chain(tail).take_while(move |share| (1.0 - share) * count as f64 >= 0.5).chain([1.0])
}
