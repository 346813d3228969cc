//! Hash tables over the keys of the build side.
//!
//! Rows of equal hash are chained by number: a table is two arrays of 32-bit numbers, and the rows stay as they came.

use arrow_buffer::NullBuffer;
use arrow_row::Rows;

use crate::join::keys::{KeySlice, KeyValues, with_keys};

/// The end of a chain.
pub(super) const CHAIN_END: u32 = u32::MAX;

/// An odd number with bits all over, from the golden ratio (Knuth, volume 3, 6.4).
const HASH_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Bytes of a table for each row: its place in a chain, and one or two heads of chains.
pub(super) const TABLE_ROW_BYTES: usize = 12;

/// Keys that have hashes.
pub(super) trait HashSlice: KeySlice {
    /// A hash, all of whose bits depend on all bits of the key.
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

/// The product's halves folded: fast, and good enough for chains and partitions.
fn mix(key: u64) -> u64 {
    let product = u128::from(key ^ HASH_FACTOR) * u128::from(HASH_FACTOR);
    let folded = product as u64 ^ (product >> 64) as u64;
    // Once more: keys that differ in a few high bits only differ in the low half's high bits only.
    folded.wrapping_mul(HASH_FACTOR) ^ folded >> 29
}

/// Replaces `hashes` by those of all rows.
pub(super) fn hash_all(keys: &KeyValues, hashes: &mut Vec<u64>) {
    hashes.clear();
    with_keys!(keys, keys => hashes.extend((0..keys.rows()).map(|row| keys.hash(row))));
}

/// Chains of rows with equal hashes.
#[derive(Debug)]
pub(super) struct HashTable {
    heads: Vec<u32>,
    next: Vec<u32>,
    mask: usize,
}

impl HashTable {
    /// Of rows with some hashes, fewer than 2^32 - 1, but those whose key is null. Chains are in the order of the rows.
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

    /// The first row that may be equal to one with a hash.
    pub(super) fn first(&self, hash: u64) -> u32 {
        self.heads[hash as usize & self.mask]
    }

    /// The row after another one in its chain.
    pub(super) fn after(&self, row: u32) -> u32 {
        self.next[row as usize]
    }
}
