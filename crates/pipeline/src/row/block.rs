//! Blocks of text that rows share, and their memory, which is used again.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::Cell;

/// Bytes of a block: its lines are still in the second-level cache when they are parsed, and a hand-over between
/// threads costs less than a nanosecond a line.
pub(crate) const BLOCK_BYTES: usize = 128 << 10;

/// Blocks whose memory is kept for others: those in the queue, and some that rows in rings and windows refer to.
const SPARE_BLOCKS_MAX: usize = 24;

/// Handles that are made at once. The consumer of rows on another core gives theirs back one by one: this is how often
/// the counter's cache line goes to and fro.
const HANDLE_BATCH: usize = 64;

/// A text and where it comes from.
#[derive(Debug)]
pub(crate) struct Block {
    text: String,
    /// Offset of its first byte in the input.
    offset: u64,
    /// Begins of lines that were not UTF-8, in their order.
    bad_lines: Vec<usize>,
    pool: Option<Arc<Pool>>,
}

impl Block {
    /// Returns a text without an origin.
    pub(crate) fn own(text: String) -> Block {
        Block { text, offset: 0, bad_lines: Vec::new(), pool: None }
    }

    /// Whole lines of an input. Those that are not UTF-8 are bad lines: each of their bytes that is not ASCII becomes a
    /// question mark. Quotes and separators stay, so that the records after them begin where they did.
    pub(crate) fn of_lines(mut bytes: Vec<u8>, offset: u64, pool: &Arc<Pool>) -> Block {
        let mut bad_lines = Vec::new();
        if str::from_utf8(&bytes).is_err() {
            let mut start = 0;
            for line in bytes.split_inclusive_mut(|&byte| byte == b'\n') {
                let length = line.len();
                if str::from_utf8(line).is_err() {
                    bad_lines.push(start);
                    line.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'?');
                }
                start += length;
            }
        }
        let text = String::from_utf8(bytes).unwrap_or_default();
        Block { text, offset, bad_lines, pool: Some(Arc::clone(pool)) }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the text has the bytes of its input: all its lines were UTF-8.
    pub(crate) fn is_intact(&self) -> bool {
        self.bad_lines.is_empty()
    }

    /// Offset of its first byte in the input.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns whether a line of a record was not UTF-8. A record begins with a line, and may have several.
    #[inline]
    pub(crate) fn has_bad_line(&self, record: Range<usize>) -> bool {
        if self.bad_lines.is_empty() {
            return false;
        }
        let next = self.bad_lines.partition_point(|&line| line < record.start);
        self.bad_lines.get(next).is_some_and(|&line| line < record.end)
    }

    /// Returns the cell of a text that is a part of this block's.
    pub(crate) fn range_of(&self, text: &str) -> Option<Cell> {
        let start = (text.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize)?;
        let inside = start + text.len() <= self.text.len();
        inside.then_some(Cell::Text { start: start as u32, length: text.len() as u32 })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.give(std::mem::take(&mut self.text).into_bytes());
        }
    }
}

/// Memory of blocks.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    spare: Mutex<Vec<Vec<u8>>>,
}

impl Pool {
    /// [`BLOCK_BYTES`] of any content.
    pub(crate) fn take(&self) -> Vec<u8> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut bytes = spare.unwrap_or_default();
        bytes.resize(BLOCK_BYTES, 0);
        bytes
    }

    fn give(&self, bytes: Vec<u8>) {
        let is_usual = (BLOCK_BYTES..=2 * BLOCK_BYTES).contains(&bytes.capacity());
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if is_usual && spare.len() < SPARE_BLOCKS_MAX {
            spare.push(bytes);
        }
    }
}

/// A block and handles of it for its rows.
#[derive(Debug)]
pub(crate) struct Handles {
    block: Arc<Block>,
    made: Vec<Arc<Block>>,
}

impl Handles {
    pub(crate) fn new(block: Arc<Block>) -> Handles {
        Handles { block, made: Vec::new() }
    }

    pub(crate) fn text(&self) -> &str {
        self.block.text()
    }

    pub(crate) fn block(&self) -> &Block {
        &self.block
    }

    /// Replaces the block.
    pub(crate) fn replace(&mut self, block: Arc<Block>) {
        self.made.clear();
        self.block = block;
    }

    /// Returns a handle for a row.
    pub(crate) fn take(&mut self) -> Arc<Block> {
        if self.made.is_empty() {
            self.made.extend(std::iter::repeat_n(&self.block, HANDLE_BATCH).map(Arc::clone));
        }
        self.made.pop().unwrap_or_else(|| Arc::clone(&self.block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_not_utf_8_are_bad_and_the_others_stay() {
        let block = Block::of_lines(b"one\n\xFFtwo\nthr\xC3\xA9e\n".to_vec(), 0, &Arc::default());
        assert_eq!(block.text(), "one\n?two\nthr\u{e9}e\n");
        assert_eq!([0..3, 4..8, 9..14].map(|record| block.has_bad_line(record)), [false, true, false]);
        // A record of two lines.
        assert_eq!([0..8, 4..14].map(|record| block.has_bad_line(record)), [true, true]);
    }

    #[test]
    fn memory_is_used_again_after_the_last_row() {
        let pool = Arc::new(Pool::default());
        let bytes = pool.take();
        let address = bytes.as_ptr();
        let mut handles = Handles::new(Arc::new(Block::of_lines(bytes, 0, &pool)));
        let row = handles.take();
        drop(handles);
        let (other, is_same) = (pool.take(), |bytes: &Vec<u8>| std::ptr::eq(bytes.as_ptr(), address));
        assert!(!is_same(&other));
        drop(row);
        let again = pool.take();
        assert!(is_same(&again));
    }
}
