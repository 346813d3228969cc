//! The value of an expression: an array, or one value for all rows.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, Datum, UInt32Array};
use arrow_schema::{ArrowError, DataType};

/// Returns the values that the keys of a dictionary stand for, which may be a dictionary too; another array as it is.
pub(crate) fn unpacked(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.as_any_dictionary_opt() {
        Some(dictionary) => {
            unpacked(&arrow_select::take::take(dictionary.values(), dictionary.keys(), None)?)
        }
        None => Ok(array.clone()),
    }
}

/// The values of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    Array(ArrayRef),
    /// An array of one row, the value of all rows.
    Scalar(ArrayRef),
}

impl Datum for Values {
    fn get(&self) -> (&dyn Array, bool) {
        match self {
            Values::Array(array) => (array.as_ref(), false),
            Values::Scalar(array) => (array.as_ref(), true),
        }
    }
}

impl Values {
    pub(crate) fn data_type(&self) -> &DataType {
        self.inner().data_type()
    }

    pub(crate) fn inner(&self) -> &ArrayRef {
        match self {
            Values::Array(array) | Values::Scalar(array) => array,
        }
    }

    pub(crate) fn into_inner(self) -> ArrayRef {
        match self {
            Values::Array(array) | Values::Scalar(array) => array,
        }
    }

    /// Applies `compute` to the array, which must keep the number of values.
    pub(crate) fn map<E>(&self, compute: impl FnOnce(&ArrayRef) -> Result<ArrayRef, E>) -> Result<Values, E> {
        Ok(match self {
            Values::Array(array) => Values::Array(compute(array)?),
            Values::Scalar(array) => Values::Scalar(compute(array)?),
        })
    }

    /// Returns the result of a kernel: a scalar if all inputs are scalars.
    pub(crate) fn from_kernel(array: ArrayRef, inputs: &[&Values]) -> Values {
        let is_scalar = inputs.iter().all(|input| matches!(input, Values::Scalar(_)));
        if is_scalar { Values::Scalar(array) } else { Values::Array(array) }
    }

    /// Converts to an array with one value for each row.
    pub(crate) fn into_array(self, rows: usize) -> Result<ArrayRef, ArrowError> {
        match self {
            Values::Array(array) => Ok(array),
            Values::Scalar(array) if rows == 1 => Ok(array),
            Values::Scalar(array) => {
                arrow_select::take::take(&array, &UInt32Array::from(vec![0; rows]), None)
            }
        }
    }

    /// Converts to booleans, one for each row.
    pub(crate) fn into_booleans(self, rows: usize) -> Result<BooleanArray, ArrowError> {
        Ok(self.into_array(rows)?.as_boolean().clone())
    }
}
