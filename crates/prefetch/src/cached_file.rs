//! A file of which ranges are loaded into the page cache.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sakiyomi_io::page_cache::{self, PageLoader, Residency, ResidencyCall};

use crate::retention::Retention;

/// Size of the buffer into which a range is read if the kernel does not read ahead: one default window of the kernel's
/// read-ahead.
const SCRATCH_BYTES: u64 = 128 << 10;

/// Pause before read-ahead is requested again that a full queue has dropped. Even at 100 MB/s a queue of FUSE's default
/// length, 12 requests of 128 KiB, lasts ten times as long.
const CONGESTION_PAUSE: Duration = Duration::from_millis(1);
/// Reads in a row that leave nothing in the page cache after which a file counts as not cached, if nothing was ever kept: one
/// may have been hit by another program that drops the caches.
const FIRST_LOSSES_MAX: u32 = 2;

/// Result of loading a range into the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FetchOutcome {
    /// Bytes that were not cached before, as far as known.
    pub(crate) bytes: u64,
    /// Whether it was possible.
    pub(crate) done: bool,
}

/// Residency of a range, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Cached or in flight.
    pub(crate) cached: u64,
    /// Evicted for lack of memory.
    pub(crate) evicted: u64,
}

/// A file that can be read at any offset.
#[derive(Debug)]
pub(crate) struct CachedFile {
    file: File,
    /// Bytes that the kernel fetches per call.
    piece: OnceLock<u64>,
    /// Whether ranges must be read, because the kernel does not read this file ahead or does not report residency.
    by_reading: AtomicBool,
    /// Whether a request for read-ahead has ever had an effect.
    is_read_ahead: AtomicBool,
    /// Requests in a row without any effect.
    refusals: AtomicU32,
    retention: Retention,
    /// Reads that copy nothing; `None` if they cannot be set up.
    loader: OnceLock<Option<PageLoader>>,
}

