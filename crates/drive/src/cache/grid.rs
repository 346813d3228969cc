//! Segments by address: which of them touch a cell of the address space.
//!
//! A segment is listed under every cell from its first sector to its end. The cells are in a hash table with chains;
//! what is returned does not depend on the order within a chain, because callers compare the segments found.

/// End of a chain.
const CHAIN_END: u32 = u32::MAX;

/// 2⁶⁴ divided by the golden ratio: multiplying by it spreads consecutive cells (Knuth, TAOCP 3, section 6.4).
const GOLDEN_SECTION: u64 = 0x9E37_79B9_7F4A_7C15;

/// Initial number of chains, a power of two.
const CHAINS_MIN: usize = 64;

/// Segments by the cells that they touch.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// Log₂ of the sectors per cell.
    cell_bits: u32,
    /// First entry of each chain; a power of two.
    chains: Vec<u32>,
    entries: Vec<Entry>,
    /// First unused entry.
    free: u32,
    used: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    cell: u64,
    segment: u32,
    next: u32,
}

impl Grid {
    /// Creates an empty grid with cells of at least `sectors` sectors.
    pub(super) fn new(sectors: u64) -> Grid {
        let cell_bits = sectors.clamp(1, 1 << 40).next_power_of_two().ilog2();
        Grid { cell_bits, chains: vec![CHAIN_END; CHAINS_MIN], entries: Vec::new(), free: CHAIN_END, used: 0 }
    }

    /// Returns the cell of a sector.
    #[inline]
    pub(super) fn cell(&self, sector: u64) -> u64 {
        sector >> self.cell_bits
    }

    /// Returns the segments that touch a cell, in no particular order.
    #[inline]
    pub(super) fn segments_at(&self, cell: u64) -> impl Iterator<Item = usize> {
        let mut at = self.chains[self.chain(cell)];
        std::iter::from_fn(move || {
            while at != CHAIN_END {
                let entry = self.entries[at as usize];
                at = entry.next;
                if entry.cell == cell {
                    return Some(entry.segment as usize);
                }
            }
            None
        })
    }

    /// Lists a new segment from `start` to `end`.
    pub(super) fn insert(&mut self, segment: usize, start: u64, end: u64) {
        (self.cell(start)..=self.cell(end)).for_each(|cell| self.list(segment, cell));
    }

    /// Removes a segment from `start` to `end`.
    pub(super) fn remove(&mut self, segment: usize, start: u64, end: u64) {
        (self.cell(start)..=self.cell(end)).for_each(|cell| self.unlist(segment, cell));
    }

    /// Changes the bounds of a segment.
    #[inline]
    pub(super) fn move_bounds(&mut self, segment: usize, (start, end): (u64, u64), new: (u64, u64)) {
        let (old_first, old_last) = (self.cell(start), self.cell(end));
        let (first, last) = (self.cell(new.0), self.cell(new.1));
        if (old_first, old_last) == (first, last) {
            return;
        }
        if last < old_first || old_last < first {
            self.remove(segment, start, end);
            self.insert(segment, new.0, new.1);
            return;
        }
        (old_first..first).chain(last + 1..=old_last).for_each(|cell| self.unlist(segment, cell));
        (first..old_first).chain(old_last + 1..=last).for_each(|cell| self.list(segment, cell));
    }

    #[inline]
    fn chain(&self, cell: u64) -> usize {
        (cell.wrapping_mul(GOLDEN_SECTION) >> (64 - self.chains.len().ilog2())) as usize
    }

    fn list(&mut self, segment: usize, cell: u64) {
        if self.used >= self.chains.len() {
            self.double();
        }
        let chain = self.chain(cell);
        let entry = Entry { cell, segment: segment as u32, next: self.chains[chain] };
        let at = self.free;
        if at == CHAIN_END {
            self.chains[chain] = self.entries.len() as u32;
            self.entries.push(entry);
        } else {
            self.free = self.entries[at as usize].next;
            self.entries[at as usize] = entry;
            self.chains[chain] = at;
        }
        self.used += 1;
    }

    fn unlist(&mut self, segment: usize, cell: u64) {
        let chain = self.chain(cell);
        let (mut before, mut at) = (CHAIN_END, self.chains[chain]);
        while at != CHAIN_END {
            let entry = self.entries[at as usize];
            if entry.cell == cell && entry.segment as usize == segment {
                if before == CHAIN_END {
                    self.chains[chain] = entry.next;
                } else {
                    self.entries[before as usize].next = entry.next;
                }
                self.entries[at as usize].next = self.free;
                self.free = at;
                self.used -= 1;
                return;
            }
            (before, at) = (at, entry.next);
        }
        debug_assert!(false, "segment {segment} is not listed under cell {cell}");
    }

    /// Doubles the number of chains.
    fn double(&mut self) {
        let old = std::mem::take(&mut self.chains);
        self.chains = vec![CHAIN_END; old.len() * 2];
        for first in old {
            let mut at = first;
            while at != CHAIN_END {
                let next = self.entries[at as usize].next;
                let chain = self.chain(self.entries[at as usize].cell);
                self.entries[at as usize].next = self.chains[chain];
                self.chains[chain] = at;
                at = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_cell_lists_the_segments_that_touch_it(
            cell in 1u64..20,
            moves in prop::collection::vec((0usize..40, 0u64..400, 0u64..90), 1..200),
        ) {
            let mut grid = Grid::new(cell);
            let mut naive = vec![None; 40];
            for (segment, start, length) in moves {
                let new = (start, start + length);
                match naive[segment] {
                    None => grid.insert(segment, new.0, new.1),
                    Some(old) if length == 0 => {
                        let (start, end): (u64, u64) = old;
                        grid.remove(segment, start, end);
                        naive[segment] = None;
                        continue;
                    }
                    Some(old) => grid.move_bounds(segment, old, new),
                }
                naive[segment] = Some(new);
            }
            for cell in 0..grid.cell(600) {
                let touches = |bounds: &Option<(u64, u64)>| {
                    bounds.is_some_and(|(start, end)| grid.cell(start) <= cell && cell <= grid.cell(end))
                };
                let expected: BTreeSet<usize> = (0..40).filter(|segment| touches(&naive[*segment])).collect();
                let listed: Vec<usize> = grid.segments_at(cell).collect();
                prop_assert_eq!(listed.len(), expected.len());
                prop_assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), expected);
            }
        }
    }
}
