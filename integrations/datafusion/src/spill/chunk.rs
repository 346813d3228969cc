//! A chunk of a spill file: in flight to the device, on it, or failed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use sakiyomi_io::{Error, Extent};
use sakiyomi_query::spill::StoredChunk;

use super::Shared;

/// A chunk, which its file, its write and its reads share. Its space is returned with the last of them.
pub(super) struct Chunk {
    pub(super) stored: StoredChunk,
    pub(super) extent: Extent,
    state: Mutex<State>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct State {
    /// `None` while the write is in flight.
    outcome: Option<Result<(), Arc<Error>>>,
    wakers: Vec<Waker>,
}

impl Chunk {
    /// Returns a chunk whose write begins. Its space was taken from the limit.
    pub(super) fn new(stored: StoredChunk, extent: Extent, shared: &Arc<Shared>) -> Chunk {
        Chunk { stored, extent, state: Mutex::default(), shared: Arc::clone(shared) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its write has ended.
    pub(super) fn written(&self, outcome: Result<(), Arc<Error>>) {
        let mut state = self.lock();
        state.outcome = Some(outcome);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns the outcome of its write, if that has ended.
    pub(super) fn outcome(&self) -> Option<Result<(), Arc<Error>>> {
        self.lock().outcome.clone()
    }

    /// Returns whether it is on the device; wakes the task when it is.
    pub(super) fn poll_written(&self, cx: &Context<'_>) -> Poll<Result<(), Arc<Error>>> {
        let mut state = self.lock();
        match &state.outcome {
            Some(outcome) => Poll::Ready(outcome.clone()),
            None => {
                add_waker(&mut state.wakers, cx);
                Poll::Pending
            }
        }
    }
}

/// Remembers a task once, however often it looks.
pub(super) fn add_waker(wakers: &mut Vec<Waker>, cx: &Context<'_>) {
    if !wakers.iter().any(|known| known.will_wake(cx.waker())) {
        wakers.push(cx.waker().clone());
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let range = self.extent.range();
        self.shared.give_space_back(range.end - range.start);
    }
}
