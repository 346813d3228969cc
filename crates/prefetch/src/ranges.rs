//! Prefetching for programs that know which parts of a file they will need, and in which order: data loaders, readers
//! of column files and archives.
//!
//! ```no_run
//! use sakiyomi_prefetch::Prefetch;
//! # fn use_range(range: std::ops::Range<u64>) {}
//! let order = vec![4096..8192, 0..4096, 1 << 30..(1 << 30) + 1_000_000];
//! let prefetch = Prefetch::open("samples.bin", order.clone())?;
//! for (index, range) in order.into_iter().enumerate() {
//!     prefetch.wait(index)?;
//!     use_range(range); // reads the file, from the page cache
//!     prefetch.advance(index + 1);
//! }
//! # Ok::<(), sakiyomi_prefetch::ranges::Error>(())
//! ```
//!
//! [`Prefetch`] reads the ranges into the page cache in the given order, many at a time, within a *window* of memory ahead
//! of the consumer. [`MappedReader`] adds a mapping of the file, whose slices are prefetched.
//!
//! # The window
//!
//! The consumer reports its place in the order by [`advance`](Prefetch::advance). At most the window is requested ahead
//! of it: a quarter of the memory that is available when the file is opened (half of what the control group has left, if
//! that is less), unless
//! [`memory`](Builder::memory) says otherwise. A consumer that never reports gets the window and nothing beyond it;
//! its waits beyond the window read their range themselves. A consumer that overtakes prefetching takes it along: the
//! ranges that it has passed are left out.
//!
//! # The ranges
//!
//! - Order and repetitions are free. A range that is cached already costs no read, so one that is given twice is read
//!   again only if it has been evicted meanwhile.
//! - Ranges are cut at the end that the file has when it is opened; what lies beyond it, and an empty range, is always
//!   there.
//! - Adjacent ranges that follow each other in the order are requested together, and large ones in pieces of 1 MiB. The
//!   consumer advances by whole ranges, so a part that is larger than the window is better given as several.
//! - Whole pages are read, as always in the page cache.
//!
//! # Threads
//!
//! ```text
//! consumer ── wait ──► page cache                   threads that fetch
//!    └─ advance ──► Planner ── piece ──► fetcher ──► cached_file ──► page cache
//!                      └◄────── completed: next ────────┘
//! ```
//!
//! A thread that has brought a piece takes the next one from the planner, which is pure; no thread decides for them.
//! Fetching threads may hang in the kernel, and are never waited for. [`Prefetch::wait`] does not depend on them: it
//! finds its range in the page cache, waits there for pages that are in flight, and requests those that have not been
//! requested. Therefore a wait always progresses if the file system does.

mod error;
mod mapped;
mod planner;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sakiyomi_io::buffer::page_size;
use sakiyomi_io::{Access, IoFile};

use crate::budget;
use crate::cached_file::CachedFile;
use crate::fetcher::{Fetcher, Job};
use crate::retention::Retention;
pub use error::Error;
pub use mapped::MappedReader;
use planner::{PIECE_MAX_BYTES, PIECES_IN_FLIGHT_MAX, Planner};

/// Smallest window: the largest page of any Linux system, because the page cache holds whole pages.
pub const WINDOW_MIN_BYTES: u64 = 64 << 10;

/// Bytes that a wait requests ahead of those that it waits for, as many as fetching threads have in flight.
const WAIT_AHEAD_BYTES: u64 = PIECE_MAX_BYTES * PIECES_IN_FLIGHT_MAX as u64;

/// Options of prefetched ranges.
#[derive(Clone, Copy, Debug, Default)]
pub struct Builder {
    memory: Option<u64>,
}

/// Prefetching of ordered ranges of a file. Any number of threads can use it at the same time.
///
/// Dropping it cancels what has not begun, and waits for nothing; the file stays open until requests in flight have
/// ended.
#[derive(Debug)]
pub struct Prefetch {
    file: Arc<IoFile>,
    shared: Arc<Shared>,
    fetcher: Fetcher<FetchJob>,
    waits: AtomicU64,
    io_wait_ns: AtomicU64,
}

/// Statistics of prefetched ranges so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes read into the page cache ahead of the consumer that were not cached before.
    pub prefetched_bytes: u64,
    /// Bytes of the window that are in use: requested, and not yet used by the consumer.
    pub ahead_bytes: u64,
    /// Number of waits whose range had not arrived, or of which the kernel does not report that, as for files of other
    /// users.
    pub waits: u64,
    /// Total time of these waits.
    pub io_wait: Duration,
}

impl Builder {
    /// Sets the window in bytes, at least [`WINDOW_MIN_BYTES`]. The default is a quarter of the memory that is available
    /// when the file is opened.
    #[must_use]
    pub fn memory(self, bytes: u64) -> Builder {
        Builder { memory: Some(bytes) }
    }

