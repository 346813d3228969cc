//! The place of the current thread: its executor, its run, and its number in each.

use std::cell::Cell;

use crate::queues::Server;
use crate::sync::thread_local;

/// A run, and the number of the thread in it.
type OfRun = Cell<(usize, usize)>;
/// An executor, and the role and number of the thread in it.
type OfExecutor = Cell<Option<(usize, Server, usize)>>;

#[cfg(not(all(test, loom)))]
thread_local! {
    static PLACE: OfRun = const { Cell::new((0, 0)) };
    static HOME: OfExecutor = const { Cell::new(None) };
}

// Loom's macro does not support constants.
#[cfg(all(test, loom))]
thread_local! {
    static PLACE: OfRun = Cell::new((0, 0));
    static HOME: OfExecutor = Cell::new(None);
}

/// Makes this thread one of a run's until it is dropped.
pub(super) struct Place((usize, usize));

impl Place {
    #[inline]
    pub(super) fn enter(run: usize, thread: usize) -> Place {
        Place(PLACE.with(|place| place.replace((run, thread))))
    }

    /// Returns the number of the current thread in this run; `None` for any other thread.
    #[inline]
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

/// Makes this thread one of an executor's until it is dropped.
pub(super) struct Home(());

impl Home {
    pub(super) fn enter(executor: usize, server: Server, index: usize) -> Home {
        HOME.with(|home| home.set(Some((executor, server, index))));
        Home(())
    }

    /// Returns the role and number of the current thread in this executor; `None` for any other thread.
    pub(super) fn within(executor: usize) -> Option<(Server, usize)> {
        let (now, server, index) = HOME.with(Cell::get)?;
        (now == executor).then_some((server, index))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        HOME.with(|home| home.set(None));
    }
}
