//! Which bytes of an ordered list of ranges to request next: pure.
//!
//! The *order* is the list of ranges as one sequence of bytes, rounded to whole pages, because the page cache holds
//! pages. A place in the order is a number of bytes from its beginning. The consumer is at one place, and prefetching at
//! another one; the distance between the two never exceeds the window. A range that continues in the page in which the
//! previous one ended begins at its next page, so that many small records of a page count as one page.
//!
//! Requests are *pieces*: bytes that follow each other in the file as well as in the order, at most
//! [`PIECE_MAX_BYTES`]. Small adjacent ranges share a piece, and a large range has many. A limited number of pieces is in
//! flight at a time.
//!
//! No piece is cut in order to fit the rest of the window: a consumer that advances by small steps would cause small
//! requests. Therefore a piece waits until the window has room for a whole one.

use std::collections::VecDeque;
use std::ops::Range;

/// Maximum bytes of a piece. At a latency of 5 ms, pieces of this size saturate a device of 6 GB/s with the number that
/// is in flight; larger ones would delay the end of prefetching, and the ranges that are needed first.
pub(crate) const PIECE_MAX_BYTES: u64 = 1 << 20;

/// Maximum pieces in flight: hides a latency of 5 ms up to 6,400 requests per second. Each one takes a thread.
pub(crate) const PIECES_IN_FLIGHT_MAX: usize = 32;

/// Pieces that the window holds at least, where a page is small enough: the next ones are requested while the consumer
/// uses the first.
const WINDOW_PIECES_MIN: u64 = 4;

/// Ranges after the consumer's place in which a part of the file is searched: more than the threads of usual loaders,
/// each of which uses the next range.
const LOCATED_RANGES_MAX: usize = 64;

/// A plan, which is notified of the ranges that the consumer has used and of completed requests.
#[derive(Debug)]
pub(crate) struct Planner {
    /// The ranges in their order, cut at the end of the file.
    ranges: Vec<Range<u64>>,
    /// The place in the order at which each range begins, and the end of the order.
    starts: Vec<u64>,
    page_bytes: u64,
    window_bytes: u64,
    piece_bytes: u64,
    /// The first range that the consumer may still use, and its place in the order.
    used_range: usize,
    used: u64,
    /// The range that contains the next byte to request, and the place of this byte in the order.
    next_range: usize,
    requested: u64,
    in_flight: Vec<Range<u64>>,
    /// Pieces to request once more, before the next ones of the order.
    again: VecDeque<Range<u64>>,
    is_stopped: bool,
}

impl Planner {
    /// Plans ranges that have been cut at the end of the file. `page_bytes` is a power of two, and the window is at least
    /// a page.
    pub(crate) fn new(ranges: Vec<Range<u64>>, page_bytes: u64, window_bytes: u64) -> Planner {
        assert!(page_bytes.is_power_of_two() && window_bytes >= page_bytes, "a window of less than a page");
        assert!(ranges.iter().all(|range| range.start <= range.end), "a range ends before it begins");
        let piece_bytes = (window_bytes / WINDOW_PIECES_MIN).min(PIECE_MAX_BYTES);
        let mut planner = Planner {
            ranges,
            starts: Vec::new(),
            page_bytes,
            window_bytes,
            piece_bytes: (piece_bytes & !(page_bytes - 1)).max(page_bytes),
            used_range: 0,
            used: 0,
            next_range: 0,
            requested: 0,
            in_flight: Vec::with_capacity(PIECES_IN_FLIGHT_MAX),
            again: VecDeque::new(),
            is_stopped: false,
        };
        let mut at = 0;
        let mut starts = Vec::with_capacity(planner.ranges.len() + 1);
        for index in 0..planner.ranges.len() {
            starts.push(at);
            let part = planner.part(index);
            at += part.end - part.start;
        }
        starts.push(at);
        planner.starts = starts;
        planner
    }

    /// Returns the ranges.
    pub(crate) fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Returns the bytes that have been requested and not yet used.
    pub(crate) fn ahead_bytes(&self) -> u64 {
        self.requested.saturating_sub(self.used)
    }

