//! The first value of each key.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;

use super::key::{KeyBy, Table};
use super::late::LateCounter;
use super::window::Pool;
use crate::operator::{Emitter, Operator, Recover};
use crate::state::{Decode, Encode, Frame, SaveState, StateError};

/// Emits the first value of each key in each tumbling window, at once. Values whose window has ended are dropped and
/// counted.
pub struct WindowDistinct<T, F, K: KeyBy<T>> {
    size_ns: u64,
    time: F,
    key: K,
    windows: BTreeMap<u64, Table<K::Key, ()>>,
    pool: Pool<K::Key, ()>,
    watermark_ns: u64,
    late: LateCounter,
    types: PhantomData<fn(T)>,
}

const WINDOW_FRAME: Frame = Frame { kind: "distinct values of windows", version: 1 };

impl<T, F: FnMut(&T) -> u64, K: KeyBy<T>> WindowDistinct<T, F, K> {
    /// Windows of `size_ns`, the first of which begins at event time 0.
    ///
    /// # Panics
    /// If the size is 0.
    pub fn new(size_ns: u64, time: F, key: K) -> WindowDistinct<T, F, K> {
        assert!(size_ns > 0, "a window has a size");
        WindowDistinct {
            size_ns,
            time,
            key,
            windows: BTreeMap::new(),
            pool: Pool::default(),
            watermark_ns: 0,
            late: LateCounter::default(),
            types: PhantomData,
        }
    }
}

impl<T, F, K: KeyBy<T>> WindowDistinct<T, F, K> {
    /// Returns the number of values that were dropped because they were late.
    pub fn late_counter(&self) -> LateCounter {
        self.late.clone()
    }

    /// Returns the number of keys that are kept, of all windows.
    pub fn entries(&self) -> usize {
        self.windows.values().map(Table::len).sum()
    }
}

impl<T: 'static, F: FnMut(&T) -> u64 + Send + 'static, K: KeyBy<T>> Recover for WindowDistinct<T, F, K> {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl<T: Send + 'static, F: FnMut(&T) -> u64 + Send + 'static, K: KeyBy<T>> Operator
    for WindowDistinct<T, F, K>
{
    type In = T;
    type Out = T;

    fn process(&mut self, value: T, out: &mut Emitter<T>) {
        let number = (self.time)(&value) / self.size_ns;
        if number < self.watermark_ns / self.size_ns {
            self.late.count();
            return;
        }
        let WindowDistinct { key, windows, pool, .. } = self;
        let keys = windows.entry(number).or_insert_with(|| pool.get());
        if key.with_key(&value, |key| insert(keys, key)) {
            out.emit(value);
        }
    }

    fn watermark(&mut self, time_ns: u64, _: &mut Emitter<T>) {
        self.watermark_ns = self.watermark_ns.max(time_ns);
        let open_from = self.watermark_ns / self.size_ns;
        while let Some(first) = self.windows.first_entry().filter(|first| *first.key() < open_from) {
            let keys = first.remove();
            let used = keys.len();
            self.pool.put(keys, used);
        }
    }
}

/// Inserts a key; whether it is new.
fn insert<K: super::Key>(keys: &mut Table<K, ()>, key: &K) -> bool {
    let is_new = !keys.contains_key(key);
    if is_new {
        keys.insert(key.clone(), ());
    }
    is_new
}

impl<T, F, K: KeyBy<T>> SaveState for WindowDistinct<T, F, K> {
    fn save(&self, out: &mut Vec<u8>) {
        WINDOW_FRAME.save(out, |body| {
            (self.size_ns, self.watermark_ns, self.late.get()).encode(body);
            self.windows.encode(body);
        });
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let (watermark_ns, late, windows) = WINDOW_FRAME.load(bytes, |body| {
            body.setting("a window size in ns of", &self.size_ns)?;
            Ok((u64::decode(body)?, u64::decode(body)?, BTreeMap::decode(body)?))
        })?;
        (self.watermark_ns, self.windows) = (watermark_ns, windows);
        self.late.set(late);
        Ok(())
    }
}

/// Treatment of a new key by a [`Distinct`] operator that has all the keys that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysFull {
    /// Panics, by which the operator stops and the stream reports a [`Failure`](crate::Failure).
    Stop,
    /// Forgets the key that was new the longest time ago: its next value is emitted again.
    Forget,
    /// Drops the value.
    Drop,
}

