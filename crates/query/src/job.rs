//! The shared resources of a job: an I/O engine with a buffer budget, memory, threads, and spill directories.
//!
//! # Memory
//!
//! The limit is divided into the buffer budget ([`Job::io`]), for which threads may wait, and allocator memory
//! ([`Job::reserve`]), for which no thread ever waits: it is there or [`Error::Memory`]. No threads wait for each other,
//! because of one rule: **a thread waits for buffers only if those that it waits for are released by I/O in flight, or by
//! threads that need no more buffers to release them.** It is kept as follows; a reservation that the limit does not allow
//! is refused before a row is read.
//!
//! | user | reserved before its first row | waits for |
//! |---|---|---|
//! | scan, each worker | its share of file data; a row group that does not fit is read in windows of that share | own reads |
//! | scan, metadata | footers of Parquet files, dictionaries of Arrow files | nothing |
//! | scan, large pages | bytes of the buffer budget for decoders, which are then as allocator memory (`table/decoder_memory.rs`) | nothing |
//! | sort, input | open chunks, writes in flight, resident partitions, a long row (`sort/plan.rs`) | own writes; its turn for a long row |
//! | sort, output | the same bytes, as grants of whole loads and merges, given in output order (`sort/memory.rs`) | holders of earlier partitions, which need no grant |
//! | merge join | a run to spill a group of equal keys | own transfers |
//! | hash join | blocks to divide rows, on as many threads as they suffice for, which also join them; batches of rows to be written (`join/hash/memory.rs`) | own writes; tables of pairs that other threads join, which need no more |
//! | aggregation | a run to write and a run to read; other runs use what is left | own transfers; its turn for the reserved run |
//! | generation | text of comments and rows, lent by the buffer budget (`generate/memory.rs`); a block of each bucket | own writes |
//! | result file | two blocks of its stream | own writes |
//!
//! Memory within the guarantee of one user is never waited for by another (`sakiyomi_io::buffer`). Spill files that lie in
//! memory (tmpfs) are reserved as allocator memory. The memory to compress spilled data is reserved with the job. A thread
//! that restores data may wait for it: others that have it wait for own writes only.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sakiyomi_io::buffer::Account;
use sakiyomi_io::file::{create_unnamed, lies_in_memory};
use sakiyomi_io::spill::SpaceLimit;
use sakiyomi_io::{Access, EngineKind, EngineSpec, Io, IoOptions, Memory, Spill};

use crate::Error;
use crate::phase::{Phases, SidePhases};
use crate::progress::Progress;
use crate::spill::{Level, LevelBytes, LevelChooser, ScratchPool, SpillCompression};

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

/// Returns the default spill directory: the first of `$TMPDIR`, `/var/tmp` and the current directory on a disk in which
/// files can be created. If all that can be written to lie in memory, the first of them.
#[must_use]
pub fn spill_directory() -> PathBuf {
    let named = std::env::var_os("TMPDIR").map(PathBuf::from);
    first_on_disk(named.into_iter().chain([PathBuf::from("/var/tmp"), PathBuf::from(".")]))
        .unwrap_or_else(|| PathBuf::from("/var/tmp"))
}

