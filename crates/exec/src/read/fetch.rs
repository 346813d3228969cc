//! Transfer of a file's bytes to compute threads: bytes that are cached, or that the threads load themselves.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sakiyomi_io::read::Single;
use sakiyomi_io::{Block, Buffer, BufferPool, Memory};

use super::grid::Grid;
use super::tuner::{Transfer, Tuner};

/// Transfers from one file.
pub(super) struct Fetch {
    pub(super) single: Arc<Single>,
    /// Bytes copied at a time, where possible from one start of a block to another.
    copied: usize,
    grid: Grid,
    buffers: Buffers,
    /// Whether a transfer that fails may be replaced by the other.
    is_free: bool,
    tuner: Mutex<Tuner>,
}

/// Bytes copied at a time if either transfer may be used: they stay in a core's cache, and amortize a system call.
const COPIED_BYTES: Range<usize> = 64 << 10..1 << 20;

/// Largest block that is copied as a whole, since each thread has memory for one.
const COPIED_MAX_BYTES: usize = 16 << 20;

impl Fetch {
    /// Uses the same transfer for all pieces; copies are of about `wanted` bytes.
    pub(super) fn only(
        single: Arc<Single>,
        transfer: Transfer,
        grid: Grid,
        wanted: usize,
        buffers: Buffers,
    ) -> Fetch {
        let ((copied, grid), tuner) = (copied(grid, wanted), Mutex::new(Tuner::settled(transfer)));
        Fetch { single, copied, grid, buffers, is_free: false, tuner }
    }

    /// Uses the faster transfer for `bytes` that are cached, or will be.
    pub(super) fn faster(
        single: Arc<Single>,
        bytes: u64,
        grid: Grid,
        wanted: usize,
        buffers: Buffers,
    ) -> Fetch {
        let (copied, grid) = copied(grid, wanted.clamp(COPIED_BYTES.start, COPIED_BYTES.end));
        Fetch { single, copied, grid, buffers, is_free: true, tuner: Mutex::new(Tuner::of(bytes)) }
    }

    /// Returns the transfer for the next bytes of a piece, and their range; to be called again for the rest.
    pub(super) fn next(&self, piece: &Range<u64>) -> (Transfer, Range<u64>) {
        let (transfer, length) = self.tuner().next(piece.end - piece.start);
        (transfer, piece.start..piece.start + length)
    }

    /// Records the CPU `time` from the transfer of `bytes` bytes to the end of their processing.
    pub(super) fn took(&self, transfer: Transfer, bytes: u64, time: Duration) {
        self.tuner().took(transfer, bytes, time);
    }

    /// Maps a part; `None` if it cannot be mapped but may be copied: this and all later parts are then copied.
    pub(super) fn map(&self, part: Range<u64>) -> Result<Option<Block>, sakiyomi_io::Error> {
        match self.single.map(part) {
            Err(_) if self.is_free => {
                self.tuner().settle(Transfer::Copy);
                Ok(None)
            }
            mapped => mapped.map(Some),
        }
    }

    /// Divides a part into pieces that are copied at a time.
    pub(super) fn pieces(&self, part: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        self.grid.cut(part, self.copied as u64)
    }

    /// Copies such a piece.
    pub(super) fn copy(&self, piece: Range<u64>) -> Result<Block, sakiyomi_io::Error> {
        // A direct transfer is widened to the alignment at both ends.
        let size = self.copied + 2 * self.single.file().alignment().offset;
        self.single.read(piece, self.buffers.take(size)?)
    }

    fn tuner(&self) -> MutexGuard<'_, Tuner> {
        self.tuner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of bytes copied at a time, and the grid of the copies: whole blocks, unless these are too large.
fn copied(grid: Grid, wanted: usize) -> (usize, Grid) {
    match usize::try_from(grid.unit) {
        Ok(unit) if unit <= COPIED_MAX_BYTES => ((wanted / unit).max(1) * unit, grid),
        _ => (wanted.min(COPIED_MAX_BYTES), Grid::FREE),
    }
}

/// Memory to copy into, for all files: one buffer per compute thread, made when needed.
#[derive(Clone)]
pub(super) struct Buffers {
    threads: usize,
    kept: Arc<Mutex<Option<(usize, BufferPool)>>>,
}

impl Buffers {
    pub(super) fn new(threads: usize) -> Buffers {
        Buffers { threads, kept: Arc::default() }
    }

    /// Returns a buffer of at least `size` bytes, for a thread that holds none.
    fn take(&self, size: usize) -> Result<Buffer, sakiyomi_io::Error> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = match kept.take().filter(|&(had, _)| had >= size) {
            Some(large_enough) => large_enough,
            None => (size, BufferPool::fixed(self.threads + 1, size, Memory::Huge)?),
        };
        let buffer = pool.1.take().expect("one for each thread");
        *kept = Some(pool);
        Ok(buffer)
    }
}
