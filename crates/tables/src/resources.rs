//! Resources of a job.

use std::path::PathBuf;

use sakiyomi_io::{Access, EngineKind, EngineSpec};
use sakiyomi_model::Bytes;
use sakiyomi_query::cost::Plan;
use sakiyomi_query::cost::plan::PageCache;
use sakiyomi_query::job::{MEMORY_MIN_BYTES, memory_of_blocks};
use sakiyomi_query::spill::SpillCompression;
use sakiyomi_query::{Job, JobOptions};

use crate::Error;

/// Resources of a job. What is not given follows from a plan, or has the default of [`JobOptions`].
#[derive(Clone, Debug)]
pub struct Resources {
    /// Memory limit.
    pub memory: Bytes,
    /// Number of compute threads.
    pub threads: Option<usize>,
    /// Engine that reads and writes.
    pub engine: Option<EngineSpec>,
    /// Whether tables are read by the page cache or past it.
    pub access: Option<Access>,
    /// Size of one read.
    pub block: Option<Bytes>,
    /// Directories for spill files.
    pub spill: Vec<PathBuf>,
    /// Compression of spill files.
    pub spill_compression: SpillCompression,
}

impl Default for Resources {
    /// The memory of [`JobOptions`], and everything else by plan or default.
    fn default() -> Resources {
        Resources {
            memory: Bytes(JobOptions::default().memory as u64),
            threads: None,
            engine: None,
            access: None,
            block: None,
            spill: Vec::new(),
            spill_compression: SpillCompression::default(),
        }
    }
}

/// Bounds of the size of one read: a block of most devices, and what a system call transfers at most.
const BLOCK_MIN_BYTES: u64 = 4 << 10;
const BLOCK_MAX_BYTES: u64 = 2 << 30;

impl Resources {
    /// Checks the resources and returns the options of the job.
    ///
    /// # Errors
    /// If a value is out of range, or the memory is too small for the others.
    pub fn options(&self) -> Result<JobOptions, Error> {
        let defaults = JobOptions::default();
        let memory = usize::try_from(self.memory.0).unwrap_or(usize::MAX);
        let threads = self.threads.unwrap_or(defaults.threads);
        ensure(memory >= MEMORY_MIN_BYTES, || {
            format!("--memory {}: too small; give at least {}", self.memory, Bytes(MEMORY_MIN_BYTES as u64))
        })?;
        if let Some(given) = self.block {
            ensure((BLOCK_MIN_BYTES..=BLOCK_MAX_BYTES).contains(&given.0), || {
                format!("--block {given}: give 4KiB to 2GiB")
            })?;
            let needed = memory_of_blocks(usize::try_from(given.0).unwrap_or(usize::MAX), threads);
            ensure(memory >= needed, || {
                format!(
                    "--block {given}: --threads {threads} needs --memory {} for reads of this size; give smaller blocks, \
                     more memory or fewer threads",
                    Bytes((needed as u64).next_multiple_of(1 << 20))
                )
            })?;
        }
        let engine = self.engine.unwrap_or(defaults.engine);
        ensure(engine.kind.uses_buffers() && engine.kind != EngineKind::Null, || {
            format!(
                "--method {engine}: tables are read and written by read, pread, aio, uring or uring-sqpoll"
            )
        })?;
        for directory in &self.spill {
            ensure(directory.is_dir(), || format!("--spill {}: it is not a directory", directory.display()))?;
        }
        Ok(JobOptions {
            memory,
            threads,
            engine,
            block: self.block.map_or(defaults.block, |block| usize::try_from(block.0).unwrap_or(usize::MAX)),
            spill: if self.spill.is_empty() { defaults.spill } else { self.spill.clone() },
            spill_compression: self.spill_compression,
        })
    }

    /// Opens a job, as a plan says if there is one.
    ///
    /// # Errors
    /// Returns those of [`Resources::options`]; an engine that is not available.
    pub fn job(&self, plan: Option<&Plan>) -> Result<Job, Error> {
        let options = self.options()?;
        Ok(Job::new(plan.map_or(options.clone(), |plan| plan.job_options(&options)))?)
    }

    /// Returns how tables are opened without a plan: through the page cache unless the resources say otherwise.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access.unwrap_or_default()
    }

    /// Returns the use of the page cache, if it is fixed.
    pub(crate) fn page_cache(&self) -> Option<PageCache> {
        self.access.map(|access| match access {
            Access::Direct => PageCache::Bypassed,
            Access::Buffered => PageCache::Used,
        })
    }
}

fn ensure(holds: bool, problem: impl FnOnce() -> String) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::Option(problem())) }
}
