//! The page cache of a file: counting, fetching and dropping pages.
//!
//! Every call takes a range of bytes and works on the pages that it touches; bytes beyond the end of a regular file
//! are ignored. Advice to the kernel is not binding, and most of it succeeds without an effect, so [`fetch`] and
//! [`drop_pages`] check the outcome and return it.
//!
//! - **`cachestat` counts requested pages, `mincore` pages that have arrived.** A page enters the page cache before
//!   its read begins. To learn whether a program would wait, use [`ResidencyCall::Mincore`].
//! - **Read-ahead is silently cut** to the larger of the device's `read_ahead_kb`, as it was when the file was
//!   opened, and its `max_sectors_kb`: a request for 16 MB of a FUSE file fetches 128 KB and returns success.
//!   [`fetch`] splits the range into pieces.
//! - **A process may inspect the cache of its own user's files and of files that it can write to.** For others
//!   `cachestat` fails and `mincore` reports every page as present. Here both are an error.
//! - **Dropped is not cold**: the host of a virtual machine, or the device itself, may still cache the data.
#![allow(unsafe_code)]

mod load;

use std::fs::{self, File};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::ptr;

use rustix::fs::{Advice, AtFlags, CWD, accessat, fadvise, major, minor};

pub use load::PageLoader;

use crate::Error;
use crate::buffer::page_size;

/// The part of a range that is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residency {
    /// Pages that the range touches, wholly or in part.
    pub pages: u64,
    /// Pages of the range that are in memory.
    pub cached: u64,
    /// Further counts; `None` with [`ResidencyCall::Mincore`].
    pub detail: Option<Detail>,
}

/// Counts of `cachestat` beyond that of cached pages, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Dirty pages that are not under writeback.
    pub dirty: u64,
    /// Pages under writeback.
    pub writeback: u64,
    /// Pages that were cached and have been reclaimed under memory pressure. Pages dropped on request are not
    /// counted.
    pub evicted: u64,
    /// Pages evicted so recently that a larger memory would still have them.
    pub recently_evicted: u64,
}

impl Residency {
    /// Returns the cached bytes.
    #[must_use]
    pub fn cached_bytes(&self) -> u64 {
        self.cached * page_size() as u64
    }

    /// Returns whether the whole range is cached.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.cached >= self.pages
    }
}

/// The system call that reports which pages are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResidencyCall {
    /// `cachestat` (Linux 6.5): counts pages from the moment when their read was requested.
    Cachestat,
    /// `mincore` on a mapping, several times slower: counts pages that can be read without waiting. The file must be
    /// open for reading.
    Mincore,
}

/// Returns the part of a range that is in memory, by `cachestat`, or by `mincore` if the system does not support it.
///
/// # Errors
/// If the system call fails, or would return wrong counts.
pub fn residency(file: &File, range: Range<u64>) -> Result<Residency, Error> {
    match residency_by(file, range.clone(), ResidencyCall::Cachestat) {
        Err(Error::System { source, .. }) if is_not_offered(&source) => {
            residency_by(file, range, ResidencyCall::Mincore)
        }
        other => other,
    }
}

/// Returns whether `cachestat` is unsupported: old kernels, sandboxes, and file systems without ordinary pages. A
/// file of another user also fails so, for which `mincore` is not permitted either.
fn is_not_offered(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM | libc::EOPNOTSUPP))
}

/// Returns the part of a range that is in memory, by the system call `by`.
///
/// # Errors
/// If the system call fails, or would return wrong counts.
pub fn residency_by(file: &File, range: Range<u64>, by: ResidencyCall) -> Result<Residency, Error> {
    let failed = |source| Error::System { what: "query the cached pages of a file".into(), source };
    let range = clipped(file, range).map_err(failed)?;
    let pages = pages_of(&range);
    let residency = match by {
        _ if pages.is_empty() => Ok(Residency { pages: 0, cached: 0, detail: None }),
        ResidencyCall::Cachestat => cachestat(file, &range, pages.end - pages.start),
        ResidencyCall::Mincore => mincore(file, &pages),
    };
    residency.map_err(failed)
}

/// Requests a range without waiting for it; returns how much of it is cached or being read.
///
/// It can block nevertheless, if the device's queue is full.
///
/// # Errors
/// If the system refuses, or does not report the outcome.
pub fn fetch(file: &File, range: Range<u64>) -> Result<Residency, Error> {
    let piece = piece(file)
        .map_err(|source| Error::System { what: "fetch pages of a file into memory".into(), source })?;
    fetch_in_pieces(file, range, piece)
}

