//! Buffers for callers that may not wait: from a budget, and beyond it when nothing else would continue.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sakiyomi_io::buffer::Account;
use sakiyomi_io::{Buffer, BufferPool, Error, Memory};

/// Buffers of a budget, and others beyond it.
#[derive(Debug)]
pub(crate) struct Buffers {
    pool: BufferPool,
    account: Account,
    peak_bytes: AtomicUsize,
    beyond_bytes: AtomicU64,
}

impl Buffers {
    /// # Errors
    /// None for an account without a guarantee.
    pub(crate) fn new(budget: usize) -> Result<Buffers, Error> {
        let pool = BufferPool::with_budget(budget, Memory::Huge);
        let account = pool.account(0)?;
        Ok(Buffers { pool, account, peak_bytes: AtomicUsize::new(0), beyond_bytes: AtomicU64::new(0) })
    }

    /// Returns a buffer of the budget, if it has one left. Any thread may release it.
    ///
    /// # Errors
    /// If the system does not have its memory.
    pub(crate) fn take(&self, capacity: usize) -> Result<Option<Buffer>, Error> {
        let Ok(taken) = self.account.take(capacity) else { return Ok(None) };
        let mut buffer =
            taken.map_err(|source| Error::System { what: "get memory for buffers".into(), source })?;
        buffer.send();
        self.peak_bytes.fetch_max(self.pool.resident(), Ordering::Relaxed);
        Ok(Some(buffer))
    }

    /// Returns a buffer, whatever the budget has left: then its memory is returned to the system when it is dropped.
    ///
    /// # Errors
    /// If the system does not have its memory.
    pub(crate) fn take_beyond(&self, capacity: usize) -> Result<Buffer, Error> {
        if let Some(buffer) = self.take(capacity)? {
            return Ok(buffer);
        }
        self.beyond_bytes.fetch_add(capacity as u64, Ordering::Relaxed);
        let own = BufferPool::fixed(1, capacity, Memory::Ordinary)?;
        Ok(own.take().expect("the only buffer of a new pool"))
    }

    /// Returns the most bytes of the budget that were resident at the same time.
    pub(crate) fn peak_bytes(&self) -> usize {
        self.peak_bytes.load(Ordering::Relaxed)
    }

    /// Sum of the buffers that were taken beyond the budget.
    pub(crate) fn beyond_bytes(&self) -> u64 {
        self.beyond_bytes.load(Ordering::Relaxed)
    }
}
