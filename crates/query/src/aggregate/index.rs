//! An open-addressing hash table of group numbers. The caller stores and compares the keys.

/// The first group number.
pub(crate) const FIRST_GROUP: u32 = 1;
/// The group of rows that the condition excludes.
pub(crate) const NO_GROUP: u32 = 0;

/// Minimum number of slots for two groups: at a load factor of 2/3 a lookup reads two to five adjacent slots.
const SLOTS_PER_TWO_GROUPS: usize = 3;
/// Slots of an empty index.
const SLOTS_MIN: usize = 64;

/// The upper half of a hash, which is compared before the key, and a group. Group 0 marks an empty slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    tag: u32,
    group: u32,
}

/// A map from hashes to groups.
#[derive(Debug)]
pub(crate) struct Index {
    slots: Vec<Slot>,
    groups: usize,
}

impl Default for Index {
    fn default() -> Index {
        Index { slots: vec![Slot::default(); SLOTS_MIN], groups: 0 }
    }
}

/// Returns the number of slots for a number of groups.
fn slots_for(groups: usize) -> usize {
    (groups.saturating_mul(SLOTS_PER_TWO_GROUPS) / 2).next_power_of_two().max(SLOTS_MIN)
}

/// Returns the size in bytes of an index for a number of groups.
pub(crate) fn bytes_for(groups: usize) -> usize {
    slots_for(groups) * size_of::<Slot>()
}

impl Index {
    /// Returns the group with this hash for which `is_equal` is true, or inserts the group `new`.
    pub(crate) fn find_or_insert(&mut self, hash: u64, new: u32, is_equal: impl Fn(u32) -> bool) -> u32 {
        let tag = (hash >> 32) as u32;
        let mask = self.slots.len() - 1;
        let mut place = tag as usize & mask;
        loop {
            let slot = self.slots[place];
            if slot.group == NO_GROUP {
                break;
            }
            if slot.tag == tag && is_equal(slot.group) {
                return slot.group;
            }
            place = (place + 1) & mask;
        }
        self.slots[place] = Slot { tag, group: new };
        self.groups += 1;
        if slots_for(self.groups) > self.slots.len() {
            self.grow(self.slots.len() * 2);
        }
        new
    }

    pub(crate) fn reserve(&mut self, groups: usize) {
        let slots = slots_for(groups);
        if slots > self.slots.len() {
            self.grow(slots);
        }
    }

    fn grow(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        for slot in old.into_iter().filter(|slot| slot.group != NO_GROUP) {
            let mut place = slot.tag as usize & (slots - 1);
            while self.slots[place].group != NO_GROUP {
                place = (place + 1) & (slots - 1);
            }
            self.slots[place] = slot;
        }
    }

    /// Removes all groups and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(Slot::default());
        self.groups = 0;
    }
}

/// 2^64 divided by the golden ratio: odd, and without a pattern of bits (Knuth 6.4).
const HASH_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
/// The first of the primes that wyhash uses.
const HASH_SEED: u64 = 0xA076_1D64_78BD_642F;

/// XOR of both halves of the 128-bit product.
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

pub(crate) fn hash_word(word: u64) -> u64 {
    folded(word ^ HASH_SEED, HASH_FACTOR)
}

pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = HASH_SEED ^ bytes.len() as u64;
    for word in words {
        hash = folded(hash ^ u64::from_le_bytes(*word), HASH_FACTOR);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    folded(hash ^ u64::from_le_bytes(last), HASH_FACTOR)
}
