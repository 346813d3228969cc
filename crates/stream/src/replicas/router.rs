//! The bin of a value.

use crate::operator::Recover;
use crate::operators::KeyBy;
use crate::state::Encode;

/// Takes the key of each value and hashes it to a bin.
pub(crate) struct Router<K> {
    key: K,
    bins: usize,
    /// The encoding of the last key.
    bytes: Vec<u8>,
}

impl<K: Send + 'static> Recover for Router<K> {}

impl<K> Router<K> {
    pub(crate) fn new(key: K, bins: usize) -> Router<K> {
        Router { key, bins, bytes: Vec::new() }
    }

    pub(crate) fn bin<T>(&mut self, value: &T) -> u16
    where
        K: KeyBy<T>,
    {
        let Router { key, bins, bytes } = self;
        bytes.clear();
        key.with_key(value, |key| key.encode(bytes));
        bin(hash(bytes), *bins)
    }
}

/// Returns the bin of a hash: its position among all hashes, in units of a bin.
fn bin(hash: u64, bins: usize) -> u16 {
    ((u128::from(hash) * bins as u128) >> 64) as u16
}

/// First value of the hash, and its multiplier: the fractional part of the golden ratio, odd (Knuth, TAOCP 3, section 6.4).
const HASH_MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns a hash of bytes by words of eight: the same on all machines and in all versions, because snapshots hold
/// states by bins.
fn hash(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| {
        let hash = (hash ^ word).wrapping_mul(HASH_MULTIPLIER);
        hash ^ hash >> 32
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(HASH_MULTIPLIER, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    // The length tells a rest from the same with zeros; the last round carries low bits to high ones.
    mix(mix(mix(hash, u64::from_le_bytes(last)), bytes.len() as u64), 0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn keys_that_count_up_are_spread_over_all_bins() {
        let mut router = Router::new(|number: &u64| *number, 64);
        let mut tuples = [0_u32; 64];
        (0..64_000_u64).for_each(|number| tuples[usize::from(router.bin(&number))] += 1);
        // About 1,000 each; the standard deviation of random bins is 31.
        assert!(tuples.iter().all(|tuples| (800..1_200).contains(tuples)), "{tuples:?}");
        let mut router = Router::new(|number: &u64| format!("/page/{number}"), 3);
        let mut tuples = [0_u32; 3];
        (0..3_000_u64).for_each(|number| tuples[usize::from(router.bin(&number))] += 1);
        assert!(tuples.iter().all(|tuples| (800..1_200).contains(tuples)), "{tuples:?}");
    }

    #[test]
    fn the_bins_of_keys_stay_the_same_in_all_versions() {
        let bins = [&b""[..], b"a", b"12345678", b"12345678\0", b"a longer key of several words"];
        let bins = bins.map(|bytes| bin(hash(bytes), 1 << 16));
        assert_eq!(bins, [46915, 33011, 4317, 38590, 64636]);
    }
}
