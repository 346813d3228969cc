//! Read segments: contiguous sector ranges, each a ring buffer in which new sectors replace the oldest.
//!
//! A drive may have thousands of segments, and every command looks for one: [`Grid`] finds the segments at an address,
//! [`Tournament`] the one to evict next, at a cost that does not depend on their number.

use sakiyomi_model::Bytes;

use super::Ghosts;
use super::grid::Grid;
use super::tournament::Tournament;
use crate::spec::{CacheSpec, Consumed, Replacement, SegmentMode, WriteShare};

/// Cells of the [`Grid`] per segment of equal size: few, so that a growing segment seldom touches another.
const CELLS_PER_SEGMENT: u64 = 8;
/// Least sectors per cell: smaller ones would only be passed more often.
const CELL_SECTORS_MIN: u64 = 64;

/// Index of a segment in the buffer, as long as it is not evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentId(pub(crate) usize);

/// All read segments.
#[derive(Clone, Debug)]
pub(crate) struct Segments {
    start: Vec<u64>,
    end: Vec<u64>,
    meta: Vec<Meta>,
    /// Segments in use. Of several that hold a sector the first one here serves it.
    live: Vec<usize>,
    /// Indices that are not in use.
    free: Vec<usize>,
    grid: Grid,
    victims: Tournament,
    /// Segments that an invalidation touches.
    scratch: Vec<usize>,
    mode: SegmentMode,
    replacement: Replacement,
    consumed: Consumed,
    count: usize,
    /// Sectors available to reads while no data is dirty.
    pool: u64,
    /// Sectors of the pool that dirty data currently occupies.
    taken: u64,
    /// Sectors allocated to segments.
    allotted: u64,
    clock: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Meta {
    capacity: u64,
    /// Index in [`Segments::live`].
    place: usize,
    created: u64,
    used: u64,
    /// Time of the last sequential read; 0 if none.
    used_in_sequence: u64,
    /// Start of the host's next sequential read.
    expected: u64,
    /// Number of consecutive sequential reads.
    sequence: u32,
    /// Sectors of the last read.
    last_read: u64,
    /// First sector that may be kept; those before it were discarded.
    given_up: u64,
}

impl Segments {
    pub(crate) fn new(spec: &CacheSpec, sector: Bytes) -> Segments {
        let reserved = match spec.write.share {
            WriteShare::Separate if spec.write.enabled => spec.write.limit,
            _ => Bytes::ZERO,
        };
        let (pool, count) = (spec.size.saturating_sub(reserved).0 / sector.0, spec.segments.count);
        let cell = pool / u64::from(count).max(1) / CELLS_PER_SEGMENT;
        Segments {
            start: Vec::new(),
            end: Vec::new(),
            meta: Vec::new(),
            live: Vec::new(),
            free: Vec::new(),
            grid: Grid::new(cell.max(CELL_SECTORS_MIN)),
            victims: Tournament::new(),
            scratch: Vec::new(),
            mode: spec.segments.mode,
            replacement: spec.segments.replacement,
            consumed: spec.segments.consumed,
            count: count as usize,
            pool,
            taken: 0,
            allotted: 0,
            clock: 0,
        }
    }

    /// Returns the sectors per segment with equal segments: the longest read-ahead that the buffer could hold.
    pub(crate) fn even_share(&self) -> u64 {
        self.pool / self.count as u64
    }

    /// Returns the first sector in `sector..limit` that no segment holds, or `limit`.
    #[inline]
    pub(crate) fn covered_until(&self, sector: u64, limit: u64) -> u64 {
        let mut at = sector;
        while at < limit {
            match self.holding(at) {
                Some(id) => at = self.end[id.0],
                None => return at,
            }
        }
        limit
    }

    /// Returns a segment that holds `sector`.
    #[inline]
    pub(crate) fn holding(&self, sector: u64) -> Option<SegmentId> {
        let holds = |index: &usize| self.start[*index] <= sector && sector < self.end[*index];
        let holding = self.grid.segments_at(self.grid.cell(sector)).filter(holds);
        holding.min_by_key(|index| self.meta[*index].place).map(SegmentId)
    }

