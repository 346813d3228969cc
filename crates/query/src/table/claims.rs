//! Assignment of splits to a scan's workers. A worker claims a split while it still decodes the previous one, so that
//! it is read ahead. A split that an idle worker could start at once is left to that worker. Pure.

use std::sync::{Mutex, PoisonError};

/// The splits of a scan, claimed by workers in order.
#[derive(Debug)]
pub(super) struct Claims {
    splits: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The first unclaimed split.
    next: usize,
    /// Splits that each worker has claimed but not finished.
    held: Vec<usize>,
}

impl Claims {
    pub(super) fn new(splits: usize, workers: usize) -> Claims {
        Claims { splits, state: Mutex::new(State { next: 0, held: vec![0; workers] }) }
    }

    /// Claims a split for `worker`. Returns `None` if none is left, or if the rest is kept for idle workers.
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

    /// Records that `worker` has finished a split.
    pub(super) fn finish(&self, worker: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.held[worker] -= 1;
    }

    /// Removes a worker: no split is kept for it any more.
    pub(super) fn leave(&self, worker: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Never counts as idle again.
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
