//! Rows of any schema as bytes, one after the other: the form in which a sort moves, spills and reads them.
//!
//! ```text
//! | null bits | values of 1 to 32 bytes, codes of dictionaries, lengths | row number | bytes of variable values |
//!   '------------------------- fixed part, the same for all rows -----------------'
//! ```
//!
//! A row is read and written as a whole, so that it costs two or three cache lines wherever it lies; columns come back
//! from it in blocks of [`BLOCK_ROWS`], which stay in the first levels of cache ([`stage`], [`gather`]).

mod builder;
pub(crate) mod dictionary;
pub(crate) mod gather;
pub(crate) mod layout;
pub(crate) mod stage;
pub(crate) mod view;

/// Rows that are packed, unpacked or compared at a time: with rows of about 100 bytes they fit in a cache of 64 KiB.
pub(crate) const BLOCK_ROWS: usize = 512;

/// A row, as operators look at it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowView<'a> {
    /// Its fixed part.
    pub(crate) fixed: &'a [u8],
    /// Its variable values; other bytes may follow.
    pub(crate) variable: &'a [u8],
}

/// The little-endian number of four bytes at an offset.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, offset))
}

/// A number of bytes at an offset.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes[offset..offset + N].try_into().expect("a slice of that length")
}
