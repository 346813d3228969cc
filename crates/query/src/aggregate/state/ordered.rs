//! Maps values of up to 64 bits to integers of the same order, and back.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal32Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    UInt8Type, UInt16Type, UInt32Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};

use crate::Error;
use crate::aggregate::types::canonical_double;

/// Flipping this bit maps unsigned to signed integers of the same order.
const SIGN_BIT: u64 = 1 << 63;

/// Maps values to integers of the same order; integers of nulls are unspecified.
pub(super) fn from_array(array: &ArrayRef) -> Result<Vec<i64>, Error> {
    fn from<T: ArrowPrimitiveType>(array: &ArrayRef) -> Vec<i64>
    where
        T::Native: Into<i64>,
    {
        array.as_primitive::<T>().values().iter().map(|&value| value.into()).collect()
    }
    fn floats<T: ArrowPrimitiveType>(array: &ArrayRef) -> Vec<i64>
    where
        T::Native: Into<f64>,
    {
        array.as_primitive::<T>().values().iter().map(|&value| from_float(value.into())).collect()
    }
    Ok(match array.data_type() {
        DataType::Boolean => array.as_boolean().values().iter().map(i64::from).collect(),
        DataType::Int8 => from::<Int8Type>(array),
        DataType::Int16 => from::<Int16Type>(array),
        DataType::Int32 => from::<Int32Type>(array),
        DataType::UInt8 => from::<UInt8Type>(array),
        DataType::UInt16 => from::<UInt16Type>(array),
        DataType::UInt32 => from::<UInt32Type>(array),
        DataType::Decimal32(..) => from::<Decimal32Type>(array),
        DataType::Float16 => floats::<Float16Type>(array),
        DataType::Float32 => floats::<Float32Type>(array),
        DataType::Float64 => floats::<Float64Type>(array),
        other => {
            let data = array.to_data();
            let width = other.primitive_width().unwrap_or(0);
            let bytes = data.buffers().first().map_or(&[][..], |buffer| buffer.as_slice());
            let bytes = bytes.get(data.offset() * width..).unwrap_or_default();
            let is_unsigned = *other == DataType::UInt64;
            let long = |bytes: &[u8; 8]| {
                let value = u64::from_le_bytes(*bytes);
                (if is_unsigned { value ^ SIGN_BIT } else { value }) as i64
            };
            match width {
                8 => bytes.as_chunks().0.iter().take(array.len()).map(long).collect(),
                4 => bytes
                    .as_chunks()
                    .0
                    .iter()
                    .take(array.len())
                    .map(|&value| i32::from_le_bytes(value).into())
                    .collect(),
                _ => return Err(Error::Query(format!("values of type {other} have no order here"))),
            }
        }
    })
}

/// Maps a float; NaN is greater than all numbers, and -0 equals 0.
fn from_float(value: f64) -> i64 {
    let bits = canonical_double(value).to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

fn to_float(ordered: i64) -> f64 {
    f64::from_bits((ordered ^ ((ordered >> 63) as u64 >> 1) as i64) as u64)
}

/// Maps integers back to an array.
pub(super) fn to_array(
    ordered: impl Iterator<Item = i64>,
    rows: usize,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef, ArrowError> {
    let buffer = match data_type {
        DataType::Boolean => {
            let values = ordered.map(|value| value == 1).collect();
            return Ok(std::sync::Arc::new(arrow_array::BooleanArray::new(values, nulls)));
        }
        DataType::Float64 => Buffer::from_iter(ordered.map(to_float)),
        DataType::Float32 => Buffer::from_iter(ordered.map(|value| to_float(value) as f32)),
        DataType::Float16 => {
            let doubles =
                arrow_array::Float64Array::new(ordered.map(to_float).collect::<Vec<_>>().into(), nulls);
            return arrow_cast::cast(&doubles, &DataType::Float16);
        }
        DataType::UInt64 => Buffer::from_iter(ordered.map(|value| value as u64 ^ SIGN_BIT)),
        other => match other.primitive_width() {
            Some(1) => Buffer::from_iter(ordered.map(|value| value as i8)),
            Some(2) => Buffer::from_iter(ordered.map(|value| value as i16)),
            Some(4) => Buffer::from_iter(ordered.map(|value| value as i32)),
            _ => Buffer::from_iter(ordered),
        },
    };
    let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(buffer).nulls(nulls);
    Ok(arrow_array::make_array(data.build()?))
}
