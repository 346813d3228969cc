//! Derives positions in a file from touched pages. Pure.
//!
//! A file can be read at several places at a time, by several threads or through several mappings, and every touch
//! belongs to one of them or to none. A *stream* is a place that advances. A candidate becomes a stream when it has
//! advanced far enough, in several requests, without skipping more than it read; in a file in which streams were
//! abandoned, the required distance grows.

use std::ops::Range;

use sakiyomi_model::Nanos;

/// Streams of a file at a time.
const STREAMS_MAX: usize = 4;
/// Places of a file that may become streams; the oldest is dropped first.
const CANDIDATES_MAX: usize = 8;

/// Bytes that a candidate must advance to be a stream, initially. The number doubles each time that a stream is
/// abandoned.
const STREAM_MIN_BYTES: u64 = 128 << 10;
/// Limit of the bytes that a candidate must advance.
const STREAM_MIN_BYTES_MAX: u64 = 64 << 20;
/// Requests by which a candidate must advance, in addition to the bytes.
const STREAM_MIN_REQUESTS: u32 = 3;

/// Bytes that a request may leave out after the end of a candidate.
const CANDIDATE_GAP_BYTES: u64 = 64 << 10;

/// Bytes that a request may leave out after a stream: an eighth of the bytes that the stream advanced, at least this.
const STREAM_GAP_MIN_BYTES: u64 = 128 << 10;
/// Bytes that a request may leave out after a stream at most.
const STREAM_GAP_MAX_BYTES: u64 = 4 << 20;

/// Distance behind a stream's position at which a touch still belongs to it: threads that share a stream are not in
/// step.
const BACKWARD_MAX_BYTES: u64 = 1 << 20;

/// Bytes that a stream may have advanced while touches were lost.
const UNSEEN_GAP_BYTES: u64 = 64 << 20;

/// Touches that belong to no stream after which a stream that was not touched meanwhile is abandoned.
const STRAY_TOUCHES_MAX: u64 = 8;

/// Identifies a stream among those of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StreamId(pub(super) u32);

/// A place that advances. In bytes of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    /// Start of the stream.
    pub(super) from: u64,
    /// Start of the last touch that advanced it.
    pub(super) at: u64,
    /// End of the touched range.
    pub(super) end: u64,
    /// Time of the first touch.
    pub(super) begun: Nanos,
    /// Bytes between `from` and `at` that were skipped.
    left_out: u64,
    requests: u32,
    /// Number of strays in the file at its last touch.
    strays: u64,
    /// Whether touches were lost since then.
    unseen: bool,
}

/// The places in one file.
#[derive(Debug)]
pub(super) struct Streams {
    streams: Vec<Stream>,
    /// In order of their last touch.
    candidates: Vec<Stream>,
    /// Distance that a candidate must advance to become a stream.
    wanted: u64,
    next: u32,
    strays: u64,
    /// The last touch.
    last: Range<u64>,
    /// Total bytes touched, with repetition.
    pub(super) touched: u64,
}

impl Streams {
    pub(super) fn new() -> Streams {
        Streams {
            streams: Vec::new(),
            candidates: Vec::new(),
            wanted: STREAM_MIN_BYTES,
            next: 0,
            strays: 0,
            last: 0..0,
            touched: 0,
        }
    }

    /// Returns the current streams.
    pub(super) fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Processes a touch of pages of the file.
    pub(super) fn touch(&mut self, now: Nanos, range: &Range<u64>) {
        let last = std::mem::replace(&mut self.last, range.clone());
        // A long request is reported in pieces, all with the same end.
        if range.end != last.end || range.start <= last.start {
            self.touched = self.touched.saturating_add(range.end.saturating_sub(range.start));
        }
        let nearest = |places: &[Stream]| {
            let taking = places.iter().enumerate().filter(|(_, place)| place.takes(range.start));
            taking.min_by_key(|(_, place)| place.at.abs_diff(range.start)).map(|(index, _)| index)
        };
        if let Some(index) = nearest(&self.streams) {
            self.streams[index].go_on(range, self.strays);
            return;
        }
        let Some(index) = nearest(&self.candidates) else { return self.stray(now, range) };
        let mut place = self.candidates.remove(index);
        place.go_on(range, self.strays);
        if place.is_stream(self.wanted) && self.has_room() {
            self.streams.push(place);
        } else {
            self.candidates.push(place);
        }
    }

