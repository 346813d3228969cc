//! Memory of one worker's decoders (pages, dictionaries and the current batch).
//!
//! It is reserved in the job's heap. What pages need beyond the share of a scan is borrowed from the buffer budget,
//! before the operator divides the rest of the budget: an operator works with fewer buffers, a decoder not with half a
//! page.

use std::sync::{Mutex, PoisonError};

use sakiyomi_io::buffer::Loan;

use crate::job::Reservation;
use crate::{Error, Job};

/// A reservation that grows when a file's pages or rows exceed the worker's share.
#[derive(Debug)]
pub(super) struct DecoderMemory {
    state: Mutex<State>,
    /// Bytes reserved from the start, and those of them that are borrowed.
    share: usize,
    borrowed: usize,
}

#[derive(Debug)]
struct State {
    reservation: Reservation,
    loan: Loan,
    used: usize,
}

impl DecoderMemory {
    /// Reserves a worker's share, and borrows `extra` bytes, or as much of them as the buffer budget has left.
    pub(super) fn new(job: &Job, share: usize, extra: usize) -> Result<DecoderMemory, Error> {
        let reservation = job.reserve(share, "scanning a table")?;
        let pool = job.io().pool();
        let mut loan = pool.loan();
        loan.resize(extra.min(pool.unclaimed()));
        let borrowed = loan.bytes();
        let state = State { reservation, loan, used: 0 };
        Ok(DecoderMemory { state: Mutex::new(state), share: share + borrowed, borrowed })
    }

    /// Returns the bytes reserved from the start.
    pub(super) fn share(&self) -> usize {
        self.share
    }

    /// Returns the bytes in use.
    pub(super) fn used(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).used
    }

    /// Replaces `old` bytes in use by `new`. After an error the memory is unchanged.
    pub(super) fn resize(&self, old: usize, new: usize, what: impl FnOnce() -> String) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let used = state.used.saturating_sub(old).saturating_add(new);
        let wanted = used.max(self.share);
        let what = if wanted > self.share { what() } else { String::new() };
        state.resize(wanted, self.borrowed, &what)?;
        state.used = used;
        Ok(())
    }
}

impl State {
    /// Changes the memory to `wanted` bytes, of which at least `borrowed` are borrowed.
    fn resize(&mut self, wanted: usize, borrowed: usize, what: &str) -> Result<(), Error> {
        let State { reservation, loan, .. } = self;
        if wanted > reservation.bytes().saturating_add(loan.bytes()) {
            let Err(error) = reservation.resize(wanted - loan.bytes(), what) else { return Ok(()) };
            return if loan.resize(wanted - reservation.bytes()) { Ok(()) } else { Err(error) };
        }
        reservation.resize(reservation.bytes().min(wanted - borrowed), what)?;
        loan.resize(wanted - reservation.bytes());
        Ok(())
    }
}
