//! The grid of blocks of a requested size, and the division of a file into pieces that fit it.
//!
//! A piece is what is loaded, mapped or copied at a time. Pieces begin on the grid where that is possible, so that few
//! blocks are split between two of them; [`joiner`](super::joiner) joins those that are.

use std::ops::Range;

/// Blocks of `unit` bytes, the first of which begins at `origin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) origin: u64,
    pub(super) unit: u64,
}

impl Grid {
    /// No grid: pieces begin at multiples of powers of two, as pages do.
    pub(super) const FREE: Grid = Grid { origin: 0, unit: 1 };

    /// Returns the number of the block with this offset.
    pub(super) fn number(self, offset: u64) -> u64 {
        (offset - self.origin) / self.unit
    }

    /// Returns the first start of a block at or after an offset.
    pub(super) fn up(self, offset: u64) -> u64 {
        self.origin.saturating_add((offset - self.origin).div_ceil(self.unit).saturating_mul(self.unit))
    }

    /// Returns the last start of a block at or before an offset.
    pub(super) fn down(self, offset: u64) -> u64 {
        self.origin + self.number(offset) * self.unit
    }

    /// Divides a range into pieces that are small at its beginning and its end, so that threads start soon and end
    /// together; in between, a piece has up to a quarter of the bytes on its shorter side. `sizes` are powers of two.
    /// Pieces have whole blocks, except at the ends of the range, and begin at multiples of their size where possible.
    pub(super) fn tapered(
        self,
        range: Range<u64>,
        sizes: Range<u64>,
    ) -> impl Iterator<Item = Range<u64>> + Send {
        let units = |bytes: u64| 1 << (bytes / self.unit).max(1).ilog2();
        let blocks = tapered(self.blocks(&range), units(sizes.start)..units(sizes.end));
        self.pieces(range, blocks)
    }

    /// Divides a range into pieces of as many whole blocks as fit into `size` bytes, but at least one.
    pub(super) fn cut(self, range: Range<u64>, size: u64) -> impl Iterator<Item = Range<u64>> + Send {
        let blocks = cut(self.blocks(&range), (size / self.unit).max(1));
        self.pieces(range, blocks)
    }

    /// Returns the numbers of the blocks of a range.
    fn blocks(self, range: &Range<u64>) -> Range<u64> {
        if range.is_empty() {
            return 0..0;
        }
        self.number(range.start)..(range.end - self.origin).div_ceil(self.unit)
    }

    fn pieces(
        self,
        range: Range<u64>,
        blocks: impl Iterator<Item = Range<u64>> + Send,
    ) -> impl Iterator<Item = Range<u64>> + Send {
        let at = move |block: u64| self.origin.saturating_add(block.saturating_mul(self.unit));
        blocks.map(move |blocks| at(blocks.start).max(range.start)..at(blocks.end).min(range.end))
    }
}

fn tapered(range: Range<u64>, sizes: Range<u64>) -> impl Iterator<Item = Range<u64>> + Send {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let most = (at - range.start).min(range.end - at) / 4;
        let size = (1 << most.max(1).ilog2()).clamp(sizes.start, sizes.end);
        let piece = at..((at / size + 1) * size).min(range.end);
        at = piece.end;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Divides a range into pieces that begin at multiples of `size`.
pub(super) fn cut(range: Range<u64>, size: u64) -> impl Iterator<Item = Range<u64>> + Send {
    let first = range.start / size;
    let count = if range.is_empty() { 0 } else { range.end.div_ceil(size) - first };
    (0..count).map(move |index| {
        let start = (first + index) * size;
        start.max(range.start)..(start + size).min(range.end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tapered_pieces_have_no_gaps_and_are_small_at_both_ends(start in 0u64..40 << 20, length in 0u64..40 << 20) {
            let (range, sizes) = (start..start + length, 256 << 10..2 << 20);
            let pieces: Vec<Range<u64>> = Grid::FREE.tapered(range.clone(), sizes.clone()).collect();
            let mut at = start;
            for piece in &pieces {
                prop_assert!(piece.start == at && piece.end > at);
                at = piece.end;
                let edge = (piece.start - start).min(range.end - piece.start);
                prop_assert!(at - piece.start <= (edge / 4).clamp(sizes.start, sizes.end));
                prop_assert!(piece.start / sizes.end == (at - 1) / sizes.end, "{piece:?}");
            }
            prop_assert_eq!(at, range.end);
            let most = 4 * 16 + length / sizes.end * 2;
            prop_assert!(pieces.len() as u64 <= most, "{} pieces", pieces.len());
        }

        #[test]
        fn pieces_have_whole_blocks_and_are_about_as_large_as_wanted(
            origin in 0u64..1000, from in 0u64..1 << 20, length in 1u64..1 << 20, unit in 1u64..1 << 17, size in 8u32..20,
        ) {
            let grid = Grid { origin, unit };
            let (range, size) = (origin + from..origin + from + length, 1 << size);
            let tapered: Vec<_> = grid.tapered(range.clone(), size / 4..size).collect();
            let cut: Vec<_> = grid.cut(range.clone(), size).collect();
            for pieces in [tapered, cut] {
                prop_assert_eq!(pieces.first().map(|first| first.start), Some(range.start));
                prop_assert_eq!(pieces.last().map(|last| last.end), Some(range.end));
                for pair in pieces.windows(2) {
                    prop_assert_eq!(pair[0].end, pair[1].start);
                    prop_assert_eq!(grid.down(pair[1].start), grid.up(pair[1].start), "on the grid");
                }
                prop_assert!(pieces.iter().all(|piece| piece.end - piece.start <= size.max(unit)));
            }
        }
    }

    #[test]
    fn pieces_have_no_gaps() {
        assert_eq!(cut(5..25, 10).collect::<Vec<_>>(), [5..10, 10..20, 20..25]);
        assert_eq!(cut(7..7, 10).count(), 0);
    }
}
