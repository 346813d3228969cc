//! Memory for I/O: aligned, on huge pages where available, within a budget of bytes.
//!
//! The cost of a direct transfer depends more on its memory than on its system call: the kernel pins and maps each
//! page, and 2 MiB are 512 ordinary pages or a single huge one.
//!
//! There are two kinds of pools:
//! - A *fixed* pool has a number of buffers of one size, backed from the start; they can be registered with the
//!   kernel (io_uring's registered buffers).
//! - A pool with a *budget* has buffers of any size, backed when they are first used. Resident memory, used or not,
//!   never exceeds the budget. Each user opens an [`Account`] with a guarantee, and can always reserve that much:
//!   unused guarantees are not lent to other accounts. [`Account::reserve`] does not block; if it fails, the caller
//!   decides. Streams can share an account that was opened before them, so that their memory is certain before work
//!   begins.
//!
//! A [`Loan`] charges other memory of the process to the budget.
//!
//! A buffer may outlive its pool and the stream that filled it. Memory is never uninitialized: the kernel provides
//! zeroed pages, and a reused buffer holds old bytes.
//! zeroed pages, and a buffer that is used again holds old bytes.
#![allow(unsafe_code)]

mod loan;
mod region;
mod state;

use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

pub use loan::Loan;
use region::Region;
pub use region::available_memory;
pub use region::page_size;
use state::{AccountId, Holder, Slot, State, ThreadNumber};

use crate::Error;

/// The kind of memory that is requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Memory {
    /// Pages of the ordinary size.
    Ordinary,
    /// Huge pages if the machine grants them.
    #[default]
    Huge,
}

/// The kind of memory that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Granted {
    /// Pages of the ordinary size.
    Ordinary,
    /// Transparent huge pages.
    TransparentHuge,
    /// Huge pages of the reserved pool (`vm.nr_hugepages`).
    ReservedHuge,
}

impl Granted {
    /// Describes it: `ordinary pages`, `transparent huge pages`, `reserved huge pages`.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Granted::Ordinary => "ordinary pages",
            Granted::TransparentHuge => "transparent huge pages",
            Granted::ReservedHuge => "reserved huge pages",
        }
    }
}

/// Smallest buffer size in a pool with a budget; smaller requests are rounded up to it.
const SIZE_CLASS_MIN_BYTES: usize = 4096;

/// Returns the size of a buffer of `capacity` bytes in a pool with a budget: the next of four size classes between
/// powers of two, so that buffers of similar sizes can reuse each other's slots and at most a fifth of a slot is
/// unused.
#[must_use]
pub fn class_size(capacity: usize) -> usize {
    let capacity = capacity.max(SIZE_CLASS_MIN_BYTES);
    let step = (capacity.next_power_of_two() / 8).max(page_size());
    capacity.next_multiple_of(step)
}

/// A pool of buffers. Clones are handles of the same pool.
#[derive(Clone, Debug)]
pub struct BufferPool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when memory is released while a thread waits for it.
    released: Condvar,
    memory: Memory,
    budget: usize,
    /// The slots of a fixed pool; `None` for a pool with a budget.
    fixed: Option<Fixed>,
}

#[derive(Clone, Copy, Debug)]
struct Fixed {
    granted: Granted,
    capacity: usize,
    stride: usize,
    count: usize,
}

impl BufferPool {
    /// Creates a pool of `count` buffers of `capacity` bytes, aligned to a page and backed from the start.
    ///
    /// # Errors
    /// [`Error::Memory`] if that much memory is not available.
    ///
    /// # Panics
    /// If either is 0.
    pub fn fixed(count: usize, capacity: usize, memory: Memory) -> Result<BufferPool, Error> {
        assert!(count > 0 && capacity > 0, "a pool of nothing");
        let stride = capacity.next_multiple_of(page_size());
        let available = available_memory();
        let bytes = (stride as u64).saturating_mul(count as u64);
        // Leaves half a gigabyte to other programs, because the memory is touched at once.
        if bytes > available.saturating_sub(1 << 29).max(available / 2) {
            return Err(Error::Memory { bytes, available });
        }
        let (region, granted) = Region::new(stride * count, memory)
            .map_err(|_| Error::Memory { bytes, available: available_memory() })?;
        let fixed = Some(Fixed { granted, capacity, stride, count });
        let state = Mutex::new(State::fixed(region, stride, count));
        let shared = Shared { state, released: Condvar::new(), memory, budget: stride * count, fixed };
        Ok(BufferPool { shared: Arc::new(shared) })
    }

