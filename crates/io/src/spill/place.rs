//! Where the runs of a spill lie in its file, and the space that they occupy.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::retry_on_intr;

use crate::file::IoFile;
use crate::write::allocation::Allocation;

/// Unit of a run's place in the file, in bytes: the usual block of a file system, as only whole blocks become holes.
const UNIT_BYTES: usize = 4096;

/// Bytes of a spill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpillStats {
    /// Bytes written so far, those that pad the ends of runs included.
    pub written_bytes: u64,
    /// Bytes that occupy space now. Space allocated ahead of the writers is not counted.
    pub live_bytes: u64,
    /// The most bytes that occupied space at the same time.
    pub peak_bytes: u64,
}

/// A limit of the space of spills, such as those in memory.
pub trait SpaceLimit: std::fmt::Debug + Send + Sync {
    /// Takes space for bytes that will be written.
    ///
    /// # Errors
    /// If the limit does not leave that much: the error of the write.
    fn take(&self, bytes: u64) -> io::Result<()>;

    /// Returns space that was taken.
    fn give_back(&self, bytes: u64);
}

/// The file of a spill, and its space.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) file: Arc<IoFile>,
    pub(super) limit: Option<Arc<dyn SpaceLimit>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stats: SpillStats,
    /// Whether the file system makes holes, as far as is known.
    has_holes: bool,
    allocation: Allocation,
}

impl Space {
    pub(super) fn new(file: Arc<IoFile>, limit: Option<Arc<dyn SpaceLimit>>) -> Space {
        let state = State { stats: SpillStats::default(), has_holes: true, allocation: Allocation::none() };
        Space { file, limit, state: Mutex::new(state) }
    }

    pub(super) fn stats(&self) -> SpillStats {
        self.lock().stats
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Its numbers are consistent whatever its holder was doing when it panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let state = self.lock();
        let end = state.stats.written_bytes.saturating_add(bytes);
        state.allocation.covers(end) || self.file.free_bytes().is_none_or(|free| free >= bytes)
    }

    /// Returns the space of a range to the file system.
    pub(super) fn punch(&self, range: &Range<u64>) {
        if range.is_empty() || !self.lock().has_holes {
            return;
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let length = range.end - range.start;
        let punched = retry_on_intr(|| fallocate(self.file.file(), flags, range.start, length));
        let mut state = self.lock();
        match punched {
            Ok(()) => {
                state.stats.live_bytes -= length;
                if let Some(limit) = &self.limit {
                    limit.give_back(length);
                }
            }
            // The space is occupied until the spill is dropped, which is not an error.
            Err(_) => state.has_holes = false,
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if let Some(limit) = &self.limit {
            limit.give_back(self.lock().stats.live_bytes);
        }
    }
}

/// The place of a run in a spill. Its space is returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    pub(super) space: Arc<Space>,
    /// In the order of the run's bytes.
    pub(super) extents: Vec<Range<u64>>,
}

impl Place {
    pub(super) fn new(space: &Arc<Space>) -> Place {
        Place { space: Arc::clone(space), extents: Vec::new() }
    }

    pub(crate) fn alignment(&self) -> usize {
        self.space.file.alignment().offset.max(UNIT_BYTES)
    }

    /// The offset of the next `length` bytes. An error comes with the offset that they would have had.
    pub(crate) fn next(&mut self, length: usize) -> Result<u64, (u64, io::Error)> {
        let mut state = self.space.lock();
        let (offset, added) = (state.stats.written_bytes, length as u64);
        let end = offset + added;
        state.allocation.check_limit(end).map_err(|error| (offset, error))?;
        if let Some(limit) = &self.space.limit {
            limit.take(added).map_err(|error| (offset, error))?;
        }
        let SpillStats { live_bytes, peak_bytes, .. } = state.stats;
        let live_bytes = live_bytes + added;
        state.stats = SpillStats { written_bytes: end, live_bytes, peak_bytes: peak_bytes.max(live_bytes) };
        if self.space.file.alignment().offset > 1 && self.space.limit.is_none() {
            state.allocation.ahead_of(&self.space.file, end);
        }
        drop(state);
        match self.extents.last_mut() {
            Some(last) if last.end == offset => last.end = end,
            _ => self.extents.push(offset..end),
        }
        Ok(offset)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.extents.iter().for_each(|extent| self.space.punch(extent));
    }
}
