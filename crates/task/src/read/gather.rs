//! Results on their way to being one: put together as neighbours meet, or written in their order.
//!
//! The place of a result is a range of numbers; those of a whole file have no gaps.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::window::Permit;

/// What becomes of results.
pub(super) trait Gather<T>: Sync {
    /// Takes the result of a place, if it has one. The permit is given back when nothing of it is left here.
    fn put(&self, place: Range<u64>, result: Option<T>, permit: Option<Permit>) -> io::Result<()>;
}

/// Puts neighbours together.
pub(super) struct Runs<'g, T> {
    put_together: &'g (dyn Fn(T, T) -> T + Sync),
    /// By their first place: the end, and what is there.
    runs: Mutex<BTreeMap<u64, (u64, Option<T>)>>,
}

impl<'g, T> Runs<'g, T> {
    pub(super) fn new(put_together: &'g (dyn Fn(T, T) -> T + Sync)) -> Runs<'g, T> {
        Runs { put_together, runs: Mutex::new(BTreeMap::new()) }
    }

    fn join(&self, first: Option<T>, next: Option<T>) -> Option<T> {
        match (first, next) {
            (Some(first), Some(next)) => Some((self.put_together)(first, next)),
            (first, next) => first.or(next),
        }
    }

    /// # Panics
    /// If a place in the middle has had no result.
    pub(super) fn into_result(self) -> Option<T> {
        let mut runs = self.runs.into_inner().unwrap_or_else(PoisonError::into_inner);
        let whole = runs.pop_first();
        assert!(runs.is_empty(), "a place without a result");
        whole.and_then(|(_, (_, result))| result)
    }
}

impl<T: Send> Gather<T> for Runs<'_, T> {
    fn put(&self, place: Range<u64>, mut result: Option<T>, permit: Option<Permit>) -> io::Result<()> {
        drop(permit);
        let Range { mut start, mut end } = place;
        loop {
            let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
            let before = runs.range(..start).next_back().filter(|(_, run)| run.0 == start).map(|(&at, _)| at);
            if let Some(before) = before {
                let (_, first) = runs.remove(&before).expect("just seen");
                // The function may take its time.
                drop(runs);
                start = before;
                result = self.join(first, result);
            } else if let Some((further, next)) = runs.remove(&end) {
                drop(runs);
                end = further;
                result = self.join(result, next);
            } else {
                runs.insert(start, (end, result));
                return Ok(());
            }
        }
    }
}

/// Writes each result as soon as all before it are written.
pub(super) struct Ordered<T, W> {
    state: Mutex<OrderedState<T, W>>,
}

struct OrderedState<T, W> {
    next: u64,
    waiting: BTreeMap<u64, (u64, Option<T>, Option<Permit>)>,
    write: W,
}

impl<T, W: FnMut(T) -> io::Result<()>> Ordered<T, W> {
    /// The first place is that of byte `start`.
    pub(super) fn new(start: u64, write: W) -> Ordered<T, W> {
        Ordered { state: Mutex::new(OrderedState { next: 2 * start, waiting: BTreeMap::new(), write }) }
    }
}

impl<T: Send, W: FnMut(T) -> io::Result<()> + Send> Gather<T> for Ordered<T, W> {
    fn put(&self, place: Range<u64>, result: Option<T>, permit: Option<Permit>) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.insert(place.start, (place.end, result, permit));
        loop {
            let next = state.next;
            let Some((end, result, _permit)) = state.waiting.remove(&next) else { return Ok(()) };
            state.next = end;
            if let Some(result) = result {
                (state.write)(result)?;
            }
        }
    }
}
