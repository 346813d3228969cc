//! Resource options of a job.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use sakiyomi_io::{Access, EngineKind, EngineSpec};
use sakiyomi_model::Bytes;
use sakiyomi_os::allocator::{self, Keep};
use sakiyomi_query::Job;
use sakiyomi_query::spill::{Level, SpillCompression};
use sakiyomi_tables::Resources;

use crate::args::parse_method;

/// Heading in a command's help.
const RESOURCES: &str = "Resources";

/// One part in this many of the memory limit is the size from which an allocation has a mapping of its own, and that of the
/// free memory which an arena keeps. Smaller allocations leave gaps of such sizes in an arena, and these count against the
/// limit: batches of some MiB each took 50 MiB of gaps at a limit of 64 MiB.
const KEPT_PARTS: u64 = 64;
/// The largest such size. Batches and row groups of up to some MiB are allocated and freed all the time; a mapping for each
/// would fault its pages in again.
const KEPT_MAX_BYTES: u64 = 8 << 20;
/// Arenas: memory that is freed in one of them is not reused by the others.
const ALLOCATOR_ARENAS: i32 = 2;

/// Parses an I/O method of a command on tables; for an unknown one, the error names those that these commands have.
fn parse_table_method(text: &str) -> Result<EngineSpec, String> {
    let (name, _) = text.split_once(':').unwrap_or((text, ""));
    if EngineKind::ALL.into_iter().any(|kind| kind.name() == name) {
        return parse_method(text);
    }
    Err(format!("`{text}` is not a method of tables; give read, pread:N, aio:N, uring:N or uring-sqpoll:N"))
}

/// Sets the allocator for jobs with this memory limit, in bytes.
pub(crate) fn keep_memory(limit: u64) {
    let bytes = (limit / KEPT_PARTS).min(KEPT_MAX_BYTES) as i32;
    allocator::keep(Keep { arenas: ALLOCATOR_ARENAS, mapped_min_bytes: bytes, trim_bytes: bytes });
}

/// Resources of a job.
#[derive(Clone, Debug, Args)]
pub(crate) struct JobArgs {
    /// Memory limit of the process, excluding its code and stacks
    #[arg(long, value_name = "SIZE", default_value = "512MiB", help_heading = RESOURCES)]
    memory: Bytes,
    /// Number of compute threads [default: the number of cores]
    #[arg(long, value_name = "N", help_heading = RESOURCES, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Read and write with this method (read, pread:N, aio:N, uring:N, uring-sqpoll:N) [default: the fastest by the calibrations;
    /// pread without them]
    #[arg(long, value_name = "METHOD", value_parser = parse_table_method, help_heading = RESOURCES)]
    method: Option<EngineSpec>,
    /// Bypass the page cache when tables are read
    #[arg(long, help_heading = RESOURCES, conflicts_with = "buffered")]
    direct: bool,
    /// Use the page cache when tables are read [default: the faster mode by the calibrations; buffered without them]
    #[arg(long, help_heading = RESOURCES)]
    buffered: bool,
    /// Size of one read request [default: the fastest by the calibrations; 1MiB without them]
    #[arg(long, value_name = "SIZE", help_heading = RESOURCES)]
    block: Option<Bytes>,
    /// Directory for spill files; may be repeated [default: the first writable of $TMPDIR, /var/tmp and the current directory that is on a disk]
    #[arg(long, value_name = "DIR", help_heading = RESOURCES)]
    spill: Vec<PathBuf>,
    /// Compression of spill files: `auto` adapts to device and data
    #[arg(long, value_enum, value_name = "NAME", default_value = "auto", help_heading = RESOURCES)]
    spill_compression: SpillCompressionArg,
}

/// Values of `--spill-compression`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SpillCompressionArg {
    /// The level that makes spilling fastest on this device and data.
    Auto,
    /// None.
    None,
    /// LZ4.
    Lz4,
    /// Zstandard, level 1.
    Zstd,
}

impl SpillCompressionArg {
    fn compression(self) -> SpillCompression {
        match self {
            SpillCompressionArg::Auto => SpillCompression::Adaptive,
            SpillCompressionArg::None => SpillCompression::Fixed(Level::None),
            SpillCompressionArg::Lz4 => SpillCompression::Fixed(Level::Lz4),
            SpillCompressionArg::Zstd => SpillCompression::Fixed(Level::Zstd),
        }
    }
}

impl JobArgs {
    /// Returns the resources that the options state.
    pub(crate) fn resources(&self) -> Resources {
        Resources {
            memory: self.memory,
            threads: self.threads.map(usize::from),
            engine: self.method,
            access: match (self.direct, self.buffered) {
                (true, _) => Some(Access::Direct),
                (_, true) => Some(Access::Buffered),
                _ => None,
            },
            block: self.block,
            spill: self.spill.clone(),
            spill_compression: self.spill_compression.compression(),
        }
    }

    /// Opens the job and its I/O engine.
    pub(crate) fn open(&self) -> Result<Job> {
        keep_memory(self.memory.0);
        Ok(self.resources().job(None)?)
    }
}
