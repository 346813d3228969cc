//! Shuffles of Ballista over sakiyomi's I/O, in Ballista's files.
//!
//! ```text
//! rows of a task ─► Buckets: by partition, encoded ──► memory within a budget ─┐
//!                                  └─► Spilled: a file without a name ───┴─► data.arrow, data.arrow.index
//! rows of a task ─► encoded ─► write stream ─► PARTITION/data-TASK.arrow           (stages that keep their partitioning)
//! rows of a stage ◄─ decoded ◄─ messages ◄─ blocks read ahead ◄─ data.arrow of all tasks (local files; others by Flight)
//! ```
//!
//! - **Format.** `data.arrow` begins with an Arrow IPC stream without batches, which holds the schema. The streams of each
//!   partition follow, one for each input partition of the task that has rows of it. `data.arrow.index` has the offset of
//!   each partition and the length of the file, as 64-bit little-endian integers. `data-TASK.arrow` is one stream.
//! - **Memory.** Ballista keeps the rows of a task in memory, and encodes them at its end. Here rows are encoded as soon as
//!   each partition has a batch; what is kept is compressed. Encoded rows of all tasks together have a budget
//!   ([`ShuffleOptions::memory`]); beyond it a task writes its own to an unnamed file in the work directory, and
//!   continues. The memory is reserved from the pool of the task as well, which may ask for it earlier.
//! - **Writes** go by write streams: the task fills a buffer while others are written. A stream that finds no room in the
//!   budget of buffers writes through a buffer of its own, as Ballista does.
//! - **Reads** of local files never block the runtime, and never wait for memory: blocks are read ahead while a batch is
//!   decoded, and the next file is opened while one is read. The structure of messages is checked, unlike by Ballista's
//!   readers: their lengths, the places of their buffers, offsets and text. Changed values are not found, because the format
//!   has no checksums.
//! - **Waits.** A task that writes and has to wait for the device, or for memory, does not keep a thread of a runtime with
//!   several.
//! - **Errors.** A file that cannot be written fails the task with one sentence, which Ballista retries. Files have temporary
//!   names until all of a task are whole, and are removed if it fails or is cancelled. One that cannot be read is a fetch
//!   failure, and Ballista repeats the stage that wrote it.

mod buckets;
mod columns;
mod file;
mod messages;
mod passthrough;
mod read;
mod sorted;
mod spilled;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result};
use sakiyomi_datafusion::blocks::{BlockOptions, BlockReader};
use sakiyomi_io::engine::Engine;
use sakiyomi_io::{
    Access, BufferPool, EngineKind, EngineSpec, Error, Io, IoOptions, Memory, SharedOptions, WriteOptions,
};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

pub(crate) use passthrough::Passthrough;
pub(crate) use read::{ReadAheadShuffleReaderExec, check_job};
pub(crate) use sorted::SortedWriter;

/// Options of the shuffles of an executor.
#[derive(Clone, Debug)]
pub struct ShuffleOptions {
    /// Bytes of encoded rows that all tasks keep in memory; what exceeds it is spilled.
    pub memory: usize,
    /// Bytes of the buffers of all writes.
    pub write_memory: usize,
    /// Bytes of the buffers of all local reads that are ahead of their readers.
    pub read_memory: usize,
    /// Bytes of a transfer, from 64 KiB.
    pub block: usize,
    /// Blocks in flight of each write, and ahead of each reader; from 1.
    pub ahead: usize,
    /// Access to shuffle files; through the page cache where their file system has no direct I/O.
    pub access: Access,
    /// Access to spilled rows; `None` for direct where the file system offers that.
    pub spill_access: Option<Access>,
    /// The engine.
    pub engine: EngineSpec,
}

/// As Ballista's limit for a task.
const DEFAULT_MEMORY_BYTES: usize = 256 << 20;
/// Some blocks in flight for each of a few tasks.
const DEFAULT_BUFFER_BYTES: usize = 32 << 20;
/// Size at which direct transfers are fastest on most devices.
const DEFAULT_BLOCK_BYTES: usize = 1 << 20;
/// Enough to keep a device busy while a block is encoded or decoded.
const DEFAULT_AHEAD: usize = 4;

