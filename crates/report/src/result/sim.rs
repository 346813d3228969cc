//! The result of one simulation: indices over the whole run, and per chunk.

pub(super) mod chart;
mod series;
mod verdict;

use sakiyomi_model::ReadClass;
use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::document::Machine;
use crate::rows::Rows;
use crate::section::{Fact, Finding, Glossary, Group, Present, Section, Totals, changed};
use crate::value::{Aim, Value};
use crate::{glossary, label, number};

pub use series::{ChunkMode, ChunkPoint, Chunking, CurvePoint, HistogramBin, ResponseSummary, curve_shares};
pub(crate) use verdict::{compare, same_workload};

/// All indices of one trace on one drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SimResult {
    /// The name of the trace.
    pub trace: String,
    /// The name of the drive.
    pub drive: String,
    /// Settings that differ from the drive's own file, such as `cache.read_ahead.max=1MiB`.
    pub settings: Vec<String>,
    /// The mode of replay, unless the trace was simply replayed at its own times: `closed loop, 8 outstanding`,
    /// `wrapped`.
    #[serde(default)]
    pub replay: Vec<String>,
    /// Warm-up time from the trace's beginning that is not counted, in nanoseconds.
    pub warm_up_ns: u64,
    /// Counted commands.
    pub commands: u64,
    /// Reads among the commands.
    pub reads: u64,
    /// Writes among the commands.
    pub writes: u64,
    /// Flushes among the commands.
    pub flushes: u64,
    /// Discards among the commands.
    pub discards: u64,
    /// Full and active hits over reads; 0 without reads.
    pub hit_ratio: f64,
    /// The reads by class.
    #[serde(flatten)]
    pub read_counts: ReadCounts,
    /// Writes acknowledged from the write cache.
    pub writes_absorbed: u64,
    /// Writes that waited for the medium.
    pub writes_media: u64,
    /// Bytes requested by the reads.
    pub read_bytes: u64,
    /// Bytes transferred by the writes.
    pub written_bytes: u64,
    /// Positionings of the head.
    pub seeks: Seeks,
    /// Response time, from the moment when the host issued a command to its end: all commands.
    pub response_ns: Spread,
    /// Response time of reads.
    pub read_response_ns: Spread,
    /// Response time of writes.
    pub write_response_ns: Spread,
    /// Time in the device, without the host's queue: all commands.
    pub device_ns: Spread,
    /// The queue in front of the device.
    pub host_queue: HostQueue,
    /// Time of the disk by activity.
    pub disk_time_ns: DiskTime,
    /// The counted simulated time in nanoseconds.
    pub simulated_ns: u64,
    /// Parts of a command's time in the device, by class.
    pub breakdown_mean_ns: Vec<ClassBreakdown>,
    /// The division of the run into chunks.
    pub chunking: Chunking,
    /// The chunks in order of time; at most about 2,000, merged by the producer if there were more.
    pub chunks: Vec<ChunkPoint>,
    /// All response times in ascending order (Hosogi 2013, figure 2), thinned; denser at the tail.
    pub response_curve: Vec<CurvePoint>,
    /// Number of commands by response time and class; bins are log-spaced.
    pub response_histogram: Vec<HistogramBin>,
}

/// Reads by their outcome in the cache (Hosogi 2013, table 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadCounts {
    /// All sectors were in the cache.
    pub full_hits: u64,
    /// The rest was already being read: no new positioning.
    pub active_hits: u64,
    /// The first missing sector is shortly after cached ones.
    pub near_misses: u64,
    /// The first missing sector had been evicted.
    pub purged_misses: u64,
    /// All other misses.
    pub pure_misses: u64,
}

/// Number of positionings of the head, by their purpose.
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
    /// Returns their total.
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
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Maximum.
    pub max: u64,
}

/// The host's queue in front of a full device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostQueue {
    /// Mean wait of a command in nanoseconds.
    pub wait_mean_ns: u64,
    /// Longest wait of a command in nanoseconds.
    pub wait_max_ns: u64,
    /// Maximum length of the queue, in commands.
    pub backlog_max: u64,
    /// Commands that arrived late because the bounded queue was full.
    #[serde(default)]
    pub held_back: u64,
}

/// Disk time in nanoseconds. A seek lasts until the head has arrived: arm movement and rotational latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskTime {
    /// Idle.
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
    /// Returns the idle time over the total time; 0 if the total is 0.
    #[must_use]
    pub fn idle_ratio(self) -> f64 {
        let parts = [self.idle, self.read_seek, self.read_data, self.write_seek, self.write_data];
        let total: f64 = parts.iter().map(|&part| part as f64).sum();
        if total > 0.0 { self.idle as f64 / total } else { 0.0 }
    }
}

/// Parts of the time in the device of one class of commands: means in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassBreakdown {
    /// The class's name, as [`sakiyomi_model::Class::name`] gives it.
    pub class: String,
    /// Number of commands.
    pub commands: u64,
    /// Waiting for other commands, and for room in the write cache.
    pub queue: u64,
    /// Command processing and link.
    pub overhead: u64,
    /// Arm movement, settling, head switches.
    pub seek: u64,
    /// Rotational latency: waiting for the first sector.
    pub rotation: u64,
    /// Media transfer.
    pub transfer: u64,
}

impl ClassBreakdown {
    /// Returns the mean time in the device in nanoseconds.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        [self.queue, self.overhead, self.seek, self.rotation, self.transfer]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

impl Present for SimResult {
    const SCHEMA: &'static str = "sakiyomi.sim/1";

