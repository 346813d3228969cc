//! Reads at explicit offsets (`pread`), sampled from the system calls in which threads sleep: for machines that permit no
//! tracing. Pure.
//!
//! A read whose data is missing sleeps, and `/proc` shows its offset. A read whose data is cached is never seen, which
//! includes all reads once prefetching succeeds. Between two samples the bytes that the process has received tell
//! whether it read everything between them; and as long as they did so, they tell how far it has come since.
//!
//! A program that reads in order also reads elsewhere now and then, as a database does in the inner pages of a tree.
//! Therefore several places are remembered, and a sample continues the place from which the received bytes lead to it.
//! Each byte received counts at one place only: the inner pages advance as far as the scan, but few bytes are left for
//! them.

use std::ops::Range;

/// A file, as device and inode number.
type File = (u64, u64);

/// Bytes of one touch that is reported.
const TOUCH_BYTES: u64 = 64 << 10;

/// The bytes received may differ from the distance between two samples by this part, or by one touch: requests overlap
/// pages, and a program reads other files as well.
const DIFFERENCE_DIVISOR: u64 = 4;

/// Consecutive distances that the received bytes must match before they count as sequential progress.
const MATCHING_DISTANCES_MIN: u32 = 2;

/// Distance up to which two samples are compared.
const DISTANCE_MAX: u64 = 64 << 20;

/// Places that are remembered; the one that was not continued for the longest time is dropped first.
const PLACES_MAX: usize = 8;

/// Consecutive samples that continue no place, after which the program has probably left the last one.
const STRAYS_MAX: u32 = 2;

/// The reads of a program.
#[derive(Debug, Default)]
pub(super) struct SampledReads {
    /// The last read that slept, and the bytes received by then.
    last: Option<(File, u64, u64)>,
    /// In the order in which they were last continued.
    places: Vec<SequentialPlace>,
    /// Samples since a place was last continued.
    strays: u32,
    /// Bytes by which all places have advanced, and those of the samples that began them.
    explained: i64,
}

/// A place of a file from which a program may read in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SequentialPlace {
    file: File,
    at: u64,
    /// Bytes that the process had received when it was here, without those that explain the progress of places.
    unexplained: i64,
    matches: u32,
    /// End of the ranges reported so far.
    reported: u64,
}

impl SequentialPlace {
    /// Returns the distance to a later sample of the same file, if the bytes received meanwhile explain it.
    fn distance_to(&self, file: File, at: u64, unexplained: i64) -> Option<u64> {
        let distance = at.checked_sub(self.at).filter(|&distance| distance <= DISTANCE_MAX)?;
        let got = self.received_until(unexplained);
        let is_explained = distance.abs_diff(got) <= (distance / DIFFERENCE_DIVISOR).max(TOUCH_BYTES);
        (self.file == file && is_explained).then_some(distance)
    }

    /// Returns the bytes that the process has received since it was here, without those that count at other places.
    fn received_until(&self, unexplained: i64) -> u64 {
        u64::try_from(unexplained.saturating_sub(self.unexplained)).unwrap_or(0)
    }
}

impl SampledReads {
    /// Returns whether the received bytes have explained the last distances.
    pub(super) fn is_sequential(&self) -> bool {
        self.strays < STRAYS_MAX && self.current().is_some()
    }

    /// Returns the index of the place that was last continued in order.
    fn current(&self) -> Option<usize> {
        self.places.iter().rposition(|place| place.matches >= MATCHING_DISTANCES_MIN)
    }

