//! Physical number types of Parquet: order, bytes and statistics.

use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use parquet::data_type::FixedLenByteArray;
use parquet::file::statistics::{Statistics, ValueStatistics};

use crate::output::buffer::Buf;

/// Storage of a column's numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage {
    /// Whether integers are compared as unsigned.
    pub(super) is_unsigned: bool,
    /// Bytes of a value.
    pub(super) length: usize,
}

/// A number of a physical type; `i128` is stored as a fixed number of big-endian bytes.
pub(super) trait Physical: ArrowNativeType {
    /// Minimum and maximum, ignoring NaN. A zero minimum is -0.0 and a zero maximum 0.0.
    fn extremes(values: &[Self], storage: Storage) -> Option<(Self, Self)>;

    /// Returns whether a value is less than another; neither may be NaN.
    fn is_less(self, other: Self, storage: Storage) -> bool;

    /// Returns whether the value fits into the bytes of the column's type.
    fn fits(self, _: Storage) -> bool {
        true
    }

    /// Bits that are equal if and only if the values are identical.
    fn bits(self) -> u128;

    /// Difference to an integer that is not greater; `None` for floats and 128-bit integers.
    fn above(self, least: Self) -> Option<u64>;

    /// Low bits of [`Physical::above`], for integers not less than `least`.
    fn above_low(self, least: Self) -> u16;

    /// Returns the integer plus `distance`; not called for other numbers.
    fn plus(self, distance: u16) -> Self;

    /// Appends plain-encoded values.
    fn append(values: &[Self], storage: Storage, out: &mut Buf);

    /// Appends a range of plain-encoded values; copies the bytes where memory and file layout agree.
    fn append_range(
        values: &ScalarBuffer<Self>,
        range: std::ops::Range<usize>,
        storage: Storage,
        out: &mut Buf,
    ) {
        let (from, to) = (range.start * size_of::<Self>(), range.end * size_of::<Self>());
        out.extend(&values.inner().as_slice()[from..to]);
        let _ = storage;
    }

    /// Statistics of a column chunk.
    fn statistics(
        extremes: Option<(Self, Self)>,
        nulls: u64,
        is_signed_order: bool,
        length: usize,
    ) -> Statistics;
}

macro_rules! integer {
    ($type:ty, $unsigned:ty) => {
        impl Physical for $type {
            fn extremes(values: &[$type], storage: Storage) -> Option<($type, $type)> {
                let flip = if storage.is_unsigned { <$type>::MIN } else { 0 };
                let (mut least, mut greatest) = (<$type>::MAX, <$type>::MIN);
                for &value in values {
                    least = least.min(value ^ flip);
                    greatest = greatest.max(value ^ flip);
                }
                (!values.is_empty()).then_some((least ^ flip, greatest ^ flip))
            }

            fn is_less(self, other: $type, storage: Storage) -> bool {
                if storage.is_unsigned { (self as $unsigned) < other as $unsigned } else { self < other }
            }

            fn bits(self) -> u128 {
                u128::from(self as $unsigned)
            }

            fn above(self, least: $type) -> Option<u64> {
                Some(u64::from((self as $unsigned).wrapping_sub(least as $unsigned)))
            }

            #[inline]
            fn above_low(self, least: $type) -> u16 {
                (self as u16).wrapping_sub(least as u16)
            }

            fn plus(self, distance: u16) -> $type {
                self.wrapping_add(distance.into())
            }

            fn append(values: &[$type], _: Storage, out: &mut Buf) {
                append_little_endian(values.iter().map(|value| value.to_le_bytes()), out);
            }

            fn statistics(
                extremes: Option<($type, $type)>,
                nulls: u64,
                is_signed: bool,
                _: usize,
            ) -> Statistics {
                statistics_of(extremes, nulls, is_signed).into()
            }
        }
    };
}

integer!(i32, u32);
integer!(i64, u64);

macro_rules! float {
    ($type:ty) => {
        impl Physical for $type {
            fn extremes(values: &[$type], _: Storage) -> Option<($type, $type)> {
                let (mut least, mut greatest) = (<$type>::INFINITY, <$type>::NEG_INFINITY);
                for &value in values {
                    // Both comparisons are false for NaN.
                    least = if value < least { value } else { least };
                    greatest = if value > greatest { value } else { greatest };
                }
                // False if all values are NaN or there are none.
                let has_order = least <= greatest;
                // Readers may not distinguish the two zeros, so the bounds include both.
                let least = if least == 0.0 { -0.0 } else { least };
                let greatest = if greatest == 0.0 { 0.0 } else { greatest };
                has_order.then_some((least, greatest))
            }

            fn is_less(self, other: $type, _: Storage) -> bool {
                self < other
            }

            fn bits(self) -> u128 {
                u128::from(self.to_bits())
            }

            fn above(self, _: $type) -> Option<u64> {
                None
            }

            fn above_low(self, _: $type) -> u16 {
                0
            }

            fn plus(self, _: u16) -> $type {
                self
            }

            fn append(values: &[$type], _: Storage, out: &mut Buf) {
                append_little_endian(values.iter().map(|value| value.to_le_bytes()), out);
            }

            fn statistics(
                extremes: Option<($type, $type)>,
                nulls: u64,
                is_signed: bool,
                _: usize,
            ) -> Statistics {
                statistics_of(extremes, nulls, is_signed).into()
            }
        }
    };
}

float!(f32);
float!(f64);

impl Physical for i128 {
    fn extremes(values: &[i128], _: Storage) -> Option<(i128, i128)> {
        Some((*values.iter().min()?, *values.iter().max()?))
    }

    fn is_less(self, other: i128, _: Storage) -> bool {
        self < other
    }

    fn fits(self, storage: Storage) -> bool {
        let unused = (size_of::<i128>() - storage.length) * 8;
        self << unused >> unused == self
    }

    fn bits(self) -> u128 {
        self.cast_unsigned()
    }

    fn above(self, _: i128) -> Option<u64> {
        None
    }

    fn above_low(self, _: i128) -> u16 {
        0
    }

    fn plus(self, _: u16) -> i128 {
        self
    }

    fn append(values: &[i128], storage: Storage, out: &mut Buf) {
        let space = out.space(values.len() * storage.length);
        for (value, place) in values.iter().zip(space.chunks_exact_mut(storage.length)) {
            place.copy_from_slice(&value.to_be_bytes()[size_of::<i128>() - storage.length..]);
        }
    }

    fn append_range(
        values: &ScalarBuffer<i128>,
        range: std::ops::Range<usize>,
        storage: Storage,
        out: &mut Buf,
    ) {
        i128::append(&values[range], storage, out);
    }

    fn statistics(extremes: Option<(i128, i128)>, nulls: u64, is_signed: bool, length: usize) -> Statistics {
        let bytes =
            |value: i128| FixedLenByteArray::from(value.to_be_bytes()[size_of::<i128>() - length..].to_vec());
        statistics_of(extremes.map(|(least, greatest)| (bytes(least), bytes(greatest))), nulls, is_signed)
            .into()
    }
}

fn append_little_endian<const N: usize>(values: impl ExactSizeIterator<Item = [u8; N]>, out: &mut Buf) {
    let space = out.space(values.len() * N);
    for (value, place) in values.zip(space.as_chunks_mut::<N>().0) {
        *place = value;
    }
}

fn statistics_of<T>(extremes: Option<(T, T)>, nulls: u64, is_signed: bool) -> ValueStatistics<T> {
    let (least, greatest) = extremes.unzip();
    ValueStatistics::new(least, greatest, None, Some(nulls), false)
        .with_backwards_compatible_min_max(is_signed)
}
