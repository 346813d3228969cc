//! Description of an experiment, as in its TOML file: drive, memory, programs, prefetching, varied keys, and published
//! results.

mod check;
mod edit;
mod error;
mod job;
mod machine;
mod rate;
mod regulate;

use std::collections::BTreeMap;

use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_regulate::{Arrivals, Requested};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use error::SpecError;
pub use job::{Buffer, JobSpec, Order, ReadMethod};
pub use machine::{CoreScheduler, HopSpec, MachineSpec};
pub use rate::RateChoice;
pub use regulate::{
    AllowanceChoice, CountedChoice, MarginChoice, PolicyName, RegulateSpec, ReleaseChoice, ServesChoice,
    WindowChoice,
};

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Title.
    pub name: String,
    /// Repetitions and seed.
    #[serde(default)]
    pub run: RunSpec,
    /// Storage device.
    pub drive: DriveChoice,
    /// The host's block queue.
    #[serde(default)]
    pub queue: QueueSpec,
    /// The page cache.
    #[serde(default)]
    pub memory: MemorySpec,
    /// The cores.
    #[serde(default)]
    pub cpu: CpuSpec,
    /// Distances between cores.
    #[serde(default)]
    pub machine: MachineSpec,
    /// Programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub process: Vec<ProcessSpec>,
    /// Jobs of tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub job: Vec<JobSpec>,
    /// Prefetching.
    #[serde(default)]
    pub prefetch: PrefetchSpec,
    /// Regulation of the I/O times of programs with a rate; the defaults if `None` and a program has a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regulate: Option<RegulateSpec>,
    /// Keys that are set together, by group and name, such as those of a computer or of a pattern. `case.GROUP` is a
    /// key whose values are the names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub case: BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>,
    /// Keys with the values to try, unless the command line says otherwise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vary: BTreeMap<String, Vec<String>>,
    /// Published times, printed beside the simulated ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
}

/// Repetitions, seed, and measured interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunSpec {
    /// Seed of all randomness: spindle phase, addresses of random readers, gaps between fragments of files.
    pub seed: u64,
    /// Repetitions of each point, each with the next seed. The minimum time is reported, as in the paper, and for
    /// regulation the medians.
    pub repetitions: u32,
    /// Condition for the end.
    pub until: Until,
    /// Initial time that is not counted in the figures of regulation.
    pub warm_up: Nanos,
    /// Time before the end of the first program that is not counted in the figures of regulation, as is any time after
    /// it, because fewer programs then use the device.
    pub cool_down: Nanos,
}

/// Condition for the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Until {
    /// The end of all programs.
    #[default]
    All,
    /// The end of the first program.
    First,
}

impl Default for RunSpec {
    fn default() -> RunSpec {
        RunSpec { seed: 1, repetitions: 1, until: Until::All, warm_up: Nanos::ZERO, cool_down: Nanos::ZERO }
    }
}

/// Storage device: either `model` or `fixed`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DriveChoice {
    /// A built-in drive, or a drive's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Storage with position-independent service times: `latency=10ms,parallel=64,bandwidth=200MB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed: Option<String>,
    /// Changed parameters of the drive, by key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
}

/// I/O scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheduler {
    /// First in, first out.
    Noop,
    /// Reads before writes, in batches of ascending order, until a request has expired.
    #[default]
    Deadline,
}

/// The host's block queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSpec {
    /// I/O scheduler.
    pub scheduler: Scheduler,
    /// Maximum size of a merged request.
    pub max_request: Bytes,
    /// Maximum number of waiting requests per direction; prefetching and write-back wait beyond it.
    pub requests: u32,
    /// Number of timer ticks for which an empty queue is plugged, unless a thread waits or requests accumulate
    /// (`unplug_delay`); 0 for no plugging, as in kernels since 2.6.39.
    pub plug_ticks: u32,
}

