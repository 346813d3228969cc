//! Memory to read into and write from: aligned, of huge pages where the machine grants them, lent and given back.
//!
//! What a direct transfer costs is decided by its memory more than by its system call: the kernel pins and maps each
//! page, so that 2 MiB of ordinary pages are 512 of them and one huge page is one. The best way is tried first: pages of
//! the reserved pool (`MAP_HUGETLB`), then transparent huge pages (`MADV_HUGEPAGE`), then ordinary ones; [`Granted`]
//! says what came of it.
//!
//! Nothing here is ever uninitialised: the kernel gives zeroed pages, and a buffer that is used again holds old bytes.
#![allow(unsafe_code)]

mod region;

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use region::Region;
pub use region::available_memory;
pub(crate) use region::page_size;

use crate::Error;

/// What kind of memory is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Memory {
    /// Pages of the ordinary size.
    Ordinary,
    /// Huge pages if the machine grants them.
    #[default]
    Huge,
}

/// What kind of memory was got.
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
    /// In words: `ordinary pages`, `transparent huge pages`, `reserved huge pages`.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Granted::Ordinary => "ordinary pages",
            Granted::TransparentHuge => "transparent huge pages",
            Granted::ReservedHuge => "reserved huge pages",
        }
    }
}

/// A fixed number of buffers of one size, in one piece of memory.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    region: Region,
    granted: Granted,
    /// Bytes from the start of one buffer to the next.
    stride: usize,
    /// Bytes that a buffer holds.
    capacity: usize,
    count: usize,
    free: Mutex<Free>,
}

#[derive(Debug)]
struct Free {
    /// The buffers that nobody has. An index is either in here or in exactly one [`Buffer`].
    indices: Vec<usize>,
    /// How many of them are reserved: never more than there are.
    reserved: usize,
}

impl Pool {
    /// `count` buffers of `capacity` bytes, aligned to a page, all backed by memory from the start.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is not that much.
    pub fn new(count: usize, capacity: usize, memory: Memory) -> Result<Pool, Error> {
        assert!(count > 0 && capacity > 0, "a pool of nothing");
        let stride = capacity.next_multiple_of(region::page_size());
        let available = region::available_memory();
        let bytes = (stride as u64).saturating_mul(count as u64);
        // Half a gigabyte is left to others: memory that is asked for is touched at once.
        if bytes > available.saturating_sub(1 << 29).max(available / 2) {
            return Err(Error::Memory { bytes, available });
        }
        let (region, granted) = Region::new(stride * count, memory)
            .map_err(|_| Error::Memory { bytes, available: region::available_memory() })?;
        // The first buffer is the first to be lent, and the last given back the next: it is still in the CPU's cache.
        let free = Mutex::new(Free { indices: (0..count).rev().collect(), reserved: 0 });
        Ok(Pool { shared: Arc::new(Shared { region, granted, stride, capacity, count, free }) })
    }

    /// An empty buffer, if one is free.
    #[must_use]
    pub fn take(&self) -> Option<Buffer> {
        self.reserve().map(Reservation::take)
    }

    /// Reserves a buffer, to be taken when it is needed, so that it is then the one that was returned last.
    #[must_use]
    pub(crate) fn reserve(&self) -> Option<Reservation> {
        let mut free = self.shared.free();
        (free.reserved < free.indices.len()).then(|| {
            free.reserved += 1;
            Reservation(Some(Arc::clone(&self.shared)))
        })
    }

    /// Whether a buffer is one of these.
    pub(crate) fn owns(&self, buffer: &Buffer) -> bool {
        Arc::ptr_eq(&self.shared, &buffer.shared)
    }

    /// What kind of memory it is.
    #[must_use]
    pub fn granted(&self) -> Granted {
        self.shared.granted
    }

    /// How many buffers there are, lent or not.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.count
    }

    /// Where each buffer lies, for the kernel to know them beforehand.
    pub(crate) fn areas(&self) -> impl Iterator<Item = libc::iovec> + '_ {
        let shared = &self.shared;
        (0..shared.count)
            .map(|index| libc::iovec { iov_base: shared.start(index).cast(), iov_len: shared.capacity })
    }
}

impl Shared {
    fn free(&self) -> MutexGuard<'_, Free> {
        // Numbers are whole whatever its holder was doing when it panicked.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, index: usize) -> *mut u8 {
        debug_assert!(index < self.count);
        // SAFETY: the region has `stride * count` bytes, and `index` is below `count`.
        unsafe { self.region.start().add(index * self.stride) }
    }
}

