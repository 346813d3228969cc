//! Adds the values of rows to the sums of their groups.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Int8Type, Int16Type,
    Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::DataType;

use crate::Error;

/// Adds a value with compensation (Neumaier), so that the sum hardly depends on the order of rows.
pub(super) fn add_float(sum: &mut [f64; 2], value: f64) {
    let [high, low] = *sum;
    let total = high + value;
    let lost = if high.abs() >= value.abs() { (high - total) + value } else { (value - total) + high };
    // Without this reset, an infinite sum would make the compensation NaN.
    *sum = [total, if total.is_finite() { low + lost } else { 0.0 }];
}

/// Calls a function with each group and value that is not null.
pub(super) fn each<T: Copy>(
    groups: &[u32],
    values: &[T],
    nulls: Option<&NullBuffer>,
    mut take: impl FnMut(usize, T),
) {
    let pairs = groups.iter().zip(values);
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None => pairs.for_each(|(&group, &value)| take(group as usize, value)),
        Some(nulls) => {
            for ((&group, &value), is_valid) in pairs.zip(nulls.iter()) {
                if is_valid {
                    take(group as usize, value);
                }
            }
        }
    }
}

pub(super) fn each_of<T: ArrowPrimitiveType>(
    groups: &[u32],
    array: &ArrayRef,
    take: impl FnMut(usize, T::Native),
) {
    let array = array.as_primitive::<T>();
    each(groups, array.values(), array.nulls(), take);
}

pub(super) fn add_integers(sums: &mut [i128], groups: &[u32], array: &ArrayRef) -> Result<(), Error> {
    fn add<T: ArrowPrimitiveType>(sums: &mut [i128], groups: &[u32], array: &ArrayRef)
    where
        T::Native: Into<i128>,
    {
        each_of::<T>(groups, array, |group, value| sums[group] = sums[group].wrapping_add(value.into()));
    }
    match array.data_type() {
        DataType::Int8 => add::<Int8Type>(sums, groups, array),
        DataType::Int16 => add::<Int16Type>(sums, groups, array),
        DataType::Int32 => add::<Int32Type>(sums, groups, array),
        DataType::Int64 => add::<Int64Type>(sums, groups, array),
        DataType::UInt8 => add::<UInt8Type>(sums, groups, array),
        DataType::UInt16 => add::<UInt16Type>(sums, groups, array),
        DataType::UInt32 => add::<UInt32Type>(sums, groups, array),
        DataType::UInt64 => add::<UInt64Type>(sums, groups, array),
        DataType::Decimal32(..) => add::<Decimal32Type>(sums, groups, array),
        DataType::Decimal64(..) => add::<Decimal64Type>(sums, groups, array),
        DataType::Decimal128(..) => return add_decimals(sums, groups, array),
        other => return Err(Error::Query(format!("values of type {other} have no sum"))),
    }
    Ok(())
}

/// Adds decimals with overflow checks: decimals of a damaged file may exceed the precision of their type.
fn add_decimals(sums: &mut [i128], groups: &[u32], array: &ArrayRef) -> Result<(), Error> {
    let mut overflow = false;
    each_of::<Decimal128Type>(groups, array, |group, value| {
        let (sum, is_over) = sums[group].overflowing_add(value);
        overflow |= is_over;
        sums[group] = sum;
    });
    if overflow {
        Err(Error::Query("a sum does not fit 128 bits: values have more digits than their type".into()))
    } else {
        Ok(())
    }
}

pub(super) fn add_wide(sums: &mut [i256], groups: &[u32], array: &ArrayRef) -> Result<(), Error> {
    let mut overflow = false;
    each_of::<Decimal256Type>(groups, array, |group, value| {
        let sum = sums[group].checked_add(value);
        overflow |= sum.is_none();
        sums[group] = sum.unwrap_or_default();
    });
    if overflow {
        Err(Error::Query("a sum does not fit 256 bits; CAST its argument to fewer digits".into()))
    } else {
        Ok(())
    }
}
