//! Recently evicted ranges, which distinguish a purged miss from a pure miss.

use std::collections::{BTreeMap, VecDeque};

/// A bounded set of disjoint sector ranges. The range that was added to least recently is dropped first.
#[derive(Clone, Debug)]
pub(crate) struct Ghosts {
    limit: usize,
    /// Start → (end, time of the last addition), in ticks of `clock`.
    ranges: BTreeMap<u64, (u64, u64)>,
    /// (start, time) in order of time; an entry whose time differs from the range's is stale.
    order: VecDeque<(u64, u64)>,
    clock: u64,
    /// Ranges evicted since the last [`evicted`](Self::evicted), if logging is enabled.
    evicted: Option<Vec<(u64, u64)>>,
}

impl Ghosts {
    pub(crate) fn new(limit: u32) -> Ghosts {
        Ghosts {
            limit: limit as usize,
            ranges: BTreeMap::new(),
            order: VecDeque::new(),
            clock: 0,
            evicted: None,
        }
    }

    pub(crate) fn contains(&self, sector: u64) -> bool {
        self.ranges.range(..=sector).next_back().is_some_and(|(_, &(end, _))| sector < end)
    }

    /// Enables logging of evictions for [`evicted`](Self::evicted).
    pub(crate) fn keep_log(&mut self) {
        self.evicted = Some(Vec::new());
    }

    /// Drains the ranges evicted since the last call.
    pub(crate) fn evicted(&mut self) -> impl Iterator<Item = (u64, u64)> {
        self.evicted.iter_mut().flat_map(|evicted| evicted.drain(..))
    }

    /// Adds the evicted range `start..end`, merged with overlapping and adjacent ranges.
    pub(crate) fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        if let Some(evicted) = &mut self.evicted {
            evicted.push((start, end));
        }
        if self.limit == 0 {
            return;
        }
        self.clock += 1;
        // The ring of a segment drops sectors in order, so most additions extend a range at its end.
        if let Some((&from, range)) = self.ranges.range_mut(..=end).next_back()
            && from <= start
            && start <= range.0
        {
            *range = (range.0.max(end), self.clock);
            self.order.push_back((from, self.clock));
            self.forget();
            return;
        }
        let (mut start, mut end) = (start, end);
        while let Some((&from, &(to, _))) = self.ranges.range(..=end).next_back() {
            if to < start {
                break;
            }
            self.ranges.remove(&from);
            start = start.min(from);
            end = end.max(to);
        }
        self.ranges.insert(start, (end, self.clock));
        self.order.push_back((start, self.clock));
        self.forget();
    }

    fn forget(&mut self) {
        while self.ranges.len() > self.limit || self.order.len() > 4 * self.limit.max(16) {
            let Some((start, when)) = self.order.pop_front() else { return };
            let current = self.ranges.get(&start).is_some_and(|range| range.1 == when);
            if current && self.ranges.len() > self.limit {
                self.ranges.remove(&start);
            } else if current {
                self.order.push_back((start, when));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_oldest_range_is_forgotten() {
        let mut ghosts = Ghosts::new(2);
        ghosts.add(0, 10);
        ghosts.add(20, 30);
        ghosts.add(10, 12);
        ghosts.add(40, 50);
        assert!(ghosts.contains(0) && ghosts.contains(11) && ghosts.contains(45));
        assert!(!ghosts.contains(25) && !ghosts.contains(12));
    }

    proptest! {
        #[test]
        fn without_a_bound_it_is_a_set_of_sectors(ranges in prop::collection::vec((0u64..200, 0u64..20), 0..40)) {
            let mut ghosts = Ghosts::new(1000);
            let mut naive = std::collections::BTreeSet::new();
            for (start, length) in ranges {
                ghosts.add(start, start + length);
                naive.extend(start..start + length);
            }
            for sector in 0..230 {
                prop_assert_eq!(ghosts.contains(sector), naive.contains(&sector), "sector {}", sector);
            }
        }

        #[test]
        fn it_stays_within_its_bound(ranges in prop::collection::vec((0u64..10_000, 1u64..20), 0..400)) {
            let mut ghosts = Ghosts::new(8);
            for (start, length) in ranges {
                ghosts.add(start, start + length);
                prop_assert!(ghosts.ranges.len() <= 8 && ghosts.order.len() <= 65);
                prop_assert!(ghosts.contains(start), "the newest is never the one forgotten");
            }
        }
    }
}
