//! What the operators of one job share: an I/O engine with a budget of buffers, memory, threads, and where to spill.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sakiyomi_io::{AtomicFile, EngineKind, EngineSpec, Io, IoOptions, Memory};

use crate::Error;
use crate::phase::Phases;
use crate::progress::Progress;

/// How a job is done.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// Bytes that the job uses at most: buffers, decoders, encoders and operators together.
    pub memory: usize,
    /// Threads that compute.
    pub threads: usize,
    /// The engine of all streams of the job.
    pub engine: EngineSpec,
    /// Bytes of a read of a table, at most, unless a column of a row group is larger.
    pub block: usize,
    /// Directories for data that does not fit into memory, used in turn.
    pub spill: Vec<PathBuf>,
}

impl Default for JobOptions {
    /// 512 MiB, all cores, `pread` on threads, [`spill_directory`].
    fn default() -> JobOptions {
        JobOptions {
            memory: DEFAULT_MEMORY_BYTES,
            threads: std::thread::available_parallelism().map_or(1, Into::into),
            engine: EngineSpec::usual(EngineKind::Pread),
            block: DEFAULT_BLOCK_BYTES,
            spill: vec![spill_directory()],
        }
    }
}

/// The default directory for data that does not fit into memory: `$TMPDIR`, `/var/tmp`, or the current directory, the
/// first in which files can be created.
#[must_use]
pub fn spill_directory() -> PathBuf {
    let named = std::env::var_os("TMPDIR").map(PathBuf::from);
    let all = named.into_iter().chain([PathBuf::from("/var/tmp"), PathBuf::from(".")]);
    // The file has no name, and is gone at once.
    let is_writable = |directory: &PathBuf| AtomicFile::create(directory.join("spill")).is_ok();
    all.clone().find(is_writable).unwrap_or_else(|| PathBuf::from("/var/tmp"))
}

/// Default memory limit of a job: fits beside other programs on a machine of 2 GiB.
const DEFAULT_MEMORY_BYTES: usize = 512 << 20;

/// Default size of reads, at which direct transfers are fastest on most devices.
const DEFAULT_BLOCK_BYTES: usize = 1 << 20;

/// Five eighths of a job's memory are for buffers: those of I/O, and the rows of a sort, which lie in them. The rest is for
/// batches, decoders, encoders and tables in memory, which come from the allocator.
const BUFFERS_NUMERATOR: usize = 5;
/// See [`BUFFERS_NUMERATOR`].
const BUFFERS_DENOMINATOR: usize = 8;

/// The resources of one job; clones are handles of the same.
#[derive(Clone, Debug)]
pub struct Job {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: JobOptions,
    io: Io,
    /// Bytes of the allocator's memory that operators have reserved.
    reserved: AtomicUsize,
    /// Bytes of the allocator's memory in all.
    heap: usize,
    cancelled: AtomicBool,
    phases: Phases,
    progress: Progress,
}

/// Smallest memory limit of a statement on files: decoders, buffers and encoders of two threads fit. Operators on streams
/// work with less.
pub const MEMORY_MIN_BYTES: usize = 32 << 20;

impl Job {
    /// Opens the engine; no memory is used yet.
    ///
    /// # Errors
    /// If the system does not offer the engine.
    pub fn new(options: JobOptions) -> Result<Job, Error> {
        let budget = options.memory / BUFFERS_DENOMINATOR * BUFFERS_NUMERATOR;
        let io = Io::open(&IoOptions { engine: options.engine, budget, memory: Memory::Huge })?;
        Ok(Job::over(options, io))
    }

    /// Over any engine and budget, such as those of files in memory (`sakiyomi_io::fake`).
    #[must_use]
    pub fn over(options: JobOptions, io: Io) -> Job {
        let heap = options.memory.saturating_sub(io.pool().budget());
        let shared = Shared {
            options,
            io,
            reserved: AtomicUsize::new(0),
            heap,
            cancelled: AtomicBool::new(false),
            phases: Phases::default(),
            progress: Progress::default(),
        };
        Job { shared: Arc::new(shared) }
    }

    /// How it is done.
    #[must_use]
    pub fn options(&self) -> &JobOptions {
        &self.shared.options
    }

    /// The engine and the budget of buffers, for all streams and for rows in memory.
    #[must_use]
    pub fn io(&self) -> &Io {
        &self.shared.io
    }

    /// What each phase has taken so far.
    #[must_use]
    pub fn phases(&self) -> &Phases {
        &self.shared.phases
    }

    /// How far the job has come.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.shared.progress
    }

    /// Bytes of the allocator's memory that are not reserved: for batches, decoders, encoders, tables.
    #[must_use]
    pub fn available(&self) -> usize {
        self.shared.heap.saturating_sub(self.shared.reserved.load(Ordering::Relaxed))
    }

    /// Reserves memory that comes from the allocator.
    ///
    /// # Errors
    /// [`Error::Memory`] if the limit does not leave that much; `what` names the operation in it.
    pub fn reserve(&self, bytes: usize, what: &str) -> Result<Reservation, Error> {
        let mut reservation = Reservation { job: self.clone(), bytes: 0 };
        reservation.resize(bytes, what)?;
        Ok(reservation)
    }

    /// Has all operators end with [`Error::Cancelled`] at their next batch.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Relaxed);
    }

    /// An error if it was cancelled; operators ask before each batch.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub fn check(&self) -> Result<(), Error> {
        if self.shared.cancelled.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// Memory of the allocator that an operator has reserved; returned when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    job: Job,
    bytes: usize,
}

impl Reservation {
    /// Bytes that are reserved.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Grows or shrinks it to a number of bytes. It is unchanged after an error.
    ///
    /// # Errors
    /// [`Error::Memory`] if the limit does not leave that much.
    pub fn resize(&mut self, bytes: usize, what: &str) -> Result<(), Error> {
        let shared = &self.job.shared;
        let change = |reserved: usize| Some(reserved - self.bytes + bytes).filter(|&new| new <= shared.heap);
        if bytes > self.bytes {
            let updated = shared.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
            updated.map_err(|reserved| Error::Memory {
                what: what.to_owned(),
                needed: bytes as u64,
                available: (shared.heap - (reserved - self.bytes)) as u64,
            })?;
        } else {
            shared.reserved.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.job.shared.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
