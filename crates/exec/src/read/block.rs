//! A block as the caller's function receives it.

use std::ops::Deref;

/// The bytes of a block or of whole records, and where they come from.
#[derive(Clone, Copy, Debug)]
pub struct Block<'b> {
    bytes: &'b [u8],
    offset: u64,
    file: usize,
    number: Option<u64>,
}

impl<'b> Block<'b> {
    pub(super) fn new(bytes: &'b [u8], offset: u64, file: usize, number: Option<u64>) -> Block<'b> {
        Block { bytes, offset, file, number }
    }

    /// Returns the bytes, which are never empty; the block dereferences to them too.
    #[must_use]
    pub fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    /// Returns the offset of its first byte, from the beginning of the file or of the stream, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of its file, from 0, in the order in which the files were given.
    #[must_use]
    pub fn file(&self) -> usize {
        self.file
    }

    /// Returns its number in its file, from 0: the offset from the start of the range, divided by the block size.
    ///
    /// # Panics
    /// If no block size was set by [`BlockedRead::block`](super::BlockedRead::block), or records are read: how many
    /// calls there are then depends on what is cached.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.expect("blocks have numbers if their size was set, and no records are read")
    }
}

impl Deref for Block<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}
