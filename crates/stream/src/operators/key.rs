//! Keys: what a keyed operator has a state for each of.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use crate::state::{Decode, Decoder, Encode, StateError};

/// State by key. The hasher is seeded at random, against keys that were chosen to collide; no result depends on it,
/// because operators emit in the order of the keys.
pub(super) type Table<K, V> = HashMap<K, V, ahash::RandomState>;

/// A value that can be kept in the state of an operator.
pub trait Value: Encode + Decode + Send + 'static {}

impl<V: Encode + Decode + Send + 'static> Value for V {}

/// A value that states are kept for. Results of one time are emitted in the order of their keys.
pub trait Key: Value + Clone + Ord + Hash {}

impl<K: Value + Clone + Ord + Hash> Key for K {}

/// The key of a value: a function from `&T` to the key, or [`key_into`].
///
/// Keys need no operator of their own: each keyed operator takes its key from its values.
pub trait KeyBy<T>: Send + 'static {
    /// The keys.
    type Key: Key;

    /// Calls `work` with the key of `value`.
    fn with_key<R>(&mut self, value: &T, work: impl FnOnce(&Self::Key) -> R) -> R;
}

impl<T, K: Key, F: FnMut(&T) -> K + Send + 'static> KeyBy<T> for F {
    type Key = K;

    fn with_key<R>(&mut self, value: &T, work: impl FnOnce(&K) -> R) -> R {
        work(&self(value))
    }
}

/// A key that is written into the memory of the key before; see [`key_into`].
#[derive(Clone, Debug)]
pub struct KeyInto<K, F> {
    key: K,
    write: F,
}

/// Returns the key that `write` leaves in its second argument, which has the key of the value before. Keys with
/// memory of their own, such as `String`, are then allocated when they are new, and not for each value.
///
/// ```
/// use sakiyomi_stream::operators::key_into;
///
/// let path = key_into(|line: &String, key: &mut String| {
///     key.clear();
///     key.push_str(line.split(' ').next().unwrap_or(""));
/// });
/// # use sakiyomi_stream::operators::KeyBy;
/// # let mut path = path;
/// # assert_eq!(path.with_key(&"/a b".to_owned(), String::clone), "/a");
/// ```
pub fn key_into<T, K: Key + Default, F: FnMut(&T, &mut K)>(write: F) -> KeyInto<K, F> {
    KeyInto { key: K::default(), write }
}

impl<T, K: Key, F: FnMut(&T, &mut K) + Send + 'static> KeyBy<T> for KeyInto<K, F> {
    type Key = K;

    fn with_key<R>(&mut self, value: &T, work: impl FnOnce(&K) -> R) -> R {
        (self.write)(value, &mut self.key);
        work(&self.key)
    }
}

/// A floating-point number in the total order of IEEE 754 (`f64::total_cmp`): -NaN, -∞ … -0 < +0 … +∞, NaN. A key, or a
/// value of `min`, `max` and `top_k`.
#[derive(Clone, Copy, Debug)]
pub struct OrderedF64(pub f64);

impl Ord for OrderedF64 {
    fn cmp(&self, other: &OrderedF64) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for OrderedF64 {
    fn partial_cmp(&self, other: &OrderedF64) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedF64 {
    fn eq(&self, other: &OrderedF64) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for OrderedF64 {}

impl Hash for OrderedF64 {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl Encode for OrderedF64 {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for OrderedF64 {
    fn decode(from: &mut Decoder<'_>) -> Result<OrderedF64, StateError> {
        f64::decode(from).map(OrderedF64)
    }
}
