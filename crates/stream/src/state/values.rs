//! Encodings of the types of keys and values.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

use super::{Decode, Decoder, Encode, StateError};

/// Little-endian numbers.
macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Encode for $number {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }

        impl Decode for $number {
            fn decode(from: &mut Decoder<'_>) -> Result<$number, StateError> {
                from.array().map(<$number>::from_le_bytes)
            }
        }
    )*};
}

numbers!(u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

impl Encode for u8 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn encode_all(values: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(values);
    }
}

impl Decode for u8 {
    fn decode(from: &mut Decoder<'_>) -> Result<u8, StateError> {
        from.array().map(|[byte]| byte)
    }

    fn decode_all(count: usize, from: &mut Decoder<'_>) -> Result<Vec<u8>, StateError> {
        from.take(count).map(<[u8]>::to_vec)
    }
}

/// Encoded as `u64` on all machines.
impl Encode for usize {
    fn encode(&self, out: &mut Vec<u8>) {
        (*self as u64).encode(out);
    }
}

impl Decode for usize {
    fn decode(from: &mut Decoder<'_>) -> Result<usize, StateError> {
        usize::try_from(u64::decode(from)?).map_err(|_| StateError::Value("a number of this machine"))
    }
}

impl Encode for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl Decode for bool {
    fn decode(from: &mut Decoder<'_>) -> Result<bool, StateError> {
        match u8::decode(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(StateError::Value("true or false")),
        }
    }
}

impl Encode for char {
    fn encode(&self, out: &mut Vec<u8>) {
        u32::from(*self).encode(out);
    }
}

impl Decode for char {
    fn decode(from: &mut Decoder<'_>) -> Result<char, StateError> {
        char::from_u32(u32::decode(from)?).ok_or(StateError::Value("a character"))
    }
}

impl Encode for () {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(0);
    }
}

impl Decode for () {
    fn decode(from: &mut Decoder<'_>) -> Result<(), StateError> {
        if u8::decode(from)? == 0 { Ok(()) } else { Err(StateError::Value("empty")) }
    }
}

impl Encode for str {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u64).encode(out);
        out.extend_from_slice(self.as_bytes());
    }
}

impl Encode for String {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_str().encode(out);
    }
}

impl Decode for String {
    fn decode(from: &mut Decoder<'_>) -> Result<String, StateError> {
        let length = from.length()?;
        let text = std::str::from_utf8(from.take(length)?);
        text.map(str::to_owned).map_err(|_| StateError::Value("text in UTF-8"))
    }
}

impl<T: Encode> Encode for [T] {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u64).encode(out);
        T::encode_all(self, out);
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_slice().encode(out);
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(from: &mut Decoder<'_>) -> Result<Vec<T>, StateError> {
        let count = from.length()?;
        T::decode_all(count, from)
    }
}

impl<T: Encode> Encode for VecDeque<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u64).encode(out);
        let (first, second) = self.as_slices();
        T::encode_all(first, out);
        T::encode_all(second, out);
    }
}

impl<T: Decode> Decode for VecDeque<T> {
    fn decode(from: &mut Decoder<'_>) -> Result<VecDeque<T>, StateError> {
        Vec::decode(from).map(VecDeque::from)
    }
}

impl<T: Encode + ?Sized> Encode for Box<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

impl<T: Decode> Decode for Box<T> {
    fn decode(from: &mut Decoder<'_>) -> Result<Box<T>, StateError> {
        T::decode(from).map(Box::new)
    }
}

impl Decode for Box<str> {
    fn decode(from: &mut Decoder<'_>) -> Result<Box<str>, StateError> {
        String::decode(from).map(String::into_boxed_str)
    }
}

impl<T: Decode> Decode for Box<[T]> {
    fn decode(from: &mut Decoder<'_>) -> Result<Box<[T]>, StateError> {
        Vec::decode(from).map(Vec::into_boxed_slice)
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        self.iter().for_each(|value| value.encode(out));
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(from: &mut Decoder<'_>) -> Result<Option<T>, StateError> {
        bool::decode(from)?.then(|| T::decode(from)).transpose()
    }
}

impl<T: Encode, const N: usize> Encode for [T; N] {
    /// With its length, so that an array without elements has an encoding.
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_slice().encode(out);
    }
}