    /// Returns the segment whose content ends at `sector`, so that a read from there continues it; the most recently
    /// used one if there are several.
    pub(crate) fn ending_at(&self, sector: u64) -> Option<SegmentId> {
        let ends = |index: &usize| {
            let given_up = self.meta[*index].given_up;
            let held = self.start[*index] < sector || (given_up > 0 && given_up == sector);
            self.end[*index] == sector && held
        };
        let ending = self.grid.segments_at(self.grid.cell(sector)).filter(ends);
        ending.max_by_key(|index| self.meta[*index].used).map(SegmentId)
    }

    /// Returns whether `sector` lies less than `window` sectors after the end of a non-empty segment.
    pub(crate) fn is_near(&self, sector: u64, window: u64) -> bool {
        let near = |index: usize| {
            let (start, end) = (self.start[index], self.end[index]);
            start < end && end <= sector && sector - end < window
        };
        let cells = self.grid.cell(sector.saturating_sub(window))..=self.grid.cell(sector);
        if cells.end() - cells.start() >= self.live.len() as u64 {
            return self.live.iter().copied().any(near);
        }
        cells.into_iter().any(|cell| self.grid.segments_at(cell).any(near))
    }

    pub(crate) fn end(&self, id: SegmentId) -> u64 {
        self.end[id.0]
    }

    pub(crate) fn start(&self, id: SegmentId) -> u64 {
        self.start[id.0]
    }

    pub(crate) fn capacity(&self, id: SegmentId) -> u64 {
        self.meta[id.0].capacity
    }

    pub(crate) fn sequence(&self, id: SegmentId) -> u32 {
        self.meta[id.0].sequence
    }

    /// Returns the capacity left besides the host's last read; the whole capacity if read sectors are discarded.
    pub(crate) fn room_ahead(&self, id: SegmentId) -> u64 {
        let Meta { capacity, last_read, .. } = self.meta[id.0];
        if self.consumed == Consumed::Discard { capacity } else { capacity.saturating_sub(last_read) }
    }

    /// Records that the host read `from..to` from a segment. With [`Consumed::Discard`], sectors before `to` move to
    /// `ghosts`.
    pub(crate) fn used(&mut self, id: SegmentId, from: u64, to: u64, ghosts: &mut Ghosts) {
        self.clock += 1;
        let meta = &mut self.meta[id.0];
        meta.used = self.clock;
        if from == meta.expected {
            meta.sequence = meta.sequence.saturating_add(1);
            meta.used_in_sequence = self.clock;
        } else if to != meta.expected {
            meta.sequence = 0;
        }
        meta.expected = to;
        meta.last_read = to - from;
        if self.consumed == Consumed::Discard {
            meta.given_up = to;
            self.keep_from(id, to, ghosts);
        }
        self.rank(id);
    }

    /// Drops the sectors before `first` from a segment.
    fn keep_from(&mut self, id: SegmentId, first: u64, ghosts: &mut Ghosts) {
        let first = first.min(self.end[id.0]);
        if first > self.start[id.0] {
            ghosts.add(self.start[id.0], first);
            self.set_bounds(id, first, self.end[id.0]);
        }
    }

    /// Allocates a segment for a read from `sector`; in adaptive mode its capacity is `wanted` sectors. Evicted content
    /// goes to `ghosts`. Returns `None` if the buffer has no space for reads.
    pub(crate) fn take(&mut self, sector: u64, wanted: u64, ghosts: &mut Ghosts) -> Option<SegmentId> {
        let room = self.pool - self.taken.min(self.pool);
        let capacity = match self.mode {
            SegmentMode::Fixed => self.even_share(),
            SegmentMode::Adaptive => wanted.min(room),
        };
        if capacity == 0 || capacity > room {
            return None;
        }
        while self.allotted + capacity > room || self.live.len() >= self.count {
            self.evict(self.victim()?, ghosts);
        }
        self.clock += 1;
        let meta = Meta {
            capacity,
            place: self.live.len(),
            created: self.clock,
            used: self.clock,
            used_in_sequence: 0,
            expected: u64::MAX,
            sequence: 0,
            last_read: 0,
            given_up: 0,
        };
        let index = self.free.pop().unwrap_or(self.start.len());
        if index == self.start.len() {
            self.start.push(sector);
            self.end.push(sector);
            self.meta.push(meta);
        } else {
            (self.start[index], self.end[index], self.meta[index]) = (sector, sector, meta);
        }
        self.live.push(index);
        self.allotted += capacity;
        self.grid.insert(index, sector, sector);
        self.rank(SegmentId(index));
        Some(SegmentId(index))
    }