/// Smallest block: transfers below that cost more than they move.
const BLOCK_MIN_BYTES: usize = 64 << 10;
/// Two streams with their guarantees, of two blocks of 64 KiB each.
const SPILL_BUFFERS_MIN_BYTES: usize = 256 << 10;
/// Pause between looks at the budget of spilled rows, short beside the transfer that ends another stream.
const BUDGET_POLL: Duration = Duration::from_millis(1);

impl Default for ShuffleOptions {
    /// 256 MiB of encoded rows; 32 MiB of buffers for writes, and as much for reads; blocks of 1 MiB, 4 ahead; files through
    /// the page cache, `pread` on threads.
    fn default() -> ShuffleOptions {
        ShuffleOptions {
            memory: DEFAULT_MEMORY_BYTES,
            write_memory: DEFAULT_BUFFER_BYTES,
            read_memory: DEFAULT_BUFFER_BYTES,
            block: DEFAULT_BLOCK_BYTES,
            ahead: DEFAULT_AHEAD,
            access: Access::Buffered,
            spill_access: None,
            engine: EngineSpec::usual(EngineKind::Pread),
        }
    }
}

impl ShuffleOptions {
    /// Fails for options with which nothing can be read or written.
    fn check(&self) -> Result<()> {
        let refused = |text| Err(DataFusionError::Configuration(text));
        if self.block < BLOCK_MIN_BYTES {
            return refused(format!(
                "ShuffleOptions::block is {}; give at least {BLOCK_MIN_BYTES} bytes",
                self.block
            ));
        }
        if self.ahead == 0 {
            return refused("ShuffleOptions::ahead is 0; give at least 1 block".into());
        }
        Ok(())
    }
}

/// The shuffles of an executor: engine, budgets and figures. Clones are handles of the same.
#[derive(Clone)]
pub struct Shuffle {
    shared: Arc<Shared>,
}

/// Figures of the shuffles of an executor so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShuffleStats {
    /// Shuffle files written, without their indexes.
    pub files: u64,
    /// Bytes of these files.
    pub written_bytes: u64,
    /// Encoded bytes that were spilled before.
    pub spilled_bytes: u64,
    /// Times that a task has spilled.
    pub spills: u64,
    /// Bytes of local shuffle files that were read.
    pub read_bytes: u64,
    /// The most encoded bytes in memory at the same time.
    pub memory_peak_bytes: usize,
    /// Files written without a write stream, because the budget of buffers had no room.
    pub plain_files: u64,
}

pub(crate) struct Shared {
    // First: their transfers use the memory of the pools.
    io: Io,
    /// For spilled rows alone. Each of its streams ends without help of a thread of the runtime: it writes what one input has in
    /// memory, or reads back what a task has spilled while a thread of its own writes the file. So a task that waits for memory
    /// here gets it.
    spill_io: Io,
    blocks: BlockReader,
    options: ShuffleOptions,
    /// Held while the files of a task get their names.
    commits: Mutex<()>,
    /// Encoded bytes in memory.
    memory: AtomicUsize,
    memory_peak: AtomicUsize,
    files: AtomicU64,
    written: AtomicU64,
    spilled: AtomicU64,
    spills: AtomicU64,
    read: AtomicU64,
    plain: AtomicU64,
}

impl Shuffle {
    /// Opens the engine and starts its threads.
    ///
    /// # Errors
    /// If an option is out of its range, or the system does not offer the engine.
    pub fn new(options: ShuffleOptions) -> Result<Shuffle> {
        let open = |budget| Io::open(&IoOptions { engine: options.engine, budget, memory: Memory::Huge });
        let (files, spills) = shares(options.write_memory);
        let (files, spills) = (open(files).map_err(external)?, open(spills).map_err(external)?);
        Shuffle::with(files, spills, options)
    }

    /// With writes of files and of spilled rows by any engines, such as ones with faults.
    ///
    /// # Errors
    /// If an option is out of its range, or the system does not offer the engine of the options, by which it reads.
    pub fn over(files: Box<dyn Engine>, spills: Box<dyn Engine>, options: ShuffleOptions) -> Result<Shuffle> {
        let pool = |bytes| BufferPool::with_budget(bytes, Memory::Ordinary);
        let shares = shares(options.write_memory);
        Shuffle::with(Io::over(files, pool(shares.0)), Io::over(spills, pool(shares.1)), options)
    }

