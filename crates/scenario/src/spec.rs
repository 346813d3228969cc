//! An experiment as its TOML file says it: a drive, memory, programs, how far to read ahead, what to vary, and what was
//! published about it.

mod check;
mod edit;
mod error;
mod job;
mod machine;
mod rate;
mod regulate;

use std::collections::BTreeMap;

use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_regulate::Rate;
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
    /// What it is.
    pub name: String,
    /// How often, and with which seed.
    #[serde(default)]
    pub run: RunSpec,
    /// What the files lie on.
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
    /// How far the cores are apart.
    #[serde(default)]
    pub machine: MachineSpec,
    /// The programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub process: Vec<ProcessSpec>,
    /// Jobs of tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub job: Vec<JobSpec>,
    /// How far ahead is read.
    #[serde(default)]
    pub prefetch: PrefetchSpec,
    /// How the I/O time of programs that have a rate is kept; none for the defaults, if a program has a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regulate: Option<RegulateSpec>,
    /// Keys that are set together, by group and by name: what belongs to a computer, to a pattern. `case.GROUP` is a key
    /// whose values are the names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub case: BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>,
    /// Keys with the values to try, unless the command line says otherwise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vary: BTreeMap<String, Vec<String>>,
    /// Times that were measured elsewhere, to be printed beside the simulated ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
}

/// How often, and with which seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunSpec {
    /// Decides all that is random: where the platters stand, what random readers read, where pieces of files lie.
    pub seed: u64,
    /// How often each point is run, each time with the next seed; the shortest time counts, as in the paper, and the
    /// medians of what is regulated.
    pub repetitions: u32,
    /// When it ends.
    pub until: Until,
    /// So much from the beginning is not counted in the figures of what is regulated.
    pub warm_up: Nanos,
    /// So much before the first program ends is not counted in the figures of what is regulated, and nothing after it:
    /// there are fewer then that use the device.
    pub cool_down: Nanos,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Until {
    /// When all programs have ended.
    #[default]
    All,
    /// When the first program has ended.
    First,
}

impl Default for RunSpec {
    fn default() -> RunSpec {
        RunSpec { seed: 1, repetitions: 1, until: Until::All, warm_up: Nanos::ZERO, cool_down: Nanos::ZERO }
    }
}

/// What the files lie on: one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DriveChoice {
    /// A built-in drive, or a drive's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Storage whose time does not depend on places: `latency=10ms,parallel=64,bandwidth=200MB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed: Option<String>,
    /// Figures of the drive that are changed, by their keys.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
}

/// Which waiting request goes to the device next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheduler {
    /// The oldest.
    Noop,
    /// Reads before writes, in ascending order in batches, until one has waited too long.
    #[default]
    Deadline,
}

/// The host's block queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSpec {
    /// Which waiting request goes next.
    pub scheduler: Scheduler,
    /// The longest request that neighbours are joined to.
    pub max_request: Bytes,
    /// Requests of a kind that wait at most; who prefetches or writes back then waits for room.
    pub requests: u32,
    /// With the how-manieth tick of the timer the first request goes, if nobody waits for it and no neighbours have come
    /// (`unplug_delay`); 0 for at once, as in kernels since 2.6.39.
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

/// Which page goes when room is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The coldest of those used at most once; as in Linux.
    #[default]
    TwoLists,
    /// The one whose last use is longest ago.
    Lru,
}

/// Whose read-ahead it is.
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
    /// Whose read-ahead it has.
    pub kernel: Kernel,
    /// How much it holds: what the kernel and the programs leave free.
    pub size: Bytes,
    /// The unit in which it holds it.
    pub page: Bytes,
    /// Which page goes when room is needed.
    pub replacement: Replacement,
    /// The longest window of the kernel's read-ahead; 0 for none.
    pub read_ahead: Bytes,
    /// What is brought in at most where a page of a mapping is missing; none for as much as `read_ahead`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Bytes>,
    /// Whether the next window is asked for while the program is still in the last one.
    pub asynchronous: bool,
    /// The share of memory that may be dirty before it is written back in the background.
    pub dirty_background: f64,
    /// The share of memory that may be dirty before programs that write are held up.
    pub dirty: f64,
    /// How old dirty data becomes before it is written back in any case.
    pub dirty_expire: Nanos,
    /// How often old data is looked for.
    pub dirty_period: Nanos,
    /// How much is written back at a time.
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
    /// How many programs run at full speed side by side.
    pub cores: u32,
    /// The kernel's timer. Sleeps end with the second tick after they begin, as on kernels without high-resolution timers;
    /// 0 for exact ones.
    pub tick: Nanos,
}