impl Default for QueueSpec {
    fn default() -> QueueSpec {
        QueueSpec {
            scheduler: Scheduler::Deadline,
            max_request: Bytes(512 << 10),
            requests: 128,
            plug_ticks: 0,
        }
    }
}

/// Page replacement policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// Two lists, as in Linux: the coldest page among those used at most once is evicted.
    #[default]
    TwoLists,
    /// Least recently used.
    Lru,
}

/// Kernel whose read-ahead is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kernel {
    /// Linux since 2.6.31.
    #[default]
    Linux,
    /// Mac OS X 10.9.
    Xnu,
}

/// The page cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemorySpec {
    /// Kernel whose read-ahead is simulated.
    pub kernel: Kernel,
    /// Capacity: memory left free by the kernel and the programs.
    pub size: Bytes,
    /// Page size.
    pub page: Bytes,
    /// Page replacement policy.
    pub replacement: Replacement,
    /// Maximum window of the kernel's read-ahead; 0 for none.
    pub read_ahead: Bytes,
    /// Maximum amount loaded for a missing page of a mapping; as `read_ahead` if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Bytes>,
    /// Whether the next window is requested while the program is still in the current one.
    pub asynchronous: bool,
    /// Share of memory that may be dirty before background write-back begins.
    pub dirty_background: f64,
    /// Share of memory that may be dirty before programs that write are throttled.
    pub dirty: f64,
    /// Age of dirty data at which it is written back in any case.
    pub dirty_expire: Nanos,
    /// Interval of the search for old dirty data.
    pub dirty_period: Nanos,
    /// Amount written back at a time.
    pub write_batch: Bytes,
}

impl Default for MemorySpec {
    fn default() -> MemorySpec {
        MemorySpec {
            kernel: Kernel::Linux,
            size: Bytes(1 << 30),
            page: Bytes(4 << 10),
            replacement: Replacement::TwoLists,
            read_ahead: Bytes(128 << 10),
            fault: None,
            asynchronous: true,
            dirty_background: 0.1,
            dirty: 0.4,
            dirty_expire: Nanos(30_000_000_000),
            dirty_period: Nanos(5_000_000_000),
            write_batch: Bytes(4 << 20),
        }
    }
}

/// The cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CpuSpec {
    /// Number of programs that run at full speed in parallel.
    pub cores: u32,
    /// Period of the kernel's timer. Sleeps end at the second tick after they begin, as in kernels without
    /// high-resolution timers; 0 for exact timers.
    pub tick: Nanos,
}

impl Default for CpuSpec {
    fn default() -> CpuSpec {
        CpuSpec { cores: 2, tick: Nanos::ZERO }
    }
}

/// Access pattern of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Sequential, from the beginning to the end.
    #[default]
    Sequential,
    /// Random.
    Random,
}

/// A program that reads a file of its own, computes on the data, and writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessSpec {
    /// Name.
    pub name: String,
    /// Number of instances, each with a file of its own.
    pub count: u32,
    /// Requested I/O rate; not regulated if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateChoice>,
    /// Whether each of its I/Os follows at once after the last one, so that larger rates can be kept.
    pub back_to_back: bool,
    /// Size of its file.
    pub size: Bytes,
    /// Size of a read call.
    pub call: Bytes,
    /// Data processed per second on a core; in no time if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute: Option<Bytes>,
    /// Additional CPU time per call.
    pub think: Nanos,
    /// Bytes written per byte of its file read for the first time.
    pub output_ratio: f64,
    /// Access pattern.
    pub access: Access,
    /// Number of calls; once through the file if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<u64>,
    /// Start time.
    pub start: Nanos,
    /// Whether its file is cached at the beginning, as far as it fits.
    pub cached: bool,
    /// Whether it bypasses the page cache.
    pub direct: bool,
    /// Start of its file, or of that of the first instance, as a share of the drive; after the last file if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<f64>,
    /// Size of its file's fragments; contiguous if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pieces: Option<Bytes>,
    /// Regular pauses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// Regular seeks backwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<SeekBack>,
}

