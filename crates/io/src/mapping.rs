//! Mapped ranges of files, and the handling of files that shrink while they are mapped.
//!
//! Access to a mapped page beyond the file's end raises SIGBUS, which ends a program without a handler. The handler
//! here maps a page of zeros in its place and marks the mapping, so that the reader continues and can learn of the
//! loss afterwards ([`Mapping::is_broken`]). SIGBUS with other causes is passed to the handler that was installed
//! before.
//!
//! A mapping shows the file's present content. A program that writes to the file meanwhile changes bytes that a
//! reader may already have used: that holds for every mapped file, and is the reason why the other engines copy.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::ops::{Deref, Range};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Once, OnceLock};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::buffer::page_size;
use crate::file::IoFile;

/// Bytes of a file, mapped read-only.
#[derive(Debug)]
pub struct Mapping {
    file: Arc<IoFile>,
    watched: &'static Watched,
    /// Distance in bytes from the mapping's first byte, which lies on a page boundary, to the requested range.
    skipped: usize,
    start: *const u8,
    mapped: usize,
}

// SAFETY: a mapping is read-only memory, and its entry in the table is made of atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a whole file, as large as it was when it was opened, for accesses in any order.
    ///
    /// # Errors
    /// If it is empty, larger than the address space, or its file system does not support mappings.
    pub fn whole(file: &Arc<IoFile>) -> io::Result<Mapping> {
        let length = usize::try_from(file.size()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        Mapping::map(file, 0, length, MapFlags::empty())
    }

    /// Maps `length` bytes from `offset` on; `length` must not be 0. With `populate` all pages are fetched before it
    /// returns; otherwise they are expected to be read in sequence.
    pub(crate) fn new(file: &Arc<IoFile>, offset: u64, length: usize, populate: bool) -> io::Result<Mapping> {
        if populate {
            return Mapping::map(file, offset, length, MapFlags::POPULATE);
        }
        let mapping = Mapping::map(file, offset, length, MapFlags::empty())?;
        let start = mapping.start.cast_mut().cast();
        // SAFETY: advice on a mapping of our own, which discards nothing.
        let _ = unsafe { madvise(start, mapping.mapped, Advice::Sequential) };
        Ok(mapping)
    }

    fn map(file: &Arc<IoFile>, offset: u64, length: usize, flags: MapFlags) -> io::Result<Mapping> {
        catch_sigbus()?;
        let skipped = (offset % page_size() as u64) as usize;
        let mapped = skipped + length;
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory that is in use.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                mapped,
                ProtFlags::READ,
                MapFlags::SHARED | flags,
                file.file(),
                offset - skipped as u64,
            )
        }?;
        let Some(watched) = watch(start.addr(), mapped) else {
            // SAFETY: the mapping was just made, and no reference to it exists.
            unsafe { munmap(start, mapped) }?;
            return Err(io::Error::other("too many mappings at the same time"));
        };
        Ok(Mapping { file: Arc::clone(file), watched, skipped, start: start.cast(), mapped })
    }

    /// Enters the pages of a range of bytes into the page table, after reading those that are not cached. Accesses to them
    /// then cause no page faults, and dropping the page cache leaves them, because they are in use; if memory is short,
    /// the kernel can still reclaim them.
    ///
    /// # Errors
    /// If the kernel does not support it (before Linux 5.14), or a page cannot be read, such as one beyond the present end of
    /// the file.
    ///
    /// # Panics
    /// If the range is not within the mapping.
    pub fn populate(&self, range: Range<usize>) -> io::Result<()> {
        let bytes = &self[range];
        if bytes.is_empty() {
            return Ok(());
        }
        let before = bytes.as_ptr().addr() % page_size();
        let start = bytes.as_ptr().wrapping_sub(before).cast_mut().cast();
        // SAFETY: advice on a part of a mapping of our own, which begins on a page boundary; it changes no bytes.
        Ok(unsafe { madvise(start, before + bytes.len(), Advice::LinuxPopulateRead) }?)
    }

    /// Returns the file's current size in bytes.
    ///
    /// # Errors
    /// Returns the errors of `fstat`.
    pub fn file_size(&self) -> io::Result<u64> {
        self.file.size_now()
    }

    /// Returns whether a page was touched that the file did not have, so that zeros were read instead.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.watched.broken.load(Ordering::Acquire)
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is mapped while `self` lives, and always readable: a page that the file no longer has is
        // replaced by zeros. That others may write to the file is said above.
        unsafe { std::slice::from_raw_parts(self.start.add(self.skipped), self.mapped - self.skipped) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Must precede `munmap`, after which the range can be mapped again.
        self.watched.forget();
        // SAFETY: the mapping is ours, and borrows of its bytes have ended.
        let _ = unsafe { munmap(self.start.cast_mut().cast(), self.mapped) };
    }
}

