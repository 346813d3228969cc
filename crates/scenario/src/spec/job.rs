//! Parameters of a job of tasks: a file in parts, threads that compute on them, and the read method.

use sakiyomi_model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::error::impossible;
use super::{MemorySpec, SpecError};

/// Read methods (Kohagura & Kono 2014, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadMethod {
    /// The file is mapped; the computing thread faults pages in.
    Mmap,
    /// One thread reads the whole file first; computing follows.
    Read,
    /// One task per block reads it, on any compute thread.
    BlockedAny,
    /// One task per block reads it, on a dedicated I/O thread.
    #[default]
    BlockedIo,
}

/// Destination of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Buffer {
    /// One buffer as large as the file, as in the paper.
    File,
    /// One buffer per current block, reused.
    #[default]
    Pool,
}

/// Order of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// In file order.
    #[default]
    File,
    /// Blocks cached at the start of the run first; then the rest, in file order.
    CachedFirst,
}

/// A job of tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JobSpec {
    /// Name.
    pub name: String,
    /// Size of its file.
    pub size: Bytes,
    /// Read method.
    pub method: ReadMethod,
    /// Amount of data per compute task (the *divide size* of the paper).
    pub part: Bytes,
    /// Parts per task block, which one task reads.
    pub block: u32,
    /// Number of task blocks at a time; the next one is created when all tasks of a block have ended.
    pub blocks: u32,
    /// Number of compute threads.
    pub threads: u32,
    /// Data processed per second by a thread on a core; in no time if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute: Option<Bytes>,
    /// Data copied per second from the page cache into the buffer, on a core; in no time if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<Bytes>,
    /// Whether the I/O thread takes precedence over all others on the cores.
    pub io_urgent: bool,
    /// Destination of reads.
    pub buffer: Buffer,
    /// Order of blocks.
    pub order: Order,
    /// Number of successive runs; the page cache is kept between them.
    pub runs: u32,
    /// Start time.
    pub start: Nanos,
    /// Whether its file is cached at the beginning, as far as it fits.
    pub cached: bool,
    /// Start of its file, as a share of the drive; after the last file if `None`.
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

/// Maximum number of tasks of a job at a time.
const TASKS_MAX: u64 = 1 << 20;
/// Maximum number of threads of all jobs, each of which is examined after every read.
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
            ("compute", rate(self.compute), "at least 1kB per second"),
            ("copy", rate(self.copy), "at least 1kB per second"),
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

    /// Returns the memory of its full buffers, in bytes.
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
