//! Dirty data: acknowledged writes that are not yet on the medium.

use std::collections::{BTreeMap, VecDeque};

use sakiyomi_model::{Bytes, Nanos};

use crate::media::Arrival;
use crate::servo::Target;
use crate::spec::WriteSpec;

/// A contiguous range of dirty sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dirty {
    /// First sector after the range.
    pub(crate) end: u64,
    /// Arrival time of its oldest data.
    pub(crate) since: Nanos,
    /// Position of its first sector on the medium.
    pub(crate) target: Target,
    /// Sequence number of the oldest write in it, overwritten ones included, because they were acknowledged too.
    pub(crate) sequence: u64,
    /// Sequence number of the newest write in it.
    newest: u64,
}

/// A dirty range as a candidate for destaging.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DestageCandidate {
    /// See [`Dirty::sequence`].
    pub(crate) sequence: u64,
    /// First sector.
    pub(crate) start: u64,
    /// See [`Dirty::since`].
    pub(crate) since: Nanos,
    /// See [`Dirty::target`].
    pub(crate) target: Target,
}

/// All dirty data.
#[derive(Clone, Debug)]
pub(crate) struct WriteCache {
    limit: u64,
    high: u64,
    low: u64,
    coalesce: bool,
    extents: BTreeMap<u64, Dirty>,
    /// (sequence, first sector) → (arrival time, position), oldest first.
    by_age: BTreeMap<(u64, u64), (Nanos, Target)>,
    /// Data still on the link, in order of arrival.
    arriving: VecDeque<Arrival>,
    /// Range being written to the medium (start, end, sequence): still held, and still readable.
    in_flight: Option<(u64, u64, u64)>,
    sectors: u64,
    next_sequence: u64,
    /// Set at the high watermark, cleared at the low one.
    draining: bool,
}

impl WriteCache {
    pub(crate) fn new(spec: &WriteSpec, sector: Bytes) -> WriteCache {
        let limit = spec.limit.0 / sector.0;
        let share = |x: f64| (limit as f64 * x).ceil() as u64;
        WriteCache {
            limit,
            high: share(spec.high_watermark).max(1),
            low: share(spec.low_watermark),
            coalesce: spec.coalesce,
            extents: BTreeMap::new(),
            by_age: BTreeMap::new(),
            arriving: VecDeque::new(),
            in_flight: None,
            sectors: 0,
            next_sequence: 1,
            draining: false,
        }
    }

    /// Returns whether `sectors` more fit now.
    pub(crate) fn has_room(&self, sectors: u64) -> bool {
        self.sectors + sectors <= self.limit
    }

    /// Returns whether `sectors` fit into an empty cache.
    pub(crate) fn could_hold(&self, sectors: u64) -> bool {
        sectors <= self.limit
    }