    /// Records that touches were lost: streams may have advanced further.
    pub(super) fn lose(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.unseen = true);
        // Candidates must start again.
        self.candidates.clear();
    }

    /// Removes all other streams, and all candidates.
    pub(super) fn keep(&mut self, keep: impl Fn(StreamId) -> bool) {
        self.streams.retain(|stream| keep(stream.id));
        self.candidates.clear();
    }

    fn stray(&mut self, now: Nanos, range: &Range<u64>) {
        self.strays += 1;
        let strays = self.strays;
        let wanted = &mut self.wanted;
        // After a stream is abandoned, the next one must advance twice as far.
        self.streams.retain(|stream| {
            let stays = strays - stream.strays < STRAY_TOUCHES_MAX;
            if !stays {
                *wanted =
                    (*wanted).max((stream.at - stream.from).saturating_mul(2)).min(STREAM_MIN_BYTES_MAX);
            }
            stays
        });
        if self.candidates.len() == CANDIDATES_MAX {
            self.candidates.remove(0);
        }
        let id = StreamId(self.next);
        self.next = self.next.wrapping_add(1);
        self.candidates.push(Stream {
            id,
            from: range.start,
            at: range.start,
            end: range.end.max(range.start),
            begun: now,
            left_out: 0,
            requests: 1,
            strays,
            unseen: false,
        });
    }

    /// Returns whether another stream is possible. Strays decide which of the current ones ends first.
    fn has_room(&self) -> bool {
        self.streams.len() < STREAMS_MAX
    }
}

impl Stream {
    fn is_stream(&self, wanted: u64) -> bool {
        self.requests > STREAM_MIN_REQUESTS
            && self.at - self.from >= wanted
            && self.left_out <= (self.at - self.from) / 2
    }

    /// Returns whether a touch at this offset belongs to it.
    fn takes(&self, start: u64) -> bool {
        let come = self.at - self.from;
        let is_known = self.requests > STREAM_MIN_REQUESTS && come >= STREAM_MIN_BYTES;
        let (back, gap) = match (is_known, self.unseen) {
            (false, _) => (0, CANDIDATE_GAP_BYTES),
            (true, false) => {
                (BACKWARD_MAX_BYTES.min(come), (come / 8).clamp(STREAM_GAP_MIN_BYTES, STREAM_GAP_MAX_BYTES))
            }
            (true, true) => (BACKWARD_MAX_BYTES.min(come), UNSEEN_GAP_BYTES),
        };
        let left_out = self.left_out.saturating_add(start.saturating_sub(self.end));
        // It must not skip more than it reads.
        let is_dense =
            self.unseen || left_out <= (start.saturating_sub(self.from) / 2).max(CANDIDATE_GAP_BYTES);
        start >= self.at.saturating_sub(back) && start <= self.end.saturating_add(gap) && is_dense
    }

