//! Canonical keys and values for comparison: without dictionaries, with one NaN and one zero.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};

/// Returns a type without its dictionary.
pub(crate) fn flat(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => flat(values),
        other => other,
    }
}

/// Canonicalizes values so that equal values have equal bytes: no dictionary, one NaN, no -0.
pub(crate) fn canonical(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let values = flat(array.data_type());
    let array = if values == array.data_type() { array.clone() } else { cast(array, values)? };
    Ok(match array.data_type() {
        DataType::Float32 => {
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(canonical_single))
        }
        DataType::Float64 => {
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(canonical_double))
        }
        DataType::Float16 => canonical(&cast(&array, &DataType::Float32)?)
            .and_then(|array| cast(&array, &DataType::Float16))?,
        _ => array,
    })
}

fn canonical_single(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value + 0.0 }
}

pub(crate) fn canonical_double(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}