impl<T: Decode, const N: usize> Decode for [T; N] {
    fn decode(from: &mut Decoder<'_>) -> Result<[T; N], StateError> {
        Vec::decode(from)?.try_into().map_err(|_| StateError::Value("an array of this length"))
    }
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: Encode),+> Encode for ($($name,)+) {
            #[allow(non_snake_case)] // a value has the name of its type
            fn encode(&self, out: &mut Vec<u8>) {
                let ($($name,)+) = self;
                $($name.encode(out);)+
            }
        }

        impl<$($name: Decode),+> Decode for ($($name,)+) {
            fn decode(from: &mut Decoder<'_>) -> Result<Self, StateError> {
                Ok(($($name::decode(from)?,)+))
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);

impl<K: Encode, V: Encode> Encode for BTreeMap<K, V> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u64).encode(out);
        for (key, value) in self {
            key.encode(out);
            value.encode(out);
        }
    }
}

impl<K: Decode + Ord, V: Decode> Decode for BTreeMap<K, V> {
    fn decode(from: &mut Decoder<'_>) -> Result<BTreeMap<K, V>, StateError> {
        let mut map = BTreeMap::new();
        for _ in 0..from.length()? {
            if map.insert(K::decode(from)?, V::decode(from)?).is_some() {
                return Err(StateError::Value("a map with different keys"));
            }
        }
        Ok(map)
    }
}

/// In the order of the keys.
impl<K: Encode + Ord, V: Encode, S> Encode for HashMap<K, V, S> {
    fn encode(&self, out: &mut Vec<u8>) {
        let mut entries: Vec<(&K, &V)> = self.iter().collect();
        entries.sort_unstable_by_key(|&(key, _)| key);
        (entries.len() as u64).encode(out);
        for (key, value) in entries {
            key.encode(out);
            value.encode(out);
        }
    }
}

impl<K: Decode + Hash + Eq, V: Decode, S: BuildHasher + Default> Decode for HashMap<K, V, S> {
    fn decode(from: &mut Decoder<'_>) -> Result<HashMap<K, V, S>, StateError> {
        let count = from.length()?;
        let reserve = count.min(from.reserve_max::<(K, V)>());
        let mut map = HashMap::with_capacity_and_hasher(reserve, S::default());
        for _ in 0..count {
            if map.insert(K::decode(from)?, V::decode(from)?).is_some() {
                return Err(StateError::Value("a map with different keys"));
            }
        }
        Ok(map)
    }
}

impl<T: Encode> Encode for BTreeSet<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u64).encode(out);
        self.iter().for_each(|value| value.encode(out));
    }
}

impl<T: Decode + Ord> Decode for BTreeSet<T> {
    fn decode(from: &mut Decoder<'_>) -> Result<BTreeSet<T>, StateError> {
        let mut set = BTreeSet::new();
        for _ in 0..from.length()? {
            if !set.insert(T::decode(from)?) {
                return Err(StateError::Value("a set of different values"));
            }
        }
        Ok(set)
    }
}

/// In their order.
impl<T: Encode + Ord, S> Encode for HashSet<T, S> {
    fn encode(&self, out: &mut Vec<u8>) {
        let mut values: Vec<&T> = self.iter().collect();
        values.sort_unstable();
        (values.len() as u64).encode(out);
        values.into_iter().for_each(|value| value.encode(out));
    }
}

impl<T: Decode + Hash + Eq, S: BuildHasher + Default> Decode for HashSet<T, S> {
    fn decode(from: &mut Decoder<'_>) -> Result<HashSet<T, S>, StateError> {
        let count = from.length()?;
        let mut set = HashSet::with_capacity_and_hasher(count.min(from.reserve_max::<T>()), S::default());
        for _ in 0..count {
            if !set.insert(T::decode(from)?) {
                return Err(StateError::Value("a set of different values"));
            }
        }
        Ok(set)
    }
}
