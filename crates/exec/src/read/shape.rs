//! The bytes that a call of the mapping function gets.

use std::ops::Range;

use super::block::Block;
use super::cut::{Cut, Parts};
use super::grid::Grid;

/// How files are divided into calls of the mapping function.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Where calls may end; `None` if anywhere.
    cut: Option<Cut>,
    /// Bytes of a call at most, unless a single record is longer.
    most: usize,
    /// Pieces begin on it where possible.
    pub(super) grid: Grid,
    is_numbered: bool,
}

impl Shape {
    /// Calls with bytes from anywhere to anywhere.
    pub(super) fn any() -> Shape {
        Shape { cut: None, most: usize::MAX, grid: Grid::FREE, is_numbered: false }
    }

    /// A call for each block of this size.
    pub(super) fn blocks(size: usize, start: u64) -> Shape {
        let grid = Grid { origin: start, unit: size as u64 };
        Shape { cut: Some(Cut::Grid(grid)), most: size, grid, is_numbered: true }
    }

    /// Calls with whole records, of at most this many bytes if it is not a single one.
    pub(super) fn records(cut: Cut, most: Option<usize>) -> Shape {
        let grid = if let Cut::Grid(grid) = cut { grid } else { Grid::FREE };
        Shape { cut: Some(cut), most: most.unwrap_or(usize::MAX), grid, is_numbered: false }
    }

    /// Returns the rule by which pieces are cut; `None` if they are not.
    pub(super) fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// Returns whether ends depend on all bytes before them.
    pub(super) fn depends_on_all(&self) -> bool {
        self.cut.as_ref().is_some_and(Cut::depends_on_all)
    }

    /// Splits a piece: see [`Cut::split`].
    pub(super) fn split<'b>(
        &self,
        at: u64,
        bytes: &'b [u8],
        size: Option<u64>,
        is_quoted: bool,
    ) -> Option<Parts<'b>> {
        self.cut.as_ref()?.split(at, bytes, size, is_quoted)
    }

    /// Divides whole records or blocks of a file, which begin at offset `at`, into those of each call.
    pub(super) fn calls<'b>(
        &self,
        file: usize,
        at: u64,
        mut bytes: &'b [u8],
    ) -> impl Iterator<Item = Block<'b>> {
        let mut at = at;
        std::iter::from_fn(move || {
            let length = match &self.cut {
                _ if bytes.is_empty() => return None,
                None => bytes.len(),
                Some(cut) => cut.take(bytes, self.most),
            };
            let (now, rest) = bytes.split_at(length);
            let block = Block::new(now, at, file, self.is_numbered.then(|| self.grid.number(at)));
            (at, bytes) = (at + length as u64, rest);
            Some(block)
        })
    }

    /// Returns the sizes of pieces if the result of each call is kept: few calls must not become many results.
    pub(super) fn with_few_calls(&self, sizes: Range<u64>) -> Range<u64> {
        if self.most == usize::MAX {
            return sizes;
        }
        let most = (self.most as u64).saturating_mul(RESULTS_PER_PIECE_MAX).max(PIECE_MIN_BYTES);
        let most = 1 << most.ilog2();
        sizes.start.min(most)..sizes.end.min(most)
    }
}

/// Maximum number of results of a piece, which wait together for their turn: with small blocks, results can take more
/// memory than the bytes.
const RESULTS_PER_PIECE_MAX: u64 = 4096;
/// Smallest piece in bytes, because a system call is made for each.
const PIECE_MIN_BYTES: u64 = 64 << 10;
