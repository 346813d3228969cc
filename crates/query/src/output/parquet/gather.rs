//! Gathering of the non-null numbers of several arrays in the physical type of their column.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal32Type, Decimal64Type, Decimal128Type};
use arrow_array::types::{Int8Type, Int16Type, UInt8Type, UInt16Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;

use super::physical::Physical;
use crate::Error;

/// A physical type that can be gathered from arrays.
pub(super) trait Gather: Physical {
    /// Appends the values of an array. Returns false if a value is out of range.
    ///
    /// # Errors
    /// If the array's type cannot be converted to this type.
    fn append_array(array: &dyn Array, out: &mut Vec<Self>) -> Result<bool, Error>;

    /// Returns whether arrays of a type have the memory layout of this type.
    fn is_native(data_type: &DataType) -> bool;
}

/// Gathers the values of arrays. A single array of the same layout without nulls is not copied. Otherwise `memory` is
/// used, which [`release`] returns.
pub(super) fn gather<T: Gather>(
    arrays: &[ArrayRef],
    column: &str,
    memory: &mut Vec<T>,
) -> Result<ScalarBuffer<T>, Error> {
    if let [array] = arrays
        && T::is_native(array.data_type())
        && array.null_count() == 0
    {
        return Ok(native(array));
    }
    memory.clear();
    memory.reserve(arrays.iter().map(|array| array.len()).sum());
    for array in arrays {
        let is_in_range = if T::is_native(array.data_type()) {
            append(&native::<T>(array), array.as_ref(), |value| value, memory);
            true
        } else {
            T::append_array(array, memory)?
        };
        if !is_in_range {
            return Err(Error::Query(format!(
                "column {column} has a decimal with more digits than its type {} allows",
                array.data_type()
            )));
        }
    }
    Ok(ScalarBuffer::from(std::mem::take(memory)))
}

/// Returns the memory of gathered values to `memory`, unless an array owns it.
pub(super) fn release<T: Gather>(values: ScalarBuffer<T>, memory: &mut Vec<T>) {
    if memory.capacity() == 0
        && let Ok(taken) = values.into_inner().into_vec()
    {
        *memory = taken;
    }
}

fn native<T: Gather>(array: &dyn Array) -> ScalarBuffer<T> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

/// Rows per word of a validity bitmap.
const WORD_ROWS: usize = 64;

/// Appends converted values, without nulls.
fn append<S: Copy, T: Copy + Default>(
    values: &[S],
    array: &dyn Array,
    mut convert: impl FnMut(S) -> T,
    out: &mut Vec<T>,
) {
    let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) else {
        return out.extend(values.iter().map(|&value| convert(value)));
    };
    let chunks = nulls.inner().bit_chunks();
    for (mask, part) in chunks.iter_padded().zip(values.chunks(WORD_ROWS)) {
        if mask == u64::MAX {
            out.extend(part.iter().map(|&value| convert(value)));
            continue;
        }
        // Each slot is written; that of a null is overwritten by the next value.
        let mut kept = [T::default(); WORD_ROWS];
        let mut count = 0;
        for (bit, &value) in part.iter().enumerate() {
            let is_valid = mask >> bit & 1;
            kept[count & (WORD_ROWS - 1)] = if is_valid == 1 { convert(value) } else { T::default() };
            count += is_valid as usize;
        }
        out.extend_from_slice(&kept[..count]);
    }
}

fn append_as<S: ArrowPrimitiveType, T: Copy + Default>(
    array: &dyn Array,
    convert: impl FnMut(S::Native) -> T,
    out: &mut Vec<T>,
) -> bool {
    let array: &PrimitiveArray<S> = array.as_primitive();
    append(array.values(), array, convert, out);
    true
}

fn mismatch(array: &dyn Array) -> Error {
    Error::Query(format!("values of type {} are not those of their column", array.data_type()))
}

impl Gather for i32 {
    fn append_array(array: &dyn Array, out: &mut Vec<i32>) -> Result<bool, Error> {
        let mut lost = 0;
        Ok(match array.data_type() {
            DataType::Int8 => append_as::<Int8Type, _>(array, i32::from, out),
            DataType::Int16 => append_as::<Int16Type, _>(array, i32::from, out),
            DataType::UInt8 => append_as::<UInt8Type, _>(array, i32::from, out),
            DataType::UInt16 => append_as::<UInt16Type, _>(array, i32::from, out),
            DataType::Decimal64(..) => {
                let convert = |value| {
                    lost |= i64::from(value as i32) ^ value;
                    value as i32
                };
                append_as::<Decimal64Type, _>(array, convert, out) & (lost == 0)
            }
            DataType::Decimal128(..) => {
                let mut lost = 0;
                let convert = |value| {
                    lost |= i128::from(value as i32) ^ value;
                    value as i32
                };
                append_as::<Decimal128Type, _>(array, convert, out) & (lost == 0)
            }
            _ => return Err(mismatch(array)),
        })
    }

    fn is_native(data_type: &DataType) -> bool {
        use DataType::{Date32, Decimal32, Int32, Time32, UInt32};
        matches!(data_type, Int32 | UInt32 | Date32 | Time32(_) | Decimal32(..))
    }
}

impl Gather for i64 {
    fn append_array(array: &dyn Array, out: &mut Vec<i64>) -> Result<bool, Error> {
        let mut lost = 0;
        Ok(match array.data_type() {
            DataType::Decimal32(..) => append_as::<Decimal32Type, _>(array, i64::from, out),
            DataType::Decimal128(..) => {
                let convert = |value: i128| {
                    // The upper half must be the sign extension of the lower half.
                    lost |= (value >> 64) as i64 ^ (value as i64 >> 63);
                    value as i64
                };
                append_as::<Decimal128Type, _>(array, convert, out) & (lost == 0)
            }
            _ => return Err(mismatch(array)),
        })
    }

    fn is_native(data_type: &DataType) -> bool {
        use DataType::{Date64, Decimal64, Duration, Int64, Time64, Timestamp, UInt64};
        matches!(data_type, Int64 | UInt64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..))
    }
}

impl Gather for i128 {
    fn append_array(array: &dyn Array, out: &mut Vec<i128>) -> Result<bool, Error> {
        Ok(match array.data_type() {
            DataType::Decimal32(..) => append_as::<Decimal32Type, _>(array, i128::from, out),
            DataType::Decimal64(..) => append_as::<Decimal64Type, _>(array, i128::from, out),
            _ => return Err(mismatch(array)),
        })
    }

    fn is_native(data_type: &DataType) -> bool {
        matches!(data_type, DataType::Decimal128(..))
    }
}

macro_rules! float {
    ($type:ty, $data_type:ident) => {
        impl Gather for $type {
            fn append_array(array: &dyn Array, _: &mut Vec<$type>) -> Result<bool, Error> {
                Err(mismatch(array))
            }

            fn is_native(data_type: &DataType) -> bool {
                matches!(data_type, DataType::$data_type)
            }
        }
    };
}

float!(f32, Float32);
float!(f64, Float64);
