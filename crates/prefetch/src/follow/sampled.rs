//! Reads at explicit offsets (`pread`), sampled from the system calls in which threads sleep: for machines that permit no
//! tracing. Pure.
//!
//! A read whose data is missing sleeps, and `/proc` shows its offset. A read whose data is cached is never seen, which
//! includes all reads once prefetching succeeds. Between two samples the bytes that the process has received tell
//! whether it read everything between them; and as long as they did so, they tell how far it has come since.

use std::ops::Range;

/// A file, as device and inode number.
type File = (u64, u64);

/// Bytes of one touch that is reported.
const TOUCH_BYTES: u64 = 64 << 10;

/// The bytes received may differ from the distance between two samples by this part, or by one touch: requests overlap
/// pages, and a program reads other files as well.
const DIFFERENCE_DIVISOR: u64 = 4;

/// Consecutive distances that the received bytes must match before they count as sequential progress.
const MATCHES_MIN: u32 = 2;

/// Distance up to which two samples are compared.
const DISTANCE_MAX: u64 = 64 << 20;

/// The reads of a program.
#[derive(Debug, Default)]
pub(super) struct SampledReads {
    last: Option<Sample>,
    matches: u32,
    /// End of the ranges reported so far, in the file of the last sample.
    reported: u64,
}

/// A read that sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    file: File,
    at: u64,
    /// Bytes that the process had received before it.
    received: u64,
}

impl SampledReads {
    /// Returns whether the received bytes have explained the last distances.
    pub(super) fn is_sequential(&self) -> bool {
        self.matches >= MATCHES_MIN
    }

    /// Records that a thread sleeps in a read of `bytes` at an offset; the process has received `received` bytes so far.
    /// Returns the ranges of the file that it has read since the last sample, as far as they are known.
    pub(super) fn sleeps(&mut self, file: File, at: u64, bytes: u64, received: u64) -> Vec<Range<u64>> {
        let end = at.saturating_add(bytes);
        let sample = Sample { file, at, received };
        let Some(last) = self.last.replace(sample) else {
            self.reported = end;
            return pieces(at..end);
        };
        if last == sample {
            return Vec::new();
        }
        let distance =
            at.checked_sub(last.at).filter(|distance| last.file == file && *distance <= DISTANCE_MAX);
        let got = received.saturating_sub(last.received);
        let is_explained =
            |distance: &u64| distance.abs_diff(got) <= (distance / DIFFERENCE_DIVISOR).max(TOUCH_BYTES);
        match distance.filter(is_explained) {
            Some(_) => {
                self.matches = self.matches.saturating_add(1);
                let from = self.reported.min(at);
                self.reported = self.reported.max(end);
                pieces(from..self.reported)
            }
            None => {
                self.matches = 0;
                self.reported = end;
                pieces(at..end)
            }
        }
    }

    /// Records that the process has received `received` bytes, while no thread sleeps in a read. Returns the file and
    /// the range that it has probably read since.
    pub(super) fn runs(&mut self, received: u64) -> Option<(File, Vec<Range<u64>>)> {
        let last = self.last.filter(|_| self.is_sequential())?;
        let end = last.at.saturating_add(received.saturating_sub(last.received).min(DISTANCE_MAX));
        if end < self.reported.saturating_add(TOUCH_BYTES) {
            return None;
        }
        let read = self.reported..end;
        self.reported = end;
        // The next distance is counted from here, so that it stays short.
        self.last = Some(Sample { at: end, received, ..last });
        Some((last.file, pieces(read)))
    }
}

fn pieces(range: Range<u64>) -> Vec<Range<u64>> {
    let step = usize::try_from(TOUCH_BYTES).unwrap_or(usize::MAX);
    range.clone().step_by(step).map(|at| at..range.end.min(at + TOUCH_BYTES)).collect()
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges, some of which have one")]
mod tests {
    use super::*;
    use crate::follow::streams::Streams;
    use sakiyomi_model::Nanos;

    const FILE: File = (1, 2);
    const PAGE: u64 = 4096;
    const WINDOW: u64 = 128 << 10;

    /// Reads pages in order, sleeping at each window until `helped`, and then never; sampled each 40 pages.
    fn places(helped: u64, length: u64) -> Vec<u64> {
        let (mut reads, mut streams) = (SampledReads::default(), Streams::new());
        let mut places = Vec::new();
        let touch = |streams: &mut Streams, ranges: Vec<Range<u64>>| {
            ranges.iter().for_each(|range| streams.touch(Nanos(0), range));
        };
        for at in (0..length).step_by(PAGE as usize) {
            if at < helped && at % WINDOW == 0 {
                let ranges = reads.sleeps(FILE, at, PAGE, at);
                touch(&mut streams, ranges);
            } else if at % (40 * PAGE) == 0
                && let Some((file, ranges)) = reads.runs(at)
            {
                assert_eq!(file, FILE);
                touch(&mut streams, ranges);
            }
            places.extend(streams.streams().first().map(|stream| stream.end));
            assert!(streams.streams().len() <= 1);
            assert!(streams.streams().iter().all(|stream| stream.end <= at + PAGE + TOUCH_BYTES), "{at}");
        }
        places
    }

    #[test]
    fn a_reader_in_order_is_a_stream_and_stays_one_when_it_does_not_sleep_any_more() {
        let places = places(1 << 20, 16 << 20);
        assert!(places.len() as u64 > (15 << 20) / PAGE, "a stream begins within the first megabyte");
        assert!(*places.last().unwrap() > (16 << 20) - 3 * 40 * PAGE, "{places:?}");
    }

    #[test]
    fn a_random_reader_is_no_stream() {
        let (mut reads, mut streams) = (SampledReads::default(), Streams::new());
        let mut at = 12_345u64;
        for count in 0..1000u64 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let offset = (at >> 40) * PAGE;
            for range in reads.sleeps(FILE, offset, PAGE, count * PAGE) {
                streams.touch(Nanos(0), &range);
            }
            assert!(reads.runs((count + 1) * PAGE).is_none());
            assert!(streams.streams().is_empty());
        }
    }

    #[test]
    fn the_same_sleep_counts_once_and_another_file_begins_anew() {
        let mut reads = SampledReads::default();
        assert_eq!(reads.sleeps(FILE, 0, PAGE, 0), [0..PAGE]);
        assert!(reads.sleeps(FILE, 0, PAGE, 0).is_empty());
        for window in 1..5 {
            reads.sleeps(FILE, window * WINDOW, PAGE, window * WINDOW);
        }
        assert!(reads.is_sequential());
        assert_eq!(reads.sleeps((1, 3), 5 * WINDOW, PAGE, 5 * WINDOW), [5 * WINDOW..5 * WINDOW + PAGE]);
        assert!(!reads.is_sequential());
    }
}
