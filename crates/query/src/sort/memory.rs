//! Memory of a sort: one guarantee of the job's buffer budget, reserved before the first row.
//!
//! While rows come in, the memory plan bounds what threads hold, so that a chunk is always there. A row longer than a
//! chunk takes memory that the plan leaves. Only one thread at a time may hold such a row, and it waits only for writes in
//! flight, so this cannot deadlock.
//!
//! Afterwards each holder of rows has a [`Grant`] of all the bytes that it will read, and takes it before it reads. Grants
//! are given in the order of the output, and their holders need no other grant to finish.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sakiyomi_io::buffer::{Account, class_size};
use sakiyomi_io::{Buffer, Io};

use super::chunk::UNIT_BYTES;
use crate::{Error, Job};

/// The memory of a sort before it is divided.
#[derive(Debug)]
pub(crate) struct Guarantee {
    account: Account,
    /// Bytes reserved.
    pub(crate) bytes: usize,
}

/// The memory of a sort.
#[derive(Debug)]
pub(crate) struct SortMemory {
    io: Io,
    /// Chunks of usual length, and all rows of the output.
    account: Arc<Account>,
    /// Rows longer than a chunk while rows come in.
    long: Account,
    /// Bytes of a chunk.
    chunk_bytes: usize,
    /// Maximum bytes of a long row.
    row_max_bytes: usize,
    /// Held by the thread that has a long row in hand.
    long_turn: Mutex<()>,
    grants: Mutex<Grants>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct Grants {
    /// Bytes that may be granted; 0 while rows come in.
    total: usize,
    granted: usize,
}

/// Part of a sort's memory, returned on drop. Holders declare it after the buffers that it covers.
#[derive(Debug)]
pub(crate) struct Grant {
    memory: Arc<SortMemory>,
    bytes: usize,
}

/// The memory of the chunks of a piece: of those that were in memory, and of those that are read.
pub(crate) type PieceGrants = (Option<Grant>, Grant);

/// Period of the checks for cancellation while a thread waits.
const CHECK_PERIOD: Duration = Duration::from_millis(50);

impl Guarantee {
    /// Reserves `bytes` of a job's buffer budget, or 7/8 of the free budget (at least `min`) if less is free.
    ///
    /// # Errors
    /// [`Error::Memory`] if fewer than `min` bytes are free.
    pub(crate) fn new(job: &Job, bytes: usize, min: usize) -> Result<Guarantee, Error> {
        let pool = job.io().pool();
        let (account, bytes) = match pool.account_of(bytes) {
            Err(sakiyomi_io::Error::Budget { left, .. }) => {
                let bytes = usize::try_from(left).unwrap_or(usize::MAX) / 8 * 7;
                let bytes = bytes.max(min);
                let what = format!("sorting on {} threads", job.options().threads);
                (job.account(bytes, &what)?, bytes)
            }
            account => (account?, bytes),
        };
        Ok(Guarantee { account, bytes })
    }

    /// Divides the memory: `input_bytes` for chunks of usual length, and the rest for long rows.
    ///
    /// # Errors
    /// If another user has taken memory meanwhile.
    pub(crate) fn divide(
        self,
        job: &Job,
        chunk_bytes: usize,
        input_bytes: usize,
        row_max_bytes: usize,
    ) -> Result<Arc<SortMemory>, Error> {
        let long = job.account(0, "sorting")?;
        self.account.give(self.bytes.saturating_sub(input_bytes), &long);
        Ok(Arc::new(SortMemory {
            io: job.io().clone(),
            account: Arc::new(self.account),
            row_max_bytes: row_max_bytes.min(long.guarantee()),
            long,
            chunk_bytes,
            long_turn: Mutex::default(),
            grants: Mutex::default(),
            returned: Condvar::new(),
        }))
    }
}

impl SortMemory {
    /// Returns the account of all streams of the sort.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Returns the bytes of the chunk of a row.
    fn capacity(&self, row_bytes: usize) -> usize {
        // Writes are multiples of `UNIT_BYTES`.
        self.chunk_bytes.max(row_bytes.next_multiple_of(UNIT_BYTES))
    }

