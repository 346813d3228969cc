//! Which worker of a scan takes which split. Workers claim a split while they still decode the one before, so that it is
//! read ahead; a split that another worker could begin at once is left to it. Pure.

use std::sync::{Mutex, PoisonError};

/// Splits in their order, taken by workers.
#[derive(Debug)]
pub(super) struct Claims {
    splits: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The first split that nobody has.
    next: usize,
    /// Splits that each worker has claimed, and not finished.
    held: Vec<usize>,
}

impl Claims {
    pub(super) fn new(splits: usize, workers: usize) -> Claims {
        Claims { splits, state: Mutex::new(State { next: 0, held: vec![0; workers] }) }
    }

    /// A split for a worker; none if there are no more, or only as many as workers that have none.
    pub(super) fn claim(&self, worker: usize) -> Option<usize> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.splits - state.next;
        let idle = state.held.iter().filter(|&&held| held == 0).count();
        if left == 0 || (state.held[worker] > 0 && left <= idle) {
            return None;
        }
        state.next += 1;
        state.held[worker] += 1;
        Some(state.next - 1)
    }

    /// A worker has finished a split.
    pub(super) fn finish(&self, worker: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.held[worker] -= 1;
    }

    /// A worker is gone: it leaves no split to be waited for.
    pub(super) fn leave(&self, worker: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // It never counts as idle again.
        state.held[worker] = usize::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_left_to_workers_that_have_none() {
        let claims = Claims::new(3, 2);
        assert_eq!(claims.claim(0), Some(0));
        assert_eq!(claims.claim(0), Some(1), "two are left, of which the other worker needs one");
        assert_eq!(claims.claim(0), None);
        assert_eq!(claims.claim(1), Some(2));
        assert_eq!(claims.claim(1), None);
    }

    #[test]
    fn a_worker_that_is_gone_keeps_nothing_from_others() {
        let claims = Claims::new(2, 2);
        claims.leave(1);
        assert_eq!((claims.claim(0), claims.claim(0)), (Some(0), Some(1)));
    }
}
