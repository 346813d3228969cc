//! The shared resources of a job: an I/O engine with a buffer budget, memory, threads, and spill directories.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sakiyomi_io::{AtomicFile, EngineKind, EngineSpec, Io, IoOptions, Memory};

use crate::Error;
use crate::phase::Phases;
use crate::progress::Progress;
use crate::spill::{Level, LevelBytes, Regulator, ScratchPool, SpillCompression};

/// Options of a job.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// Memory limit in bytes: buffers, decoders, encoders and operators together.
    pub memory: usize,
    /// Number of compute threads.
    pub threads: usize,
    /// The engine of all streams of the job.
    pub engine: EngineSpec,
    /// Maximum bytes of a table read, unless a column of a row group is larger.
    pub block: usize,
    /// Directories for spill files, used in turn.
    pub spill: Vec<PathBuf>,
    /// Compression of spilled data.
    pub spill_compression: SpillCompression,
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
            spill_compression: SpillCompression::default(),
        }
    }
}

/// Returns the default spill directory: the first of `$TMPDIR`, `/var/tmp` and the current directory in which files can
/// be created.
#[must_use]
pub fn spill_directory() -> PathBuf {
    let named = std::env::var_os("TMPDIR").map(PathBuf::from);
    let all = named.into_iter().chain([PathBuf::from("/var/tmp"), PathBuf::from(".")]);
    // The file is unnamed and is removed on drop.
    let is_writable = |directory: &PathBuf| AtomicFile::create(directory.join("spill")).is_ok();
    all.clone().find(is_writable).unwrap_or_else(|| PathBuf::from("/var/tmp"))
}

/// Default memory limit of a job: fits beside other programs on a machine of 2 GiB.
const DEFAULT_MEMORY_BYTES: usize = 512 << 20;

/// Default size of reads, at which direct transfers are fastest on most devices.
const DEFAULT_BLOCK_BYTES: usize = 1 << 20;

/// Five eighths of a job's memory are for I/O buffers and the rows of a sort. The rest is for batches, decoders,
/// encoders and in-memory tables, which come from the allocator.
const BUFFERS_NUMERATOR: usize = 5;
/// See [`BUFFERS_NUMERATOR`].
const BUFFERS_DENOMINATOR: usize = 8;

/// The resources of one job; clones share them.
#[derive(Clone, Debug)]
pub struct Job {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: JobOptions,
    io: Io,
    /// Allocator bytes that operators have reserved.
    reserved: AtomicUsize,
    /// Limit of allocator bytes.
    heap: usize,
    cancelled: AtomicBool,
    phases: Phases,
    progress: Progress,
    regulator: Regulator,
    #[cfg(test)]
    spill_files: std::sync::Mutex<Vec<sakiyomi_io::Spill>>,
}

/// Smallest memory limit of a statement on files: decoders, buffers and encoders of two threads. Operators on streams
/// need less.
pub const MEMORY_MIN_BYTES: usize = 32 << 20;

impl Job {
    /// Opens the engine; allocates no buffers yet.
    ///
    /// # Errors
    /// If the engine is not available.
    pub fn new(options: JobOptions) -> Result<Job, Error> {
        let budget = options.memory / BUFFERS_DENOMINATOR * BUFFERS_NUMERATOR;
        let io = Io::open(&IoOptions { engine: options.engine, budget, memory: Memory::Huge })?;
        Ok(Job::over(options, io))
    }

    /// Creates a job on an existing engine, such as one for in-memory files (`sakiyomi_io::fake`).
    #[must_use]
    pub fn over(options: JobOptions, io: Io) -> Job {
        let heap = options.memory.saturating_sub(io.pool().budget());
        let compresses = options.spill_compression != SpillCompression::Fixed(Level::None);
        let scratch = ScratchPool::new(options.threads, if compresses { heap } else { 0 });
        let heap = heap - scratch.bytes();
        let shared = Shared {
            regulator: Regulator::new(options.spill_compression, options.threads, scratch),
            options,
            io,
            reserved: AtomicUsize::new(0),
            heap,
            cancelled: AtomicBool::new(false),
            phases: Phases::default(),
            progress: Progress::default(),
            #[cfg(test)]
            spill_files: std::sync::Mutex::default(),
        };
        Job { shared: Arc::new(shared) }
    }

    /// The options of the job.
    #[must_use]
    pub fn options(&self) -> &JobOptions {
        &self.shared.options
    }

    /// The engine and the buffer budget of all streams and in-memory rows.
    #[must_use]
    pub fn io(&self) -> &Io {
        &self.shared.io
    }

    /// The figures of each phase so far.
    #[must_use]
    pub fn phases(&self) -> &Phases {
        &self.shared.phases
    }

    /// The progress counters.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.shared.progress
    }

    /// Bytes spilled so far with each compression level that was used.
    #[must_use]
    pub fn spill_bytes(&self) -> Vec<LevelBytes> {
        self.shared.regulator.bytes()
    }

    /// Spills to these files, such as ones in memory, instead of the directories.
    #[cfg(test)]
    pub(crate) fn spill_to(&self, files: Vec<sakiyomi_io::Spill>) {
        *self.shared.spill_files.lock().unwrap() = files;
    }

    /// The files of [`Job::spill_to`].
    #[cfg(test)]
    pub(crate) fn spill_files(&self) -> Vec<sakiyomi_io::Spill> {
        self.shared.spill_files.lock().unwrap().clone()
    }

    /// The compression of spilled data.
    pub(crate) fn regulator(&self) -> &Regulator {
        &self.shared.regulator
    }

    /// Unreserved allocator bytes: for batches, decoders, encoders and tables.
    #[must_use]
    pub fn available(&self) -> usize {
        self.shared.heap.saturating_sub(self.shared.reserved.load(Ordering::Relaxed))
    }

    /// Reserves memory from the allocator.
    ///
    /// # Errors
    /// [`Error::Memory`], with `what` as the operation, if the limit does not leave that much.
    pub fn reserve(&self, bytes: usize, what: &str) -> Result<Reservation, Error> {
        let mut reservation = Reservation { job: self.clone(), bytes: 0 };
        reservation.resize(bytes, what)?;
        Ok(reservation)
    }

    /// Cancels the job: all operators return [`Error::Cancelled`] at their next batch.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Relaxed);
    }

    /// Checks for cancellation; operators call this before each batch.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if the job was cancelled.
    pub fn check(&self) -> Result<(), Error> {
        if self.shared.cancelled.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// Allocator memory reserved by an operator; released on drop.
#[derive(Debug)]
pub struct Reservation {
    job: Job,
    bytes: usize,
}

impl Reservation {
    /// Reserved bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Resizes the reservation to `bytes`; leaves it unchanged on error.
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