    /// Returns the pages of a range.
    fn pages(&self, index: usize) -> Range<u64> {
        let Range { start, end } = self.ranges[index];
        if start == end {
            return start..start;
        }
        start & !(self.page_bytes - 1)..end.next_multiple_of(self.page_bytes)
    }

    /// Returns the part of the file that a range adds to the order: its pages without the one in which the previous
    /// range ended.
    fn part(&self, index: usize) -> Range<u64> {
        let Range { start, end } = self.pages(index);
        let is_shared = index > 0 && start < end && {
            let before = self.pages(index - 1);
            before.start < before.end && before.end - self.page_bytes == start
        };
        if is_shared { start + self.page_bytes..end } else { start..end }
    }

    /// Returns the next piece to request, which counts as in flight from now on; `None` if there is none at the moment.
    pub(crate) fn next(&mut self) -> Option<Range<u64>> {
        let end = *self.starts.last().expect("the end of the order");
        if self.requested < self.used {
            // The consumer has overtaken.
            (self.requested, self.next_range) = (self.used, self.used_range);
        }
        let free = self.window_bytes - (self.requested - self.used);
        if self.is_stopped || self.in_flight.len() >= PIECES_IN_FLIGHT_MAX {
            return None;
        }
        if let Some(piece) = self.again.pop_front() {
            self.in_flight.push(piece.clone());
            return Some(piece);
        }
        if self.requested == end || free < self.piece_bytes.min(end - self.requested) {
            return None;
        }
        let piece = self.take_piece();
        self.in_flight.push(piece.clone());
        Some(piece)
    }

    /// Takes the bytes from the next place on that follow each other in the file. There is at least one.
    fn take_piece(&mut self) -> Range<u64> {
        let mut piece: Option<Range<u64>> = None;
        while self.next_range < self.ranges.len() {
            let part = self.part(self.next_range);
            let from = part.start + (self.requested - self.starts[self.next_range]);
            if from < part.end {
                let piece = piece.get_or_insert(from..from);
                let left = self.piece_bytes - (piece.end - piece.start);
                if piece.end != from || left == 0 {
                    break;
                }
                let taken = left.min(part.end - from);
                piece.end += taken;
                self.requested += taken;
                if from + taken < part.end {
                    break;
                }
            }
            self.next_range += 1;
        }
        piece.expect("a byte that has not been requested")
    }

    /// Reports that a piece has arrived, or has failed.
    pub(crate) fn completed(&mut self, piece: &Range<u64>) {
        let place = self.in_flight.iter().position(|other| other == piece);
        self.in_flight.swap_remove(place.expect("a piece that is in flight"));
    }

    /// Requests a part of the file out of order, which the consumer waits for: it was evicted, or not yet requested. Pieces in
    /// flight are left out.
    pub(crate) fn request_now(&mut self, bytes: &Range<u64>) {
        let end = bytes.end.next_multiple_of(self.page_bytes);
        let mut at = bytes.start & !(self.page_bytes - 1);
        while at < end {
            let known = || self.in_flight.iter().chain(&self.again);
            if let Some(covers) = known().filter(|piece| piece.contains(&at)).map(|piece| piece.end).max() {
                at = covers;
                continue;
            }
            let next = known().map(|piece| piece.start).filter(|&start| start > at).min();
            let until = end.min(at + PIECE_MAX_BYTES).min(next.unwrap_or(u64::MAX));
            self.again.push_back(at..until);
            at = until;
        }
    }

