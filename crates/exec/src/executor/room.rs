//! The limit of live tasks: a caller that reaches it runs tasks until half of them have ended.

use std::cell::Cell;

use super::tasks::Tasks;

pub(super) struct Room {
    live_max: usize,
    /// Tasks that may be made before the live ones are counted again.
    known: Cell<usize>,
}

impl Room {
    pub(super) fn new(live_max: usize) -> Room {
        Room { live_max, known: Cell::new(0) }
    }

    /// Waits for room; called before a task is made.
    #[inline]
    pub(super) fn wait(&self, tasks: &Tasks<'_>) {
        if self.known.get() == 0 {
            self.count_again(tasks);
        }
        self.known.set(self.known.get() - 1);
    }

    #[cold]
    fn count_again(&self, tasks: &Tasks<'_>) {
        if tasks.live() >= self.live_max {
            // Half of them, so that the next task does not wait again at once.
            tasks.work_until_live(self.live_max / 2);
        }
        self.known.set(self.live_max.saturating_sub(tasks.live()).max(1));
    }
}
