//! Time during which at least one thread worked: the union of intervals (pure).

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Most intervals that are kept apart, 16 KiB. Older gaps are forgotten: only a longer interval than all of these could
/// still fill one, and is then undercounted.
const INTERVALS_MAX: usize = 1024;

/// A union of intervals.
#[derive(Debug, Default)]
pub(super) struct BusyTime {
    /// Disjoint intervals in ascending order.
    recent: VecDeque<Range<Instant>>,
    /// Intervals are counted from here on.
    forgotten_until: Option<Instant>,
}

impl BusyTime {
    /// Adds an interval; returns the part of it that no earlier one covers.
    pub(super) fn add(&mut self, interval: Range<Instant>) -> Duration {
        let start = self.forgotten_until.map_or(interval.start, |until| interval.start.max(until));
        let end = interval.end;
        if start >= end {
            return Duration::ZERO;
        }
        let first = self.recent.partition_point(|known| known.end < start);
        let last = self.recent.partition_point(|known| known.start <= end);
        let (mut union, mut covered) = (start..end, Duration::ZERO);
        for known in self.recent.drain(first..last) {
            covered += known.end.min(end).saturating_duration_since(known.start.max(start));
            union = union.start.min(known.start)..union.end.max(known.end);
        }
        self.recent.insert(first, union);
        if self.recent.len() > INTERVALS_MAX {
            self.forgotten_until = self.recent.pop_front().map(|oldest| oldest.end);
        }
        end.duration_since(start) - covered
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_parts_of_intervals_in_any_order_add_up_to_the_moments_that_they_cover(
            intervals in prop::collection::vec((0_usize..200, 0_usize..40), 0..60),
            ends_in_order in any::<bool>(),
        ) {
            let mut intervals: Vec<Range<usize>> =
                intervals.into_iter().map(|(start, length)| start..start + length).collect();
            if ends_in_order {
                intervals.sort_by_key(|interval| interval.end);
            }
            let (origin, mut busy, mut is_covered) = (Instant::now(), BusyTime::default(), [false; 240]);
            for interval in intervals {
                let at = |moment: usize| origin + Duration::from_nanos(moment as u64);
                let added = busy.add(at(interval.start)..at(interval.end));
                let moments = &mut is_covered[interval];
                let expected = moments.iter().filter(|covered| !**covered).count();
                moments.fill(true);
                prop_assert_eq!(added, Duration::from_nanos(expected as u64));
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_what_is_forgotten_is_not_counted_again() {
        let (origin, mut busy) = (Instant::now(), BusyTime::default());
        let at = |moment: usize| origin + Duration::from_nanos(moment as u64);
        let count = 3 * INTERVALS_MAX;
        for number in 0..count {
            assert_eq!(busy.add(at(2 * number)..at(2 * number + 1)), Duration::from_nanos(1));
        }
        assert_eq!(busy.recent.len(), INTERVALS_MAX);
        let gaps = busy.add(at(0)..at(2 * count));
        assert_eq!(gaps, Duration::from_nanos(INTERVALS_MAX as u64 + 1));
    }
}