    /// Returns the turn of a long row, which the caller keeps until it has handed the row over; `None` for other rows.
    pub(crate) fn long_turn(&self, row_bytes: usize) -> Option<MutexGuard<'_, ()>> {
        let is_long = self.capacity(row_bytes) > self.chunk_bytes && self.is_input();
        is_long.then(|| self.long_turn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns an empty chunk with room for a row. A long row needs its turn first; `release` spills rows in memory.
    ///
    /// # Errors
    /// [`Error::Memory`] if a long row does not fit.
    pub(crate) fn chunk(
        &self,
        row_bytes: usize,
        mut release: impl FnMut() -> Result<(), Error>,
    ) -> Result<Buffer, Error> {
        let bytes = self.capacity(row_bytes);
        if bytes <= self.chunk_bytes || !self.is_input() {
            return self.take(&self.account, bytes, row_bytes);
        }
        if bytes > self.row_max_bytes {
            return Err(too_long(row_bytes, self.row_max_bytes));
        }
        let mut is_released = false;
        while self.long.unused_guarantee() < class_size(bytes) {
            if self.io.wait()? {
                continue;
            }
            if std::mem::replace(&mut is_released, true) {
                return Err(too_long(row_bytes, self.long.unused_guarantee()));
            }
            release()?;
        }
        self.take(&self.long, bytes, row_bytes)
    }

    /// Returns a chunk that the plan counts, of a row of any length, for a run that stays in memory.
    ///
    /// # Errors
    /// [`Error::Memory`] if the row is longer than a run.
    pub(crate) fn run_chunk(&self, row_bytes: usize) -> Result<Buffer, Error> {
        let bytes = self.capacity(row_bytes);
        if bytes > self.row_max_bytes.max(self.chunk_bytes) {
            return Err(too_long(row_bytes, self.row_max_bytes));
        }
        self.take(&self.account, bytes, row_bytes)
    }

    /// Returns a buffer for the rows of a chunk that is read back, whose grant covers it.
    ///
    /// # Errors
    /// [`Error::Memory`] if the grant does not.
    pub(crate) fn restored(&self, bytes: usize) -> Result<Buffer, Error> {
        self.take(&self.account, bytes, bytes)
    }

    fn take(&self, account: &Account, bytes: usize, row_bytes: usize) -> Result<Buffer, Error> {
        let mut taken = account.take(bytes);
        while taken.is_err() && self.io.wait()? {
            taken = account.take(bytes);
        }
        let taken = taken.map_err(|_| too_long(row_bytes, account.unused_guarantee()))?;
        let mut chunk = taken
            .map_err(|source| sakiyomi_io::Error::System { what: "get memory for rows".into(), source })?;
        // The thread that drops the chunk may differ from this one.
        chunk.send();
        Ok(chunk)
    }

    fn is_input(&self) -> bool {
        self.lock().total == 0
    }

    /// Begins the output with all memory that is not in use; `resident` bytes of chunks already are.
    pub(crate) fn begin_output(self: &Arc<SortMemory>, resident: usize) -> Grant {
        self.long.give(usize::MAX, &self.account);
        let mut grants = self.lock();
        grants.total = self.account.guarantee().max(1);
        grants.granted = resident;
        Grant { memory: Arc::clone(self), bytes: resident }
    }

    /// Passes all memory that is not in use on to another sort, before the output of either begins.
    ///
    /// # Errors
    /// If the job cannot open another account.
    pub(crate) fn pass_on(&self, job: &Job) -> Result<Guarantee, Error> {
        let account = job.account(0, "sorting")?;
        self.long.give(usize::MAX, &account);
        self.account.give(usize::MAX, &account);
        Ok(Guarantee { bytes: account.guarantee(), account })
    }

    /// Moves memory that is not in use to another sort, so that it has `bytes`, or as many as there are, before the output
    /// of either begins.
    pub(crate) fn complete(&self, other: &SortMemory, bytes: usize) {
        self.long.give(usize::MAX, &self.account);
        self.account.give(bytes.saturating_sub(other.account.guarantee()), &other.account);
    }

    /// Leaves memory beyond `bytes` to other users of the job.
    pub(crate) fn shrink(&self, bytes: usize) {
        let mut grants = self.lock();
        grants.total = grants.total.min(bytes.max(1));
        self.account.shrink(grants.total);
    }

    /// Returns the bytes that may be granted.
    pub(crate) fn total(&self) -> usize {
        self.lock().total
    }

    /// Waits until other holders have returned enough memory to grant `bytes`.
    ///
    /// # Errors
    /// [`Error::Memory`] if the sort does not have that much; [`Error::Cancelled`].
    pub(crate) fn grant(self: &Arc<SortMemory>, job: &Job, bytes: usize, what: &str) -> Result<Grant, Error> {
        let mut grants = self.lock();
        if bytes > grants.total {
            let (needed, available) = (bytes as u64, grants.total as u64);
            return Err(Error::Memory { what: what.to_owned(), needed, available });
        }
        while grants.granted + bytes > grants.total {
            job.check()?;
            let waited = self.returned.wait_timeout(grants, CHECK_PERIOD);
            grants = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        grants.granted += bytes;
        Ok(Grant { memory: Arc::clone(self), bytes })
    }

    /// Grants `bytes` if they are there now.
    pub(crate) fn try_grant(self: &Arc<SortMemory>, bytes: usize) -> Option<Grant> {
        self.try_grant_beside(bytes, 0)
    }

    /// Grants `bytes` if they are there now and half of the memory stays free: memory that is never touched costs no
    /// page faults.
    pub(crate) fn try_grant_early(self: &Arc<SortMemory>, bytes: usize) -> Option<Grant> {
        self.try_grant_beside(bytes, self.total() / 2)
    }

    fn try_grant_beside(self: &Arc<SortMemory>, bytes: usize, free_bytes: usize) -> Option<Grant> {
        let mut grants = self.lock();
        (grants.granted + bytes + free_bytes <= grants.total).then(|| {
            grants.granted += bytes;
            Grant { memory: Arc::clone(self), bytes }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Grants> {
        // Two numbers, consistent at any time.
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Grant {
    /// Splits `bytes` off.
    pub(crate) fn split(&mut self, bytes: usize) -> Grant {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Grant { memory: Arc::clone(&self.memory), bytes }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.memory.lock().granted -= self.bytes;
        self.memory.returned.notify_all();
    }
}

/// Returns the bytes of the buffer into which a chunk of a spill file is read.
pub(crate) fn read_bytes(chunk_bytes: usize, alignment: usize) -> usize {
    class_size(chunk_bytes.next_multiple_of(alignment.max(UNIT_BYTES)))
}

fn too_long(row_bytes: usize, available: usize) -> Error {
    let needed = row_bytes.next_multiple_of(UNIT_BYTES) as u64;
    let available = (available as u64).min(needed - 1);
    Error::Memory { what: format!("sorting a row of {row_bytes} bytes"), needed, available }
}
