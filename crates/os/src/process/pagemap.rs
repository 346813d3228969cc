//! Which pages of its mappings a process has touched: those present in its page tables.
//!
//! The kernel's fault-around maps up to 64 KiB of cached pages around a touched one, and a page table entry of a large
//! folio covers all of it, so a page that is present need not have been touched itself. A page that was touched can be
//! missing if the kernel has reclaimed it.
//!
//! Works for processes of the same user. `PAGEMAP_SCAN` (Linux 6.7) skips parts that are not present; older kernels are
//! read page by page.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use super::Process;

/// `struct page_region` (linux/fs.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_length: u64,
    pages_max: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any: u64,
    return_mask: u64,
}

const _: () = assert!(size_of::<Region>() == 24 && size_of::<ScanArgument>() == 96);

/// `PAGEMAP_SCAN`: `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::Ioctl = 0xc060_6610_u32 as libc::Ioctl;
/// `PAGE_IS_PRESENT`.
const PRESENT_CATEGORY: u64 = 1 << 3;

/// Regions that one call returns.
const REGIONS_MAX: usize = 256;
/// Entries of the page map that are read at once by older kernels.
const ENTRIES_MAX: usize = 4096;
/// The bit of an entry that says that the page is present.
const PRESENT_BIT: u64 = 1 << 63;

/// The page map of a process's current program. After the process executes another program, it shows nothing more.
#[derive(Debug)]
pub struct PageMap {
    file: File,
    page_bytes: u64,
    /// Whether `PAGEMAP_SCAN` is unsupported.
    is_read: bool,
}

impl Process {
    /// Opens the page map.
    ///
    /// # Errors
    /// If the process has ended, or belongs to another user.
    pub fn page_map(&self) -> io::Result<PageMap> {
        let file: OwnedFd = self.at("pagemap")?;
        let page_bytes = rustix::param::page_size() as u64;
        Ok(PageMap { file: File::from(file), page_bytes, is_read: false })
    }
}

impl PageMap {
    /// Calls `found` with each run of present pages in a range of addresses, in ascending order. The range must begin
    /// and end at a page.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn present(&mut self, range: Range<u64>, mut found: impl FnMut(Range<u64>)) -> io::Result<()> {
        if !self.is_read {
            match self.scan(range.clone(), &mut found) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {
                    self.is_read = true
                }
                result => return result,
            }
        }
        self.read(range, &mut found)
    }

    fn scan(&self, range: Range<u64>, found: &mut impl FnMut(Range<u64>)) -> io::Result<()> {
        let mut regions = [Region::default(); REGIONS_MAX];
        let mut start = range.start;
        while start < range.end {
            let mut argument = ScanArgument {
                size: size_of::<ScanArgument>() as u64,
                flags: 0,
                start,
                end: range.end,
                walk_end: 0,
                regions: regions.as_mut_ptr() as u64,
                regions_length: REGIONS_MAX as u64,
                pages_max: 0,
                category_inverted: 0,
                category_mask: PRESENT_CATEGORY,
                category_any: 0,
                return_mask: PRESENT_CATEGORY,
            };
            // SAFETY: the kernel reads `argument`, writes its `walk_end`, and writes at most `regions_length` regions
            // to `regions`; both live until the call returns.
            let count = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &raw mut argument) };
            let Ok(count) = usize::try_from(count) else { return Err(io::Error::last_os_error()) };
            regions[..count.min(REGIONS_MAX)].iter().for_each(|region| found(region.start..region.end));
            if argument.walk_end <= start {
                break;
            }
            start = argument.walk_end;
        }
        Ok(())
    }

    fn read(&self, range: Range<u64>, found: &mut impl FnMut(Range<u64>)) -> io::Result<()> {
        let mut buffer = vec![0; 8 * ENTRIES_MAX];
        let mut page = range.start / self.page_bytes;
        let end = range.end.div_ceil(self.page_bytes);
        let mut run: Option<Range<u64>> = None;
        while page < end {
            let wanted = 8 * ENTRIES_MAX.min(usize::try_from(end - page).unwrap_or(usize::MAX));
            let got = self.file.read_at(&mut buffer[..wanted], 8 * page)? / 8;
            if got == 0 {
                break;
            }
            for entry in buffer[..8 * got].chunks_exact(8) {
                let entry = u64::from_ne_bytes(entry.try_into().expect("chunks of 8 bytes"));
                let address = page * self.page_bytes;
                if entry & PRESENT_BIT != 0 {
                    run.get_or_insert(address..address).end = address + self.page_bytes;
                } else if let Some(run) = run.take() {
                    found(run);
                }
                page += 1;
            }
        }
        if let Some(run) = run {
            found(run);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A private mapping of fresh memory.
    struct Memory {
        start: *mut u8,
        bytes: usize,
    }

    impl Memory {
        fn new(pages: usize) -> Memory {
            let bytes = pages * rustix::param::page_size();
            // SAFETY: a new mapping at a place that the kernel chooses.
            let start = unsafe {
                let (rights, flags) =
                    (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
                let start = libc::mmap(std::ptr::null_mut(), bytes, rights, flags, -1, 0);
                assert_ne!(start, libc::MAP_FAILED);
                // One touch must not map more than its page.
                libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
                start.cast::<u8>()
            };
            Memory { start, bytes }
        }

        fn touch(&self, page: usize) {
            let at = page * rustix::param::page_size();
            assert!(at < self.bytes);
            // SAFETY: within the mapping.
            unsafe { self.start.add(at).write_volatile(1) };
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: this mapping is not used any more.
            unsafe { libc::munmap(self.start.cast(), self.bytes) };
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn the_touched_pages_are_present_and_no_others(
            touched in prop::collection::btree_set(0..9000usize, 0..600),
            is_read in any::<bool>(),
        ) {
            let memory = Memory::new(9000);
            touched.iter().for_each(|&page| memory.touch(page));
            let process = Process::open(std::process::id()).unwrap();
            let mut map = process.page_map().unwrap();
            map.is_read = is_read;
            let page_bytes = map.page_bytes;
            let start = memory.start as u64;
            let mut found = Vec::new();
            let mut before = start;
            map.present(start..start + memory.bytes as u64, |run| {
                assert!(before <= run.start && run.start < run.end);
                before = run.end;
                found.extend(run.step_by(page_bytes as usize).map(|at| ((at - start) / page_bytes) as usize));
            })
            .unwrap();
            prop_assert_eq!(found, touched.into_iter().collect::<Vec<_>>());
        }
    }
}
