//! Memory of generated rows, and of the text that comments are taken from.
//!
//! A generation has few buffers for I/O, so the buffer budget lends the rest. What is missing is reserved in the job's heap,
//! of which encoders need a part.

use sakiyomi_io::buffer::Loan;

use crate::job::Reservation;
use crate::{Error, Job};

/// Bytes of the buffer budget that are not lent: streams may use more buffers than they are guaranteed.
const BUFFERS_LEFT_BYTES: usize = 4 << 20;

/// Memory of a generation; released on drop.
#[derive(Debug)]
pub(super) struct Held {
    job: Job,
    reservation: Reservation,
    loan: Loan,
    /// Purpose that errors name.
    what: &'static str,
}

impl Held {
    /// Reserves memory.
    ///
    /// # Errors
    /// [`Error::Memory`] if the job does not have that much left.
    pub(super) fn new(job: &Job, bytes: usize, what: &'static str) -> Result<Held, Error> {
        let (reservation, loan) = (job.reserve(0, what)?, job.io().pool().loan());
        let mut held = Held { job: job.clone(), reservation, loan, what };
        held.resize(bytes)?;
        Ok(held)
    }

    /// Changes the memory to `bytes`; leaves it unchanged on error.
    ///
    /// # Errors
    /// [`Error::Memory`] if the job does not have that much left.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<(), Error> {
        let (reserved, lent) = (self.reservation.bytes(), self.loan.bytes());
        let available = reserved + lent + available(&self.job);
        let lendable = lent + lendable(&self.job);
        // Fails only if a stream has taken more meanwhile.
        self.loan.resize(bytes.min(lendable));
        let rest = bytes.saturating_sub(self.loan.bytes());
        self.reservation.resize(rest, self.what).map_err(|_| {
            self.loan.resize(lent);
            let (what, needed, available) = (self.what.to_owned(), bytes as u64, available as u64);
            Error::Memory { what, needed, available }
        })
    }
}

/// Returns the bytes that can still be reserved.
pub(super) fn available(job: &Job) -> usize {
    job.available() + lendable(job)
}

/// Returns the bytes that the buffer budget can lend.
fn lendable(job: &Job) -> usize {
    job.io().pool().unclaimed().saturating_sub(BUFFERS_LEFT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobOptions;

    #[test]
    fn memory_comes_from_the_buffers_first_and_is_returned() {
        let job = Job::new(JobOptions { memory: 64 << 20, ..JobOptions::default() }).unwrap();
        let (heap, all) = (job.available(), available(&job));
        let mut held = Held::new(&job, 8 << 20, "a test").unwrap();
        assert_eq!((job.available(), available(&job)), (heap, all - (8 << 20)));
        held.resize(all).unwrap();
        assert_eq!((job.available(), available(&job)), (0, 0));
        assert!(job.io().pool().unclaimed() <= BUFFERS_LEFT_BYTES);
        let refused = held.resize(all + 1).unwrap_err().to_string();
        assert!(refused.contains(&format!("needs {} bytes", all + 1)), "{refused}");
        assert!(refused.contains(&format!("leaves {all}")), "{refused}");
        held.resize(1 << 20).unwrap();
        assert_eq!(job.available(), heap);
        drop(held);
        assert_eq!((job.available(), available(&job)), (heap, all));
    }
}
