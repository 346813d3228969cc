//! Hash table over the keys of the build side.
//!
//! A chained hash table: two arrays of 32-bit row numbers. The rows themselves are not moved.

use arrow_buffer::NullBuffer;
use arrow_row::Rows;

use crate::join::keys::{KeySlice, KeyValues, with_keys};

/// The end of a chain.
pub(super) const CHAIN_END: u32 = u32::MAX;

/// Odd multiplier from the golden ratio (Fibonacci hashing: Knuth, volume 3, section 6.4).
const HASH_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Maximum bytes of a table per row: a chain link, and one or two chain heads.
pub(super) const TABLE_ROW_BYTES: usize = 12;

/// Hashable keys.
pub(super) trait HashSlice: KeySlice {
    /// Returns the hash of a row's key, well mixed in all bits: tables use the low bits, partitions the high bits.
    fn hash(&self, row: usize) -> u64;
}

impl HashSlice for [u64] {
    fn hash(&self, row: usize) -> u64 {
        mix(self[row])
    }
}

impl HashSlice for [u128] {
    fn hash(&self, row: usize) -> u64 {
        mix(self[row] as u64 ^ mix((self[row] >> 64) as u64))
    }
}

impl HashSlice for Rows {
    fn hash(&self, row: usize) -> u64 {
        let row = self.row(row);
        let (words, rest) = row.data().as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let start = row.data().len() as u64;
        let words = words.iter().chain([&last]);
        words.fold(start, |hash, word| mix(hash.rotate_left(5) ^ u64::from_le_bytes(*word)))
    }
}

/// Folded multiplication: fast, and sufficient for chains and partitions.
fn mix(key: u64) -> u64 {
    let product = u128::from(key ^ HASH_FACTOR) * u128::from(HASH_FACTOR);
    let folded = product as u64 ^ (product >> 64) as u64;
    // A second multiplication, because keys that differ only in high bits would differ only in high bits of `folded`.
    folded.wrapping_mul(HASH_FACTOR) ^ folded >> 29
}

/// Replaces `hashes` with the hashes of all rows.
pub(super) fn hash_all(keys: &KeyValues, hashes: &mut Vec<u64>) {
    hashes.clear();
    with_keys!(keys, keys => hashes.extend((0..keys.rows()).map(|row| keys.hash(row))));
}

/// Chains of rows whose hashes have equal low bits.
#[derive(Debug)]
pub(super) struct HashTable {
    heads: Vec<u32>,
    next: Vec<u32>,
    mask: usize,
}

impl HashTable {
    /// Builds a table of fewer than 2^32 - 1 rows, without those whose key is null. Chains are in row order.
    pub(super) fn new(hashes: &[u64], nulls: Option<&NullBuffer>) -> HashTable {
        let slots = hashes.len().next_power_of_two().max(1);
        let mut table =
            HashTable { heads: vec![CHAIN_END; slots], next: vec![CHAIN_END; hashes.len()], mask: slots - 1 };
        for (row, &hash) in hashes.iter().enumerate().rev() {
            if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                let head = &mut table.heads[hash as usize & table.mask];
                table.next[row] = *head;
                *head = row as u32;
            }
        }
        table
    }

    /// Returns the first row of the chain of a hash, or [`CHAIN_END`].
    pub(super) fn first(&self, hash: u64) -> u32 {
        self.heads[hash as usize & self.mask]
    }

    /// Returns the next row in the chain of `row`, or [`CHAIN_END`].
    pub(super) fn after(&self, row: u32) -> u32 {
        self.next[row as usize]
    }
}
