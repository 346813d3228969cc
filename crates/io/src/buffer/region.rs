//! Mapped regions of anonymous memory.

use std::fs;
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::process::{Resource, getrlimit};

use super::{Granted, Memory};

/// Size of a huge page on the architectures that have a single huge page size; elsewhere only an alignment.
pub(super) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Private, zeroed memory, unmapped on drop.
#[derive(Debug)]
pub(super) struct Region {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a region is only memory. The pool decides which thread may touch which part.
unsafe impl Send for Region {}
// SAFETY: as above; its methods only return an address.
unsafe impl Sync for Region {}

impl Region {
    /// Maps at least `length` bytes, all of them backed.
    pub(super) fn new(length: usize, memory: Memory) -> io::Result<(Region, Granted)> {
        if memory == Memory::Ordinary {
            let region = Region::map(length, MapFlags::empty())?;
            // Otherwise a system with transparent huge pages set to `always` would use them here as well.
            let _ = region.advise(0..length, Advice::LinuxNoHugepage);
            region.populate(0..length)?;
            return Ok((region, Granted::Ordinary));
        }
        let whole = length.next_multiple_of(HUGE_PAGE_BYTES);
        // A control group may refuse reserved huge pages when they are touched.
        let reserved = Region::map(whole, MapFlags::HUGETLB);
        if let Ok(region) = reserved.and_then(|region| region.populate(0..whole).map(|()| region)) {
            return Ok((region, Granted::ReservedHuge));
        }
        let region = Region::map_aligned(whole)?;
        let _ = region.advise(0..whole, Advice::LinuxHugepage);
        region.populate(0..whole)?;
        // Fragmented memory may leave a part on ordinary pages; the majority decides.
        let granted =
            if region.huge_bytes() * 2 > whole { Granted::TransparentHuge } else { Granted::Ordinary };
        Ok((region, granted))
    }

    /// Maps `length` bytes that are not backed yet; with `huge`, on huge pages where a whole one fits.
    pub(super) fn unbacked(length: usize, huge: bool) -> io::Result<Region> {
        let whole = if huge { length / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES } else { 0 };
        let region =
            if whole > 0 { Region::map_aligned(length)? } else { Region::map(length, MapFlags::empty())? };
        // If the kernel rejects the advice, it chooses the page size itself.
        if whole > 0 {
            let _ = region.advise(0..whole, Advice::LinuxHugepage);
        }
        if whole < length {
            let _ = region.advise(whole..length, Advice::LinuxNoHugepage);
        }
        Ok(region)
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Backs a range with memory now, so that later accesses do not fault.
    pub(super) fn populate(&self, range: Range<usize>) -> io::Result<()> {
        let populated = self.advise(range.clone(), Advice::LinuxPopulateWrite);
        if !populated.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)) {
            return populated;
        }
        // Before Linux 5.14.
        for offset in range.step_by(page_size()) {
            // SAFETY: within the mapping, which is writable; no buffer uses the range yet.
            unsafe { self.start.as_ptr().add(offset).write_volatile(0) };
        }
        Ok(())
    }

    /// Returns the memory of a range to the system. It reads as zeros when it is backed again.
    ///
    /// # Safety
    /// Nothing may refer to bytes of the range.
    pub(super) unsafe fn discard(&self, range: Range<usize>) -> io::Result<()> {
        self.advise(range, Advice::LinuxDontNeed)
    }

    fn map(length: usize, flags: MapFlags) -> io::Result<Region> {
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory that is in use.
        let start = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | flags,
            )
        }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("a mapping at address 0"))?;
        Ok(Region { start, length })
    }

    /// Maps memory that begins at a multiple of a huge page, so that all of it can be huge.
    fn map_aligned(length: usize) -> io::Result<Region> {
        let mut loose = Region::map(length + HUGE_PAGE_BYTES, MapFlags::empty())?;
        let before = loose.start.as_ptr().align_offset(HUGE_PAGE_BYTES);
        let after = HUGE_PAGE_BYTES - before;
        let start = loose.start.as_ptr();
        // SAFETY: the parts cut off in front and behind lie within the mapping just made, to which no reference
        // exists yet.
        unsafe {
            if before > 0 {
                munmap(start.cast(), before)?;
                loose.start = NonNull::new_unchecked(start.add(before));
            }
            loose.length = length;
            if after > 0 {
                munmap(start.add(before + length).cast(), after)?;
            }
        }
        Ok(loose)
    }

    fn advise(&self, range: Range<usize>, advice: Advice) -> io::Result<()> {
        debug_assert!(range.start <= range.end && range.end <= self.length.next_multiple_of(page_size()));
        // SAFETY: the range is within this mapping. Of the kinds of advice used here only `LinuxDontNeed` discards data;
        // the safety conditions of `discard` cover it.
        Ok(unsafe { madvise(self.start.as_ptr().add(range.start).cast(), range.len(), advice) }?)
    }

    /// Returns the number of its bytes on huge pages, from `/proc/self/smaps`.
    fn huge_bytes(&self) -> usize {
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        huge_bytes_at(&smaps, self.start.as_ptr().addr())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and has no users left: pools and buffers own it together. `munmap` cannot fail
        // for a range that was mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Returns the bytes on huge pages of the mapping that contains `address`, given the text of `/proc/self/smaps`.
fn huge_bytes_at(smaps: &str, address: usize) -> usize {
    let holds = |line: &str| {
        let range = line.split(' ').next()?.split_once('-')?;
        let (from, to) = (usize::from_str_radix(range.0, 16).ok()?, usize::from_str_radix(range.1, 16).ok()?);
        Some((from..to).contains(&address))
    };
    let mut lines = smaps.lines().skip_while(|line| holds(line) != Some(true));
    let kilobytes = lines.find_map(|line| line.strip_prefix("AnonHugePages:")?.trim().strip_suffix(" kB"));
    kilobytes.and_then(|text| text.parse::<usize>().ok()).unwrap_or(0) * 1024
}

/// Returns the size of an ordinary page in bytes.
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// Returns the number of bytes that this process can and may allocate without evicting others; [`u64::MAX`] if the
/// system does not report it.
#[must_use]
pub fn available_memory() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let allowed = getrlimit(Resource::As).current.unwrap_or(u64::MAX);
    kilobytes.map_or(u64::MAX, |kilobytes| kilobytes * 1024).min(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_those_of_the_mapping_itself() {
        let smaps = "1000-2000 rw-p 00000000 00:00 0\nAnonHugePages:      2048 kB\n\
                     2000-9000 rw-p 00000000 00:00 0\nRss: 4 kB\nAnonHugePages:      4096 kB\n";
        assert_eq!([0x1000, 0x2000, 0x8fff].map(|at| huge_bytes_at(smaps, at)), [2 << 20, 4 << 20, 4 << 20]);
        assert_eq!(huge_bytes_at(smaps, 0x9000), 0);
    }

    #[test]
    fn huge_memory_is_aligned_and_can_be_written() {
        let (region, granted) = Region::new(3 << 20, Memory::Huge).unwrap();
        assert!(region.start().addr().is_multiple_of(HUGE_PAGE_BYTES));
        // SAFETY: within the region.
        unsafe { region.start().add((3 << 20) - 1).write(7) };
        assert!(granted != Granted::TransparentHuge || region.huge_bytes() >= 2 << 20);
    }
}
