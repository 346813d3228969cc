//! The layout, shared by the threads that serve the kernel.
//!
//! Every read of a mount with a drive or a trace looks up the extents of its file, on several threads at a time. Each
//! thread caches the last run of each file, so that reads between two changes of the layout take no contended lock.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sakiyomi_model::Bytes;

use crate::layout::{FileId, FileRun, Layout};
use sakiyomi_realtime::Extents;

/// Number of files whose last run a thread caches; a power of two.
const RECENT_FILES: usize = 64;

/// A layout behind a lock.
#[derive(Debug)]
pub(crate) struct SharedLayout {
    layout: Mutex<Layout>,
    /// Number of possible changes of the layout; incremented under the lock.
    changes: AtomicU64,
    /// Distinguishes this layout from others in the process.
    id: u64,
}

thread_local! {
    /// Indexed by the inode number modulo their number. Without a lock, even an uncontended one: after data has been
    /// copied, each locked instruction waits until all of it is written, some 80 cycles.
    static RECENT_RUNS: RefCell<[Option<RecentRun>; RECENT_FILES]> =
        const { RefCell::new([None; RECENT_FILES]) };
}

/// A run of a file, valid for a number of changes.
#[derive(Clone, Copy, Debug)]
struct RecentRun {
    layout: u64,
    file: FileId,
    changes: u64,
    run: FileRun,
}

impl SharedLayout {
    pub(crate) fn new(layout: Layout) -> SharedLayout {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        SharedLayout { layout: Mutex::new(layout), changes: AtomicU64::new(0), id }
    }

    fn lock(&self) -> MutexGuard<'_, Layout> {
        // A panic under this lock has already been reported; the layout stays consistent.
        self.layout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the layout for reading.
    pub(crate) fn read(&self) -> impl Deref<Target = Layout> + '_ {
        self.lock()
    }

    /// Returns the layout for changing.
    pub(crate) fn change(&self) -> MutexGuard<'_, Layout> {
        let layout = self.lock();
        // Under the lock: a thread that caches a run from before the change has also read the count from before it.
        self.changes.fetch_add(1, Ordering::Release);
        layout
    }

    /// Returns the extents of `length` bytes of a file, as [`Layout::extents`].
    pub(crate) fn extents(&self, file: FileId, offset: u64, length: u64, sector: Bytes) -> Extents {
        RECENT_RUNS.with_borrow_mut(|recent| {
            let place = &mut recent[file.inode as usize % RECENT_FILES];
            let changes = self.changes.load(Ordering::Acquire);
            if let Some(known) = place
                && (known.layout, known.changes, known.file) == (self.id, changes, file)
                && let Some(extent) = known.run.extent(offset, length, sector)
            {
                return [extent].into_iter().collect();
            }
            let layout = self.lock();
            // It cannot change under the lock.
            let changes = self.changes.load(Ordering::Relaxed);
            let run = layout.run_at(file, offset);
            *place = run.map(|run| RecentRun { layout: self.id, file, changes, run });
            let extents: Extents = layout.extents(file, offset, length, sector).collect();
            drop(layout);
            extents
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{BLOCK_BYTES, Placement};
    use proptest::prelude::*;
    use sakiyomi_model::Extent;

    const SECTOR: Bytes = Bytes(512);

    #[derive(Clone, Debug)]
    enum Step {
        Place(u64, u64, u64),
        Punch(u64, u64, u64),
        Remove(u64),
        Ask(u64, u64, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        // 1 and 65 share a slot.
        let file = prop_oneof![Just(1u64), Just(2), Just(65)];
        let bytes = || (0..40 * BLOCK_BYTES, 0..8 * BLOCK_BYTES);
        prop_oneof![
            2 => (file.clone(), bytes()).prop_map(|(file, (offset, length))| Step::Place(file, offset, length)),
            1 => (file.clone(), bytes()).prop_map(|(file, (offset, length))| Step::Punch(file, offset, length)),
            1 => file.clone().prop_map(Step::Remove),
            6 => (file, bytes()).prop_map(|(file, (offset, length))| Step::Ask(file, offset, length)),
        ]
    }

    proptest! {
        #[test]
        fn what_is_remembered_is_what_the_layout_says(
            steps in proptest::collection::vec(step(), 1..60),
            scattered: bool,
        ) {
            let placement =
                if scattered { Placement::Scattered { piece: 2 } } else { Placement::Contiguous };
            let shared = SharedLayout::new(Layout::new(Bytes(1 << 22), placement, 1));
            let id = |inode| FileId { device: 0, inode };
            for step in steps {
                match step {
                    Step::Place(file, offset, length) => {
                        let _ = shared.change().place(id(file), offset, length);
                    }
                    Step::Punch(file, offset, length) => shared.change().punch(id(file), offset, length),
                    Step::Remove(file) => shared.change().remove(id(file)),
                    Step::Ask(file, offset, length) => {
                        let expected: Vec<Extent> =
                            shared.read().extents(id(file), offset, length, SECTOR).collect();
                        let got = shared.extents(id(file), offset, length, SECTOR);
                        prop_assert_eq!(&got[..], &expected[..]);
                    }
                }
            }
        }
    }
}
