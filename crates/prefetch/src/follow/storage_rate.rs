//! Throughput of the storage under concurrent requests. Observation alone cannot show it: a program that waits for one
//! access after the other waits as long for fast storage as for slow storage.
//!
//! Therefore, after the program has ended, a part of its data is dropped from the page cache and read again.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use sakiyomi_io::page_cache;
use sakiyomi_model::Nanos;

use super::reading::Reading;
use super::statistics::Share;
use crate::cached_file::CachedFile;

/// The measurement reads as many bytes as the program read by itself in this time, at least [`SAMPLE_MIN_BYTES`] and at
/// most [`SAMPLE_MAX_BYTES`].
const SAMPLE_TIME: Nanos = Nanos(300_000_000);
/// Minimum size of a measurement: fewer bytes would measure single accesses instead of a rate.
const SAMPLE_MIN_BYTES: u64 = 1 << 20;
/// Maximum size of a measurement: more bytes would take noticeable time after the program has ended.
const SAMPLE_MAX_BYTES: u64 = 16 << 20;

/// Bytes of a single access of the measurement.
const ACCESS_BYTES: u64 = 128 << 10;

/// Time limit of the measurement: storage that does not reply must not delay the end of the command.
const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(2);

/// A file range that may be read again.
#[derive(Debug)]
pub(super) struct Candidate {
    file: Arc<CachedFile>,
    range: Range<u64>,
    io_wait: Nanos,
}

impl Candidate {
    /// Returns the range that a program read last, if it would have been read ahead.
    pub(super) fn of(reading: &Reading) -> Option<Candidate> {
        let Share { bytes, io_wait, divided, .. } = reading.account.would_help;
        let rate = u128::from(bytes) * u128::from(SAMPLE_TIME.0) / u128::from(divided.0.max(1));
        let wanted = u64::try_from(rate).unwrap_or(u64::MAX).clamp(SAMPLE_MIN_BYTES, SAMPLE_MAX_BYTES);
        let end = reading.offset() / ACCESS_BYTES * ACCESS_BYTES;
        let start = end.saturating_sub(wanted.min(bytes)).next_multiple_of(ACCESS_BYTES);
        let is_enough = end.saturating_sub(start) >= SAMPLE_MIN_BYTES;
        let file = if is_enough { reading.current_file() } else { None };
        Some(Candidate { file: file?, range: start..end, io_wait })
    }

    /// Returns whether its program has waited longer than the other one's.
    pub(super) fn is_better_than(&self, other: &Candidate) -> bool {
        self.io_wait > other.io_wait
    }

    /// Returns bytes per second; `None` if the measurement fails or exceeds its time limit.
    pub(super) fn measure(self) -> Option<u64> {
        let (sender, receiver) = channel();
        // The caller must not wait for storage that does not reply.
        let body = move || {
            let _ = sender.send(measure(&self.file, &self.range));
        };
        thread::Builder::new().name("measure".to_owned()).spawn(body).ok()?;
        receiver.recv_timeout(MEASUREMENT_TIMEOUT).ok()?
    }
}

fn measure(file: &CachedFile, range: &Range<u64>) -> Option<u64> {
    page_cache::drop_pages(file.file(), range.clone()).ok()?;
    // Mapped pages stay in the cache, and so do the ends of folios that the system drops only as a whole.
    let is_gone = |at: &u64| file.find(&(*at..*at + ACCESS_BYTES)).is_some_and(|found| found.cached == 0);
    let from = range.clone().step_by(ACCESS_BYTES as usize).find(is_gone)?;
    // A single access, then all others concurrently: the additional time is the time to transfer their bytes.
    let (_, first) = load(file, &(from..from + ACCESS_BYTES))?;
    let (bytes, all) = load(file, &(from + ACCESS_BYTES..range.end))?;
    let time = all.saturating_sub(first).max(Duration::from_micros(10));
    let rate = u128::from(bytes) * 1_000_000_000 / time.as_nanos();
    u64::try_from(rate).ok().filter(|_| bytes >= SAMPLE_MIN_BYTES / 2)
}

/// Returns the bytes of a range that were not cached, and the time until they are.
fn load(file: &CachedFile, range: &Range<u64>) -> Option<(u64, Duration)> {
    let begun = Instant::now();
    let outcome = file.load(range);
    let arrived = |at: u64| file.await_byte(at + ACCESS_BYTES.min(range.end - at) - 1);
    let is_there = outcome.done && range.clone().step_by(ACCESS_BYTES as usize).all(arrived);
    is_there.then(|| (outcome.bytes, begun.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::{Scratch, content};
    use sakiyomi_testing::skipped;
    use std::fs::File;

    #[test]
    fn what_is_read_once_more_is_there_afterwards_and_gives_a_rate() {
        const SIZE: u64 = 4 << 20;
        let scratch = Scratch::with(&content(SIZE as usize)).evicted();
        let file = CachedFile::new(File::open(scratch.path()).unwrap());
        if file.find(&(0..SIZE)).is_none_or(|found| found.cached > 0) {
            return skipped("what_is_read_once_more", "files stay in memory here, or it cannot be seen");
        }
        assert!(load(&file, &(0..SIZE)).is_some());
        assert!(measure(&file, &(0..SIZE)).is_some_and(|rate| rate > 0));
        assert_eq!(file.find(&(0..SIZE)).unwrap().cached, SIZE);
    }
}
