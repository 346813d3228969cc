//! A job of tasks: a file in parts, threads that compute on them, and how the parts come into memory.

use sakiyomi_model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::error::impossible;
use super::{MemorySpec, SpecError};

/// How the parts come into memory (Kohagura & Kono 2014, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadMethod {
    /// The file is mapped; who computes on a part faults it in.
    Mmap,
    /// The whole file is read first, by one thread, and computed on afterwards.
    Read,
    /// A task for each block reads it, on any of the threads that compute.
    BlockedAny,
    /// A task for each block reads it, on a thread that does nothing else.
    #[default]
    BlockedIo,
}

/// What is read into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Buffer {
    /// A buffer as large as the file, as in the paper.
    File,
    /// Buffers for as many blocks as are under way, used again and again.
    #[default]
    Pool,
}

/// Which block comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// That at the beginning of the file.
    #[default]
    File,
    /// What is in memory when the run begins; then the rest, in the order of the file.
    CachedFirst,
}

/// A job of tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobSpec {
    /// Its name.
    pub name: String,
    /// The size of its file.
    pub size: Bytes,
    /// How the parts come into memory.
    pub method: ReadMethod,
    /// How much of the file a task computes on (the paper's *divide size*).
    pub part: Bytes,
    /// Parts in a task block: what one task reads.
    pub block: u32,
    /// Task blocks under way at a time; the next one is made when the tasks of one have ended.
    pub blocks: u32,
    /// Threads that compute.
    pub threads: u32,
    /// How much a thread gets through in a second on a core; none for no time at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute: Option<Bytes>,
    /// How much is copied from the page cache into the buffer in a second on a core; none for no time at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<Bytes>,
    /// Whether the thread for I/O goes before all others on the cores.
    pub io_urgent: bool,
    /// What is read into.
    pub buffer: Buffer,
    /// Which block comes first.
    pub order: Order,
    /// How often it is run, one after another; the page cache stays.
    pub runs: u32,
    /// When it begins.
    pub start: Nanos,
    /// Whether its file is in memory at the beginning, as far as it fits.
    pub cached: bool,
    /// Where its file begins, as a share of the drive; none for behind the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<f64>,
}

impl Default for JobSpec {
    fn default() -> JobSpec {
        JobSpec {
            name: String::new(),
            size: Bytes(64 << 20),
            method: ReadMethod::BlockedIo,
            part: Bytes(128 << 10),
            block: 48,
            blocks: 4,
            threads: 2,
            compute: None,
            copy: None,
            io_urgent: true,
            buffer: Buffer::Pool,
            order: Order::File,
            runs: 1,
            start: Nanos::ZERO,
            cached: false,
            place: None,
        }
    }
}

/// Tasks of a job that exist at a time.
const TASKS_MAX: u64 = 1 << 20;
/// Threads of all jobs together, each of which is examined after every read.
pub(super) const THREADS_MAX: u64 = 1000;

impl JobSpec {
    pub(super) fn check(&self, index: usize, memory: &MemorySpec) -> Result<(), SpecError> {
        let day = Nanos::SECOND * 86_400;
        let page = memory.page.0;
        let rate = |rate: Option<Bytes>| rate.is_none_or(|rate| rate.0 >= 1000);
        let rules = [
            ("size", self.size.0 > 0, "at least one byte"),
            (
                "part",
                self.part.0 >= page && self.part.0.is_multiple_of(page),
                "one page or more, and whole pages (memory.page)",
            ),
            ("part", self.part.0 <= 1 << 30, "1GiB at most"),
            ("block", self.block > 0, "at least one part"),
            ("blocks", self.blocks > 0, "at least 1"),
            (
                "block",
                u64::from(self.block) * u64::from(self.blocks) <= TASKS_MAX,
                "with `blocks` 1048576 parts under way at most",
            ),
            ("threads", self.threads > 0, "at least 1"),
            ("compute", rate(self.compute), "at least 1kB a second"),
            ("copy", rate(self.copy), "at least 1kB a second"),
            ("runs", (1..=1000).contains(&self.runs), "between 1 and 1000"),
            ("start", self.start <= day, "a day at most"),
            (
                "place",
                self.place.is_none_or(|place| (0.0..1.0).contains(&place)),
                "at least 0 and less than 1",
            ),
            (
                "order",
                self.method != ReadMethod::Read || self.order == Order::File,
                "the method `read` takes the file as it lies; write `file`, or take another method",
            ),
            (
                "buffer",
                self.buffer_bytes().saturating_add(16 * page) <= memory.size.0,
                "it leaves nothing of memory.size to the page cache; write `pool`, make memory.size larger, or size, \
                 part, block or blocks smaller",
            ),
        ];
        match rules.into_iter().find(|(_, holds, _)| !holds) {
            Some((key, _, problem)) => Err(impossible(&format!("job.{index}.{key}"), problem)),
            None => Ok(()),
        }
    }

    /// How much memory its buffers take when they are full.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        match (self.method, self.buffer) {
            (ReadMethod::Mmap, _) => 0,
            (ReadMethod::Read, _) | (_, Buffer::File) => self.size.0,
            (_, Buffer::Pool) => {
                self.part.0.saturating_mul(u64::from(self.block) * u64::from(self.blocks)).min(self.size.0)
            }
        }
    }
}
