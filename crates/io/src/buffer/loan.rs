//! Memory outside of a pool that is charged to its budget.

use std::sync::Arc;

use super::{BufferPool, Shared};

/// Bytes of a budget that are used by memory outside of the pool, such as a decoder's. A thread without memory does
/// not wait for their return.
#[derive(Debug)]
pub struct Loan {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Loan {
    /// Returns the bytes of the loan.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the loan to `bytes`. Returns false, without an effect, if the budget, less the memory used by and
    /// guaranteed to others, is smaller than that.
    pub fn resize(&mut self, bytes: usize) -> bool {
        if bytes == self.bytes {
            return true;
        }
        let mut state = self.shared.lock();
        if bytes > self.bytes && !state.lend(bytes - self.bytes, self.shared.budget) {
            return false;
        }
        state.take_back(self.bytes.saturating_sub(bytes));
        drop(state);
        self.bytes = bytes;
        self.shared.released.notify_all();
        true
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.resize(0);
    }
}

impl BufferPool {
    /// Opens a loan of no bytes.
    ///
    /// # Panics
    /// If the pool is fixed.
    #[must_use]
    pub fn loan(&self) -> Loan {
        assert!(self.shared.fixed.is_none(), "a fixed pool lends nothing");
        Loan { shared: Arc::clone(&self.shared), bytes: 0 }
    }
}