/// Maximum concurrent mappings: the signal handler searches a table of fixed size.
const MAPPINGS_MAX: usize = 1024;

/// A range of addresses known to the signal handler; free while `end` is 0.
#[derive(Debug)]
struct Watched {
    taken: AtomicBool,
    start: AtomicUsize,
    end: AtomicUsize,
    broken: AtomicBool,
}

static WATCHED: [Watched; MAPPINGS_MAX] = [const {
    Watched {
        taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        broken: AtomicBool::new(false),
    }
}; MAPPINGS_MAX];

/// Allocates an entry of the table for a range.
fn watch(start: usize, length: usize) -> Option<&'static Watched> {
    let free = |entry: &&Watched| {
        entry.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let entry = WATCHED.iter().find(free)?;
    entry.broken.store(false, Ordering::Relaxed);
    // A thread that loads this start then loads no earlier end: ends of former mappings are gone.
    entry.start.store(start, Ordering::Release);
    // Stored last: an entry with an end is complete.
    entry.end.store(start + length, Ordering::Release);
    Some(entry)
}

impl Watched {
    fn holds(&self, address: usize) -> bool {
        let end = self.end.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Acquire);
        // Otherwise the entry has been reused for another mapping meanwhile.
        end == self.end.load(Ordering::Acquire) && (start..end).contains(&address)
    }

    fn forget(&self) {
        self.end.store(0, Ordering::Release);
        self.taken.store(false, Ordering::Release);
    }
}

/// The signal action that was set before ours.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler at the first mapping.
fn catch_sigbus() -> io::Result<()> {
    static ONCE: Once = Once::new();
    // Caches the page size for the handler, which must not make that call.
    let _ = page_size();
    ONCE.call_once(|| {
        // SAFETY: all zeros are a valid `sigaction`: no handler, no flags, an empty mask.
        let mut before: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: only queries the current action.
        if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &mut before) } != 0 {
            return;
        }
        // Set before the handler is installed, as it may run at once.
        let _ = BEFORE.set(before);
        // SAFETY: as above.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = on_sigbus as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        // SAFETY: the handler has the signature that SA_SIGINFO requires and is async-signal-safe.
        if unsafe { libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) } == 0 {
            CAUGHT.store(true, Ordering::Release);
        }
    });
    if CAUGHT.load(Ordering::Acquire) { Ok(()) } else { Err(io::Error::other("SIGBUS cannot be caught")) }
}

static CAUGHT: AtomicBool = AtomicBool::new(false);

