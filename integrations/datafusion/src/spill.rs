//! Spill files of DataFusion: sorts, joins, aggregations and repartitioning spill through them without knowing.
//!
//! ```text
//! operator ─► Writer: copy into a buffer ─► chunk: compress ─► I/O thread ─► file without a name
//! operator ◄─ Reader: restore ◄── chunks read ahead ◄───────── I/O thread ◄──┘
//! ```
//!
//! - **Writing** costs one copy while there is memory. Otherwise the writer blocks until the I/O thread has released a
//!   buffer. It never waits for a task of the runtime, so that a runtime with one thread continues, and never for memory that
//!   only other writers or readers can release: then it takes a small buffer beyond the budget.
//! - **Chunks** are compressed by the rule of the query engine ([`ChunkCompressor`]): not before the writers wait for the
//!   device. Every read verifies a checksum.
//! - **Reading** never blocks the runtime. Some chunks are read ahead; one more is read even if the budget has nothing left.
//!   A reader of a file that is still written sees what has been flushed, and is woken when there is more.
//! - **Space** is that of one unnamed file in each directory, which ends with the process however it ends. It is returned when
//!   a spill file is dropped, and limited by [`SpillOptions::limit_bytes`].

mod chunk;
mod costs;
mod file;
mod reader;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::spill_file::{SpillFile, TempFileFactory};
use sakiyomi_io::background::BackgroundIo;
use sakiyomi_io::{Access, EngineKind, EngineSpec, Error, Spill};
use sakiyomi_query::job::spill_directory;
use sakiyomi_query::spill::{CHUNK_MAX_BYTES, ChunkCompressor, LevelBytes, SpillCompression};

pub use costs::{SpillCosts, spill_costs};

use crate::memory::Buffers;
use file::File;

/// Options of a factory.
#[derive(Clone, Debug)]
pub struct SpillOptions {
    /// Directories of the files, used in turn while they have room.
    pub directories: Vec<PathBuf>,
    /// Bytes on disk at most: DataFusion does not apply its own limit to the files of a factory.
    pub limit_bytes: u64,
    /// Bytes of buffers for all writers and readers together, and to compress chunks with.
    pub memory: usize,
    /// Bytes of a chunk before compression, from 64 KiB to 1 MiB.
    pub chunk: usize,
    /// Through the page cache or around it; `None` for around it where the file system offers that.
    pub access: Option<Access>,
    /// The engine.
    pub engine: EngineSpec,
    /// Compression of chunks.
    pub compression: SpillCompression,
    /// Threads that spill at the same time.
    pub threads: usize,
}

/// DataFusion has the same default.
const DEFAULT_LIMIT_BYTES: u64 = 100 << 30;
/// Enough for some chunks in flight on each of a few threads, and small beside the memory of a query.
const DEFAULT_MEMORY_BYTES: usize = 32 << 20;
/// A merge reads many files at the same time, each two chunks ahead; larger transfers are hardly faster.
const DEFAULT_CHUNK_BYTES: usize = 512 << 10;
/// Smallest chunk, which is also that beyond the budget.
const CHUNK_MIN_BYTES: usize = 64 << 10;
/// A compressor takes at most an eighth of the memory that it is given; here it may have half of it.
const COMPRESSOR_FACTOR: usize = 4;
/// Chunks that the writers' buffers hold at least: one is filled while others are written.
const CHUNKS_MIN: usize = 4;

impl Default for SpillOptions {
    /// 100 GiB in [`spill_directory`], 32 MiB of buffers, chunks of 512 KiB, `pread` on threads.
    fn default() -> SpillOptions {
        SpillOptions {
            directories: vec![spill_directory()],
            limit_bytes: DEFAULT_LIMIT_BYTES,
            memory: DEFAULT_MEMORY_BYTES,
            chunk: DEFAULT_CHUNK_BYTES,
            access: None,
            engine: EngineSpec::usual(EngineKind::Pread),
            compression: SpillCompression::default(),
            threads: std::thread::available_parallelism().map_or(1, Into::into),
        }
    }
}

/// Creates the spill files of a runtime (`DiskManagerBuilder::with_temp_file_factory`). Clones are handles of the same.
#[derive(Clone)]
pub struct SpillFactory {
    shared: Arc<Shared>,
}

/// Figures of a factory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpillStats {
    /// Files that exist.
    pub files: usize,
    /// Files created so far.
    pub files_created: u64,
    /// Bytes on disk.
    pub current_bytes: u64,
    /// The most bytes on disk at the same time.
    pub peak_bytes: u64,
    /// Bytes that operators have written so far.
    pub written_bytes: u64,
    /// Bytes read from disk so far.
    pub read_bytes: u64,
    /// Time that writers have waited for the device.
    pub waited: Duration,
    /// CPU time of the I/O threads.
    pub io_cpu: Duration,
    /// The most bytes of the buffers' budget in use.
    pub buffer_peak_bytes: usize,
    /// Sum of all buffers that were taken beyond the budget.
    pub buffer_beyond_bytes: u64,
    /// Bytes stored with each compression level that was used.
    pub levels: Vec<LevelBytes>,
}

/// State shared by all files of a factory.
struct Shared {
    // First: its transfers use the memory and the files.
    io: BackgroundIo,
    spills: Vec<Spill>,
    /// For writers and for readers, so that neither takes all from the other.
    write_buffers: Buffers,
    read_buffers: Buffers,
    compressor: ChunkCompressor,
    chunk: usize,
    limit_bytes: u64,
    turn: AtomicUsize,
    current_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    files: AtomicUsize,
    files_created: AtomicU64,
    written_bytes: AtomicU64,
    read_bytes: AtomicU64,
    waited_ns: AtomicU64,
    /// Writes in flight.
    writes: Mutex<usize>,
    /// Notified when a write has ended.
    written: Condvar,
}