/// A claim on a free buffer, whichever it will be.
#[derive(Debug)]
pub struct Reservation(Option<Arc<Shared>>);

impl Reservation {
    /// The buffer.
    pub(crate) fn take(mut self) -> Buffer {
        let shared = self.0.take().expect("taken once");
        let mut free = shared.free();
        free.reserved -= 1;
        let index = free.indices.pop().expect("a reserved buffer is free");
        drop(free);
        Buffer { shared, index, filled: 0 }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.free().reserved -= 1;
        }
    }
}

/// Memory of a [`Pool`], given back when it is dropped. It derefs to the bytes that it holds.
#[derive(Debug)]
pub struct Buffer {
    shared: Arc<Shared>,
    index: usize,
    filled: usize,
}

impl Buffer {
    /// How many bytes it can hold.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// Says how many bytes it holds. Those that were not written since it was taken are older ones, or zero.
    ///
    /// # Panics
    /// If it cannot hold that many.
    pub fn set_len(&mut self, bytes: usize) {
        assert!(bytes <= self.capacity(), "{bytes} bytes in a buffer of {}", self.capacity());
        self.filled = bytes;
    }

    /// All of its memory, to write into.
    #[must_use]
    pub fn space(&mut self) -> &mut [u8] {
        // SAFETY: the memory is this buffer's alone while it lives (its index is in no other buffer and not among the
        // free), it is initialised, and the region outlives it through `shared`.
        unsafe { std::slice::from_raw_parts_mut(self.shared.start(self.index), self.capacity()) }
    }

    /// Takes as many of the bytes as it has room for behind those that it holds, and says how many.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let (from, count) = (self.filled, bytes.len().min(self.capacity() - self.filled));
        self.space()[from..from + count].copy_from_slice(&bytes[..count]);
        self.filled += count;
        count
    }

    /// Which buffer of its pool it is.
    pub(crate) fn index(&self) -> usize {
        self.index
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as for `space`; shared references to this buffer exclude `&mut self`, and so any writer.
        unsafe { std::slice::from_raw_parts(self.shared.start(self.index), self.filled) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.shared.free().indices.push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buffers_are_lent_once_and_come_back() {
        let pool = Pool::new(3, 5000, Memory::Ordinary).unwrap();
        for _ in 0..2 {
            let lent: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
            assert_eq!((lent.len(), pool.count()), (3, 3));
        }
    }

    #[test]
    fn what_is_reserved_is_there_and_is_the_last_given_back() {
        let pool = Pool::new(3, 100, Memory::Ordinary).unwrap();
        let reservations: Vec<Reservation> = std::iter::from_fn(|| pool.reserve()).take(2).collect();
        let taken = pool.take().unwrap();
        assert!(pool.take().is_none() && pool.reserve().is_none(), "the others are reserved");
        let last = taken.index();
        drop(taken);
        let kept: Vec<Buffer> = reservations.into_iter().map(Reservation::take).collect();
        assert_eq!(kept[0].index(), last);
        drop(pool.reserve().expect("one is free again"));
        assert!(pool.take().is_some(), "a reservation that is dropped is free again");
    }

    #[test]
    fn a_buffer_outlives_its_pool() {
        let pool = Pool::new(1, 10, Memory::Huge).unwrap();
        let mut buffer = pool.take().unwrap();
        drop(pool);
        assert_eq!(buffer.append(b"0123456789ab"), 10);
        assert_eq!(&buffer[..], b"0123456789");
    }

    #[test]
    fn memory_that_is_not_there_is_refused() {
        let error = Pool::new(1 << 20, 1 << 30, Memory::Huge).unwrap_err();
        assert!(matches!(error, Error::Memory { .. }), "{error}");
    }

    proptest! {
        #[test]
        fn buffers_do_not_overlap_and_are_aligned(count in 1usize..9, capacity in 1usize..20_000, huge: bool) {
            let memory = if huge { Memory::Huge } else { Memory::Ordinary };
            let pool = Pool::new(count, capacity, memory).unwrap();
            let mut buffers: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
            for (number, buffer) in buffers.iter_mut().enumerate() {
                prop_assert!(buffer.space().as_ptr().addr().is_multiple_of(region::page_size()));
                buffer.space().fill(number as u8);
                buffer.set_len(capacity);
            }
            for (number, buffer) in buffers.iter().enumerate() {
                prop_assert!(buffer.iter().all(|&byte| byte == number as u8));
            }
        }
    }
}
