//! Released ranges of a file, joined where they touch (pure).
//!
//! The cost of a hole hardly depends on its length: on ext4 it is a transaction, and a pause of the file's direct
//! transfers. Runs that are drained one after the other, such as those of neighboring partitions, are often
//! adjacent.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges that do not touch.
#[derive(Debug, Default)]
pub(super) struct Holes {
    /// End offsets by start offset.
    ranges: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Holes {
    /// Adds a range that overlaps no other.
    pub(super) fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.bytes += range.end - range.start;
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&before, &touching)) = self.ranges.range(..start).next_back() {
            debug_assert!(touching <= start, "a range that is released twice");
            if touching == start {
                self.ranges.remove(&before);
                start = before;
            }
        }
        if let Some(after) = self.ranges.remove(&end) {
            end = after;
        }
        self.ranges.insert(start, end);
    }

    /// Returns the total bytes of all ranges.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the ranges in ascending order.
    pub(super) fn into_ranges(self) -> impl Iterator<Item = Range<u64>> {
        self.ranges.into_iter().map(|(start, end)| start..end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn ranges_in_any_order_are_joined_to_the_fewest(
            order in Just((0..60u64).collect::<Vec<_>>()).prop_shuffle(), count in 0usize..60,
        ) {
            let (mut holes, mut is_hole) = (Holes::default(), [false; 62]);
            for &unit in &order[..count] {
                holes.add(unit * 4096..(unit + 1) * 4096);
                is_hole[unit as usize + 1] = true;
            }
            prop_assert_eq!(holes.bytes(), count as u64 * 4096);
            let starts = is_hole.windows(2).filter(|pair| !pair[0] && pair[1]).count();
            let ranges: Vec<Range<u64>> = holes.into_ranges().collect();
            prop_assert_eq!(ranges.len(), starts);
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            let mut units = ranges.iter().flat_map(|range| range.start / 4096..range.end / 4096);
            prop_assert!(units.all(|unit| is_hole[unit as usize + 1]));
        }
    }
}