/// Like [`fetch`], for repeated calls with [the size of a piece](piece) looked up once.
///
/// # Errors
/// If the system refuses, or does not report the outcome.
///
/// # Panics
/// If `piece` is 0.
pub fn fetch_in_pieces(file: &File, range: Range<u64>, piece: u64) -> Result<Residency, Error> {
    assert!(piece > 0, "pieces of nothing");
    let failed = |source| Error::System { what: "fetch pages of a file into memory".into(), source };
    let wanted = clipped(file, range.clone()).map_err(failed)?;
    let mut at = wanted.start;
    while let Some(length) = NonZeroU64::new(piece.min(wanted.end.saturating_sub(at))) {
        fadvise(file, at, Some(length), Advice::WillNeed).map_err(|error| failed(error.into()))?;
        at += length.get();
    }
    residency(file, range)
}

/// Drops a range from the page cache, after writing back its dirty pages; returns how much of it remains.
///
/// Pages that are only partly in the range stay, and so do pages mapped by a process, a large folio that reaches
/// beyond the range, and pages without other storage, as on a tmpfs.
///
/// # Errors
/// If dirty pages cannot be written, or a system call fails.
pub fn drop_pages(file: &File, range: Range<u64>) -> Result<Residency, Error> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |source| Error::System { what, source }
    };
    let wanted = clipped(file, range.clone()).map_err(failed("drop pages of a file from memory"))?;
    if let Some(length) = NonZeroU64::new(wanted.end - wanted.start) {
        // The advice skips pages that are dirty or under writeback.
        write_back(file, &wanted).map_err(failed("write dirty pages of a file to the medium"))?;
        fadvise(file, wanted.start, Some(length), Advice::DontNeed)
            .map_err(io::Error::from)
            .map_err(failed("drop pages of a file from memory"))?;
    }
    residency(file, range)
}

/// Returns a range cut at the end of a regular file. An empty one begins at the file's end.
fn clipped(file: &File, range: Range<u64>) -> io::Result<Range<u64>> {
    let metadata = file.metadata()?;
    let end = if metadata.is_file() { metadata.len() } else { i64::MAX as u64 };
    Ok(range.start.min(range.end.min(end))..range.end.min(end))
}

/// Returns the pages that a range touches.
fn pages_of(range: &Range<u64>) -> Range<u64> {
    let page = page_size() as u64;
    if range.is_empty() { 0..0 } else { range.start / page..range.end.div_ceil(page) }
}

/// Number of `cachestat`, which `libc` lacks for some architectures; the same on all but Alpha.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`. A length of 0 would mean everything after the offset.
#[repr(C)]
struct CachestatRange {
    offset: u64,
    length: u64,
}

/// `struct cachestat`.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

fn cachestat(file: &File, range: &Range<u64>, pages: u64) -> io::Result<Residency> {
    let asked = CachestatRange { offset: range.start, length: range.end - range.start };
    let mut found = Cachestat::default();
    // SAFETY: the kernel reads the first structure and writes the second, both as it defines them, and keeps neither.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const asked, &raw mut found, 0 as libc::c_uint)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let Cachestat { cached, dirty, writeback, evicted, recently_evicted } = found;
    Ok(Residency { pages, cached, detail: Some(Detail { dirty, writeback, evicted, recently_evicted }) })
}

/// Pages per `mincore` call: the kernel writes a byte for each.
const MINCORE_PAGES_MAX: u64 = 1 << 18;