    /// Extends the content to `end`; sectors beyond the capacity leave at the front.
    pub(crate) fn grow(&mut self, id: SegmentId, end: u64, ghosts: &mut Ghosts) {
        self.set_bounds(id, self.start[id.0], end);
        let Meta { capacity, given_up, .. } = self.meta[id.0];
        self.keep_from(id, end.saturating_sub(capacity).max(given_up), ghosts);
    }

    /// Extends the content to the front, to `start`, by sectors read on the way to the first one, as far as there is
    /// space.
    pub(crate) fn grow_front(&mut self, id: SegmentId, start: u64) {
        let Meta { capacity, given_up, .. } = self.meta[id.0];
        let least = self.end[id.0].saturating_sub(capacity).max(given_up);
        self.set_bounds(id, self.start[id.0].min(start.max(least)), self.end[id.0]);
    }

    /// Reserves `sectors` of the pool for dirty data, and evicts segments other than `keep` until the rest fits.
    pub(crate) fn yield_room(&mut self, sectors: u64, keep: Option<SegmentId>, ghosts: &mut Ghosts) {
        self.taken = sectors;
        let room = self.pool - self.taken.min(self.pool);
        while self.allotted > room {
            let victim = match keep {
                Some(keep) => self.victims.least_but(keep.0).map(SegmentId),
                None => self.victim(),
            };
            let Some(victim) = victim else { break };
            self.evict(victim, ghosts);
        }
    }

    /// Invalidates sectors `start..end`: each segment keeps the longer of its parts before and after them.
    pub(crate) fn invalidate(&mut self, start: u64, end: u64) {
        let cells = self.grid.cell(start)..=self.grid.cell(end);
        let mut touched = std::mem::take(&mut self.scratch);
        if cells.end() - cells.start() >= self.live.len() as u64 {
            touched.extend_from_slice(&self.live);
        } else {
            touched.extend(cells.flat_map(|cell| self.grid.segments_at(cell)));
        }
        for index in touched.drain(..) {
            let (own_start, own_end) = (self.start[index], self.end[index]);
            if own_start < end && start < own_end {
                let (before, after) = (start.saturating_sub(own_start), own_end.saturating_sub(end));
                let kept = if before >= after {
                    (own_start, own_start + before)
                } else {
                    (own_end - after, own_end)
                };
                self.set_bounds(SegmentId(index), kept.0, kept.1);
            }
        }
        self.scratch = touched;
    }

    #[inline]
    fn set_bounds(&mut self, id: SegmentId, start: u64, end: u64) {
        self.grid.move_bounds(id.0, (self.start[id.0], self.end[id.0]), (start, end));
        (self.start[id.0], self.end[id.0]) = (start, end);
        self.rank(id);
    }

    /// Returns the segment to evict next: an empty one if there is one, else by the replacement policy.
    fn victim(&self) -> Option<SegmentId> {
        self.victims.least().map(SegmentId)
    }

    /// Sets the order in which a segment is evicted: no two segments were used or created at the same time.
    fn rank(&mut self, id: SegmentId) {
        let (meta, empty) = (&self.meta[id.0], self.start[id.0] == self.end[id.0]);
        let (first, second) = match self.replacement {
            Replacement::Lru => (0, meta.used),
            Replacement::Fifo => (0, meta.created),
            Replacement::ConsumedFirst => (u64::from(!empty && meta.expected != self.end[id.0]), meta.used),
            Replacement::LeastRecentlySequential => (meta.used_in_sequence, meta.used),
        };
        // Times are counts of uses, far below 2⁶³.
        let filled = u128::from(!empty) << 126;
        self.victims.set(id.0, filled | u128::from(first) << 63 | u128::from(second));
    }