    /// Returns the dirty sectors held, those being written to the medium included.
    pub(crate) fn sectors(&self) -> u64 {
        self.sectors
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Returns whether the high watermark was reached and the low one not yet.
    pub(crate) fn is_draining(&mut self) -> bool {
        self.draining = if self.draining { self.sectors > self.low } else { self.sectors >= self.high };
        self.draining
    }

    /// Returns the first sector in `sector..limit` that is not dirty, or `limit`.
    pub(crate) fn covered_until(&self, sector: u64, limit: u64) -> u64 {
        let mut at = sector;
        while at < limit {
            let held =
                self.extents.range(..=at).next_back().map(|(_, dirty)| dirty.end).filter(|end| at < *end);
            let flying =
                self.in_flight.filter(|(start, end, _)| *start <= at && at < *end).map(|flight| flight.1);
            match held.max(flying) {
                Some(end) => at = end,
                None => return at,
            }
        }
        limit
    }

    /// Adds the data of `arrival`, whose transfer begins at `now`. `target` maps a sector to its position on the
    /// medium.
    pub(crate) fn insert(&mut self, arrival: Arrival, now: Nanos, target: impl Fn(u64) -> Target) {
        let Arrival { start, end, .. } = arrival;
        while self.arriving.front().is_some_and(|earlier| earlier.last <= now) {
            self.arriving.pop_front();
        }
        self.arriving.push_back(arrival);
        let mut merged = Dirty {
            end,
            since: now,
            target: target(start),
            sequence: self.next_sequence,
            newest: self.next_sequence,
        };
        self.next_sequence += 1;
        let mut first = start;
        // Adjacent ranges merge only with coalescing; overwritten data is always replaced.
        let reach = u64::from(self.coalesce);
        while let Some((&from, &old)) = self.extents.range(..end + reach).next_back() {
            if old.end + reach <= start {
                break;
            }
            self.remove(from);
            merged.since = merged.since.min(old.since);
            merged.sequence = merged.sequence.min(old.sequence);
            if self.coalesce {
                first = first.min(from);
                merged.end = merged.end.max(old.end);
            } else {
                self.keep_rest(from, old, start, end, &target);
            }
        }
        merged.target = if first == start { merged.target } else { target(first) };
        self.put(first, merged);
    }

    /// Drops the part of `start..end` that was dirty before `sequence`: it was written through.
    pub(crate) fn drop_older(&mut self, start: u64, end: u64, sequence: u64, target: impl Fn(u64) -> Target) {
        let overlaps = self.extents.range(..end).rev().take_while(|(_, dirty)| dirty.end > start);
        let older: Vec<u64> =
            overlaps.filter(|(_, dirty)| dirty.newest < sequence).map(|(from, _)| *from).collect();
        for from in older {
            let old = self.remove(from);
            self.keep_rest(from, old, start, end, &target);
        }
    }

    /// Drops the dirty part of `start..end`: it was discarded.
    pub(crate) fn drop_range(&mut self, start: u64, end: u64, target: impl Fn(u64) -> Target) {
        while let Some((&from, &old)) = self.extents.range(..end).next_back() {
            if old.end <= start {
                break;
            }
            self.remove(from);
            self.keep_rest(from, old, start, end, &target);
        }
    }

    /// Keeps the parts of an old range before and after `start..end` dirty.
    fn keep_rest(&mut self, from: u64, old: Dirty, start: u64, end: u64, target: &impl Fn(u64) -> Target) {
        if from < start {
            self.put(from, Dirty { end: start, ..old });
        }
        if old.end > end {
            self.put(end, Dirty { target: target(end), ..old });
        }
    }

    /// Returns the sequence number of the next write: all earlier ones are smaller.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Returns whether data older than `sequence` is dirty or being written.
    pub(crate) fn holds_older_than(&self, sequence: u64) -> bool {
        let oldest = self.by_age.first_key_value().map(|(age, _)| age.0);
        oldest.into_iter().chain(self.in_flight.map(|flight| flight.2)).any(|own| own < sequence)
    }

    /// Returns the first sector and the arrival time of the oldest dirty range.
    pub(crate) fn oldest(&self) -> Option<(u64, Nanos)> {
        self.by_age.first_key_value().map(|(&(_, start), &(since, _))| (start, since))
    }

    /// Iterates over the dirty ranges, oldest first.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = DestageCandidate> {
        self.by_age.iter().map(|(&(sequence, start), &(since, target))| DestageCandidate {
            sequence,
            start,
            since,
            target,
        })
    }

    /// Iterates over the parts of `start..end` that are still on the link at `now`.
    pub(crate) fn arriving(&self, start: u64, end: u64, now: Nanos) -> impl Iterator<Item = Arrival> {
        let within =
            move |arrival: &Arrival| arrival.last > now && arrival.start < end && start < arrival.end;
        self.arriving.iter().filter(move |arrival| within(arrival)).map(move |arrival| arrival.until(end))
    }

    /// Begins to write at most `most` sectors of the range at `start` to the medium; returns their end.
    pub(crate) fn launch(&mut self, start: u64, most: u64, target: impl Fn(u64) -> Target) -> u64 {
        let dirty = self.remove(start);
        let end = dirty.end.min(start + most);
        if end < dirty.end {
            self.put(end, Dirty { target: target(end), ..dirty });
        }
        self.in_flight = Some((start, end, dirty.sequence));
        self.sectors += end - start;
        end
    }

    /// Frees the range in flight: it is on the medium.
    pub(crate) fn land(&mut self) {
        if let Some((start, end, _)) = self.in_flight.take() {
            self.sectors -= end - start;
        }
    }

    fn put(&mut self, start: u64, dirty: Dirty) {
        self.sectors += dirty.end - start;
        self.by_age.insert((dirty.sequence, start), (dirty.since, dirty.target));
        self.extents.insert(start, dirty);
    }

    fn remove(&mut self, start: u64) -> Dirty {
        let dirty = self.extents.remove(&start).expect("a dirty range that was looked up");
        self.sectors -= dirty.end - start;
        self.by_age.remove(&(dirty.sequence, start));
        dirty
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// An operation on a cache.
    #[derive(Clone, Copy, Debug)]
    enum Act {
        Insert(u64, u64),
        Drop(u64, u64),
        Launch(usize, u64),
        Land,
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            5 => (0u64..60, 1u64..12).prop_map(|(start, length)| Act::Insert(start, start + length)),
            2 => (0u64..60, 1u64..20).prop_map(|(start, length)| Act::Drop(start, start + length)),
            3 => (any::<usize>(), 1u64..10).prop_map(|(which, most)| Act::Launch(which, most)),
            3 => Just(Act::Land),
        ]
    }

