//! Which of which run's threads a thread is.

use std::cell::Cell;

use crate::sync::thread_local;

thread_local! {
    /// The run, and which of its threads.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's has none")]
    static PLACE: Cell<(usize, usize)> = Cell::new((0, 0));
}

/// This thread is one of a run's until this is dropped.
pub(super) struct Place((usize, usize));

impl Place {
    pub(super) fn enter(run: usize, thread: usize) -> Place {
        Place(PLACE.with(|place| place.replace((run, thread))))
    }

    /// Which of this run's threads this one is, if it is one.
    pub(super) fn within(run: usize) -> Option<usize> {
        let (now, thread) = PLACE.with(Cell::get);
        (now == run).then_some(thread)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        PLACE.with(|place| place.set(self.0));
    }
}