    fn with(io: Io, spill_io: Io, options: ShuffleOptions) -> Result<Shuffle> {
        options.check()?;
        let reads = BlockOptions { memory: options.read_memory, block: options.block, ahead: options.ahead };
        let shared = Shared {
            io,
            spill_io,
            blocks: BlockReader::new(options.engine, reads).map_err(external)?,
            options,
            commits: Mutex::new(()),
            memory: AtomicUsize::new(0),
            memory_peak: AtomicUsize::new(0),
            files: AtomicU64::new(0),
            written: AtomicU64::new(0),
            spilled: AtomicU64::new(0),
            spills: AtomicU64::new(0),
            read: AtomicU64::new(0),
            plain: AtomicU64::new(0),
        };
        Ok(Shuffle { shared: Arc::new(shared) })
    }

    /// Its figures so far.
    #[must_use]
    pub fn stats(&self) -> ShuffleStats {
        let shared = &self.shared;
        let get = |value: &AtomicU64| value.load(Ordering::Relaxed);
        ShuffleStats {
            files: get(&shared.files),
            written_bytes: get(&shared.written),
            spilled_bytes: get(&shared.spilled),
            spills: get(&shared.spills),
            read_bytes: get(&shared.read),
            memory_peak_bytes: shared.memory_peak.load(Ordering::Relaxed),
            plain_files: get(&shared.plain),
        }
    }

    /// Its options.
    #[must_use]
    pub fn options(&self) -> &ShuffleOptions {
        &self.shared.options
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl fmt::Debug for Shuffle {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Shuffle").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Shared").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Shared {
    /// Counts encoded bytes that are kept; returns whether they are within the budget.
    fn keep(&self, bytes: usize) -> bool {
        let kept = self.memory.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.memory_peak.fetch_max(kept, Ordering::Relaxed);
        kept <= self.options.memory
    }

    /// Encoded bytes are no longer kept.
    fn release(&self, bytes: usize) {
        self.memory.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions { block: self.options.block, in_flight: self.options.ahead, ..WriteOptions::default() }
    }

    fn read_options(&self) -> SharedOptions {
        SharedOptions { block: self.options.block, ahead: self.options.ahead, ..SharedOptions::default() }
    }
}

/// Buffers of files and of spilled rows, out of those of all writes. A stream of spilled rows always fits.
fn shares(memory: usize) -> (usize, usize) {
    let spills = (memory / 2).max(SPILL_BUFFERS_MIN_BYTES);
    (memory.saturating_sub(spills), spills)
}

/// Runs what may wait for a device or for memory, in a task. The other tasks of its runtime continue, unless that has only
/// one thread.
fn waiting<T>(run: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    if matches!(flavor, Ok(RuntimeFlavor::MultiThread)) { block_in_place(run) } else { run() }
}

/// Repeats the opening of a stream of spilled rows until the budget has room. Others end without this thread.
fn opened<T>(mut open: impl FnMut() -> Result<T, Error>) -> Result<T> {
    loop {
        match open() {
            Err(Error::Budget { .. }) => std::thread::sleep(BUDGET_POLL),
            other => return other.map_err(io_error),
        }
    }
}

fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// An error of the I/O as Ballista expects those of files: it tries such tasks again.
fn io_error(error: Error) -> DataFusionError {
    DataFusionError::IoError(readable(error.into()))
}

/// An error of encoding; those of the file below the encoder are errors of the I/O.
fn encode_error(error: ArrowError) -> DataFusionError {
    match error {
        ArrowError::IoError(_, source) => DataFusionError::IoError(source),
        other => other.into(),
    }
}

/// The same error as a sentence: Ballista shows users what `Debug` prints.
fn readable(error: io::Error) -> io::Error {
    let text = match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(error) => sentence(error),
        None => error.to_string(),
    };
    io::Error::new(error.kind(), text)
}

/// An error with its causes.
fn sentence(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