    /// Creates a pool that uses at most `budget` bytes. Nothing is allocated yet.
    #[must_use]
    pub fn with_budget(budget: usize, memory: Memory) -> BufferPool {
        let state = Mutex::new(State::default());
        let shared = Shared { state, released: Condvar::new(), memory, budget, fixed: None };
        BufferPool { shared: Arc::new(shared) }
    }

    /// Opens an account with a guarantee of `guarantee` bytes, rounded up by [`class_size`].
    ///
    /// # Errors
    /// [`Error::Budget`] if the budget, less the memory used by and guaranteed to others, is smaller than that.
    pub fn account(&self, guarantee: usize) -> Result<Account, Error> {
        self.account_for(usize::from(guarantee > 0), guarantee)
    }

    /// Opens an account with a guarantee of `count` buffers of `capacity` bytes.
    pub(crate) fn account_for(&self, count: usize, capacity: usize) -> Result<Account, Error> {
        self.account_of(count * self.size_of(capacity))
    }

    /// Opens an account for buffers of several sizes whose sizes, each rounded up by [`class_size`], sum to
    /// `guarantee` bytes.
    ///
    /// # Errors
    /// Returns the errors of [`BufferPool::account`].
    pub fn account_of(&self, guarantee: usize) -> Result<Account, Error> {
        let (shared, mut state) = (Arc::clone(&self.shared), self.shared.lock());
        let id = state.open_account(guarantee, shared.budget).ok_or(Error::Budget {
            wanted: guarantee as u64,
            left: shared.budget.saturating_sub(state.claimed()) as u64,
            budget: shared.budget as u64,
        })?;
        drop(state);
        Ok(Account { shared, id })
    }

    /// Takes an empty buffer of a fixed pool, if one is free.
    ///
    /// # Panics
    /// If the pool is not fixed.
    #[must_use]
    pub fn take(&self) -> Option<Buffer> {
        let fixed = self.shared.fixed.expect("a fixed pool");
        let size = fixed.stride;
        let is_free = self.shared.lock().claim(None, size, self.shared.budget);
        is_free.then(|| {
            let claim = Claim { shared: Arc::clone(&self.shared), account: None, size };
            let taken = Reservation { claim: Some(claim), capacity: fixed.capacity }.take();
            taken.expect("the memory of a fixed pool is there")
        })
    }

    /// Returns the budget in bytes.
    #[must_use]
    pub fn budget(&self) -> usize {
        self.shared.budget
    }

    /// Returns the number of bytes that are neither in use nor guaranteed.
    #[must_use]
    pub fn unclaimed(&self) -> usize {
        self.shared.budget.saturating_sub(self.shared.lock().claimed())
    }

    /// Returns the number of resident bytes: in buffers, or kept for reuse.
    #[must_use]
    pub fn resident(&self) -> usize {
        self.shared.lock().resident()
    }

    /// Returns the kind of memory granted to a fixed pool.
    #[must_use]
    pub fn granted(&self) -> Option<Granted> {
        self.shared.fixed.map(|fixed| fixed.granted)
    }

    /// Returns whether a buffer belongs to this pool.
    pub(crate) fn owns(&self, buffer: &Buffer) -> bool {
        Arc::ptr_eq(&self.shared, &buffer.claim.shared)
    }

