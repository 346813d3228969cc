//! Allocation of the runs of a spill in its file, and the space that they occupy.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

use super::holes::Holes;
use crate::file::IoFile;
use crate::write::allocation::{Allocation, FREE_PARTS};

/// Unit of allocation in bytes: the usual block of a file system, as only whole blocks become holes.
const UNIT_BYTES: usize = 4096;

/// Released space is kept until it reaches the peak size of the spill divided by this number: few holes then return
/// it, and a merge needs at most 1.5 times the space of its input. Less is kept if space is short.
const KEPT_PARTS: u64 = 2;
/// Released bytes that are kept in any case: punching holes for so little is not worth the time.
const KEPT_MIN_BYTES: u64 = 16 << 20;
/// Minimum size of a file whose blocks are freed by another thread: ext4 took 0.16 ms per MiB.
const FREED_APART_MIN_BYTES: u64 = 64 << 20;

/// Counters of a spill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpillStats {
    /// Bytes written so far, including the padding at the ends of runs.
    pub written_bytes: u64,
    /// Bytes of runs that were not read yet. Excludes space allocated ahead of the writers, and released space that
    /// is yet to be returned to the file system.
    pub live_bytes: u64,
    /// Maximum of [`live_bytes`](SpillStats::live_bytes) so far.
    pub peak_bytes: u64,
}

/// A limit on the space of spills, such as those in memory.
pub trait SpaceLimit: std::fmt::Debug + Send + Sync {
    /// Takes space for bytes that will be written.
    ///
    /// # Errors
    /// If the limit is exceeded; becomes the error of the write.
    fn take(&self, bytes: u64) -> io::Result<()>;

    /// Returns whether the spill is to be used for bytes, rather than another one that has room.
    fn has(&self, bytes: u64) -> bool;

    /// Returns space that was taken.
    fn give_back(&self, bytes: u64);
}

/// The file of a spill, and its space.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) file: Arc<IoFile>,
    pub(super) limit: Option<Arc<dyn SpaceLimit>>,
    /// Held while released space is returned, so that a thread that waits for it does not consider the file system
    /// full. Locked before the state.
    returning: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stats: SpillStats,
    /// Whether the file system supports holes, as far as is known.
    has_holes: bool,
    /// Released ranges whose space was not returned yet.
    released: Holes,
    allocation: Allocation,
}

impl Space {
    pub(super) fn new(file: Arc<IoFile>, limit: Option<Arc<dyn SpaceLimit>>) -> Space {
        let state = State {
            stats: SpillStats::default(),
            has_holes: true,
            released: Holes::default(),
            allocation: Allocation::none(),
        };
        Space { file, limit, returning: Mutex::default(), state: Mutex::new(state) }
    }

    pub(super) fn stats(&self) -> SpillStats {
        self.lock().stats
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The counters stay consistent wherever a holder of the lock panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether `bytes` more bytes can be written. Returns all released space to the file system if that is
    /// necessary or little else is free, and waits for threads that are returning some.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.limit.as_ref().is_none_or(|limit| limit.has(bytes)) && self.has_space(bytes)
    }

    /// Like [`Space::has_room`], whatever the limit prefers.
    pub(super) fn has_space(&self, bytes: u64) -> bool {
        let state = self.lock();
        if state.allocation.covers(state.stats.written_bytes.saturating_add(bytes)) {
            return true;
        }
        let Some(free) = self.file.free_bytes() else { return true };
        if free >= bytes && free / FREE_PARTS >= state.released.bytes() {
            return true;
        }
        drop(state);
        self.return_released();
        self.file.free_bytes().is_none_or(|free| free >= bytes)
    }

    /// Releases the space of a range: at once in memory, in files together with other ranges.
    pub(super) fn release(&self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        if let Some(limit) = &self.limit {
            self.punch_in_memory(range, limit.as_ref());
            return;
        }
        let mut state = self.lock();
        state.stats.live_bytes -= range.end - range.start;
        if state.has_holes {
            state.released.add(range.clone());
        }
        if self.keeps(&state) {
            return;
        }
        drop(state);
        self.return_released();
    }

    /// Returns whether released space need not be returned yet: it is little, much more is free, or the file contains
    /// nothing else and will be closed.
    fn keeps(&self, state: &State) -> bool {
        let kept = state.released.bytes();
        if kept <= KEPT_MIN_BYTES || state.stats.live_bytes == 0 {
            return true;
        }
        let is_plenty = || self.file.free_bytes().is_none_or(|free| free / FREE_PARTS >= kept);
        kept <= state.stats.peak_bytes / KEPT_PARTS && is_plenty()
    }

    /// Returns the released space to the file system, after other threads that are doing so.
    fn return_released(&self) {
        let _returning = self.returning.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken under the lock: a range in no list is either returned, or being returned by the lock's holder.
        let released = std::mem::take(&mut self.lock().released);
        for hole in released.into_ranges() {
            if self.punch(&hole).is_err() {
                // The space stays occupied until the spill is dropped, which is not an error.
                self.lock().has_holes = false;
                return;
            }
        }
    }

    fn punch_in_memory(&self, range: &Range<u64>, limit: &dyn SpaceLimit) {
        if !self.lock().has_holes {
            return;
        }
        let punched = self.punch(range);
        let mut state = self.lock();
        match punched {
            Ok(()) => {
                state.stats.live_bytes -= range.end - range.start;
                limit.give_back(range.end - range.start);
            }
            Err(_) => state.has_holes = false,
        }
    }

    fn punch(&self, range: &Range<u64>) -> Result<(), Errno> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        retry_on_intr(|| fallocate(self.file.file(), flags, range.start, range.end - range.start))
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let written_bytes = self.lock().stats.written_bytes;
        if let Some(limit) = &self.limit {
            limit.give_back(self.lock().stats.live_bytes);
        } else if written_bytes > 0 {
            // Blocks of the last reads may keep the file open. On error the space is freed when the file is closed.
            let file = Arc::clone(&self.file);
            let free = move || drop(file.file().set_len(0));
            if written_bytes < FREED_APART_MIN_BYTES {
                free();
            } else {
                // Without a thread, the space is freed when the file is closed.
                let _ = thread::Builder::new().name("spill-free".to_owned()).spawn(free);
            }
        }
    }
}

/// The extents of a run in a spill. Their space is released on drop.
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

    /// Returns the offset of the next `length` bytes. An error includes the offset that they would have had.
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
        self.extents.iter().for_each(|extent| self.space.release(extent));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::Access;

    #[test]
    fn a_file_system_is_full_only_after_all_released_space_was_returned() {
        let file = crate::file::create_unnamed(sakiyomi_testing::directory(), Access::Buffered).unwrap();
        file.set_len(1 << 20).unwrap();
        let file = IoFile::from_file(file, Path::new("spill"), Access::Buffered).unwrap();
        let space = Space::new(Arc::new(file), None);
        space.lock().released.add(0..1 << 20);
        let is_decided = AtomicBool::new(false);
        thread::scope(|scope| {
            // Another thread is returning space.
            let returning = space.returning.lock().unwrap();
            let deciding = scope.spawn(|| {
                let has_room = space.has_room(u64::MAX);
                is_decided.store(true, Ordering::SeqCst);
                has_room
            });
            for _ in 0..1000 {
                thread::yield_now();
                assert!(!is_decided.load(Ordering::SeqCst));
            }
            drop(returning);
            assert!(!deciding.join().unwrap());
        });
        assert_eq!(space.lock().released.bytes(), 0);
    }
}