    fn target(sector: u64) -> Target {
        Target { cylinder: sector as u32, head: 0, angle: 0 }
    }

    fn cache(coalesce: bool) -> WriteCache {
        let spec = WriteSpec { limit: Bytes(512 * 1000), coalesce, ..WriteSpec::default() };
        WriteCache::new(&spec, Bytes(512))
    }

    /// The naive model: for each sector, the sequence number of the oldest write since which it, or a write merged with
    /// it, has been dirty.
    #[derive(Default)]
    struct Naive {
        dirty: BTreeMap<u64, u64>,
        flying: Vec<u64>,
        oldest_flying: u64,
        writes: u64,
    }

    impl Naive {
        fn holds(&self, sector: u64) -> bool {
            self.dirty.contains_key(&sector) || self.flying.contains(&sector)
        }
    }

    fn apply(cache: &mut WriteCache, naive: &mut Naive, act: Act) {
        match act {
            Act::Insert(start, end) => {
                naive.writes += 1;
                let overwritten = naive.dirty.range(start..end).map(|(_, number)| *number).min();
                let number = overwritten.unwrap_or(naive.writes);
                naive.dirty.extend((start..end).map(|sector| (sector, number)));
                let now = Nanos(naive.writes);
                cache.insert(Arrival { start, end, last: now, per_sector: 0.0 }, now, target);
            }
            Act::Drop(start, end) => {
                naive.dirty.retain(|sector, _| !(start..end).contains(sector));
                cache.drop_range(start, end, target);
            }
            Act::Launch(which, most) if naive.flying.is_empty() && !cache.extents.is_empty() => {
                let start = *cache.extents.keys().nth(which % cache.extents.len()).expect("within");
                let end = cache.launch(start, most, target);
                assert!(start < end && end - start <= most);
                naive.flying = (start..end).collect();
                let ages = (start..end)
                    .map(|sector| naive.dirty.remove(&sector).expect("only dirty data is launched"));
                naive.oldest_flying = ages.min().expect("at least a sector");
            }
            Act::Launch(..) => {}
            Act::Land => {
                naive.flying.clear();
                cache.land();
            }
        }
    }

    fn check_ranges(cache: &WriteCache, coalesce: bool) {
        let ranges: Vec<(u64, u64)> =
            cache.extents.iter().map(|(start, dirty)| (*start, dirty.end)).collect();
        assert!(ranges.iter().all(|(start, end)| start < end));
        let apart =
            |pair: &[(u64, u64)]| if coalesce { pair[0].1 < pair[1].0 } else { pair[0].1 <= pair[1].0 };
        assert!(coalesce || ranges.windows(2).all(apart), "{ranges:?}");
        assert!(
            cache.extents.iter().all(|(start, dirty)| dirty.target == target(*start)),
            "each knows its own place"
        );
        assert_eq!(cache.by_age.len(), ranges.len());
    }

    proptest! {
        #[test]
        fn it_holds_the_sectors_that_a_map_of_sectors_holds(
            acts in prop::collection::vec(act(), 0..60),
            coalesce in any::<bool>(),
        ) {
            let (mut cache, mut naive) = (cache(coalesce), Naive::default());
            for act in acts {
                apply(&mut cache, &mut naive, act);
                check_ranges(&cache, coalesce);
                prop_assert_eq!(cache.sectors(), (naive.dirty.len() + naive.flying.len()) as u64);
                prop_assert_eq!(cache.is_empty(), naive.dirty.is_empty());
                for sector in 0..90 {
                    let expected = (sector..90).find(|at| !naive.holds(*at)).unwrap_or(90);
                    prop_assert_eq!(cache.covered_until(sector, 90), expected, "from {}", sector);
                }
                let flying = (!naive.flying.is_empty()).then_some(naive.oldest_flying);
                let oldest = naive.dirty.values().copied().chain(flying).min();
                for sequence in 1..=cache.next_sequence() {
                    // A merged range waits for its oldest write, so it may be held longer than necessary, never
                    // shorter.
                    let must = oldest.is_some_and(|oldest| oldest < sequence);
                    prop_assert!(cache.holds_older_than(sequence) || !must);
                    prop_assert!(coalesce || cache.holds_older_than(sequence) == must);
                }
            }
        }
    }
}