    /// Returns the buffers of a fixed pool by index, for registration with the kernel.
    pub(crate) fn areas(&self) -> impl Iterator<Item = libc::iovec> + '_ {
        let fixed = self.shared.fixed.expect("a fixed pool");
        (0..fixed.count).map(move |index| {
            let start = self.shared.lock().start(Slot { arena: 0, index });
            libc::iovec { iov_base: start.as_ptr().cast(), iov_len: fixed.capacity }
        })
    }

    /// Waits until memory is released after `since`. Returns false, without waiting, if that cannot happen or would
    /// not help: all memory in use was reserved by this thread or by others that wait here, or is within the
    /// guarantees of other accounts. A release by `own` always helps.
    pub(crate) fn wait_for_release(&self, since: Released, own: Option<&Account>) -> bool {
        let me = ThreadNumber::current();
        let own = own.map(|account| account.id);
        let mut state = self.shared.lock();
        while state.releases() == since.0 {
            if !state.others_can_release(me, own) {
                return false;
            }
            state.begin_waiting(me);
            state = self.shared.released.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.end_waiting(me);
        }
        true
    }

    fn size_of(&self, capacity: usize) -> usize {
        self.shared.fixed.map_or_else(|| class_size(capacity), |fixed| fixed.stride)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The counters stay consistent wherever a holder of the lock panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of releases of memory so far; identifies an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released(u64);

/// A user of a pool, with a guarantee.
#[derive(Debug)]
pub struct Account {
    shared: Arc<Shared>,
    id: AccountId,
}

impl Account {
    /// Reserves a buffer of `capacity` bytes. The memory is chosen when the buffer is taken, so that it is the most
    /// recently released one. Until the release the calling thread counts as the one that will release it
    /// ([`Buffer::send`]).
    ///
    /// # Errors
    /// If neither the guarantee nor the rest of the budget covers it: the number of releases so
    /// far.
    ///
    /// # Panics
    /// If it is larger than the buffers of a fixed pool.
    pub fn reserve(&self, capacity: usize) -> Result<Reservation, Released> {
        let (claim, state) = self.claim(capacity)?;
        drop(state);
        Ok(Reservation { claim: Some(claim), capacity })
    }

    /// Takes an empty buffer of `capacity` bytes, as [`Account::reserve`] followed by [`Reservation::take`].
    ///
    /// # Errors
    /// Returns the errors of [`Account::reserve`]; the inner error if the system has less memory than the budget allows.
    ///
    /// # Panics
    /// If it is larger than the buffers of a fixed pool.
    pub fn take(&self, capacity: usize) -> Result<io::Result<Buffer>, Released> {
        let (claim, state) = self.claim(capacity)?;
        Ok(taken(claim, state, capacity))
    }

    fn claim(&self, capacity: usize) -> Result<(Claim, MutexGuard<'_, State>), Released> {
        let size = match self.shared.fixed {
            Some(fixed) => {
                assert!(capacity <= fixed.capacity, "{capacity} bytes in buffers of {}", fixed.capacity);
                fixed.stride
            }
            None => class_size(capacity),
        };
        let account = Some((self.id, Holder::Thread(ThreadNumber::current())));
        let mut state = self.shared.lock();
        if !state.claim(account, size, self.shared.budget) {
            return Err(Released(state.releases()));
        }
        Ok((Claim { shared: Arc::clone(&self.shared), account, size }, state))
    }
}

/// Takes the buffer of a claim.
fn taken(claim: Claim, mut state: MutexGuard<'_, State>, capacity: usize) -> io::Result<Buffer> {
    let shared = &claim.shared;
    match state.take_slot(claim.size, shared.budget, shared.memory == Memory::Huge) {
        Ok(slot) => {
            let start = state.start(slot);
            drop(state);
            Ok(Buffer { claim, slot, start, capacity, filled: 0 })
        }
        Err(error) => {
            drop(state);
            release(&claim, None);
            Err(error)
        }
    }
}

impl Account {
    /// Returns the guarantee in bytes.
    #[must_use]
    pub fn guarantee(&self) -> usize {
        self.shared.lock().guarantee(self.id)
    }

    /// Returns the bytes of the guarantee that are not in use.
    #[must_use]
    pub fn unused_guarantee(&self) -> usize {
        self.shared.lock().unused_guarantee(self.id)
    }

    /// Moves `bytes` of the guarantee, or as many as are unused, to another account of the same pool.
    ///
    /// # Panics
    /// If the other account is of another pool.
    pub fn give(&self, bytes: usize, to: &Account) {
        assert!(Arc::ptr_eq(&self.shared, &to.shared), "an account of another pool");
        self.shared.lock().move_guarantee(self.id, bytes, to.id);
    }

    /// Lowers the guarantee to `bytes`, which frees the rest for others. A guarantee that is already lower is
    /// unchanged.
    pub fn shrink(&self, bytes: usize) {
        self.shared.lock().shrink_account(self.id, bytes);
        self.shared.released.notify_all();
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.shared.lock().close_account(self.id);
        self.shared.released.notify_all();
    }
}

/// The account of a stream.
#[derive(Debug)]
pub(crate) enum StreamAccount {
    /// Opened together with the stream.
    Own(Account),
    /// Opened before the stream, and shared by several.
    Shared(Arc<Account>),
}

impl StreamAccount {
    pub(crate) fn get(&self) -> &Account {
        match self {
            StreamAccount::Own(account) => account,
            StreamAccount::Shared(account) => account,
        }
    }

    /// Returns the account if no other stream uses it.
    pub(crate) fn own(&self) -> Option<&Account> {
        match self {
            StreamAccount::Own(account) => Some(account),
            StreamAccount::Shared(_) => None,
        }
    }
}

/// Bytes claimed from the budget; returned on drop.
#[derive(Debug)]
struct Claim {
    shared: Arc<Shared>,
    /// The account, and the party that will release the buffer. `None` for a buffer taken directly from a fixed pool.
    account: Option<(AccountId, Holder)>,
    size: usize,
}

/// A claim on a buffer that is chosen later.
#[derive(Debug)]
pub struct Reservation {
    claim: Option<Claim>,
    capacity: usize,
}

impl Reservation {
    /// Takes the buffer, empty.
    ///
    /// # Errors
    /// If the system has less memory than the budget allows.
    pub fn take(mut self) -> io::Result<Buffer> {
        let claim = self.claim.take().expect("taken once");
        let shared = Arc::clone(&claim.shared);
        taken(claim, shared.lock(), self.capacity)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(claim) = &self.claim {
            release(claim, None);
        }
    }
}

fn release(claim: &Claim, slot: Option<Slot>) {
    let mut state = claim.shared.lock();
    state.release(claim.account, claim.size, slot);
    let is_awaited = state.is_awaited();
    drop(state);
    if is_awaited {
        claim.shared.released.notify_all();
    }
}

/// Memory of a [`BufferPool`], released on drop. It derefs to the bytes that it holds.
#[derive(Debug)]
pub struct Buffer {
    claim: Claim,
    slot: Slot,
    start: NonNull<u8>,
    capacity: usize,
    filled: usize,
}

// SAFETY: a buffer is the only owner of its slot of the pool's memory, and that memory is not bound to a thread.
unsafe impl Send for Buffer {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Returns the capacity in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the length of the content in bytes. Bytes not written since the buffer was taken are stale, or zero.
    ///
    /// # Panics
    /// If `bytes` exceeds the capacity.
    pub fn set_len(&mut self, bytes: usize) {
        assert!(bytes <= self.capacity, "{bytes} bytes in a buffer of {}", self.capacity);
        self.filled = bytes;
    }

    /// Returns all of its memory, to write into.
    #[must_use]
    pub fn space(&mut self) -> &mut [u8] {
        // SAFETY: the slot is this buffer's alone while it lives, has at least `capacity` bytes, is backed and
        // initialized, and its region outlives it through the claim.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.capacity) }
    }

    /// Appends as many of the bytes as fit, and returns their number.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let (from, count) = (self.filled, bytes.len().min(self.capacity - self.filled));
        self.space()[from..from + count].copy_from_slice(&bytes[..count]);
        self.filled += count;
        count
    }

    /// Returns its index in a fixed pool.
    pub(crate) fn index(&self) -> usize {
        self.slot.index
    }

    /// Declares that the buffer will be released whatever the thread that reserved it does, for example because it is
    /// sent to another thread.
    pub fn send(&mut self) {
        let Some((account, holder)) = &mut self.claim.account else { return };
        self.claim.shared.lock().pass_on(*account, holder, Holder::Elsewhere, self.claim.size);
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as for `space`; shared references to this buffer exclude `&mut self`, and so any writer.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.filled) }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        release(&self.claim, Some(self.slot));
    }
}

#[cfg(test)]
mod tests;