    /// Opens a regular file or a block device, and begins to prefetch ranges of it in this order.
    ///
    /// # Errors
    /// If the file is neither or cannot be opened, a range ends before it begins, or the window is too small.
    pub fn open(
        self,
        path: impl AsRef<Path>,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<Prefetch, Error> {
        self.start(IoFile::open(path.as_ref(), Access::Buffered)?, ranges)
    }

    /// Prefetches ranges of an open file, without moving its position. It must not be open for direct I/O, which bypasses
    /// the page cache.
    ///
    /// # Errors
    /// If the file is neither a regular file nor a block device, a range ends before it begins, or the window is too
    /// small.
    pub fn over(
        self,
        mut file: File,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<Prefetch, Error> {
        let path = path_of(&file);
        let failed = |source| sakiyomi_io::Error::Open { path: path.clone(), source };
        // A file without a position is refused below.
        let position = file.stream_position().unwrap_or(0);
        let file = IoFile::from_file(file, &path, Access::Buffered)?;
        file.file().seek(SeekFrom::Start(position)).map_err(failed)?;
        self.start(file, ranges)
    }

    fn start(self, file: IoFile, ranges: impl IntoIterator<Item = Range<u64>>) -> Result<Prefetch, Error> {
        let ranges = cut(ranges, file.size())?;
        let window = self.memory.unwrap_or_else(|| budget::of_this_process().max(WINDOW_MIN_BYTES));
        if window < WINDOW_MIN_BYTES {
            return Err(Error::Memory { bytes: window, min_bytes: WINDOW_MIN_BYTES });
        }
        let own = file.file().try_clone();
        let own = own.map_err(|source| sakiyomi_io::Error::Open { path: file.path().to_owned(), source })?;
        let shared = Shared {
            file: CachedFile::new(own),
            planner: Mutex::new(Planner::new(ranges, page_size() as u64, window)),
            prefetched_bytes: AtomicU64::new(0),
            retention: Retention::new(PIECES_IN_FLIGHT_MAX as u32),
            is_uncacheable: AtomicBool::new(false),
        };
        let prefetch = Prefetch {
            file: Arc::new(file),
            shared: Arc::new(shared),
            fetcher: Fetcher::new(PIECES_IN_FLIGHT_MAX),
            waits: AtomicU64::new(0),
            io_wait_ns: AtomicU64::new(0),
        };
        prefetch.fetch();
        Ok(prefetch)
    }
}

/// Cuts ranges at the end of the file.
fn cut(ranges: impl IntoIterator<Item = Range<u64>>, size: u64) -> Result<Vec<Range<u64>>, Error> {
    let cut_one = |(index, Range { start, end }): (usize, Range<u64>)| {
        if start > end {
            return Err(Error::Reversed { index, start, end });
        }
        Ok(start.min(size)..end.min(size))
    };
    ranges.into_iter().enumerate().map(cut_one).collect()
}

/// Returns a name of an open file for errors.
fn path_of(file: &File) -> PathBuf {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    fs::read_link(&link).unwrap_or_else(|_| link.into())
}

impl Prefetch {
    /// Opens a file and begins to prefetch ranges of it in this order, with default options.
    ///
    /// # Errors
    /// Returns the errors of [`Builder::open`].
    pub fn open(
        path: impl AsRef<Path>,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<Prefetch, Error> {
        Builder::default().open(path, ranges)
    }

    /// Returns a builder to set options.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the size of the file when it was opened, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.file.size()
    }

    /// Returns a range, cut at the end of the file.
    ///
    /// # Errors
    /// If the range does not exist.
    pub fn range(&self, index: usize) -> Result<Range<u64>, Error> {
        let planner = self.shared.planner();
        let ranges = planner.ranges();
        ranges.get(index).cloned().ok_or_else(|| {
            let path = self.file.path().to_owned();
            Error::NoRange { path, index, count: ranges.len() }
        })
    }

    /// Waits until a range is cached. Returns true if it is, and false if the kernel does not cache this file, so that
    /// reads of it will wait.
    ///
    /// A range that prefetching has not reached is requested by the wait itself, ahead of the order. The kernel may evict
    /// it again, as any cached data, if memory is short. If the file system hangs, so does this call, as a read would.
    ///
    /// # Errors
    /// If the range does not exist, or cannot be read. The next wait tries again.
    pub fn wait(&self, index: usize) -> Result<bool, Error> {
        self.wait_for_bytes(&self.range(index)?)
    }

    /// Waits until any bytes of the file are cached, whether they are in a range or not: for parts of large ranges.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn wait_for_bytes(&self, bytes: &Range<u64>) -> Result<bool, Error> {
        let bytes = bytes.start..bytes.end.min(self.size());
        if self.shared.is_uncacheable.load(Relaxed) {
            return Ok(false);
        }
        if bytes.is_empty() || self.shared.file.has_arrived(&bytes) {
            return Ok(true);
        }
        let since = Instant::now();
        self.request_missing(&bytes);
        let result = self.shared.load(&bytes);
        self.waits.fetch_add(1, Relaxed);
        let waited = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.io_wait_ns.fetch_add(waited, Relaxed);
        result.map_err(|source| Error::Read { path: self.file.path().to_owned(), range: bytes, source })?;
        Ok(!self.shared.is_uncacheable.load(Relaxed))
    }

    /// Reports that the first `count` ranges have been used, so that the window moves on. A smaller count than before
    /// changes nothing, so several threads may report in any order.
    pub fn advance(&self, count: usize) {
        self.shared.planner().advance(count);
        self.fetch();
    }

    /// Returns the statistics so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics {
            prefetched_bytes: self.shared.prefetched_bytes.load(Relaxed),
            ahead_bytes: self.shared.planner().ahead_bytes(),
            waits: self.waits.load(Relaxed),
            io_wait: Duration::from_nanos(self.io_wait_ns.load(Relaxed)),
        }
    }

    /// Reports that the consumer uses the file at a byte now, if the next ranges contain it.
    fn advance_to_byte(&self, at: u64) {
        self.shared.planner().advance_to_byte(at);
        self.fetch();
    }

    /// Requests the parts of a range that are neither cached nor in flight by the threads, behind the first one, which the
    /// wait itself reads: they were evicted, or prefetching has not reached them.
    fn request_missing(&self, bytes: &Range<u64>) {
        let mut at = bytes.start.saturating_add(PIECE_MAX_BYTES);
        while at < bytes.end {
            let piece = at..bytes.end.min(at + PIECE_MAX_BYTES);
            let length = piece.end - piece.start;
            if self.shared.file.find(&piece).is_some_and(|found| found.cached < length) {
                self.shared.planner().request_now(&piece);
            }
            at = piece.end;
        }
        self.fetch();
    }

    /// Starts requests, as many as the plan allows.
    fn fetch(&self) {
        loop {
            // The fetcher is not called under the lock of the planner, which its threads take.
            let Some(piece) = self.shared.planner().next() else { return };
            if !self.fetcher.start(FetchJob { shared: Arc::clone(&self.shared), piece }) {
                // Without threads every wait reads its own range.
                return self.shared.planner().stop();
            }
        }
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.shared.planner().stop();
    }
}