    fn go_on(&mut self, range: &Range<u64>, strays: u64) {
        self.strays = strays;
        if range.start > self.at {
            // The pieces of a long request count as one.
            self.requests = self.requests.saturating_add(u32::from(range.end > self.end));
            if std::mem::take(&mut self.unseen) {
                // Unobserved bytes count as read.
            } else {
                self.left_out += range.start.saturating_sub(self.end);
            }
            self.at = range.start;
        }
        self.end = self.end.max(range.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 4096;
    const WINDOW: u64 = 64 << 10;

    fn touch_all(streams: &mut Streams, touches: impl IntoIterator<Item = Range<u64>>) {
        touches.into_iter().enumerate().for_each(|(index, range)| streams.touch(Nanos(index as u64), &range));
    }

    /// Touches from one place to another, `step` bytes at a time.
    fn sequence(from: u64, to: u64, step: u64) -> impl Iterator<Item = Range<u64>> {
        (from..to).step_by(step as usize).map(move |at| at..(at + step).min(to))
    }

    fn places(streams: &Streams) -> Vec<(u64, u64)> {
        let mut places: Vec<(u64, u64)> =
            streams.streams().iter().map(|stream| (stream.from, stream.at)).collect();
        places.sort_unstable();
        places
    }

    #[test]
    fn a_file_that_is_read_from_beginning_to_end_has_one_stream_whose_position_is_the_last_touch() {
        for step in [PAGE, 3 * PAGE, WINDOW, 1 << 20] {
            let mut streams = Streams::new();
            touch_all(&mut streams, sequence(0, 8 << 20, step));
            assert_eq!(
                places(&streams),
                [(0, (8 << 20) - (8 << 20) % step - if (8 << 20) % step == 0 { step } else { 0 })],
                "{step}"
            );
            assert_eq!(streams.streams()[0].end, 8 << 20);
        }
    }

    #[test]
    fn two_places_in_turn_are_two_streams() {
        let mut streams = Streams::new();
        let far = 100 << 20;
        let both = sequence(0, 4 << 20, WINDOW).zip(sequence(far, far + (4 << 20), WINDOW));
        touch_all(&mut streams, both.flat_map(|(one, other)| [one, other]));
        assert_eq!(places(&streams), [(0, (4 << 20) - WINDOW), (far, far + (4 << 20) - WINDOW)]);
    }

    #[test]
    fn one_long_read_is_no_sequence_however_it_is_told() {
        let mut streams = Streams::new();
        for block in [40u64, 7, 90, 3, 61] {
            let (from, to) = (block << 20, (block + 1) << 20);
            touch_all(&mut streams, (from..to).step_by(15 * 4096).map(|at| at..to));
        }
        assert_eq!(places(&streams), []);
        assert_eq!(streams.touched, 5 << 20);
    }

    #[test]
    fn what_is_left_out_must_not_be_more_than_what_is_taken() {
        let mut streams = Streams::new();
        touch_all(&mut streams, (0..2000u64).map(|index| index * 12 * PAGE..index * 12 * PAGE + PAGE));
        assert_eq!(places(&streams), []);
    }

    #[test]
    fn a_stream_that_is_left_ends_and_the_next_has_to_show_more() {
        let mut streams = Streams::new();
        touch_all(&mut streams, sequence(0, 1 << 20, WINDOW));
        assert_eq!(streams.streams().len(), 1);
        touch_all(
            &mut streams,
            (0..STRAY_TOUCHES_MAX).map(|index| (index + 1) * (50 << 20)..(index + 1) * (50 << 20) + PAGE),
        );
        assert_eq!(places(&streams), []);
        let again = 30 << 20;
        touch_all(&mut streams, sequence(again, again + (1 << 20), WINDOW));
        assert_eq!(places(&streams), [], "a block like the one before");
        touch_all(&mut streams, sequence(again + (1 << 20), again + (4 << 20), WINDOW));
        assert_eq!(places(&streams), [(again, again + (4 << 20) - WINDOW)]);
    }

    #[test]
    fn after_a_loss_a_stream_is_found_where_it_has_come_to() {
        let mut streams = Streams::new();
        touch_all(&mut streams, sequence(0, 4 << 20, WINDOW));
        streams.lose();
        touch_all(&mut streams, sequence(20 << 20, 21 << 20, WINDOW));
        assert_eq!(places(&streams), [(0, (21 << 20) - WINDOW)]);
        touch_all(&mut streams, sequence(60 << 20, 61 << 20, WINDOW));
        assert_eq!(streams.streams().len(), 2, "nothing was lost there");
    }

    fn touches() -> impl Strategy<Value = Vec<(Range<u64>, bool)>> {
        let range = prop_oneof![
            (any::<u64>(), any::<u64>()).prop_map(|(from, to)| from.min(to)..from.max(to)),
            (0..1u64 << 14, 1..64u64).prop_map(|(page, pages)| page * PAGE..(page + pages) * PAGE),
            (0..64u64, 1..64u64).prop_map(|(page, pages)| page * PAGE..(page + pages) * PAGE),
        ];
        prop::collection::vec((range, prop::bool::weighted(0.05)), 0..400)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn positions_only_go_forward_and_places_are_bounded(touches in touches()) {
            let mut streams = Streams::new();
            let mut last: std::collections::BTreeMap<StreamId, u64> = std::collections::BTreeMap::new();
            for (index, (range, lost)) in touches.iter().enumerate() {
                if *lost {
                    streams.lose();
                }
                streams.touch(Nanos(index as u64), range);
                prop_assert!(streams.streams().len() <= STREAMS_MAX && streams.candidates.len() <= CANDIDATES_MAX);
                for stream in streams.streams() {
                    prop_assert!(stream.from <= stream.at && stream.at <= stream.end);
                    let before = last.insert(stream.id, stream.at).unwrap_or(0);
                    prop_assert!(before <= stream.at);
                }
            }
        }

        #[test]
        fn a_sequence_is_found_among_others_however_they_take_turns(
            starts in prop::collection::btree_set(0..40u64, 1..=STREAMS_MAX),
            steps in prop::collection::vec(1..32u64, STREAMS_MAX),
            turns in prop::collection::vec(0..STREAMS_MAX, 600..900),
        ) {
            let starts: Vec<u64> = starts.into_iter().map(|start| start << 30).collect();
            let mut at = starts.clone();
            let mut streams = Streams::new();
            for (index, turn) in turns.iter().enumerate() {
                let turn = turn % starts.len();
                let range = at[turn]..at[turn] + steps[turn] * PAGE;
                streams.touch(Nanos(index as u64), &range);
                at[turn] = range.end;
            }
            let long = (0..starts.len()).filter(|&index| at[index] - starts[index] > STREAM_MIN_BYTES + steps[index] * PAGE);
            let expected: Vec<(u64, u64)> =
                long.map(|index| (starts[index], at[index] - steps[index] * PAGE)).collect();
            prop_assert_eq!(places(&streams), expected);
        }

        /// 1,000 touches of a page each at random places of a file so large that no sequence arises by chance.
        #[test]
        fn touches_here_and_there_make_no_stream(pages in prop::collection::vec(0..1u64 << 20, 1000)) {
            let mut streams = Streams::new();
            touch_all(&mut streams, pages.into_iter().map(|page| page * PAGE..(page + 1) * PAGE));
            prop_assert_eq!(places(&streams), []);
        }
    }
}