    fn title(&self) -> String {
        format!("{} on {}", self.trace, self.drive)
    }

    fn verdict(&self) -> Vec<Finding> {
        Finding::whole(verdict::verdict(self))
    }

    fn settings(&self) -> Vec<Fact> {
        let warm_up =
            (self.warm_up_ns > 0).then(|| format!("the first {}", number::duration(self.warm_up_ns)));
        changed(&self.settings)
            .chain([Fact::new("Replay", replay(&self.replay)), Fact::new("Chunks", self.chunking.describe())])
            .chain(warm_up.map(|text| Fact::new("Not counted", text).or("nothing")))
            .collect()
    }

    fn sections(&self) -> Vec<Section> {
        let groups = vec![
            self.commands(),
            Group::new("Reads", self.read_counts.facts(self.reads, self.hit_ratio)),
            Group::new("Seeks", self.seeks.facts()),
            self.host_queue.group(),
            Group::new("Disk time", self.disk_time_ns.facts()),
        ];
        let mut sections = vec![responses([
            ("all commands", &self.response_ns),
            ("reads", &self.read_response_ns),
            ("writes", &self.write_response_ns),
            ("in the device", &self.device_ns),
        ])];
        sections.push(Section::Totals(Totals { columns: Vec::new(), groups }));
        sections
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        chart::charts(self)
    }

    fn glossary(&self) -> Glossary {
        glossary::SIM
    }
}

impl SimResult {
    fn commands(&self) -> Group {
        Group::new(
            "Commands",
            [
                Fact::count("all", self.commands),
                Fact::count("reads", self.reads),
                Fact::count("writes", self.writes),
                Fact::count("flushes", self.flushes),
                Fact::count("discards", self.discards),
                Fact::size("read", self.read_bytes),
                Fact::size("written", self.written_bytes),
                Fact::count("writes absorbed", self.writes_absorbed).aim(Aim::High),
                Fact::count("writes to the medium", self.writes_media).aim(Aim::Low),
                Fact::time("simulated", self.simulated_ns),
            ],
        )
    }
}

/// Describes the mode in which a trace was replayed.
pub(super) fn replay(words: &[String]) -> String {
    if words.is_empty() { "at the trace's times".to_owned() } else { words.join(", ") }
}

/// Returns a table of response times, with a row for each kind.
pub(super) fn responses<const N: usize>(rows: [(&'static str, &Spread); N]) -> Section {
    Rows::new("response", "Response", rows)
        .text("", |&(name, _)| name)
        .figure("mean", |(_, of)| Value::Time(of.mean))
        .figure("median", |(_, of)| Value::Time(of.p50))
        .figure("p90", |(_, of)| Value::Time(of.p90))
        .figure("p99", |(_, of)| Value::Time(of.p99))
        .figure("p99.9", |(_, of)| Value::Time(of.p999))
        .figure("longest", |(_, of)| Value::Time(of.max))
        .aim(Aim::Low)
        .section()
}

impl ReadCounts {
    /// Returns the number of reads of a class.
    pub(crate) fn of(&self, class: ReadClass) -> u64 {
        match class {
            ReadClass::FullHit => self.full_hits,
            ReadClass::ActiveHit => self.active_hits,
            ReadClass::NearMiss => self.near_misses,
            ReadClass::PurgedMiss => self.purged_misses,
            ReadClass::PureMiss => self.pure_misses,
        }
    }

    fn facts(&self, reads: u64, hit_ratio: f64) -> Vec<Fact> {
        let class = |class: ReadClass| {
            let aim = match class {
                ReadClass::FullHit => Aim::High,
                ReadClass::ActiveHit => Aim::None,
                ReadClass::NearMiss | ReadClass::PurgedMiss | ReadClass::PureMiss => Aim::Low,
            };
            Fact::count(label::read(class), self.of(class)).of(reads).aim(aim)
        };
        let hit_rate = Fact::new("hit rate", Value::Share(hit_ratio)).aim(Aim::High);
        std::iter::once(hit_rate).chain(ReadClass::ALL.map(class)).collect()
    }
}

impl Seeks {
    fn facts(self) -> impl Iterator<Item = Fact> {
        let all = self.total();
        let parts = [("read", self.read), ("read near miss", self.read_near_miss), ("write", self.write)];
        let parts = parts.map(|(name, seeks)| Fact::count(name, seeks).of(all));
        std::iter::once(Fact::count("all", all)).chain(parts).map(|fact| fact.aim(Aim::Low))
    }
}

impl HostQueue {
    fn group(self) -> Group {
        let facts = [
            Fact::time("mean wait", self.wait_mean_ns),
            Fact::time("longest wait", self.wait_max_ns),
            Fact::count("most commands waiting", self.backlog_max),
            Fact::count("delayed because it was full", self.held_back),
        ];
        Group::new("Host's queue", facts.map(|fact| fact.aim(Aim::Low)))
    }
}

impl DiskTime {
    fn facts(self) -> impl Iterator<Item = Fact> {
        let parts = [
            ("idle", self.idle, Aim::High),
            ("read seek", self.read_seek, Aim::Low),
            ("read data", self.read_data, Aim::None),
            ("write seek", self.write_seek, Aim::Low),
            ("write data", self.write_data, Aim::None),
        ];
        let total = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.1));
        parts.into_iter().map(move |(name, ns, aim)| Fact::time(name, ns).of(total).aim(aim))
    }
}