    /// Returns whether nothing is in flight.
    #[cfg(test)]
    pub(crate) fn is_quiet(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Reports that nothing more is wanted.
    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Reports that the consumer no longer needs the ranges before this one. It never moves back.
    pub(crate) fn advance(&mut self, range: usize) {
        if range > self.used_range {
            self.used_range = range.min(self.ranges.len());
            self.used = self.used.max(self.starts[self.used_range]);
        }
    }

    /// Reports that the consumer is now using a part of the file that begins at `at`: it no longer needs what is before
    /// it in the order. The place is the first one of this byte in the next ranges; without one, nothing changes.
    pub(crate) fn advance_to_byte(&mut self, at: u64) {
        let near = self.ranges.iter().enumerate().skip(self.used_range).take(LOCATED_RANGES_MAX);
        let Some(index) = near.filter(|(_, range)| range.contains(&at)).map(|(index, _)| index).next() else {
            return;
        };
        self.advance(index);
        let part = self.part(index);
        let page = at & !(self.page_bytes - 1);
        self.used = self.used.max(self.starts[index] + page.saturating_sub(part.start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const PAGE: u64 = 4096;

    /// Returns the pages of the order by a plain loop: each page of each range, but not twice in a row.
    fn order_of(ranges: &[Range<u64>]) -> Vec<u64> {
        let mut pages = Vec::new();
        let mut before = None;
        for range in ranges {
            let own = (0..1000).filter(|page| range.start < (page + 1) * PAGE && page * PAGE < range.end);
            let own: Vec<u64> = if range.is_empty() { Vec::new() } else { own.collect() };
            let is_shared = before.is_some() && own.first() == before.as_ref();
            pages.extend(&own[usize::from(is_shared)..]);
            before = own.last().copied();
        }
        pages
    }

    fn pages(piece: &Range<u64>) -> Range<u64> {
        assert!(
            piece.start.is_multiple_of(PAGE) && piece.end.is_multiple_of(PAGE) && piece.start < piece.end,
            "{piece:?}"
        );
        piece.start / PAGE..piece.end / PAGE
    }

    /// Ranges of bytes: adjacent, overlapping, repeated, in any order, and empty.
    fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        let length = prop_oneof![Just(0), 1..200u64, 1..3 * PAGE, Just(PAGE), 1..40 * PAGE];
        let range = prop_oneof![
            // An offset, or one from the end of the previous range.
            (0..60 * PAGE, length.clone()).prop_map(|(at, length)| (Some(at), length)),
            length.prop_map(|length| (None, length)),
        ];
        prop::collection::vec(range, 0..40).prop_map(|list| {
            let mut end = 0;
            let place = |(at, length): (Option<u64>, u64)| {
                let start = at.unwrap_or(end);
                end = start + length;
                start..end
            };
            list.into_iter().map(place).collect()
        })
    }

    #[derive(Clone, Debug)]
    enum Step {
        Next,
        Complete,
        /// The consumer advances by this many ranges.
        Advance(usize),
        /// The consumer touches a byte.
        Touch(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => Just(Step::Next),
            3 => Just(Step::Complete),
            1 => (0usize..3).prop_map(Step::Advance),
            1 => (0..100 * PAGE).prop_map(Step::Touch),
        ];
        prop::collection::vec(step, 0..150)
    }

    proptest! {
        #[test]
        fn every_page_of_every_range_is_requested_once_in_the_order_and_within_the_window(
            ranges in ranges(),
            window in 1..60u64,
            depth in 1..40usize,
        ) {
            let order = order_of(&ranges);
            let mut planner = Planner::new(ranges.clone(), PAGE, window * PAGE + 17);
            let (mut requested, mut in_flight) = (Vec::new(), VecDeque::new());
            for used in 0..=ranges.len() {
                planner.advance(used);
                let place = planner.starts[used];
                loop {
                    while in_flight.len() < depth && let Some(piece) = planner.next() {
                        prop_assert!(pages(&piece).count() as u64 * PAGE <= PIECE_MAX_BYTES);
                        requested.extend(pages(&piece));
                        in_flight.push_back(piece);
                    }
                    prop_assert!((requested.len() as u64 * PAGE).saturating_sub(place) <= window * PAGE);
                    prop_assert!(in_flight.len() <= PIECES_IN_FLIGHT_MAX);
                    let Some(piece) = in_flight.pop_front() else { break };
                    planner.completed(&piece);
                }
                // The consumer always has something ahead, unless nothing is left or what is left is behind it.
                let ahead = planner.ahead_bytes();
                prop_assert_eq!(ahead, (requested.len() as u64 * PAGE).saturating_sub(place));
                prop_assert!(ahead > 0 || place == order.len() as u64 * PAGE);
                // A consumer that advances over ranges larger than the window skips what it has overtaken.
                let next = planner.starts[(used + 1).min(ranges.len())];
                if requested.len() as u64 * PAGE < next && used < ranges.len() {
                    requested.extend(&order[requested.len()..(next / PAGE) as usize]);
                }
            }
            prop_assert_eq!(requested, order);
        }

        #[test]
        fn whatever_the_consumer_reports_order_and_window_hold_and_nothing_is_requested_twice(
            ranges in ranges(),
            window in 1..60u64,
            steps in steps(),
        ) {
            let order = order_of(&ranges);
            let mut planner = Planner::new(ranges.clone(), PAGE, window * PAGE);
            let (mut place, mut in_flight, mut range) = (0usize, Vec::new(), 0);
            for step in steps {
                let used = planner.used;
                match step {
                    Step::Next => if let Some(piece) = planner.next() {
                        in_flight.push(piece.clone());
                        // Pages that the consumer has passed may be left out; all others come in their order.
                        place = place.max((used / PAGE) as usize);
                        for page in pages(&piece) {
                            prop_assert_eq!(order.get(place), Some(&page));
                            place += 1;
                        }
                    },
                    Step::Complete => if let Some(piece) = in_flight.pop() {
                        planner.completed(&piece);
                    },
                    Step::Advance(by) => {
                        range += by;
                        planner.advance(range);
                    }
                    Step::Touch(at) => planner.advance_to_byte(at),
                }
                prop_assert!(planner.used >= used, "the consumer never moves back");
                prop_assert!(planner.used <= order.len() as u64 * PAGE);
                prop_assert!(planner.ahead_bytes() <= window * PAGE);
                prop_assert!(in_flight.len() <= PIECES_IN_FLIGHT_MAX);
            }
        }

        #[test]
        fn what_is_requested_out_of_order_comes_next_once_and_without_what_is_in_flight(
            ranges in ranges(),
            asked in prop::collection::vec((0..300 * PAGE, 1..1200 * PAGE), 1..4),
            before in 0..5usize,
        ) {
            let mut planner = Planner::new(ranges, PAGE, 60 * PAGE);
            let in_flight: Vec<Range<u64>> = (0..before).map_while(|_| planner.next()).collect();
            let (requested, ahead) = (planner.requested, planner.ahead_bytes());
            let mut expected = Vec::new();
            for (start, length) in asked {
                planner.request_now(&(start..start + length));
                let own = start / PAGE..(start + length).div_ceil(PAGE);
                let known: Vec<u64> = in_flight.iter().flat_map(pages).chain(expected.iter().copied()).collect();
                expected.extend(own.filter(|page| !known.contains(page)));
            }
            let mut found = Vec::new();
            while found.len() < expected.len() {
                let piece = planner.next().unwrap();
                prop_assert!(piece.end - piece.start <= PIECE_MAX_BYTES);
                found.extend(pages(&piece));
                planner.completed(&piece);
            }
            prop_assert_eq!(found, expected);
            prop_assert_eq!((planner.requested, planner.ahead_bytes()), (requested, ahead), "the window is untouched");
        }

        #[test]
        fn a_touched_byte_is_the_first_page_that_is_still_needed(ranges in ranges(), at in 0..100 * PAGE) {
            let order = order_of(&ranges);
            let mut planner = Planner::new(ranges.clone(), PAGE, PAGE);
            planner.advance_to_byte(at);
            let found = ranges.iter().position(|range| range.contains(&at));
            match found {
                Some(0) => prop_assert_eq!(order[(planner.used / PAGE) as usize], at / PAGE),
                // The page may be shared with the end of the previous range.
                Some(index) => {
                    let place = (planner.used / PAGE) as usize;
                    prop_assert!(planner.used >= planner.starts[index]);
                    let shared = place > 0 && order[place - 1] == at / PAGE;
                    prop_assert!(shared || order[place] == at / PAGE);
                }
                None => prop_assert_eq!(planner.used, 0),
            }
        }
    }

    /// Runs a plan in virtual time on storage that serves any number of requests in `latency`, before a consumer that
    /// uses a range in `compute` after it has arrived. Returns the time at the end.
    fn elapsed(ranges: &[Range<u64>], window: u64, latency: u64, compute: u64) -> u64 {
        let mut planner = Planner::new(ranges.to_vec(), PAGE, window);
        let mut in_flight: VecDeque<(u64, Range<u64>)> = VecDeque::new();
        let mut arrived: BTreeMap<u64, u64> = BTreeMap::new();
        let mut now = 0;
        for (index, range) in ranges.iter().enumerate() {
            loop {
                while let Some(piece) = planner.next() {
                    in_flight.push_back((now + latency, piece));
                }
                let is_there = range
                    .clone()
                    .step_by(PAGE as usize)
                    .all(|at| arrived.range(..=at).next_back().is_some_and(|(_, &end)| at < end));
                if is_there {
                    break;
                }
                let (at, piece) = in_flight.pop_front().expect("a range that is missing is in flight");
                now = now.max(at);
                planner.completed(&piece);
                arrived.insert(piece.start, piece.end);
            }
            now += compute;
            while in_flight.front().is_some_and(|(at, _)| *at <= now) {
                let (_, piece) = in_flight.pop_front().unwrap();
                planner.completed(&piece);
                arrived.insert(piece.start, piece.end);
            }
            planner.advance(index + 1);
        }
        now
    }

    /// Ranges of 1 MiB that do not adjoin, the last one first.
    fn scattered(count: u64) -> Vec<Range<u64>> {
        (0..count).rev().map(|index| index << 21).map(|start| start..start + (1 << 20)).collect()
    }

    #[test]
    fn latencies_overlap_in_virtual_time() {
        let ranges = scattered(256);
        let depth = PIECES_IN_FLIGHT_MAX as u64;
        assert_eq!(elapsed(&ranges, 1 << 30, 5000, 0), 5000 * 256 / depth);
        // A consumer that computes for longer than the latency of a request divided by their number waits once.
        assert_eq!(elapsed(&ranges, 1 << 30, 5000, 200), 5000 + 256 * 200);
        // A window of four pieces has four in flight.
        assert_eq!(elapsed(&ranges, 4 << 20, 5000, 0), 5000 * 256 / 4);
    }

    #[test]
    fn small_adjacent_ranges_are_one_request() {
        let records: Vec<Range<u64>> = (0..30_000).map(|index| index * 100..index * 100 + 100).collect();
        let mut planner = Planner::new(records, PAGE, 1 << 30);
        let pieces: Vec<Range<u64>> = std::iter::from_fn(|| planner.next()).collect();
        let end = 3_000_000_u64.next_multiple_of(PAGE);
        assert_eq!(pieces, [0..1 << 20, 1 << 20..2 << 20, 2 << 20..end]);
    }

    #[test]
    fn a_consumer_that_advances_by_small_steps_causes_no_small_requests() {
        let records: Vec<Range<u64>> = (0..5120).map(|index| index * PAGE..(index + 1) * PAGE).collect();
        let mut planner = Planner::new(records, PAGE, 4 << 20);
        let mut sizes = Vec::new();
        for used in 0..5120 {
            planner.advance(used);
            while let Some(piece) = planner.next() {
                planner.completed(&piece);
                sizes.push(piece.end - piece.start);
            }
        }
        assert!(sizes.iter().all(|&size| size == 1 << 20) && sizes.len() == 20, "{sizes:?}");
    }

    #[test]
    fn a_plan_that_is_stopped_requests_nothing_more() {
        let mut planner = Planner::new(scattered(4), PAGE, 1 << 30);
        let piece = planner.next().unwrap();
        planner.request_now(&(0..1 << 20));
        planner.stop();
        planner.completed(&piece);
        assert_eq!(planner.next(), None);
    }

    #[test]
    fn plans_without_bytes_are_done() {
        for ranges in [vec![], vec![0..0, 0..0], vec![5..5, 9..9, 5..5]] {
            let mut planner = Planner::new(ranges, PAGE, PAGE);
            assert_eq!(planner.next(), None);
            planner.advance(7);
            planner.advance_to_byte(5);
            assert_eq!((planner.next(), planner.ahead_bytes()), (None, 0));
        }
    }
}