    fn evict(&mut self, id: SegmentId, ghosts: &mut Ghosts) {
        let (start, end) = (self.start[id.0], self.end[id.0]);
        ghosts.add(start, end);
        let Meta { capacity, place, .. } = self.meta[id.0];
        self.allotted -= capacity;
        self.grid.remove(id.0, start, end);
        self.victims.remove(id.0);
        self.live.swap_remove(place);
        if let Some(moved) = self.live.get(place) {
            self.meta[*moved].place = place;
        }
        self.free.push(id.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SegmentSpec;
    use proptest::prelude::*;
    use proptest::sample::select;
    use std::collections::BTreeSet;

    #[derive(Clone, Copy, Debug)]
    enum Act {
        /// Read: first sector, sectors, sectors read ahead.
        Read(u64, u64, u64),
        Invalidate(u64, u64),
        Yield(u64),
    }

    fn act() -> impl Strategy<Value = Act> {
        let place = || prop_oneof![4 => 0u64..80, 1 => Just(0)];
        prop_oneof![
            6 => (place(), 1u64..10, 0u64..12).prop_map(|(start, length, ahead)| Act::Read(start, length, ahead)),
            1 => (place(), 1u64..20).prop_map(|(start, length)| Act::Invalidate(start, start + length)),
            1 => (0u64..40).prop_map(Act::Yield),
        ]
    }

    /// A segment of the naive model: a list of sectors, and the state that replacement needs.
    #[derive(Clone, Debug)]
    struct Plain {
        sectors: Vec<u64>,
        capacity: u64,
        created: usize,
        used: usize,
        in_sequence: usize,
        expected: Option<u64>,
        /// Sectors before this one are not kept.
        given_up: u64,
    }

    impl Plain {
        /// Returns where a read would continue: after the last sector held, or after the discarded ones.
        fn goes_on_at(&self) -> Option<u64> {
            let emptied = (self.given_up > 0).then_some(self.given_up);
            self.sectors.last().map(|last| last + 1).or(emptied)
        }
    }

    struct Naive {
        segments: Vec<Plain>,
        spec: CacheSpec,
        taken: u64,
        evicted: BTreeSet<u64>,
    }

    impl Naive {
        fn room(&self) -> u64 {
            (self.spec.size.0 / 512).saturating_sub(self.taken)
        }

        fn allotted(&self) -> u64 {
            self.segments.iter().map(|segment| segment.capacity).sum()
        }

        fn evict_one(&mut self) {
            let rank = |segment: &Plain| {
                let filled = usize::from(!segment.sectors.is_empty());
                match self.spec.segments.replacement {
                    Replacement::Lru => (filled, 0, segment.used),
                    Replacement::Fifo => (filled, 0, segment.created),
                    Replacement::ConsumedFirst => {
                        let consumed = segment.expected == segment.sectors.last().map(|last| last + 1);
                        // An emptied segment has no end that a read could have reached.
                        (filled, usize::from(filled == 1 && !consumed), segment.used)
                    }
                    Replacement::LeastRecentlySequential => (filled, segment.in_sequence, segment.used),
                }
            };
            let victim = (0..self.segments.len())
                .min_by_key(|index| rank(&self.segments[*index]))
                .expect("one to evict");
            self.evicted.extend(self.segments.remove(victim).sectors);
        }

        /// Reads `start..end`, fetched up to `until`, into the segment that ends at `start` or a new one.
        fn read(&mut self, (start, end, until): (u64, u64, u64), now: usize) {
            let ends = |index: &usize| self.segments[*index].goes_on_at() == Some(start);
            let continued =
                (0..self.segments.len()).filter(ends).max_by_key(|index| self.segments[*index].used);
            let index = match continued {
                Some(index) => index,
                None => {
                    let fixed = self.spec.segments.mode == SegmentMode::Fixed;
                    let pool = self.spec.size.0 / 512;
                    let count = u64::from(self.spec.segments.count);
                    let capacity = if fixed { pool / count } else { (until - start).min(self.room()) };
                    if capacity == 0 || capacity > self.room() {
                        return;
                    }
                    while self.allotted() + capacity > self.room() || self.segments.len() as u64 >= count {
                        self.evict_one();
                    }
                    let new = Plain {
                        sectors: vec![],
                        capacity,
                        created: now,
                        used: now,
                        in_sequence: 0,
                        expected: None,
                        given_up: 0,
                    };
                    self.segments.push(new);
                    self.segments.len() - 1
                }
            };
            let segment = &mut self.segments[index];
            segment.used = now;
            if segment.expected == Some(start) {
                segment.in_sequence = now;
            }
            segment.expected = Some(end);
            segment.sectors.extend(start..until);
            if self.spec.segments.consumed == Consumed::Discard {
                segment.given_up = end;
                let (gone, held): (Vec<u64>, Vec<u64>) =
                    segment.sectors.iter().partition(|sector| **sector < end);
                self.evicted.extend(gone);
                segment.sectors = held;
            }
            while segment.sectors.len() as u64 > segment.capacity {
                self.evicted.insert(segment.sectors.remove(0));
            }
        }

        fn invalidate(&mut self, start: u64, end: u64) {
            for segment in &mut self.segments {
                let before: Vec<u64> =
                    segment.sectors.iter().copied().filter(|sector| *sector < start).collect();
                let after: Vec<u64> =
                    segment.sectors.iter().copied().filter(|sector| *sector >= end).collect();
                if before.len() + after.len() < segment.sectors.len() {
                    // A segment that lost all its content is continued only where it followed the discarded sectors.
                    if before.is_empty() && after.is_empty() && segment.sectors[0] != segment.given_up {
                        segment.given_up = 0;
                    }
                    segment.sectors = if before.len() >= after.len() { before } else { after };
                }
            }
        }
    }

    /// Reads like the controller: skips cached sectors and puts the rest into a segment.
    fn read(segments: &mut Segments, ghosts: &mut Ghosts, (start, end, until): (u64, u64, u64)) {
        let id = segments.ending_at(start).or_else(|| segments.take(start, until - start, ghosts));
        if let Some(id) = id {
            segments.used(id, start, end, ghosts);
            segments.grow(id, until, ghosts);
        }
    }

    fn spec() -> impl Strategy<Value = CacheSpec> {
        let rules = vec![
            Replacement::Lru,
            Replacement::Fifo,
            Replacement::ConsumedFirst,
            Replacement::LeastRecentlySequential,
        ];
        let mode = select(vec![SegmentMode::Fixed, SegmentMode::Adaptive]);
        let consumed = select(vec![Consumed::Keep, Consumed::Overwrite, Consumed::Discard]);
        (1u32..6, 8u64..60, mode, select(rules), consumed).prop_map(
            |(count, sectors, mode, replacement, consumed)| {
                let segments = SegmentSpec { mode, count, replacement, consumed };
                CacheSpec { size: Bytes(sectors * 512), segments, ..CacheSpec::default() }
            },
        )
    }

    #[test]
    fn a_segment_that_lost_all_is_not_continued_at_sector_0() {
        let segments = SegmentSpec { mode: SegmentMode::Adaptive, ..SegmentSpec::default() };
        let spec = CacheSpec { size: Bytes(64 * 512), segments, ..CacheSpec::default() };
        let (mut segments, mut ghosts) = (Segments::new(&spec, Bytes(512)), Ghosts::new(1000));
        read(&mut segments, &mut ghosts, (0, 4, 4));
        segments.invalidate(0, 4);
        assert_eq!(segments.ending_at(0), None);
        // The emptied segment is too small for this read.
        read(&mut segments, &mut ghosts, (0, 20, 20));
        assert_eq!(segments.covered_until(0, 20), 20);
    }

    proptest! {
        #[test]
        fn segments_hold_what_plain_lists_of_sectors_hold(spec in spec(), acts in prop::collection::vec(act(), 0..60)) {
            let (mut segments, mut ghosts) = (Segments::new(&spec, Bytes(512)), Ghosts::new(1000));
            let mut naive = Naive { segments: vec![], spec, taken: 0, evicted: BTreeSet::new() };
            for (now, act) in acts.into_iter().enumerate() {
                match act {
                    Act::Read(start, length, ahead) => {
                        let end = start + length;
                        let missing = segments.covered_until(start, end);
                        if missing < end {
                            read(&mut segments, &mut ghosts, (missing, end, end + ahead));
                            naive.read((missing, end, end + ahead), now + 1);
                        }
                    }
                    Act::Invalidate(start, end) => {
                        segments.invalidate(start, end);
                        naive.invalidate(start, end);
                    }
                    Act::Yield(sectors) => {
                        segments.yield_room(sectors, None, &mut ghosts);
                        naive.taken = sectors;
                        while naive.allotted() > naive.room() {
                            naive.evict_one();
                        }
                    }
                }
                let held: BTreeSet<u64> = naive.segments.iter().flat_map(|segment| segment.sectors.clone()).collect();
                for sector in 0..130 {
                    prop_assert_eq!(segments.holding(sector).is_some(), held.contains(&sector), "sector {}", sector);
                    prop_assert_eq!(ghosts.contains(sector), naive.evicted.contains(&sector), "evicted {}", sector);
                }
            }
        }
    }
}
