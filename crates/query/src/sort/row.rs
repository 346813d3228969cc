//! Packed rows of any schema: the row format in which a sort moves, spills and reads rows.
//!
//! ```text
//! | null bits | values of 1 to 32 bytes, codes of dictionaries, lengths | row number | bytes of variable values |
//!   '------------------------- fixed part, the same for all rows -----------------'
//! ```
//!
//! An access to a row touches two or three cache lines, because its values are adjacent. Conversions from and to
//! columns work on blocks of [`BLOCK_ROWS`], which stay in the L1 and L2 caches ([`stage`], [`gather`]).

mod builder;
pub(crate) mod dictionary;
pub(crate) mod gather;
pub(crate) mod layout;
mod nulls;
pub(crate) mod stage;
pub(crate) mod view;

/// Rows packed, unpacked or encoded at a time: with rows of about 100 bytes they fit in a 64 KiB cache.
pub(crate) const BLOCK_ROWS: usize = 512;

/// A borrowed row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowView<'a> {
    /// Its fixed part.
    pub(crate) fixed: &'a [u8],
    /// Its variable values; other bytes may follow.
    pub(crate) variable: &'a [u8],
}

/// Returns the little-endian `u32` at an offset.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, offset))
}

/// Returns the `N` bytes at an offset.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes[offset..offset + N].try_into().expect("a slice of that length")
}