    /// Records that a thread sleeps in a read of `bytes` at an offset; the process has received `received` bytes so far.
    /// Returns the ranges of the file that it has read since the last sample, as far as they are known.
    pub(super) fn sleeps(&mut self, file: File, at: u64, bytes: u64, received: u64) -> Vec<Range<u64>> {
        let sample = Some((file, at, received));
        if self.last == sample {
            return Vec::new();
        }
        self.last = sample;
        let end = at.saturating_add(bytes);
        let unexplained = signed(received).saturating_sub(self.explained);
        let distances = self.places.iter().enumerate().filter_map(|(index, place)| {
            place.distance_to(file, at, unexplained).map(|distance| (distance, index))
        });
        let Some((distance, index)) = distances.min() else {
            self.strays = self.strays.saturating_add(1);
            if self.places.len() == PLACES_MAX {
                self.places.remove(0);
            }
            self.explained += signed(bytes);
            self.places.push(SequentialPlace { file, at: end, unexplained, matches: 0, reported: end });
            return pieces(at..end);
        };
        self.strays = 0;
        let place = self.places.remove(index);
        let (from, reported) = (place.reported.min(at), place.reported.max(end));
        let matches = place.matches.saturating_add(1);
        self.explained += signed(distance);
        let unexplained = unexplained - signed(distance);
        self.places.push(SequentialPlace { file, at, unexplained, matches, reported });
        pieces(from..reported)
    }

    /// Records that the process has received `received` bytes, while no thread sleeps in a read. Returns the file and
    /// the range that it has probably read since.
    pub(super) fn runs(&mut self, received: u64) -> Option<(File, Vec<Range<u64>>)> {
        if !self.is_sequential() {
            return None;
        }
        let index = self.current()?;
        let unexplained = signed(received).saturating_sub(self.explained);
        let got = self.places[index].received_until(unexplained).min(DISTANCE_MAX);
        let end = self.places[index].at.saturating_add(got);
        if end < self.places[index].reported.saturating_add(TOUCH_BYTES) {
            return None;
        }
        let place = self.places.remove(index);
        let read = place.reported..end;
        // The next distance is counted from here, so that it stays short.
        let unexplained = unexplained - signed(got);
        self.places.push(SequentialPlace { at: end, unexplained, reported: end, ..place });
        self.explained += signed(got);
        self.strays = 0;
        Some((place.file, pieces(read)))
    }
}

/// Returns a number of bytes that may be subtracted from a smaller one.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
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

    /// The places that are reported of a program that reads pages in order, and after each `leaf` pages one that lies
    /// `ahead` of it, as a database does that scans a tree. It sleeps where nothing was fetched: each window until
    /// `helped`, and at each page elsewhere.
    fn end_of_a_scan(leaf: u64, ahead: u64, helped: u64, length: u64) -> u64 {
        let (mut reads, mut streams) = (SampledReads::default(), Streams::new());
        let mut received = 0;
        for at in (0..length).step_by(PAGE as usize) {
            let mut touched = Vec::new();
            if (at / PAGE) % leaf == leaf - 1 {
                touched.extend(reads.sleeps(FILE, at + ahead, PAGE, received));
                received += PAGE;
            }
            if at < helped && at % WINDOW == 0 {
                touched.extend(reads.sleeps(FILE, at, PAGE, received));
            } else {
                touched.extend(reads.runs(received).into_iter().flat_map(|(_, ranges)| ranges));
            }
            touched.iter().for_each(|range| streams.touch(Nanos(at), range));
            received += PAGE;
        }
        streams.streams().iter().map(|stream| stream.end).max().unwrap_or(0)
    }

    #[test]
    fn a_scan_that_also_reads_elsewhere_stays_a_stream() {
        for (leaf, ahead) in [(444, 692_224), (50, 40 << 20), (17, 3 << 20), (1000, 100 << 20)] {
            for helped in [1 << 20, 64 << 20] {
                let end = end_of_a_scan(leaf, ahead, helped, 64 << 20);
                assert!(end.abs_diff(64 << 20) < 4 << 20, "{leaf} {ahead} {helped}: {end}");
            }
        }
    }

    #[test]
    fn a_program_that_leaves_its_place_does_not_advance_there() {
        let mut reads = SampledReads::default();
        for window in 0..8 {
            reads.sleeps(FILE, window * WINDOW, PAGE, window * WINDOW);
        }
        assert!(reads.is_sequential());
        for stray in 0..2 {
            reads.sleeps(FILE, (stray + 1) << 30, PAGE, 8 * WINDOW + stray * PAGE);
        }
        assert!(reads.runs(64 << 20).is_none());
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
        reads.sleeps((1, 3), 50 * WINDOW, PAGE, 5 * WINDOW);
        assert!(!reads.is_sequential());
    }
}
