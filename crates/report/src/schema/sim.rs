//! The result of one simulation: indices over the whole run, and per chunk.

use serde::{Deserialize, Serialize};

/// All indices of one trace on one drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SimResult {
    /// The name of the trace.
    pub trace: String,
    /// The name of the drive.
    pub drive: String,
    /// What was set differently from the drive's own file, like `cache.read_ahead.max=1MiB`.
    pub settings: Vec<String>,
    /// How the trace was replayed, where it was not simply at its own times: `closed loop, 8 outstanding`, `wrapped`.
    #[serde(default)]
    pub replay: Vec<String>,
    /// How much of the trace's beginning is not counted.
    pub warm_up_ns: u64,
    /// Commands that were counted.
    pub commands: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Flushes among them.
    pub flushes: u64,
    /// Discards among them.
    pub discards: u64,
    /// Full and active hits over reads; 0 where there was no read.
    pub hit_ratio: f64,
    /// The reads by class.
    #[serde(flatten)]
    pub read_counts: ReadCounts,
    /// Writes acknowledged from the write cache.
    pub writes_absorbed: u64,
    /// Writes that waited for the medium.
    pub writes_media: u64,
    /// What the reads asked for.
    pub read_bytes: u64,
    /// What the writes brought.
    pub written_bytes: u64,
    /// Positionings of the head.
    pub seeks: Seeks,
    /// From when the host wanted a command to its end: all commands.
    pub response_ns: Spread,
    /// The same, reads only.
    pub read_response_ns: Spread,
    /// The same, writes only.
    pub write_response_ns: Spread,
    /// Time inside the device, without the host's queue: all commands.
    pub device_ns: Spread,
    /// The queue in front of the device.
    pub host_queue: HostQueue,
    /// What the disk's time went into.
    pub disk_time_ns: DiskTime,
    /// The simulated span that is counted.
    pub simulated_ns: u64,
    /// Where a command's time in the device went, by class.
    pub breakdown_mean_ns: Vec<ClassBreakdown>,
    /// How the run was cut into chunks.
    pub chunking: Chunking,
    /// The chunks in order of time; at most about 2,000, merged by the producer where there were more.
    pub chunks: Vec<ChunkPoint>,
    /// All response times in ascending order (Hosogi 2013, figure 2), thinned; denser at the tail.
    pub response_curve: Vec<CurvePoint>,
    /// How many commands took how long, by class; bins are log-spaced.
    pub response_histogram: Vec<HistogramBin>,
}

/// Reads by what they met in the cache (Hosogi 2013, table 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadCounts {
    /// Every sector was in the cache.
    pub full_hits: u64,
    /// The rest was just being read: no new positioning.
    pub active_hits: u64,
    /// The first missing sector lay shortly after something cached.
    pub near_misses: u64,
    /// The first missing sector had been evicted.
    pub purged_misses: u64,
    /// Neither.
    pub pure_misses: u64,
}

/// How often the head was positioned, and for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seeks {
    /// For reads other than near misses.
    pub read: u64,
    /// For near misses.
    pub read_near_miss: u64,
    /// For writes.
    pub write: u64,
}

impl Seeks {
    /// All of them.
    #[must_use]
    pub fn total(self) -> u64 {
        self.read.saturating_add(self.read_near_miss).saturating_add(self.write)
    }
}

/// Mean, percentiles and maximum of times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// The mean, rounded.
    pub mean: u64,
    /// The median.
    pub p50: u64,
    /// 90 % took no longer.
    pub p90: u64,
    /// 99 % took no longer.
    pub p99: u64,
    /// 99.9 % took no longer.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

/// The queue in front of a device that has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostQueue {
    /// How long a command waited on average.
    pub wait_mean_ns: u64,
    /// How long one waited at most.
    pub wait_max_ns: u64,
    /// How many waited at once at most.
    pub backlog_max: u64,
    /// How many came late because the queue was full, bounded as it is.
    #[serde(default)]
    pub held_back: u64,
}

/// Disk time in nanoseconds. Seek means until the head arrives: arm movement and rotational wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskTime {
    /// Nothing to do.
    pub idle: u64,
    /// Positioning for reads and read-ahead.
    pub read_seek: u64,
    /// Reading the medium.
    pub read_data: u64,
    /// Positioning for writes.
    pub write_seek: u64,
    /// Writing the medium.
    pub write_data: u64,
}

impl DiskTime {
    /// Idle time over all time; 0 where there was no time.
    #[must_use]
    pub fn idle_ratio(self) -> f64 {
        let parts = [self.idle, self.read_seek, self.read_data, self.write_seek, self.write_data];
        let total: f64 = parts.iter().map(|&part| part as f64).sum();
        if total > 0.0 { self.idle as f64 / total } else { 0.0 }
    }
}

/// Where the time in the device of one class of commands went: means in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassBreakdown {
    /// The class's name, as [`sakiyomi_model::Class::name`] gives it.
    pub class: String,
    /// How many commands.
    pub commands: u64,
    /// Waiting for other commands, and for room in the write cache.
    pub queue: u64,
    /// Command processing and link.
    pub overhead: u64,
    /// Arm movement, settling, head switches.
    pub seek: u64,
    /// Waiting for the first sector to come round.
    pub rotation: u64,
    /// Media transfer.
    pub transfer: u64,
}

impl ClassBreakdown {
    /// Mean time in the device.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        [self.queue, self.overhead, self.seek, self.rotation, self.transfer]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

/// How a run is cut into chunks (Hosogi 2013, table 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunking {
    /// By what.
    pub mode: ChunkMode,
    /// The size of a chunk: nanoseconds, bytes or commands, by `mode`.
    pub size: u64,
    /// How many chunks one [`ChunkPoint`] stands for.
    pub chunks_per_point: u64,
}

/// What makes a chunk full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkMode {
    /// A span of time (Δtime).
    #[default]
    Time,
    /// A sum of command lengths (Δcapacity).
    Bytes,
    /// A number of commands (Δevents).
    Commands,
}

/// The indices of one chunk, or of a few that were merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkPoint {
    /// Where it begins on the simulated time line.
    pub start_ns: u64,
    /// Where it ends.
    pub end_ns: u64,
    /// Commands that ended in it.
    pub commands: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// The reads by class.
    #[serde(flatten)]
    pub read_counts: ReadCounts,
    /// Positionings of the head.
    pub seeks: Seeks,
    /// Response of the commands.
    pub response_ns: ResponseSummary,
    /// What the disk's time went into.
    pub disk_time_ns: DiskTime,
    /// How many commands waited in the host's queue at most.
    pub backlog_max: u64,
}

/// The response times of a chunk, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseSummary {
    /// The mean, rounded.
    pub mean: u64,
    /// 99 % took no longer.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// One point of the ascending curve: `share_ratio` of the commands took no longer than `response_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Share of the commands, 0 to 1.
    pub share_ratio: f64,
    /// Response time.
    pub response_ns: u64,
}

/// How many commands took from `from_ns` up to `to_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistogramBin {
    /// The shortest response of the bin.
    pub from_ns: u64,
    /// The first response beyond the bin.
    pub to_ns: u64,
    /// Reads by class.
    #[serde(flatten)]
    pub read_counts: ReadCounts,
    /// Writes.
    pub writes: u64,
}
