//! Where blocks and records end.

use std::fmt;
use std::sync::Arc;

use memchr::{memchr, memchr_iter, memchr2, memrchr, memrchr2};

use super::grid::Grid;

/// Finds ends of records of any format.
///
/// An end must be recognizable from the bytes just before it, whatever precedes these: a file is searched in pieces,
/// each by itself, and a piece may begin anywhere. If the mark of an end lies across two pieces, it is not seen, and
/// one call then gets the records on both of its sides.
///
/// Any function from bytes to the first end is a splitter:
///
/// ```
/// use sakiyomi_exec::read::{Splitter, blocked_read};
/// // Paragraphs end with an empty line.
/// let paragraphs = |text: &[u8]| text.windows(2).position(|two| two == b"\n\n").map(|at| at + 2);
/// assert_eq!(paragraphs.last_end(b"a\n\nb\n\nc"), Some(6));
/// let read = blocked_read("book.txt").records_of(paragraphs);
/// ```
pub trait Splitter: Send + Sync {
    /// Returns the number of bytes up to and including the first end of a record; `None` if no record ends there.
    fn first_end(&self, bytes: &[u8]) -> Option<usize>;

    /// Returns the number of bytes up to and including the last end of a record. A splitter that can search backward
    /// replaces this search from end to end.
    fn last_end(&self, bytes: &[u8]) -> Option<usize> {
        let mut last = None;
        while let Some(end) = self.first_end(&bytes[last.unwrap_or(0)..]).filter(|&end| end > 0) {
            last = Some(last.unwrap_or(0) + end);
        }
        last
    }
}

impl<F: Fn(&[u8]) -> Option<usize> + Send + Sync> Splitter for F {
    fn first_end(&self, bytes: &[u8]) -> Option<usize> {
        self(bytes)
    }
}

/// The rule by which a file is cut.
#[derive(Clone)]
pub(super) enum Cut {
    /// Blocks, or records of fixed length.
    Grid(Grid),
    /// Records that end with a byte.
    Byte(u8),
    /// Lines in which a line feed between two of these bytes is text.
    Quoted(u8),
    /// Records that the caller recognizes.
    Own(Arc<dyn Splitter>),
}

/// A piece that contains an end: the rest of what began before, whole ones, and the beginning of the next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts<'b> {
    pub(super) head: &'b [u8],
    pub(super) body: &'b [u8],
    pub(super) tail: &'b [u8],
}

impl Cut {
    /// Returns whether ends depend on all bytes before them.
    pub(super) fn depends_on_all(&self) -> bool {
        matches!(self, Cut::Quoted(_))
    }

    /// Returns whether a quotation that is open before these bytes is closed after them, and vice versa.
    pub(super) fn changes_quotation(&self, bytes: &[u8]) -> bool {
        matches!(self, &Cut::Quoted(quote) if memchr_iter(quote, bytes).count() % 2 == 1)
    }

    /// Splits a piece at offset `at` of a file; `None` if nothing ends in it. `is_quoted` tells whether a quotation is
    /// open before it, and `size` is that of the file if it is known, because blocks end there too.
    pub(super) fn split<'b>(
        &self,
        at: u64,
        bytes: &'b [u8],
        size: Option<u64>,
        is_quoted: bool,
    ) -> Option<Parts<'b>> {
        let (first, last) = match self {
            Cut::Grid(grid) => ends_on(*grid, at, bytes.len(), size)?,
            &Cut::Byte(end) => (memchr(end, bytes)? + 1, memrchr(end, bytes)? + 1),
            &Cut::Quoted(quote) => {
                let is_quoted_after = is_quoted ^ self.changes_quotation(bytes);
                (first_line(quote, bytes, is_quoted)?, last_line(quote, bytes, is_quoted_after)?)
            }
            Cut::Own(splitter) => own_ends(&**splitter, bytes)?,
        };
        Some(Parts { head: &bytes[..first], body: &bytes[first..last], tail: &bytes[last..] })
    }

    /// Returns the number of bytes of as many whole records as fit into `most` bytes, but of at least one; `bytes` are
    /// whole records.
    pub(super) fn take(&self, bytes: &[u8], most: usize) -> usize {
        if bytes.len() <= most {
            return bytes.len();
        }
        let (fitting, is_quoted) = (&bytes[..most], self.changes_quotation(&bytes[..most]));
        let end = match self {
            Cut::Grid(grid) => {
                let unit = usize::try_from(grid.unit).unwrap_or(usize::MAX);
                Some((most / unit).max(1).saturating_mul(unit))
            }
            &Cut::Byte(end) => memrchr(end, fitting).or_else(|| memchr(end, bytes)).map(|at| at + 1),
            &Cut::Quoted(quote) => {
                last_line(quote, fitting, is_quoted).or_else(|| first_line(quote, bytes, false))
            }
            Cut::Own(splitter) => {
                own_ends(&**splitter, fitting).map(|ends| ends.1).or_else(|| splitter.first_end(bytes))
            }
        };
        end.unwrap_or(bytes.len()).min(bytes.len())
    }
}

