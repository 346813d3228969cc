//! Dependencies of a task: its predecessors and successors.
//!
//! A task counts its predecessors, and holds its successors. Its end closes the list of successors under the lock that
//! also protects additions: a task that is added later finds that it has ended. `model.rs` checks every interleaving
//! with loom.

use std::mem;

use smallvec::SmallVec;

use super::failure::Failure;
use crate::sync::{AtomicBool, AtomicU32, Mutex, MutexGuard, Ordering, alone, lock};

/// Most tasks have one successor, which needs no separate allocation.
pub(super) type Few<T> = SmallVec<[T; 1]>;

/// A reference to a node with edges.
pub(super) trait Linked: Clone {
    fn edges(&self) -> &Edges<Self>;
}

pub(super) struct Edges<T> {
    /// Number of predecessors that have not ended, plus one while the task is being made.
    missing: AtomicU32,
    /// Visible to the thread that runs the task, since every task that could set it has ended before.
    broken: AtomicBool,
    // The next two change under the lock of `state`.
    watched: AtomicBool,
    /// One of the `_STAGE` constants.
    stage: AtomicU32,
    state: Mutex<State<T>>,
}

/// The task has not ended.
const LIVE_STAGE: u32 = 0;
/// The task has ended without a failure.
const DONE_STAGE: u32 = 1;
/// The task has failed, or was not run.
const FAILED_STAGE: u32 = 2;

struct State<T> {
    /// The successors.
    after: Few<T>,
    /// The reason for not running it, or its own failure.
    failure: Option<Box<Failure>>,
}

/// Consequences of the end of a task.
pub(super) struct End<T> {
    pub(super) after: Few<T>,
    pub(super) is_watched: bool,
}

impl<T: Linked> End<T> {
    fn new(after: Few<T>, is_watched: bool, failure: Option<Box<Failure>>) -> End<T> {
        if let Some(failure) = failure {
            after.iter().for_each(|next| next.edges().break_with((*failure).clone()));
        }
        End { after, is_watched }
    }
}

impl<T: Linked> Edges<T> {
    /// Makes the edges of a task under construction with `before` predecessors.
    #[inline]
    pub(super) fn new(before: usize) -> Edges<T> {
        let no = || AtomicBool::new(false);
        let (broken, watched, stage) = (no(), no(), AtomicU32::new(LIVE_STAGE));
        let missing = AtomicU32::new(1 + u32::try_from(before).expect("fewer than there is memory for"));
        let state = Mutex::new(State { after: Few::new(), failure: None });
        Edges { missing, broken, watched, stage, state }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }

    /// Adds a predecessor that has not ended.
    pub(super) fn wait_for_one_more(&self) {
        self.missing.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds `next`, which has counted this task among its predecessors, as a successor. Returns `false` if this task
    /// has already ended.
    pub(super) fn then(&self, next: &T) -> bool {
        if self.stage.load(Ordering::Acquire) == DONE_STAGE {
            return false;
        }
        let mut state = self.state();
        if self.stage.load(Ordering::Relaxed) == LIVE_STAGE {
            state.after.push(next.clone());
            return true;
        }
        if let Some(failure) = state.failure.as_deref().cloned() {
            drop(state);
            next.edges().break_with(failure);
        }
        false
    }

    /// Removes `of` predecessors; returns whether none is left.
    pub(super) fn let_go(&self, of: u32) -> bool {
        self.missing.fetch_sub(of, Ordering::AcqRel) == of
    }

    /// Marks the task as not to be run because of this failure.
    fn break_with(&self, failure: Failure) {
        self.state().failure.get_or_insert_with(|| Box::new(failure));
        self.broken.store(true, Ordering::Release);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Records that a thread sleeps until the task ends.
    pub(super) fn watch(&self) {
        let _state = self.state();
        self.watched.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.stage.load(Ordering::Acquire) != LIVE_STAGE
    }

    /// Returns the reason for which it failed, or is not to be run.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.state().failure.as_deref().cloned()
    }

    pub(super) fn end(&self, result: Result<(), Failure>) -> End<T> {
        let failure = result.err().map(Box::new);
        let mut state = self.state();
        state.failure.clone_from(&failure);
        let stage = if state.failure.is_none() { DONE_STAGE } else { FAILED_STAGE };
        self.stage.store(stage, Ordering::Release);
        let after = mem::take(&mut state.after);
        let is_watched = self.watched.load(Ordering::Relaxed);
        drop(state);
        End::new(after, is_watched, failure)
    }

    /// Ends a task. The caller holds the only reference to it, so nothing else can ask for its end.
    pub(super) fn end_alone(&mut self, result: Result<(), Failure>) -> End<T> {
        let after = mem::take(&mut alone(&mut self.state).after);
        End::new(after, false, result.err().map(Box::new))
    }
}
