//! Options of a blocked read.

use std::ops::Range;
use std::path::{Path, PathBuf};

use sakiyomi_io::{Access, EngineSpec};

/// The thread that reads bytes that are not cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoThread {
    /// A thread that does nothing else, with a raised priority where that is allowed: the paper's `IO_0`.
    #[default]
    Dedicated,
    /// Every compute thread reads its own blocks: the paper's `SPE_ANY`.
    Shared,
}

/// Files to be read by blocks, one or many.
#[derive(Clone, Debug)]
#[must_use = "nothing is read until it is reduced or written"]
pub struct BlockedRead {
    pub(super) paths: Vec<PathBuf>,
    pub(super) range: Range<u64>,
    pub(super) block: usize,
    pub(super) threads: usize,
    pub(super) method: Option<EngineSpec>,
    pub(super) access: Access,
    pub(super) io: IoThread,
    pub(super) record_max: Option<u64>,
}

/// Default size of a block: small enough to stay in a core's cache, large enough to make the cost of a task small.
const BLOCK_DEFAULT_BYTES: usize = 128 << 10;
/// Bytes read ahead.
const READ_AHEAD_BYTES: usize = 16 << 20;
/// Limits of the number of blocks read ahead.
const READ_AHEAD_BLOCKS: Range<usize> = 4..256;

/// Prepares reading a file by blocks of 128 KiB on as many threads as there are cores.
pub fn blocked_read(path: impl AsRef<Path>) -> BlockedRead {
    blocked_reads([path])
}

/// Prepares reading files in this order, as [`blocked_read`] does for one.
pub fn blocked_reads(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> BlockedRead {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (method, access, io) = (None, Access::Buffered, IoThread::Dedicated);
    BlockedRead {
        paths: paths.into_iter().map(|path| path.as_ref().to_owned()).collect(),
        range: 0..u64::MAX,
        block: BLOCK_DEFAULT_BYTES,
        threads,
        method,
        access,
        io,
        record_max: None,
    }
}

impl BlockedRead {
    /// Sets the size of a block in bytes.
    ///
    /// # Panics
    /// If it is 0.
    pub fn block(mut self, bytes: usize) -> BlockedRead {
        assert!(bytes > 0, "a block of no bytes");
        self.block = bytes;
        self
    }

    /// Restricts reading to these bytes of each file.
    pub fn range(mut self, range: Range<u64>) -> BlockedRead {
        self.range = range;
        self
    }

    /// Sets the number of compute threads.
    pub fn threads(mut self, threads: usize) -> BlockedRead {
        self.threads = threads.max(1);
        self
    }

    /// Reads all bytes by this engine. By default resident bytes are mapped, or copied if that is faster, and the I/O
    /// thread loads the others.
    pub fn method(mut self, method: EngineSpec) -> BlockedRead {
        self.method = Some(method);
        self
    }

    /// Sets whether reads go through the page cache or bypass it.
    pub fn access(mut self, access: Access) -> BlockedRead {
        self.access = access;
        self
    }

    /// Sets the thread that reads.
    pub fn io_thread(mut self, io: IoThread) -> BlockedRead {
        self.io = io;
        self
    }

    /// Sets the limit of a record in bytes; by default, it is the number of bytes that are read ahead, 16 MiB with the
    /// default block. Memory is used for as much of a record as has been read, and for one that crosses a boundary of
    /// blocks only.
    pub fn record_max(mut self, bytes: u64) -> BlockedRead {
        self.record_max = Some(bytes);
        self
    }

    /// Returns the maximum number of blocks that are read ahead, processed, or waiting for their turn.
    pub(super) fn blocks_ahead(&self) -> usize {
        (READ_AHEAD_BYTES / self.block)
            .clamp(READ_AHEAD_BLOCKS.start, READ_AHEAD_BLOCKS.end)
            .max(2 * self.threads)
    }

    /// Returns the maximum number of these bytes.
    pub(super) fn bytes_ahead(&self) -> u64 {
        (self.blocks_ahead() * self.block).max(READ_AHEAD_BYTES) as u64
    }
}