impl Default for ProcessSpec {
    fn default() -> ProcessSpec {
        ProcessSpec {
            name: String::new(),
            count: 1,
            rate: None,
            back_to_back: false,
            size: Bytes(64 << 20),
            call: Bytes(32 << 10),
            compute: None,
            think: Nanos::ZERO,
            output_ratio: 0.0,
            access: Access::Sequential,
            reads: None,
            start: Nanos::ZERO,
            cached: false,
            direct: false,
            place: None,
            pieces: None,
            pause: None,
            back: None,
        }
    }
}

impl ProcessSpec {
    /// Returns the requested rate, if any.
    pub(crate) fn asked_rate(&self) -> Option<Requested> {
        let arrivals = if self.back_to_back { Arrivals::BackToBack } else { Arrivals::Any };
        self.rate.and_then(RateChoice::rate).map(|rate| Requested { rate, arrivals })
    }
}

/// A pause after each `every` bytes read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Amount read between two pauses.
    pub every: Bytes,
    /// Duration of a pause.
    pub length: Nanos,
}

/// A seek backwards after each `every` bytes read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekBack {
    /// Amount read between two seeks.
    pub every: Bytes,
    /// Distance of the seek: less than `every`.
    pub by: Bytes,
}

/// Prefetch distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distance {
    /// No prefetching.
    #[default]
    Off,
    /// Adapted to the program.
    Auto,
    /// The limit of the paper.
    Fixed(Bytes),
}

impl Serialize for Distance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Distance::Off => serializer.serialize_str("off"),
            Distance::Auto => serializer.serialize_str("auto"),
            Distance::Fixed(limit) => limit.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Distance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Distance, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a size such as \"64KiB\", \"auto\" or \"off\"")]
        enum Raw {
            Bytes(u64),
            Text(String),
        }
        let text = match Raw::deserialize(deserializer)? {
            Raw::Bytes(bytes) => return Ok(Distance::Fixed(Bytes(bytes))),
            Raw::Text(text) => text,
        };
        match text.as_str() {
            "off" => Ok(Distance::Off),
            "auto" => Ok(Distance::Auto),
            _ => text
                .parse()
                .map(Distance::Fixed)
                .map_err(|error| serde::de::Error::custom(format!("{error}; or `auto`, or `off`"))),
        }
    }
}

/// Method of prefetching.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrefetchMethod {
    /// Reads the file call by call, and waits for each, as the paper's thread.
    Read,
    /// Requests read-ahead from the kernel, without waiting.
    #[default]
    Readahead,
}

/// Prefetching parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrefetchSpec {
    /// Distance: `off`, `auto`, or the limit of the paper.
    pub limit: Distance,
    /// Amount read at a time with the limit of the paper; at most the limit.
    pub step: Bytes,
    /// Maximum distance with `auto`.
    pub most: Bytes,
    /// Method.
    pub how: PrefetchMethod,
    /// Size of a call.
    pub call: Bytes,
    /// Maximum amount that all streams together may prefetch ahead of their programs. If `None`, a quarter of memory
    /// with `auto`, and unlimited with the limit of the paper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<Bytes>,
}

impl Default for PrefetchSpec {
    fn default() -> PrefetchSpec {
        PrefetchSpec {
            limit: Distance::Off,
            step: Bytes(16 << 20),
            most: Bytes(512 << 20),
            how: PrefetchMethod::Readahead,
            call: Bytes(128 << 10),
            room: None,
        }
    }
}

/// A published result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Values of varied keys. An `elapsed` needs all varied keys; the others apply to every point with these values.
    pub at: BTreeMap<String, String>,
    /// Elapsed time of the programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed: Option<Nanos>,
    /// Maximum allowance with good accuracy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_allowance: Option<u32>,
    /// A remark, printed beside the point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