/// Signal handler; runs on the thread that touched a missing page. It uses atomics, `mmap` and `sigaction` only.
extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`; for SIGBUS it holds an address.
    let address = unsafe { (*info).si_addr() }.addr();
    let mended = WATCHED.iter().find(|entry| entry.holds(address)).is_some_and(|entry| {
        entry.broken.store(true, Ordering::Release);
        put_zeros(address)
    });
    if !mended {
        pass_on(signal, info, context);
    }
}

/// Replaces the page at an address by zeros; returns whether that succeeded.
fn put_zeros(address: usize) -> bool {
    let page = page_size();
    let start = ptr::without_provenance_mut::<libc::c_void>(address / page * page);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the page lies in a mapping of this module, read-only before and after, so that every reader still sees
    // bytes; `munmap` of the whole range takes this page with it.
    let got = unsafe { libc::mmap(start, page, libc::PROT_READ, flags, -1, 0) };
    got == start
}

/// Passes the signal to the handler that was installed before ours, or to the default action.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get();
    match before {
        Some(before) if before.sa_sigaction != libc::SIG_DFL && before.sa_sigaction != libc::SIG_IGN => {
            if before.sa_flags & libc::SA_SIGINFO != 0 {
                // SAFETY: with SA_SIGINFO the action is a function of this signature.
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    unsafe { mem::transmute(before.sa_sigaction) };
                handler(signal, info, context);
            } else {
                // SAFETY: without it, of this one.
                let handler: extern "C" fn(libc::c_int) = unsafe { mem::transmute(before.sa_sigaction) };
                handler(signal);
            }
        }
        _ => {
            // SAFETY: the default action is set; the access is repeated on return and ends the program.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Access;
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;

    fn source(bytes: &[u8]) -> (Arc<IoFile>, File) {
        let file = File::from(memfd_create("mapping", MemfdFlags::CLOEXEC).unwrap());
        file.write_all_at(bytes, 0).unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        (Arc::new(IoFile::open(path.as_ref(), Access::Buffered).unwrap()), file)
    }

    #[test]
    fn any_part_of_a_file_can_be_mapped() {
        let bytes: Vec<u8> = (0..20_000u32).map(|index| (index % 251) as u8).collect();
        let (source, _file) = source(&bytes);
        for (offset, length) in [(0, 20_000), (1, 1), (4095, 2), (4096, 4096), (12_345, 7655)] {
            let mapping = Mapping::new(&source, offset as u64, length, length % 2 == 0).unwrap();
            assert_eq!(&mapping[..], &bytes[offset..offset + length]);
            assert!(!mapping.is_broken());
        }
    }

    #[test]
    fn a_whole_file_can_be_mapped_unless_it_is_empty() {
        let bytes: Vec<u8> = (0..20_000u32).map(|index| (index % 251) as u8).collect();
        let (whole, _file) = source(&bytes);
        assert_eq!(&Mapping::whole(&whole).unwrap()[..], &bytes);
        let (empty, _file) = source(&[]);
        assert!(Mapping::whole(&empty).is_err());
    }

    #[test]
    fn any_part_of_a_mapping_can_be_populated_and_what_the_file_no_longer_has_is_an_error() {
        let (whole, file) = source(&[7; 40_000]);
        let mapping = Mapping::whole(&whole).unwrap();
        for range in [0..0, 0..1, 4095..4097, 12_345..40_000, 40_000..40_000, 0..40_000] {
            match mapping.populate(range.clone()) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    return sakiyomi_testing::skipped(
                        "any_part_of_a_mapping",
                        "the kernel does not populate mappings",
                    );
                }
                done => done.unwrap(),
            }
        }
        file.set_len(8192).unwrap();
        mapping.populate(100..8192).unwrap();
        mapping.populate(8192..40_000).unwrap_err();
        assert!(!mapping.is_broken(), "nothing has been accessed");
    }

    #[test]
    fn what_a_file_no_longer_has_reads_as_zeros_and_is_told() {
        let (source, file) = source(&[7; 40_000]);
        let mapping = Mapping::new(&source, 0, 40_000, false).unwrap();
        let whole = Mapping::new(&source, 0, 8192, false).unwrap();
        file.set_len(8192).unwrap();
        assert!(mapping[..8192].iter().all(|&byte| byte == 7) && !mapping.is_broken());
        assert!(mapping[8192..].iter().all(|&byte| byte == 0) && mapping.is_broken());
        assert!(!whole.is_broken(), "another mapping of the file is not concerned");
    }

    #[test]
    fn entries_are_used_again() {
        let (source, _file) = source(&[1; 10]);
        for _ in 0..3 * MAPPINGS_MAX {
            drop(Mapping::new(&source, 0, 10, false).unwrap());
        }
        let held: Vec<_> =
            std::iter::from_fn(|| Mapping::new(&source, 0, 10, false).ok()).take(200).collect();
        assert_eq!(held.len(), 200);
    }
}
