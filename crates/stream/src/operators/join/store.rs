//! Values of one input of a join, by time and key.
//!
//! Values of a span of time stand in one list and are freed together. Those of a key are chained from the latest to the
//! first, so that a value costs no allocation of its own.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::operators::key::{Key, Table, Value};
use crate::operators::window::Pool;
use crate::state::{Decode, Decoder, Encode, StateError};

pub(super) struct Store<K, V> {
    width_ns: u64,
    /// By their number: the time of their begin over the width.
    buckets: BTreeMap<u64, Bucket<K, V>>,
    pool: Pool<K, usize>,
}

struct Bucket<K, V> {
    /// The latest entry of each key.
    heads: Table<K, usize>,
    entries: Vec<Entry<V>>,
}

struct Entry<V> {
    value: V,
    time_ns: u64,
    arrival_ns: u64,
    /// The entry of the same key before; itself or a later one if there is none.
    before: usize,
}

/// Where a value is to be put: its bucket, and the entry of its key before.
pub(super) struct Place {
    bucket: u64,
    before: usize,
}

/// In place of the entry before the first one of a key.
const ENTRY_NONE: usize = usize::MAX;

impl<K: Key, V: Value> Store<K, V> {
    pub(super) fn new(width_ns: u64) -> Store<K, V> {
        Store { width_ns, buckets: BTreeMap::new(), pool: Pool::default() }
    }

    /// Calls `found` with the values of a key in a range of times, and their arrivals.
    pub(super) fn matches(&self, key: &K, times: RangeInclusive<u64>, mut found: impl FnMut(&V, u64)) {
        let buckets = times.start() / self.width_ns..=times.end() / self.width_ns;
        for bucket in self.buckets.range(buckets).map(|(_, bucket)| bucket) {
            let mut at = bucket.heads.get(key).copied().unwrap_or(ENTRY_NONE);
            while let Some(entry) = bucket.entries.get(at) {
                if times.contains(&entry.time_ns) {
                    found(&entry.value, entry.arrival_ns);
                }
                at = entry.before;
            }
        }
    }

    /// Makes a place for a value of this key and time, which is to be put there next.
    pub(super) fn place(&mut self, key: &K, time_ns: u64) -> Place {
        let Store { width_ns, buckets, pool } = self;
        let number = time_ns / *width_ns;
        let bucket =
            buckets.entry(number).or_insert_with(|| Bucket { heads: pool.get(), entries: Vec::new() });
        Place { bucket: number, before: bucket.link(key) }
    }

    /// Puts a value where [`Store::place`] said.
    pub(super) fn put(&mut self, place: Place, value: V, time_ns: u64, arrival_ns: u64) {
        if let Some(bucket) = self.buckets.get_mut(&place.bucket) {
            bucket.entries.push(Entry { value, time_ns, arrival_ns, before: place.before });
        }
    }

    /// Frees the buckets whose times are all before this one.
    pub(super) fn free_before(&mut self, time_ns: u64) {
        let number = time_ns / self.width_ns;
        while let Some(first) = self.buckets.first_entry().filter(|first| *first.key() < number) {
            let Bucket { heads, .. } = first.remove();
            let used = heads.len();
            self.pool.put(heads, used);
        }
    }

    /// Returns the values with their times, in the order of the buckets.
    pub(super) fn into_values(self) -> Vec<(u64, V)> {
        let entries = self.buckets.into_values().flat_map(|bucket| bucket.entries);
        entries.map(|entry| (entry.time_ns, entry.value)).collect()
    }

    pub(super) fn clear(&mut self) {
        self.buckets.clear();
    }

    pub(super) fn entries(&self) -> usize {
        self.buckets.values().map(|bucket| bucket.entries.len()).sum()
    }

    /// Reads a store of the same width.
    pub(super) fn decode_as(&self, from: &mut Decoder<'_>) -> Result<Store<K, V>, StateError> {
        let mut store = Store::new(self.width_ns);
        for _ in 0..from.length()? {
            let number = u64::decode(from)?;
            let mut bucket = Bucket { heads: Table::default(), entries: Vec::new() };
            for _ in 0..from.length()? {
                let (key, value) = (K::decode(from)?, V::decode(from)?);
                let (time_ns, arrival_ns) = Decode::decode(from)?;
                let before = bucket.link(&key);
                bucket.entries.push(Entry { value, time_ns, arrival_ns, before });
            }
            if store.buckets.insert(number, bucket).is_some() {
                return Err(StateError::Value("a list of different times"));
            }
        }
        Ok(store)
    }
}

impl<K: Key, V> Bucket<K, V> {
    /// Makes the next entry the latest of a key; the previous one.
    fn link(&mut self, key: &K) -> usize {
        let next = self.entries.len();
        match self.heads.get_mut(key) {
            Some(head) => std::mem::replace(head, next),
            None => {
                self.heads.insert(key.clone(), next);
                ENTRY_NONE
            }
        }
    }

    /// Returns the key of each entry.
    fn keys(&self) -> Vec<&K> {
        let mut keys: Vec<Option<&K>> = vec![None; self.entries.len()];
        for (key, &head) in &self.heads {
            let mut at = head;
            while let Some(entry) = self.entries.get(at) {
                keys[at] = Some(key);
                at = entry.before;
            }
        }
        keys.into_iter().flatten().collect()
    }
}

/// With the entries in the order in which they came.
impl<K: Key, V: Value> Encode for Store<K, V> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.buckets.len() as u64).encode(out);
        for (number, bucket) in &self.buckets {
            number.encode(out);
            (bucket.entries.len() as u64).encode(out);
            for (key, entry) in bucket.keys().into_iter().zip(&bucket.entries) {
                key.encode(out);
                entry.value.encode(out);
                (entry.time_ns, entry.arrival_ns).encode(out);
            }
        }
    }
}