impl CachedFile {
    pub(crate) fn new(file: File) -> CachedFile {
        CachedFile {
            file,
            piece: OnceLock::new(),
            by_reading: AtomicBool::new(false),
            is_read_ahead: AtomicBool::new(false),
            refusals: AtomicU32::new(0),
            retention: Retention::new(FIRST_LOSSES_MAX),
            loader: OnceLock::new(),
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns whether ranges are read and discarded. A single such read at a time would leave a parallel device
    /// idle.
    pub(crate) fn is_read_instead(&self) -> bool {
        self.by_reading.load(Ordering::Relaxed)
    }

    /// Returns the residency of a range; `None` if the kernel does not report it, as for files of other users.
    pub(crate) fn find(&self, range: &Range<u64>) -> Option<Found> {
        let found = page_cache::residency(&self.file, range.clone()).ok()?;
        let length = range.end - range.start;
        // The pages at both ends belong to the range only in part.
        let bytes = |pages: u64| (pages * page_bytes(&found, length)).min(length);
        let missing = bytes(found.pages.saturating_sub(found.cached));
        Some(Found {
            cached: length - missing,
            evicted: bytes(found.detail.map_or(0, |detail| detail.evicted)),
        })
    }

    /// Loads a range into the page cache, or requests it. Bytes after the end count as present.
    pub(crate) fn load(&self, range: &Range<u64>) -> FetchOutcome {
        let length = range.end - range.start;
        let Some(before) = self.find(range) else {
            self.by_reading.store(true, Ordering::Relaxed);
            return FetchOutcome { bytes: length, done: self.read(range).is_ok() };
        };
        let bytes = length - before.cached;
        if bytes == 0 || !self.is_read_instead() && self.ask_for(range, before) {
            return FetchOutcome { bytes, done: true };
        }
        // If reading leaves nothing in the cache either, the file cannot be read ahead.
        loop {
            if self.read(range).is_err() {
                return FetchOutcome { bytes: 0, done: false };
            }
            let stays = self.find(range).is_some_and(|after| after.cached > 0);
            if !self.retention.observe(stays) {
                return FetchOutcome { bytes: 0, done: false };
            }
            if stays {
                return FetchOutcome { bytes, done: true };
            }
        }
    }

    /// Loads a range into the page cache and waits for its end. Unlike [`load`](CachedFile::load), it copies nothing.
    /// If residency is not reported, the whole range counts as not cached before, unless its end arrives at once.
    pub(crate) fn load_and_wait(&self, range: &Range<u64>) -> FetchOutcome {
        /// Longest duration of a read of cached data.
        const RESIDENT_LATENCY: Duration = Duration::from_micros(150);
        let length = range.end - range.start;
        let before = self.find(range);
        let bytes = before.map_or(length, |found| length - found.cached);
        if bytes == 0 {
            return FetchOutcome { bytes, done: true };
        }
        let since = Instant::now();
        let piece = *self.piece.get_or_init(|| page_cache::piece(&self.file).unwrap_or(4096));
        // If residency is not reported, this fails after the requests have been sent.
        let _ = page_cache::fetch_in_pieces(&self.file, range.clone(), piece);
        let done = self.await_byte(range.end - 1);
        let was_resident = before.is_none() && since.elapsed() < RESIDENT_LATENCY;
        FetchOutcome { bytes: if was_resident { 0 } else { bytes }, done }
    }

    /// Requests read-ahead of a range without waiting for it; returns the bytes that were neither cached nor in flight
    /// before, as far as known.
    pub(crate) fn request(&self, range: &Range<u64>) -> u64 {
        let length = range.end - range.start;
        let missing = self.find(range).map_or(length, |found| length - found.cached);
        if missing > 0 {
            let piece = *self.piece.get_or_init(|| page_cache::piece(&self.file).unwrap_or(4096));
            // Parts that the kernel leaves out are read by `arrive`.
            let _ = page_cache::fetch_in_pieces(&self.file, range.clone(), piece);
        }
        missing
    }

    /// Returns whether every page of a range can be read without waiting; false if the kernel does not report it.
    pub(crate) fn has_arrived(&self, range: &Range<u64>) -> bool {
        page_cache::residency_by(&self.file, range.clone(), ResidencyCall::Mincore)
            .is_ok_and(|found| found.is_whole())
    }

    /// Reads a range into the page cache and waits until all of it has arrived.
    ///
    /// # Errors
    /// Returns the error of the read.
    pub(crate) fn arrive(&self, range: &Range<u64>) -> io::Result<()> {
        match self.loader().map(|loader| loader.load(&self.file, range.clone())) {
            Some(Ok(())) => Ok(()),
            // Either the file system supports no transfers without a copy, or the range cannot be read, which another
            // read reports.
            _ => self.read(range),
        }
    }

    fn loader(&self) -> Option<&PageLoader> {
        self.loader.get_or_init(|| PageLoader::new().ok()).as_ref()
    }

    /// Waits until a byte is cached; returns false if it cannot be read.
    pub(crate) fn await_byte(&self, at: u64) -> bool {
        self.file.read_exact_at(&mut [0], at).is_ok()
    }

    /// Requests read-ahead by the kernel; returns false if that has no effect.
    fn ask_for(&self, range: &Range<u64>, before: Found) -> bool {
        /// Requests in a row without effect after which a file is known not to be read ahead by the kernel: its queue may
        /// be full of the requests of others for a while.
        const REFUSALS_MAX: u32 = 4;
        let piece = *self.piece.get_or_init(|| page_cache::piece(&self.file).unwrap_or(4096));
        let is_read_ahead = self.is_read_ahead.load(Ordering::Relaxed);
        let ask = || {
            let asked = page_cache::fetch_in_pieces(&self.file, range.clone(), piece).ok()?;
            let length = range.end - range.start;
            let missing = (asked.pages.saturating_sub(asked.cached) * page_bytes(&asked, length)).min(length);
            Some(Asked { cached: length - missing, is_whole: missing == 0 })
        };
        let has_effect = insist(is_read_ahead, before.cached, ask, || thread::sleep(CONGESTION_PAUSE));
        if has_effect {
            self.is_read_ahead.store(true, Ordering::Relaxed);
            self.refusals.store(0, Ordering::Relaxed);
        } else if !is_read_ahead && self.refusals.fetch_add(1, Ordering::Relaxed) + 1 >= REFUSALS_MAX {
            self.by_reading.store(true, Ordering::Relaxed);
        }
        has_effect || is_read_ahead
    }

    /// Reads a range and discards the data.
    fn read(&self, range: &Range<u64>) -> io::Result<()> {
        let mut scratch = vec![0; SCRATCH_BYTES.min(range.end - range.start) as usize];
        let mut at = range.start;
        while at < range.end {
            let wanted = scratch.len().min((range.end - at) as usize);
            match self.file.read_at(&mut scratch[..wanted], at) {
                // The file has been truncated meanwhile.
                Ok(0) => return Ok(()),
                Ok(read) => at += read as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Outcome of a request for read-ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    /// Bytes of the range that are cached or in flight.
    cached: u64,
    /// Whether all of it is.
    is_whole: bool,
}

/// Requests read-ahead until all of a range is in flight; returns whether it had any effect.
///
/// A file system whose queue is full drops read-ahead silently: FUSE drops a whole request from three quarters of
/// `max_background` on. The rest is then requested again when the queue has moved on, which keeps the device busy. A file
/// that the kernel has never read ahead is given up sooner, because perhaps it never will be.
///
/// If data of the range is evicted meanwhile, memory is short, and more requests would make it worse.
fn insist(
    is_read_ahead: bool,
    cached_before: u64,
    mut ask: impl FnMut() -> Option<Asked>,
    mut pause: impl FnMut(),
) -> bool {
    /// Requests for a file that the kernel reads ahead: a tenth of a second, in which any device that works serves some.
    const CONGESTED_TRIES_MAX: u32 = 100;
    /// Requests for a file of which nothing was ever read ahead.
    const UNKNOWN_TRIES_MAX: u32 = 4;
    let mut cached = cached_before;
    for number in 1.. {
        let Some(asked) = ask() else { break };
        let is_evicted = asked.cached < cached;
        cached = cached.max(asked.cached);
        let has_effect = is_read_ahead || cached > cached_before;
        let tries_max = if has_effect { CONGESTED_TRIES_MAX } else { UNKNOWN_TRIES_MAX };
        if asked.is_whole || is_evicted || number >= tries_max {
            break;
        }
        // The first repetition is immediate: a block device's queue was full for a moment.
        if number > 1 {
            pause();
        }
    }
    cached > cached_before
}

/// Returns the bytes per page.
fn page_bytes(found: &Residency, length: u64) -> u64 {
    length.div_ceil(found.pages.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::{Scratch, content};
    use sakiyomi_testing::skipped;
    use std::fs::OpenOptions;

    const SIZE: u64 = 3_000_000;

    /// A file that is not cached; `None` where files stay in memory.
    fn cold(test: &str, by_reading: bool) -> Option<(Scratch, CachedFile)> {
        let scratch = Scratch::with(&content(SIZE as usize)).evicted();
        let file = CachedFile::new(File::open(scratch.path()).unwrap());
        file.by_reading.store(by_reading, Ordering::Relaxed);
        if file.find(&(0..SIZE)).is_none_or(|found| found.cached > 0) {
            skipped(test, "files stay in memory here, or it cannot be seen");
            return None;
        }
        Some((scratch, file))
    }

    #[test]
    fn what_is_brought_is_there_whether_asked_for_or_read() {
        for by_reading in [false, true] {
            let Some((_scratch, file)) = cold("what_is_brought_is_there", by_reading) else { return };
            let range = 100_000..SIZE;
            let length = range.end - range.start;
            assert_eq!(file.load(&range), FetchOutcome { bytes: length, done: true });
            assert_eq!(file.find(&range), Some(Found { cached: length, evicted: 0 }));
            assert_eq!(file.load(&range), FetchOutcome { bytes: 0, done: true }, "it is cached already");
            assert_eq!(file.is_read_instead(), by_reading);
        }
    }

    /// Answers of a kernel, in their order; the last one is repeated. Returns what `insist` makes of them, the number of
    /// requests and of pauses.
    fn insisted(is_read_ahead: bool, answers: &[u64]) -> (bool, usize, usize) {
        let (mut asked, mut pauses) = (0, 0);
        let ask = || {
            let &cached = answers.get(asked).or(answers.last()).unwrap();
            asked += 1;
            Some(Asked { cached, is_whole: cached == WHOLE })
        };
        let has_effect = insist(is_read_ahead, DROPPED, ask, || pauses += 1);
        (has_effect, asked, pauses)
    }

    const DROPPED: u64 = 4096;
    const PART: u64 = 10 * 4096;
    const WHOLE: u64 = 20 * 4096;

    #[test]
    fn read_ahead_that_a_full_queue_drops_is_requested_again_until_all_is_in_flight() {
        assert_eq!(insisted(true, &[WHOLE]), (true, 1, 0));
        assert_eq!(insisted(true, &[PART, WHOLE]), (true, 2, 0));
        let mut congested = vec![DROPPED; 50];
        congested.extend([PART, PART, WHOLE]);
        assert_eq!(insisted(true, &congested), (true, 53, 51));
        assert_eq!(insisted(false, &[PART, PART, PART, PART, PART, PART, WHOLE]), (true, 7, 5));
    }

    #[test]
    fn a_queue_that_stays_full_is_left_and_a_file_without_read_ahead_soon() {
        assert_eq!(insisted(true, &[DROPPED]), (false, 100, 98));
        assert_eq!(insisted(false, &[DROPPED]), (false, 4, 2));
        assert_eq!(insisted(true, &[PART]), (true, 100, 98));
    }

    #[test]
    fn nothing_more_is_requested_when_data_is_evicted_meanwhile() {
        assert_eq!(insisted(true, &[PART, DROPPED]), (true, 2, 0));
        assert_eq!(insisted(true, &[0]), (false, 1, 0));
    }

    #[test]
    fn read_ahead_without_effect_is_replaced_by_reading_only_if_it_never_had_one() {
        let file = |is_read_ahead| {
            let scratch = Scratch::with(&content(SIZE as usize));
            let file = CachedFile::new(File::open(scratch.path()).unwrap());
            file.is_read_ahead.store(is_read_ahead, Ordering::Relaxed);
            // Bytes that are cached already: requests for them have no effect.
            let before = Found { cached: 4096, evicted: 0 };
            let had_effect: Vec<bool> = (0..10).map(|_| file.ask_for(&(0..4096), before)).collect();
            (had_effect, file.is_read_instead())
        };
        assert_eq!(file(true), (vec![true; 10], false));
        assert_eq!(file(false), (vec![false; 10], true));
    }

    #[test]
    fn a_requested_range_arrives_whole_and_costs_nothing_again() {
        let Some((_scratch, file)) = cold("a_requested_range_arrives_whole", false) else { return };
        let range = 100_000..SIZE + 50_000;
        assert!(!file.has_arrived(&range));
        assert!(file.request(&range) > SIZE - 200_000);
        file.arrive(&range).unwrap();
        assert!(file.has_arrived(&range));
        assert_eq!(file.request(&range), 0);
    }

    #[test]
    fn what_lies_behind_the_end_needs_not_be_brought() {
        for by_reading in [false, true] {
            let Some((_scratch, file)) = cold("what_lies_behind_the_end", by_reading) else { return };
            assert_eq!(file.load(&(SIZE + 10_000..SIZE + 20_000)), FetchOutcome { bytes: 0, done: true });
            assert!(file.load(&(SIZE - 10_000..SIZE + 20_000)).done);
            assert!(file.find(&(SIZE - 10_000..SIZE)).unwrap().cached == 10_000);
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_said_to_be_there() {
        let scratch = Scratch::with(&content(SIZE as usize)).evicted();
        let file = CachedFile::new(OpenOptions::new().write(true).open(scratch.path()).unwrap());
        file.by_reading.store(true, Ordering::Relaxed);
        if file.find(&(0..SIZE)).is_some_and(|found| found.cached > 0) {
            skipped("what_cannot_be_read", "files stay in memory here");
            return;
        }
        assert_eq!(file.load(&(0..SIZE)), FetchOutcome { bytes: 0, done: false });
    }
}