fn mincore(file: &File, pages: &Range<u64>) -> io::Result<Residency> {
    if !may_look(file)? {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    let mut cached = 0;
    let mut at = pages.start;
    while at < pages.end {
        let count = (pages.end - at).min(MINCORE_PAGES_MAX);
        cached += mincore_piece(file, at, count as usize)?;
        at += count;
    }
    Ok(Residency { pages: pages.end - pages.start, cached, detail: None })
}

/// Returns whether `mincore` reports true values for this file: for its owner, and for users that may write to it.
fn may_look(file: &File) -> io::Result<bool> {
    let user = rustix::process::geteuid();
    if user.is_root() || file.metadata()?.uid() == user.as_raw() {
        return Ok(true);
    }
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(accessat(CWD, name, rustix::fs::Access::WRITE_OK, AtFlags::EACCESS).is_ok())
}

fn mincore_piece(file: &File, page: u64, count: usize) -> io::Result<u64> {
    let length = count * page_size();
    let offset = (page * page_size() as u64).cast_signed();
    // SAFETY: a new mapping at an address that the kernel chooses touches no memory that is in use.
    let start = unsafe {
        libc::mmap(ptr::null_mut(), length, libc::PROT_NONE, libc::MAP_SHARED, file.as_raw_fd(), offset)
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let mut present = vec![0u8; count];
    // SAFETY: the range was just mapped, and the kernel writes a byte for each of its pages, of which `present` has
    // as many. No page is touched.
    let result = unsafe { libc::mincore(start, length, present.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: the mapping was just made, and no reference to it exists.
    unsafe { libc::munmap(start, length) };
    if result != 0 {
        return Err(error);
    }
    Ok(present.iter().filter(|&&page| page & 1 != 0).count() as u64)
}

/// Writes dirty pages back and waits for it. Does not make them durable: metadata and the device's cache are not
/// flushed.
fn write_back(file: &File, range: &Range<u64>) -> io::Result<()> {
    let (offset, length) = (range.start.cast_signed(), (range.end - range.start).cast_signed());
    let flags =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    loop {
        // SAFETY: no memory is named.
        if unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, flags) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ENOSYS | libc::EPERM | libc::EINVAL) => return file.sync_data(),
            _ => return Err(error),
        }
    }
}

/// The kernel's default read-ahead per call in bytes. On a disk that takes more, larger pieces are no faster: 64 KB
/// to 8 MB cost the same for 128 MB on ext4 (Linux 6.18).
const DEFAULT_PIECE_BYTES: u64 = 128 << 10;

/// Returns the bytes that one call can request without being cut short.
///
/// The limit is at least `read_ahead_kb`, but an open file keeps the value from when it was opened, so the
/// present value
/// counts only if it is smaller than the kernel's default.
///
/// # Errors
/// If the device of the file cannot be determined.
pub fn piece(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    let of_device = metadata.file_type().is_block_device();
    let device = if of_device { metadata.rdev() } else { metadata.dev() };
    let device = format!("{}:{}", major(device), minor(device));
    Ok(piece_of(|name| fs::read_to_string(format!("/sys{name}")).ok(), &device))
}

/// Turns the kernel's read-ahead off on this open file: a read loads the pages that it needs, and no others.
///
/// # Errors
/// If the file does not support it.
pub fn disable_read_ahead(file: &File) -> Result<(), Error> {
    let failed = |source| Error::System { what: "turn read-ahead off".into(), source };
    fadvise(file, 0, None, Advice::Random).map_err(|error| failed(error.into()))
}

/// Returns the kernel's read-ahead on a file system's device in bytes; `None` if it is not reported.
#[must_use]
pub fn read_ahead(device: u64) -> Option<u64> {
    let (major, minor) = device_numbers(device);
    let read = |name: String| fs::read_to_string(name).ok()?.trim().parse::<u64>().ok();
    let kilobytes = read(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"))
        .or_else(|| read(format!("/sys/dev/block/{major}:{minor}/bdi/read_ahead_kb")))
        .or_else(|| read(format!("/sys/dev/block/{major}:{minor}/../bdi/read_ahead_kb")))?;
    Some(kilobytes << 10)
}

/// Returns the size of the kernel's first read-ahead window on a file, in bytes, for a call of `call` bytes at offset
/// 0, where windows then grow up to `most` bytes (`get_init_ra_size` in mm/readahead.c).
#[must_use]
pub fn first_window(call: u64, most: u64) -> u64 {
    let page = page_size() as u64;
    let (pages, most) = (call.div_ceil(page).max(1).next_power_of_two(), most / page);
    let first = if pages <= most / 32 {
        4 * pages
    } else if pages <= most / 4 {
        2 * pages
    } else {
        most
    };
    first * page
}

/// Returns major and minor number of a device, as in `/sys`.
#[must_use]
pub fn device_numbers(device: u64) -> (u32, u32) {
    (major(device), minor(device))
}

/// Like [`piece`], for a device given as `MAJOR:MINOR`; `read` reads a file below `/sys`.
fn piece_of(read: impl Fn(&str) -> Option<String>, device: &str) -> u64 {
    let kilobytes = |name: &str| {
        // A partition uses the queue of its disk.
        let at = [format!("/dev/block/{device}/"), format!("/dev/block/{device}/../")];
        at.iter().find_map(|at| read(&format!("{at}{name}"))?.trim().parse::<u64>().ok())
    };
    // A mount without a block device, such as FUSE or NFS, is only listed among the backing devices.
    let ahead = read(&format!("/class/bdi/{device}/read_ahead_kb"))
        .and_then(|text| text.trim().parse().ok())
        .or_else(|| kilobytes("bdi/read_ahead_kb"));
    let cap =
        ahead.max(kilobytes("queue/max_sectors_kb")).map_or(DEFAULT_PIECE_BYTES, |kilobytes| kilobytes << 10);
    cap.clamp(page_size() as u64, DEFAULT_PIECE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sakiyomi_testing::{Scratch, skipped};
    use std::collections::BTreeSet;
    use std::os::unix::fs::FileExt;
    use std::time::{Duration, Instant};

    const PAGE: u64 = 4096;

    /// Returns a file of `pages` pages that is on the medium and not cached; `None` if that cannot be arranged.
    pub(super) fn cold(scratch: &Scratch, pages: u64) -> Option<File> {
        let path = scratch.path("cold");
        fs::write(&path, vec![1; (pages * PAGE) as usize]).unwrap();
        let file = File::open(path).unwrap();
        file.sync_all().unwrap();
        let left = drop_pages(&file, 0..u64::MAX).unwrap();
        if page_size() as u64 == PAGE && left.cached == 0 {
            return Some(file);
        }
        skipped(
            "page_cache",
            format_args!("{left:?} after dropping all: a tmpfs, or pages of another size?"),
        );
        None
    }

    /// Waits until `mincore` reports that `pages` pages have arrived.
    fn wait_for(file: &File, range: &Range<u64>, pages: u64) -> Residency {
        let begun = Instant::now();
        loop {
            let found = residency_by(file, range.clone(), ResidencyCall::Mincore).unwrap();
            if found.cached == pages || begun.elapsed() > Duration::from_secs(10) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_range_that_the_kernel_would_cut_short_is_fetched_whole() {
        let scratch = Scratch::new("fetch_whole");
        let Some(file) = cold(&scratch, 8192) else { return };
        let found = fetch(&file, 0..u64::MAX).unwrap();
        assert_eq!((found.pages, found.is_whole()), (8192, true), "{found:?}");
        assert_eq!(found.cached_bytes(), 8192 * PAGE);
        assert!(wait_for(&file, &(0..u64::MAX), 8192).is_whole());
    }

    #[test]
    fn dirty_pages_are_written_before_they_are_dropped() {
        let scratch = Scratch::new("drop_dirty");
        let Some(file) = cold(&scratch, 64) else { return };
        let writer = fs::OpenOptions::new().write(true).open(scratch.path("cold")).unwrap();
        writer.write_all_at(&[7; 5 * PAGE as usize], 10 * PAGE).unwrap();
        let dirty = residency(&file, 0..u64::MAX).unwrap();
        // The kernel may have begun to write back some of them on its own.
        assert!(dirty.detail.is_none_or(|detail| detail.dirty + detail.writeback <= 5), "{dirty:?}");
        assert_eq!(dirty.cached, 5);
        assert_eq!(drop_pages(&writer, 0..u64::MAX).unwrap().cached, 0);
        let mut read = [0; 3 * PAGE as usize];
        file.read_exact_at(&mut read, 11 * PAGE).unwrap();
        assert!(read.iter().all(|&byte| byte == 7));
    }

    #[test]
    fn a_range_without_bytes_has_no_pages() {
        let scratch = Scratch::new("empty_range");
        fs::write(scratch.path("short"), [1; 10]).unwrap();
        let file = File::open(scratch.path("short")).unwrap();
        #[expect(clippy::reversed_empty_ranges, reason = "a range that the caller got wrong is an empty one")]
        for range in [0..0, 10..10, 10..20, u64::MAX..u64::MAX, 9..3] {
            for found in
                [residency(&file, range.clone()), residency_by(&file, range.clone(), ResidencyCall::Mincore)]
            {
                assert_eq!(found.unwrap().pages, 0, "{range:?}");
            }
            assert_eq!(fetch(&file, range.clone()).unwrap().pages, 0);
            assert_eq!(drop_pages(&file, range).unwrap().pages, 0);
        }
        assert_eq!(residency(&file, 3..u64::MAX).unwrap().pages, 1);
    }

    #[test]
    fn a_piece_is_never_more_than_the_device_takes_in_one_call() {
        let sysfs = |files: &[(&str, &str)]| {
            piece_of(
                |name| files.iter().find(|file| file.0 == name).map(|file| format!("{}\n", file.1)),
                "8:1",
            )
        };
        assert_eq!(sysfs(&[]), 128 << 10);
        assert_eq!(sysfs(&[("/class/bdi/8:1/read_ahead_kb", "8192")]), 128 << 10);
        assert_eq!(sysfs(&[("/class/bdi/8:1/read_ahead_kb", "64")]), 64 << 10);
        assert_eq!(sysfs(&[("/class/bdi/8:1/read_ahead_kb", "0")]), page_size() as u64);
        let partition =
            [("/dev/block/8:1/../bdi/read_ahead_kb", "16"), ("/dev/block/8:1/../queue/max_sectors_kb", "32")];
        assert_eq!(sysfs(&partition), 32 << 10);
        assert_eq!(sysfs(&[("/class/bdi/8:1/read_ahead_kb", "what?")]), 128 << 10);
    }

    #[test]
    fn the_first_window_is_a_multiple_of_the_call_while_that_is_short() {
        if page_size() as u64 != PAGE {
            return;
        }
        let kib = |call: u64, most: u64| first_window(call << 10, most << 10) >> 10;
        let windows = [1, 4, 8, 12, 32, 33, 128, 1024].map(|call| (kib(call, 128), kib(call, 256)));
        let of_8 = [(16, 16), (16, 16), (16, 32), (32, 32), (64, 64), (128, 128), (128, 256), (128, 256)];
        assert_eq!(windows, of_8);
        assert_eq!(first_window(4096, 0), 0);
    }

    /// An operation on the pages of a file.
    #[derive(Clone, Debug)]
    enum Step {
        Read(u64),
        Fetch(Range<u64>),
        Drop(Range<u64>),
    }

    const BYTES: u64 = 64 * PAGE - 100;

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let range = || (0..BYTES, 0..20 * PAGE).prop_map(|(from, length)| from..from + length);
        let step = prop_oneof![
            (0..BYTES).prop_map(Step::Read),
            range().prop_map(Step::Fetch),
            range().prop_map(Step::Drop)
        ];
        prop::collection::vec(step, 1..12)
    }

    /// Applies a step to the oracle: a set of the cached pages.
    fn step_plainly(cached: &mut BTreeSet<u64>, step: &Step) {
        match step {
            Step::Read(at) => drop(cached.insert(at / PAGE)),
            Step::Fetch(range) => {
                cached.extend((0..64).filter(|page| {
                    range.start < (page + 1) * PAGE && page * PAGE < range.end && !range.is_empty()
                }));
            }
            Step::Drop(range) => {
                cached.retain(|page| range.start > page * PAGE || ((page + 1) * PAGE).min(BYTES) > range.end);
            }
        }
    }

    fn step(file: &File, step: &Step) {
        match step {
            Step::Read(at) => drop(file.read_at(&mut [0], *at).unwrap()),
            Step::Fetch(range) => drop(fetch(file, range.clone()).unwrap()),
            Step::Drop(range) => {
                // Pages cannot be dropped while they are being read.
                let asked = residency(file, 0..u64::MAX).unwrap().cached;
                wait_for(file, &(0..u64::MAX), asked);
                drop_pages(file, range.clone()).unwrap();
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn the_page_cache_is_what_the_steps_make_of_it(steps in steps(), seen in 0..BYTES, length in 0..70 * PAGE) {
            let scratch = Scratch::new("page_cache_steps");
            let Some(file) = cold(&scratch, 64) else { return Ok(()) };
            fs::OpenOptions::new().write(true).open(scratch.path("cold")).unwrap().set_len(BYTES).unwrap();
            drop_pages(&file, 0..u64::MAX).unwrap();
            // Otherwise read-ahead would fetch more than is requested.
            fadvise(&file, 0, None, Advice::Random).unwrap();
            let mut plain = BTreeSet::new();
            for one in &steps {
                step(&file, one);
                step_plainly(&mut plain, one);
            }
            let range = seen..seen + length;
            let seen = pages_of(&clipped(&file, range.clone()).unwrap());
            let expected = plain.range(seen.clone()).count() as u64;
            prop_assert_eq!(residency(&file, range.clone()).unwrap().cached, expected, "{:?}", steps);
            prop_assert_eq!(wait_for(&file, &range, expected).cached, expected, "{:?}", steps);
        }
    }
}