/// Returns the first directory on a disk in which files can be created, or else the first in memory.
fn first_on_disk(directories: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let mut in_memory = None;
    for directory in directories {
        // The file is unnamed and is removed on drop.
        let Ok(file) = create_unnamed(&directory, Access::Buffered) else { continue };
        if !lies_in_memory(&file) {
            return Some(directory);
        }
        in_memory.get_or_insert(directory);
    }
    in_memory
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

/// Part of the buffer budget that scans may use for the bytes of files.
const SCAN_DENOMINATOR: usize = 2;

/// Blocks of a scan's worker: the one that it decodes, and the one that is read meanwhile.
const SCAN_BLOCKS: usize = 2;

/// Returns the bytes that a scan on `workers` threads needs for reads of `block` bytes.
pub(crate) fn scan_blocks_bytes(block: usize, workers: usize) -> usize {
    block.saturating_mul(SCAN_BLOCKS).saturating_mul(workers)
}

/// Smallest [`JobOptions::memory`], in bytes, with which a table is read by `threads` threads in blocks of `block`
/// bytes. With less memory the blocks are smaller.
#[must_use]
pub fn memory_of_blocks(block: usize, threads: usize) -> usize {
    let budget = scan_blocks_bytes(block, threads).saturating_mul(SCAN_DENOMINATOR);
    budget.saturating_mul(BUFFERS_DENOMINATOR).div_ceil(BUFFERS_NUMERATOR)
}

/// The resources of one job; clones share them.
#[derive(Clone, Debug)]
pub struct Job {
    shared: Arc<Shared>,
    /// The side of a join that this handle is for: part of the names of its phases.
    side: Option<&'static str>,
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
    levels: LevelChooser,
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
            levels: LevelChooser::new(options.spill_compression, options.threads, scratch),
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
        Job { shared: Arc::new(shared), side: None }
    }

    /// Returns the options of the job.
    #[must_use]
    pub fn options(&self) -> &JobOptions {
        &self.shared.options
    }

    /// Returns the engine and the buffer budget of all streams and in-memory rows.
    #[must_use]
    pub fn io(&self) -> &Io {
        &self.shared.io
    }

    /// Returns the figures of each phase so far.
    #[must_use]
    pub fn phases(&self) -> SidePhases<'_> {
        SidePhases { phases: &self.shared.phases, side: self.side }
    }

    /// Returns a handle of the same job that appends `side` to the names of its phases.
    pub(crate) fn side(&self, side: &'static str) -> Job {
        Job { shared: Arc::clone(&self.shared), side: Some(side) }
    }

    /// Returns the progress counters.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.shared.progress
    }

    /// Returns the bytes spilled so far with each compression level that was used.
    #[must_use]
    pub fn spill_bytes(&self) -> Vec<LevelBytes> {
        self.shared.levels.bytes()
    }

    /// Spills to these files, such as ones in memory, instead of the directories.
    #[cfg(test)]
    pub(crate) fn spill_to(&self, files: Vec<sakiyomi_io::Spill>) {
        *self.shared.spill_files.lock().unwrap() = files;
    }

    /// Returns the files of [`Job::spill_to`].
    #[cfg(test)]
    pub(crate) fn spill_files(&self) -> Vec<sakiyomi_io::Spill> {
        self.shared.spill_files.lock().unwrap().clone()
    }

    /// Returns the compression of spilled data.
    pub(crate) fn levels(&self) -> &LevelChooser {
        &self.shared.levels
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

    /// Reserves one part in `parts` of the unreserved memory. Unlike [`Job::reserve`] it never fails, whatever other
    /// operators reserve at the same time: for an operator that has read rows already.
    pub(crate) fn reserve_part(&self, parts: usize) -> Reservation {
        let Shared { heap, reserved, .. } = &*self.shared;
        let part = |reserved: usize| heap.saturating_sub(reserved) / parts;
        let update = |reserved: usize| Some(reserved + part(reserved));
        let before = reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        Reservation { job: self.clone(), bytes: before.map_or(0, part) }
    }

    /// Returns the bytes of the buffer budget that scans may use for the bytes of files.
    pub(crate) fn scan_budget(&self) -> usize {
        self.io().pool().budget() / SCAN_DENOMINATOR
    }

    /// Opens an account of the buffer budget that can always have `bytes`.
    ///
    /// # Errors
    /// [`Error::Memory`], with `what` as the operation, if the budget does not have that much left.
    pub(crate) fn account(&self, bytes: usize, what: &str) -> Result<Account, Error> {
        self.io().pool().account_of(bytes).map_err(|error| match error {
            sakiyomi_io::Error::Budget { wanted, left, .. } => {
                Error::Memory { what: what.to_owned(), needed: wanted, available: left }
            }
            other => other.into(),
        })
    }

    /// Creates a spill file. The bytes of a file that lies in memory count against the memory limit.
    ///
    /// # Errors
    /// If no file can be created in the directory.
    pub(crate) fn spill_file(&self, directory: &Path) -> Result<Spill, Error> {
        let spill = Spill::create(self.io(), directory)?;
        Ok(match lies_in_memory(spill.file().file()) {
            true => spill.within(Arc::new(HeapSpace { job: self.clone() })),
            false => spill,
        })
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

/// Beside other spill directories with room, one in memory is used while it and the operators have reserved less than one
/// part in this many of the allocator memory: the rest is for the operators.
const HEAP_SPACE_PARTS: usize = 4;

/// The memory limit of a job as the space of a spill file in memory.
#[derive(Debug)]
struct HeapSpace {
    job: Job,
}

impl SpaceLimit for HeapSpace {
    fn take(&self, bytes: u64) -> io::Result<()> {
        let shared = &self.job.shared;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let change = |reserved: usize| reserved.checked_add(bytes).filter(|&new| new <= shared.heap);
        let taken = shared.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        taken.map(drop).map_err(|_| {
            io::Error::other(
                "the spill directory lies in memory (tmpfs), and the spilled data exceeds the memory limit; choose a directory on disk with --spill",
            )
        })
    }

    fn has(&self, bytes: u64) -> bool {
        // Alone, it has room until it has none, and then says why.
        if self.job.options().spill.len() <= 1 {
            return true;
        }
        let kept = self.job.shared.heap - self.job.shared.heap / HEAP_SPACE_PARTS;
        (self.job.available() as u64).checked_sub(kept as u64).is_some_and(|left| left >= bytes)
    }

    fn give_back(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.job.shared.reserved.fetch_sub(bytes, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_reserved_whatever_other_threads_reserve_at_the_same_time() {
        let job = Job::new(JobOptions { memory: 1 << 20, ..JobOptions::default() }).unwrap();
        let heap = job.available();
        let reserve = || {
            for _ in 0..20_000 {
                let (rest, part) = (job.reserve(heap / 2, "a test"), job.reserve_part(2));
                assert!(part.bytes() <= heap / 2);
                drop((rest, part));
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(reserve))));
        assert_eq!(job.available(), heap);
        let parts: Vec<Reservation> = (0..40).map(|_| job.reserve_part(2)).collect();
        assert_eq!(job.available(), 1);
        assert_eq!(parts.iter().map(Reservation::bytes).sum::<usize>(), heap - 1);
    }
}