/// Returns the first and the last end of a block within `length` bytes at an offset.
fn ends_on(grid: Grid, at: u64, length: usize, size: Option<u64>) -> Option<(usize, usize)> {
    let end = at + length as u64;
    let first = grid.up(at);
    let last = if size == Some(end) { end } else { grid.down(end) };
    (first <= last).then(|| ((first - at) as usize, (last - at) as usize)).or_else(|| {
        // The block that the file's end cuts short.
        (size == Some(end)).then_some((length, length))
    })
}

fn own_ends(splitter: &dyn Splitter, bytes: &[u8]) -> Option<(usize, usize)> {
    let (first, last) = (splitter.first_end(bytes)?, splitter.last_end(bytes)?);
    let is_sound = 0 < first && first <= last && last <= bytes.len();
    assert!(is_sound, "a splitter found ends at {first} and {last} of {} bytes", bytes.len());
    Some((first, last))
}

/// Returns the end of the first line; `is_quoted` is the state before the bytes.
fn first_line(quote: u8, bytes: &[u8], mut is_quoted: bool) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr2(quote, b'\n', &bytes[at..])? + 1;
        match bytes[at - 1] == quote {
            true => is_quoted = !is_quoted,
            false if !is_quoted => return Some(at),
            false => {}
        }
    }
}

/// Returns the end of the last line; `is_quoted` is the state after the bytes.
fn last_line(quote: u8, bytes: &[u8], mut is_quoted: bool) -> Option<usize> {
    let mut end = bytes.len();
    loop {
        let at = memrchr2(quote, b'\n', &bytes[..end])?;
        match bytes[at] == quote {
            true => is_quoted = !is_quoted,
            false if !is_quoted => return Some(at + 1),
            false => {}
        }
        end = at;
    }
}

impl fmt::Debug for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cut::Grid(grid) => grid.fmt(f),
            Cut::Byte(end) => write!(f, "records that end with byte {end}"),
            Cut::Quoted(quote) => write!(f, "lines with quotations by byte {quote}"),
            Cut::Own(_) => f.write_str("records of the caller's"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The ends of lines by looking at each byte.
    fn plain_ends(text: &[u8], mut is_quoted: bool) -> Vec<usize> {
        let mut ends = Vec::new();
        for (at, &byte) in text.iter().enumerate() {
            is_quoted ^= byte == b'"';
            if byte == b'\n' && !is_quoted {
                ends.push(at + 1);
            }
        }
        ends
    }

    proptest! {
        #[test]
        fn lines_with_quotations_end_where_each_byte_says_so(text in "[a\"\n]{0,40}", is_quoted: bool, most in 1usize..50) {
            let (cut, text) = (Cut::Quoted(b'"'), text.as_bytes());
            let ends = plain_ends(text, is_quoted);
            let found = cut.split(0, text, None, is_quoted).map(|parts| (parts.head.len(), text.len() - parts.tail.len()));
            prop_assert_eq!(found, ends.first().copied().zip(ends.last().copied()));
            let ends = plain_ends(text, false);
            let whole = &text[..ends.last().copied().unwrap_or(0)];
            if !whole.is_empty() {
                let fit = ends.iter().rev().find(|&&end| end <= most).or(ends.first());
                prop_assert_eq!(cut.take(whole, most), *fit.unwrap());
            }
        }
    }

    #[test]
    fn blocks_end_on_the_grid_and_at_the_end_of_the_file() {
        let (grid, bytes) = (Cut::Grid(Grid { origin: 3, unit: 10 }), [0; 100]);
        let split = |at: u64, length: usize, size| {
            let parts = grid.split(at, &bytes[..length], size, false);
            parts.map(|parts| (parts.head.len(), parts.body.len(), parts.tail.len()))
        };
        assert_eq!(split(3, 25, None), Some((0, 20, 5)));
        assert_eq!(split(7, 25, None), Some((6, 10, 9)));
        assert_eq!(split(7, 5, None), None);
        assert_eq!(split(7, 6, None), Some((6, 0, 0)));
        assert_eq!(split(3, 25, Some(28)), Some((0, 25, 0)), "the last block is shorter");
        assert_eq!(split(7, 5, Some(12)), Some((5, 0, 0)));
        assert_eq!(split(3, 5, Some(8)), Some((0, 5, 0)));
    }
}
