//! Memory of one worker's decoders (pages, dictionaries and the current batch), reserved in the job.

use std::sync::{Mutex, PoisonError};

use crate::job::Reservation;
use crate::{Error, Job};

/// A reservation that grows when a file's pages or rows exceed the worker's share.
#[derive(Debug)]
pub(super) struct Allowance {
    state: Mutex<State>,
    /// Bytes reserved from the start.
    share: usize,
}

#[derive(Debug)]
struct State {
    reservation: Reservation,
    used: usize,
}

impl Allowance {
    /// Reserves a worker's share.
    pub(super) fn new(job: &Job, share: usize) -> Result<Allowance, Error> {
        let reservation = job.reserve(share, "scanning a table")?;
        Ok(Allowance { state: Mutex::new(State { reservation, used: 0 }), share })
    }

    /// Bytes reserved from the start.
    pub(super) fn share(&self) -> usize {
        self.share
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).used
    }

    /// Replaces `old` bytes in use by `new`. After an error the allowance is unchanged.
    pub(super) fn exchange(
        &self,
        old: usize,
        new: usize,
        what: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let used = state.used.saturating_sub(old).saturating_add(new);
        let wanted = used.max(self.share);
        if wanted != state.reservation.bytes() {
            state.reservation.resize(wanted, &if wanted > self.share { what() } else { String::new() })?;
        }
        state.used = used;
        Ok(())
    }
}