/// State that fetching threads share with the consumer.
#[derive(Debug)]
struct Shared {
    file: CachedFile,
    planner: Mutex<Planner>,
    prefetched_bytes: AtomicU64,
    retention: Retention,
    /// Whether data is not in the page cache after it has been read.
    is_uncacheable: AtomicBool,
}

impl Shared {
    fn planner(&self) -> MutexGuard<'_, Planner> {
        self.planner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads bytes into the page cache in the thread of the consumer. Requests run ahead of the wait, so that they
    /// overlap.
    fn load(&self, bytes: &Range<u64>) -> io::Result<()> {
        let (mut at, mut requested) = (bytes.start, bytes.start);
        while at < bytes.end {
            let ahead = bytes.end.min(at.saturating_add(WAIT_AHEAD_BYTES));
            if requested < ahead {
                self.file.request(&(requested..ahead));
                requested = ahead;
            }
            let piece = at..bytes.end.min(at + PIECE_MAX_BYTES);
            self.file.arrive(&piece)?;
            self.is_cached(&piece);
            at = piece.end;
        }
        Ok(())
    }

    /// Returns whether the page cache holds any of a piece that was just read. If the kernel does not cache the file,
    /// prefetching would read everything twice: it ends.
    fn is_cached(&self, piece: &Range<u64>) -> bool {
        let is_cached = self.file.find(piece).is_none_or(|found| found.cached > 0);
        if !self.retention.observe(is_cached) {
            self.is_uncacheable.store(true, Relaxed);
            self.planner().stop();
        }
        is_cached
    }
}

/// Loads a piece into the page cache.
#[derive(Debug)]
struct FetchJob {
    shared: Arc<Shared>,
    piece: Range<u64>,
}

impl Job for FetchJob {
    type Reply = ();

    fn turn(&self) -> Option<u32> {
        None
    }

    fn is_urgent(&self) -> bool {
        false
    }

    fn carry_out(self) -> ((), Option<FetchJob>) {
        let FetchJob { shared, piece } = self;
        let missing = shared.file.request(&piece);
        // An error is reported by the wait for this range, which tries again.
        if missing > 0 && shared.file.arrive(&piece).is_ok() && shared.is_cached(&piece) {
            shared.prefetched_bytes.fetch_add(missing, Relaxed);
        }
        let mut planner = shared.planner();
        planner.completed(&piece);
        let next = planner.next();
        drop(planner);
        ((), next.map(|piece| FetchJob { shared, piece }))
    }
}