impl Default for CpuSpec {
    fn default() -> CpuSpec {
        CpuSpec { cores: 2, tick: Nanos::ZERO }
    }
}

/// In which order a program reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// From the beginning to the end.
    #[default]
    Sequential,
    /// Anywhere.
    Random,
}

/// A program that reads a file of its own, computes on what it reads, and writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessSpec {
    /// Its name.
    pub name: String,
    /// How many there are of this kind, each with a file of its own.
    pub count: u32,
    /// The I/O performance that it asks for; without it is not regulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateChoice>,
    /// The size of its file.
    pub size: Bytes,
    /// How much it reads in a call.
    pub call: Bytes,
    /// How much it gets through in a second on a core; none for no time at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute: Option<Bytes>,
    /// Time on a core for each call, besides.
    pub think: Nanos,
    /// Bytes that it writes for each byte of its file that it reads for the first time.
    pub output_ratio: f64,
    /// In which order it reads.
    pub access: Access,
    /// How many calls it makes; none for once through the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<u64>,
    /// When it begins.
    pub start: Nanos,
    /// Whether its file is in memory at the beginning, as far as it fits.
    pub cached: bool,
    /// Whether it reads past the page cache.
    pub direct: bool,
    /// Where its file begins, as a share of the drive, or that of the first of its kind; none for behind the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<f64>,
    /// Its file lies in pieces of this size; none for one piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pieces: Option<Bytes>,
    /// It pauses now and then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// It goes back now and then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<Back>,
}

impl Default for ProcessSpec {
    fn default() -> ProcessSpec {
        ProcessSpec {
            name: String::new(),
            count: 1,
            rate: None,
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
    /// The rate that it asks for, if any.
    pub(crate) fn asked_rate(&self) -> Option<Rate> {
        self.rate.and_then(RateChoice::rate)
    }
}

/// A program pauses each time it has read so much more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// How much it reads between two pauses.
    pub every: Bytes,
    /// How long it pauses.
    pub length: Nanos,
}

/// A program goes back each time it has read so much more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Back {
    /// How much it reads between two seeks.
    pub every: Bytes,
    /// How far back it goes: less than it has read since.
    pub by: Bytes,
}

/// How far ahead is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distance {
    /// Not at all.
    #[default]
    Off,
    /// As far as pays.
    Auto,
    /// The paper's limit.
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

/// How a prefetcher brings data into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// It reads the file, call by call, and waits for each, as the paper's thread does.
    Read,
    /// It asks the kernel to read ahead, and does not wait.
    #[default]
    Readahead,
}

/// How far ahead is read, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrefetchSpec {
    /// `off`, `auto`, or the paper's limit.
    pub limit: Distance,
    /// What is read at a time where the limit is the paper's; at most the limit.
    pub step: Bytes,
    /// The longest distance where the limit is `auto`.
    pub most: Bytes,
    /// How data is brought into memory.
    pub how: How,
    /// What one call asks for.
    pub call: Bytes,
    /// What all readings together may fill ahead of their programs; none for a quarter of memory if the limit is `auto`,
    /// and no bound if it is the paper's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<Bytes>,
}

impl Default for PrefetchSpec {
    fn default() -> PrefetchSpec {
        PrefetchSpec {
            limit: Distance::Off,
            step: Bytes(16 << 20),
            most: Bytes(512 << 20),
            how: How::Readahead,
            call: Bytes(128 << 10),
            room: None,
        }
    }
}

/// What was measured elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// For which values of varied keys. An `elapsed` needs all that are varied; the others hold for every point that has
    /// these values.
    pub at: BTreeMap<String, String>,
    /// How long the programs took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed: Option<Nanos>,
    /// The largest allowance whose accuracy is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_allowance: Option<u32>,
    /// Anything else, in words: it is printed beside the point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