/// Emits the first value of each key, over all time, with a bounded number of keys.
pub struct Distinct<T, K: KeyBy<T>> {
    keys_max: usize,
    when_full: KeysFull,
    key: K,
    keys: Table<K::Key, ()>,
    /// Keys from the oldest one; only of [`KeysFull::Forget`].
    order: VecDeque<K::Key>,
    beyond: LateCounter,
    types: PhantomData<fn(T)>,
}

const FRAME: Frame = Frame { kind: "distinct values", version: 1 };

impl<T, K: KeyBy<T>> Distinct<T, K> {
    /// Keeps `keys_max` keys.
    ///
    /// # Panics
    /// If no key may be kept.
    pub fn new(keys_max: usize, when_full: KeysFull, key: K) -> Distinct<T, K> {
        assert!(keys_max > 0, "distinct values need at least one key");
        let (keys, order, beyond) = (Table::default(), VecDeque::new(), LateCounter::default());
        Distinct { keys_max, when_full, key, keys, order, beyond, types: PhantomData }
    }

    /// Returns the number of keys that were forgotten, or of values that were dropped.
    pub fn beyond_counter(&self) -> LateCounter {
        self.beyond.clone()
    }

    /// Returns the number of keys that are kept.
    pub fn entries(&self) -> usize {
        self.keys.len()
    }

    /// Makes room for a new key; whether there is any.
    fn make_room(&mut self) -> bool {
        if self.keys.len() < self.keys_max {
            return true;
        }
        assert!(
            self.when_full != KeysFull::Stop,
            "distinct values have reached their {} keys: allow more, or let the oldest be forgotten",
            self.keys_max
        );
        self.beyond.count();
        if let Some(oldest) = self.order.pop_front() {
            self.keys.remove(&oldest);
        }
        self.when_full == KeysFull::Forget
    }
}

impl<T: 'static, K: KeyBy<T>> Recover for Distinct<T, K> {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl<T: Send + 'static, K: KeyBy<T>> Operator for Distinct<T, K> {
    type In = T;
    type Out = T;

    fn process(&mut self, value: T, out: &mut Emitter<T>) {
        let keys = &self.keys;
        let new = self.key.with_key(&value, |key| (!keys.contains_key(key)).then(|| key.clone()));
        if let Some(key) = new
            && self.make_room()
        {
            if self.when_full == KeysFull::Forget {
                self.order.push_back(key.clone());
            }
            self.keys.insert(key, ());
            out.emit(value);
        }
    }
}

impl<T, K: KeyBy<T>> SaveState for Distinct<T, K> {
    fn save(&self, out: &mut Vec<u8>) {
        FRAME.save(out, |body| {
            (self.when_full == KeysFull::Forget, self.beyond.get()).encode(body);
            // The order has all keys, if there is one.
            if self.when_full == KeysFull::Forget { self.order.encode(body) } else { self.keys.encode(body) }
        });
    }

    /// The number of keys may be another one than before, if the keys fit.
    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let forgets = self.when_full == KeysFull::Forget;
        let (beyond, keys, order) = FRAME.load(bytes, |body| {
            body.setting("an order of keys that is", &forgets)?;
            let beyond = u64::decode(body)?;
            let (keys, order): (Table<_, ()>, VecDeque<K::Key>) = if forgets {
                let order: VecDeque<K::Key> = Decode::decode(body)?;
                (order.iter().map(|key| (key.clone(), ())).collect(), order)
            } else {
                (Decode::decode(body)?, VecDeque::new())
            };
            if forgets && keys.len() != order.len() {
                return Err(StateError::Value("a list of different keys"));
            }
            if keys.len() > self.keys_max {
                let (found, expected) = (keys.len().to_string(), self.keys_max.to_string());
                return Err(StateError::Settings { what: "a number of keys of", found, expected });
            }
            Ok((beyond, keys, order))
        })?;
        (self.keys, self.order) = (keys, order);
        self.beyond.set(beyond);
        Ok(())
    }
}