impl SpillFactory {
    /// Creates the files, one in each directory, and starts the I/O threads.
    ///
    /// # Errors
    /// If a file cannot be created, or the engine is not available.
    pub fn new(options: &SpillOptions) -> Result<Arc<SpillFactory>> {
        let io = BackgroundIo::open(options.engine).map_err(external)?;
        // Only its handle is needed: transfers are those of `io`.
        let unused = sakiyomi_io::Io::open(&sakiyomi_io::IoOptions {
            engine: EngineSpec::usual(EngineKind::Null),
            ..Default::default()
        })
        .map_err(external)?;
        let spill = |directory: &PathBuf| match options.access {
            Some(access) => Spill::create_for(&unused, directory, access),
            None => Spill::create(&unused, directory),
        };
        let spills: std::result::Result<Vec<Spill>, Error> = options.directories.iter().map(spill).collect();
        SpillFactory::over(io, spills.map_err(external)?, options)
    }

    /// Over any engine and files, such as those in memory (`sakiyomi_io::fake`). Ignores directories, access and engine of
    /// the options.
    ///
    /// # Errors
    /// If there is no file.
    pub fn over(io: BackgroundIo, spills: Vec<Spill>, options: &SpillOptions) -> Result<Arc<SpillFactory>> {
        if spills.is_empty() {
            return Err(DataFusionError::Configuration(
                "spill files need a directory, and none is given; name at least one".into(),
            ));
        }
        let compressor =
            ChunkCompressor::new(options.compression, options.threads, options.memory * COMPRESSOR_FACTOR);
        let half = (options.memory - compressor.memory_bytes()) / 2;
        let shared = Shared {
            io,
            spills,
            write_buffers: Buffers::new(half).map_err(external)?,
            read_buffers: Buffers::new(half).map_err(external)?,
            compressor,
            chunk: chunk_bytes(options.chunk, half),
            limit_bytes: options.limit_bytes,
            turn: AtomicUsize::new(0),
            current_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            files: AtomicUsize::new(0),
            files_created: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            writes: Mutex::new(0),
            written: Condvar::new(),
        };
        Ok(Arc::new(SpillFactory { shared: Arc::new(shared) }))
    }

    /// Its figures so far.
    #[must_use]
    pub fn stats(&self) -> SpillStats {
        let shared = &self.shared;
        let get = |value: &AtomicU64| value.load(Ordering::Relaxed);
        SpillStats {
            files: shared.files.load(Ordering::Relaxed),
            files_created: get(&shared.files_created),
            current_bytes: get(&shared.current_bytes),
            peak_bytes: get(&shared.peak_bytes),
            written_bytes: get(&shared.written_bytes),
            read_bytes: get(&shared.read_bytes),
            waited: Duration::from_nanos(get(&shared.waited_ns)),
            io_cpu: shared.io.cpu().threads.unwrap_or_default(),
            buffer_peak_bytes: shared.write_buffers.peak_bytes() + shared.read_buffers.peak_bytes(),
            buffer_beyond_bytes: shared.write_buffers.beyond_bytes() + shared.read_buffers.beyond_bytes(),
            levels: shared.compressor.bytes(),
        }
    }
}

impl TempFileFactory for SpillFactory {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        Ok(Arc::new(File::new(&self.shared)))
    }
}

impl fmt::Debug for SpillFactory {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("SpillFactory").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock_writes(&self) -> MutexGuard<'_, usize> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next file with room for `bytes` bytes, or the next one if none has: its error says so.
    fn next_spill(&self, bytes: usize) -> &Spill {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let in_turn = |index: usize| &self.spills[(turn + index) % self.spills.len()];
        let with_room =
            |bytes: usize| (0..self.spills.len()).map(in_turn).find(|spill| spill.has_room(bytes as u64));
        // Writes in flight have not taken their space yet.
        let pending = *self.lock_writes() * self.chunk;
        let found = with_room(bytes + pending).or_else(|| with_room(bytes));
        found.unwrap_or_else(|| in_turn(0))
    }

    /// Takes space of the limit.
    fn take_space(&self, bytes: u64) -> std::io::Result<()> {
        let change = |current: u64| current.checked_add(bytes).filter(|&new| new <= self.limit_bytes);
        match self.current_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change) {
            Ok(before) => {
                self.peak_bytes.fetch_max(before + bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(current) => Err(std::io::Error::other(format!(
                "{bytes} bytes cannot be spilled: {current} of at most {} bytes are on disk; raise the limit of spill files or the memory limit",
                self.limit_bytes
            ))),
        }
    }

    fn give_space_back(&self, bytes: u64) {
        self.current_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Returns the bytes of a chunk: whole units, and so few that some fit into the buffers of the writers.
fn chunk_bytes(wanted: usize, buffers: usize) -> usize {
    let most = (buffers / CHUNKS_MIN).clamp(CHUNK_MIN_BYTES, CHUNK_MAX_BYTES);
    wanted.clamp(CHUNK_MIN_BYTES, most) / CHUNK_MIN_BYTES * CHUNK_MIN_BYTES
}

/// Returns an error of the I/O as one of DataFusion, with its causes.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
