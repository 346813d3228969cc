//! Normalization of fixed-width values to unsigned integers in the same order.

use std::ops::{BitOr, BitXor, Shl};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use arrow_schema::{DataType, IntervalUnit};

/// Physical type of fixed-width values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Physical {
    Bool,
    Unsigned8,
    Unsigned16,
    Unsigned32,
    Unsigned64,
    Signed8,
    Signed16,
    Signed32,
    Signed64,
    Signed128,
    Float32,
    Float64,
}

impl Physical {
    /// Returns the bits of a normalized value.
    pub(super) fn bits(self) -> u32 {
        match self {
            Physical::Bool => 1,
            Physical::Unsigned8 | Physical::Signed8 => 8,
            Physical::Unsigned16 | Physical::Signed16 => 16,
            Physical::Unsigned32 | Physical::Signed32 | Physical::Float32 => 32,
            Physical::Unsigned64 | Physical::Signed64 | Physical::Float64 => 64,
            Physical::Signed128 => 128,
        }
    }
}

/// Returns the physical type of a data type; `None` for types without a supported fixed width of at most 128 bits.
pub(super) fn physical(data_type: &DataType) -> Option<Physical> {
    use DataType::{
        Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Duration, Float32, Float64, Int8, Int16,
        Int32, Int64, Interval, Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64,
    };
    Some(match data_type {
        Boolean => Physical::Bool,
        UInt8 => Physical::Unsigned8,
        UInt16 => Physical::Unsigned16,
        UInt32 => Physical::Unsigned32,
        UInt64 => Physical::Unsigned64,
        Int8 => Physical::Signed8,
        Int16 => Physical::Signed16,
        Int32 | Date32 | Time32(_) | Decimal32(..) | Interval(IntervalUnit::YearMonth) => Physical::Signed32,
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => Physical::Signed64,
        Decimal128(..) => Physical::Signed128,
        Float32 => Physical::Float32,
        Float64 => Physical::Float64,
        _ => return None,
    })
}

/// An unsigned integer that holds a key.
pub(super) trait Word:
    Copy + From<bool> + From<u64> + BitOr<Output = Self> + BitXor<Output = Self> + Shl<u32, Output = Self>
{
    /// Returns a mask of the low `bits` bits, at least one.
    fn mask(bits: u32) -> Self;

    /// Truncates an integer to its low bits.
    fn low(value: u128) -> Self;
}

impl Word for u64 {
    fn mask(bits: u32) -> u64 {
        u64::MAX >> (u64::BITS - bits)
    }

    fn low(value: u128) -> u64 {
        value as u64
    }
}

impl Word for u128 {
    fn mask(bits: u32) -> u128 {
        u128::MAX >> (u128::BITS - bits)
    }

    fn low(value: u128) -> u128 {
        value
    }
}

/// Appends the normalized values of a column to keys as low bits. The first column replaces all keys.
pub(super) fn append<W: Word>(
    keys: &mut Vec<W>,
    array: &ArrayRef,
    physical: Physical,
    is_descending: bool,
    is_first: bool,
) {
    let bits = physical.bits();
    let flip = if is_descending { W::mask(bits) } else { W::from(false) };
    let mut fold = Fold { keys, bits, flip, is_first };
    match physical {
        Physical::Bool => fold.append(array.as_boolean().values().iter(), W::from),
        Physical::Unsigned8 => fold.append_values(array, |value: u8| W::from(u64::from(value))),
        Physical::Unsigned16 => fold.append_values(array, |value: u16| W::from(u64::from(value))),
        Physical::Unsigned32 => fold.append_values(array, |value: u32| W::from(u64::from(value))),
        Physical::Unsigned64 => fold.append_values(array, |value: u64| W::from(value)),
        Physical::Signed8 => fold.append_values(array, |value: i8| W::from(u64::from(value as u8 ^ 1 << 7))),
        Physical::Signed16 => {
            fold.append_values(array, |value: i16| W::from(u64::from(value as u16 ^ 1 << 15)))
        }
        Physical::Signed32 => {
            fold.append_values(array, |value: i32| W::from(u64::from(value as u32 ^ 1 << 31)))
        }
        Physical::Signed64 => fold.append_values(array, |value: i64| W::from(value as u64 ^ 1 << 63)),
        Physical::Signed128 => fold.append_values(array, |value: i128| W::low(value as u128 ^ 1 << 127)),
        Physical::Float32 => fold.append_values(array, |value: f32| W::from(float32(value))),
        Physical::Float64 => fold.append_values(array, |value: f64| W::from(float64(value))),
    }
}

struct Fold<'a, W> {
    keys: &'a mut Vec<W>,
    bits: u32,
    flip: W,
    is_first: bool,
}

impl<W: Word> Fold<'_, W> {
    fn append_values<T: ArrowNativeType>(&mut self, array: &ArrayRef, normal: impl Fn(T) -> W) {
        let data = array.to_data();
        let values = ScalarBuffer::<T>::new(data.buffers()[0].clone(), data.offset(), data.len());
        self.append(values.iter().copied(), normal);
    }

    fn append<T>(&mut self, values: impl Iterator<Item = T>, normal: impl Fn(T) -> W) {
        let (bits, flip) = (self.bits, self.flip);
        if self.is_first {
            self.keys.clear();
            self.keys.extend(values.map(|value| normal(value) ^ flip));
        } else {
            for (key, value) in self.keys.iter_mut().zip(values) {
                *key = *key << bits | normal(value) ^ flip;
            }
        }
    }
}

/// Returns the bits of a float in numeric order, with a single zero and a single NaN above all numbers.
fn float64(value: f64) -> u64 {
    // Adding 0 turns -0 into 0.
    let bits = if value.is_nan() { f64::NAN.to_bits() & !(1 << 63) } else { (value + 0.0).to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// Like [`float64`].
fn float32(value: f32) -> u64 {
    let bits = if value.is_nan() { f32::NAN.to_bits() & !(1 << 31) } else { (value + 0.0).to_bits() };
    u64::from(if bits >> 31 == 1 { !bits } else { bits | 1 << 31 })
}
