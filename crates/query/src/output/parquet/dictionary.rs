//! Dictionary codes for the distinct values of a column chunk, abandoned early if they do not pay.

/// Maximum bytes of a dictionary, which readers keep in memory while reading the chunk; as in other writers.
pub(super) const DICTIONARY_MAX_BYTES: usize = 1 << 20;

/// Values between checks of whether a dictionary can still pay.
pub(super) const CHECK_VALUES: usize = 4096;

/// Slots of an empty table; they fit into the first-level cache.
const SLOTS_MIN: usize = 1024;

/// Growth factor of a table when it is half full.
const TABLE_GROWTH: usize = 4;

/// Maximum probes for one value, after which the table is abandoned: keys may be chosen to collide.
const PROBES_MAX: usize = 256;

/// The code of an empty slot.
const EMPTY_CODE: u32 = u32::MAX;

/// Digits of pi, as a constant without a pattern for multiplicative hashing.
const MIX_LOW: u64 = 0x243f_6a88_85a3_08d3;
/// The next digits of pi, for the other half of a key.
const MIX_HIGH: u64 = 0x1319_8a2e_0370_7345;

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: u128,
    code: u32,
}

/// Open-addressing hash table from keys to codes, numbered from 0 in order of first occurrence.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Slot>,
    entries: u32,
}

impl Table {
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.slots.resize(SLOTS_MIN, Slot { key: 0, code: EMPTY_CODE });
        self.entries = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.entries as usize
    }

    pub(super) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    /// Returns the code of a key, and whether it is new; `None` if the table is full. `is_same(code)` tells whether a
    /// code with the same key has the same value.
    #[inline]
    pub(super) fn code_of(&mut self, key: u128, is_same: impl Fn(u32) -> bool) -> Option<(u16, bool)> {
        let mask = self.slots.len() - 1;
        let mut at = hash(key) as usize & mask;
        for _ in 0..PROBES_MAX {
            let slot = &mut self.slots[at];
            if slot.code == EMPTY_CODE {
                let code = u16::try_from(self.entries).ok()?;
                *slot = Slot { key, code: self.entries };
                self.entries += 1;
                if self.entries as usize * 2 > self.slots.len() {
                    self.grow();
                }
                return Some((code, true));
            }
            if slot.key == key && is_same(slot.code) {
                return Some((slot.code as u16, false));
            }
            at = (at + 1) & mask;
        }
        None
    }

    #[cold]
    fn grow(&mut self) {
        let slots = vec![Slot { key: 0, code: EMPTY_CODE }; self.slots.len() * TABLE_GROWTH];
        let mask = slots.len() - 1;
        for slot in
            std::mem::replace(&mut self.slots, slots).into_iter().filter(|slot| slot.code != EMPTY_CODE)
        {
            let mut at = hash(slot.key) as usize & mask;
            while self.slots[at].code != EMPTY_CODE {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }
}

/// Multiplies the two halves of a key and folds the product.
#[inline]
fn hash(key: u128) -> u64 {
    let product = u128::from(key as u64 ^ MIX_LOW) * u128::from((key >> 64) as u64 ^ MIX_HIGH);
    product as u64 ^ (product >> 64) as u64
}

/// Maximum bytes of a value that a key can hold verbatim; the last byte of a key is their number.
const KEY_BYTES: usize = 15;

/// Marks keys that are hashes of longer values.
const IS_HASHED: u128 = 0xff << 120;

/// Returns the key of `length` bytes of `source` from `start` on. Short values are their own key ([`is_exact`]);
/// longer ones are hashed.
#[inline]
pub(super) fn key_of(source: &[u8], start: usize, length: usize) -> u128 {
    if length <= KEY_BYTES {
        let mask = (1_u128 << (length * 8)) - 1;
        return first_bytes(source, start, length) & mask | (length as u128) << 120;
    }
    let (mut low, mut high) = (MIX_LOW ^ length as u64, MIX_HIGH);
    let value = &source[start..start + length];
    let (words, _) = value.as_chunks::<16>();
    let last = first_bytes(value, length - 16, 16);
    for word in words.iter().map(|word| u128::from_le_bytes(*word)).chain([last]) {
        let mixed = hash(word ^ (u128::from(high) << 64 | u128::from(low)));
        (low, high) = (high.rotate_left(23) ^ mixed, low.wrapping_add(mixed));
    }
    (u128::from(high) << 64 | u128::from(low)) | IS_HASHED
}

/// Returns whether a key holds its value verbatim, so that equal keys mean equal values.
#[inline]
pub(super) fn is_exact(key: u128) -> bool {
    key & IS_HASHED != IS_HASHED
}

/// Sixteen bytes of `source` from `start` on, little-endian; bytes after `length` are arbitrary.
#[inline]
pub(super) fn first_bytes(source: &[u8], start: usize, length: usize) -> u128 {
    match source.get(start..start + 16) {
        Some(bytes) => u128::from_le_bytes(bytes.try_into().expect("16 bytes")),
        None => {
            let mut bytes = [0; 16];
            let length = length.min(16);
            bytes[..length].copy_from_slice(&source[start..start + length]);
            u128::from_le_bytes(bytes)
        }
    }
}

/// Returns whether a dictionary may still pay after `values` values with `distinct` distinct ones. A column of unique
/// values fails the first check; one whose random values repeat ten times on average passes all.
pub(super) fn is_promising(values: usize, distinct: usize) -> bool {
    let (of, at_most) = match values {
        ..16_384 => (16, 15),
        16_384..32_768 => (4, 3),
        _ => (2, 1),
    };
    values < CHECK_VALUES || distinct * of <= values * at_most
}

#[cfg(test)]
mod tests;
