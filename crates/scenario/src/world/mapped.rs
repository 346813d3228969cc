//! Mapped files: page accesses and page faults.

use super::World;
use crate::cache::{FileId, State};
use crate::file::File;
use crate::readahead::Window;
use crate::spec::Kernel;

/// Number of pages mapped by a fault, if they are cached (`fault_around_bytes`).
const FAULT_AROUND_PAGES: u64 = 16;
/// Excess of misses over hits beyond which a fault reads no further pages (`MMAP_LOTSAMISS`).
const MISSES_MAX: u32 = 100;

impl World<'_> {
    /// Touches pages from `page` on. Returns how many of them are cached, up to `end` and at most 16. If the first one
    /// is not, it has been requested, and the thread waits.
    pub(super) fn touch(&mut self, file: FileId, thread: usize, page: u64, end: u64) -> u64 {
        for next in page..end.min(page + FAULT_AROUND_PAGES) {
            if self.kernel == Kernel::Xnu {
                self.files[file.0].clusters.touch(next, thread);
            }
            let state = match self.cache.meet(file, next) {
                None if next > page => return next - page,
                None => Some(self.fault(file, next)),
                Some((state, is_marked)) if self.kernel == Kernel::Linux => {
                    self.touch_present(file, next, state, is_marked)
                }
                Some((state, _)) => Some(state),
            };
            if state == Some(State::Loading) {
                self.queue.unplug();
                return next - page;
            }
            self.cache.pass(file, next, false, false);
        }
        end.min(page + FAULT_AROUND_PAGES) - page
    }

    /// Handles a fault on a missing `page`: loads a window. Returns the state of the page.
    fn fault(&mut self, file: FileId, page: u64) -> State {
        let window = match self.kernel {
            Kernel::Xnu => {
                let cluster = self.files[file.0].clusters.cluster(self.fault_max);
                Window { start: cluster.start, pages: cluster.end - cluster.start, mark: None }
            }
            Kernel::Linux => {
                let File { misses, read_ahead, .. } = &mut self.files[file.0];
                *misses = misses.saturating_add(1).min(MISSES_MAX * 10);
                let most = if *misses > MISSES_MAX { 0 } else { self.fault_max };
                read_ahead.around(page, most)
            }
        };
        self.read_window(file, self.as_allowed(window), false);
        self.must_bring(file, page)
    }

    /// Handles a cached page in Linux: if it is marked, it triggers the next window. Returns its state after that.
    fn touch_present(&mut self, file: FileId, page: u64, state: State, is_marked: bool) -> Option<State> {
        let File { misses, mut read_ahead, .. } = self.files[file.0];
        self.files[file.0].misses = misses.saturating_sub(1);
        if !is_marked {
            return Some(state);
        }
        self.next_window(file, &mut read_ahead, page, 1, self.fault_max, false);
        self.files[file.0].read_ahead = read_ahead;
        self.cache.state(file, page)
    }
}
