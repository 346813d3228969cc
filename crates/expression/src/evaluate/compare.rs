//! Comparisons: Arrow's kernels, except for floats, because Arrow's total order distinguishes -0 from 0. Here -0 equals
//! 0, and NaN equals NaN and is greater than every number, as in PostgreSQL.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, BooleanArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_cast::cast;
use arrow_ord::cmp;
use arrow_schema::ArrowError;

use crate::node::Comparison;
use crate::types::flat;
use crate::values::Values;

/// Compares values of one type.
pub(crate) fn compare(
    operator: Comparison,
    left: &Values,
    right: &Values,
) -> Result<BooleanArray, ArrowError> {
    let kernel = match flat(left.data_type()) {
        arrow_schema::DataType::Float16 => floats::<Float16Type>,
        arrow_schema::DataType::Float32 => floats::<Float32Type>,
        arrow_schema::DataType::Float64 => floats::<Float64Type>,
        _ => return others(operator, left, right),
    };
    kernel(operator, &without_dictionary(left)?, &without_dictionary(right)?)
}

fn without_dictionary(value: &Values) -> Result<Values, ArrowError> {
    value.map(|array| match flat(array.data_type()) {
        same if same == array.data_type() => Ok(array.clone()),
        values => cast(array, values),
    })
}

fn others(operator: Comparison, left: &Values, right: &Values) -> Result<BooleanArray, ArrowError> {
    let kernel = match operator {
        Comparison::Equal => cmp::eq,
        Comparison::NotEqual => cmp::neq,
        Comparison::Less => cmp::lt,
        Comparison::LessOrEqual => cmp::lt_eq,
        Comparison::Greater => cmp::gt,
        Comparison::GreaterOrEqual => cmp::gt_eq,
        Comparison::Distinct => cmp::distinct,
        Comparison::NotDistinct => cmp::not_distinct,
    };
    kernel(left, right)
}

/// The operand of one side.
struct Side<'a, T> {
    values: &'a [T],
    nulls: Option<&'a NullBuffer>,
    is_scalar: bool,
}

impl<T: Copy> Side<'_, T> {
    fn value(&self, row: usize) -> T {
        self.values[if self.is_scalar { 0 } else { row }]
    }

    /// Returns the null bits of all rows.
    fn nulls(&self, rows: usize) -> Option<NullBuffer> {
        let nulls = self.nulls.filter(|nulls| nulls.null_count() > 0)?;
        Some(if self.is_scalar { NullBuffer::new_null(rows) } else { nulls.clone() })
    }
}

fn floats<T: ArrowPrimitiveType>(
    operator: Comparison,
    left: &Values,
    right: &Values,
) -> Result<BooleanArray, ArrowError>
where
    T::Native: PartialOrd,
{
    fn side<T: ArrowPrimitiveType>(value: &Values) -> Side<'_, T::Native> {
        let array = value.inner().as_primitive::<T>();
        Side { values: array.values(), nulls: array.nulls(), is_scalar: matches!(value, Values::Scalar(_)) }
    }
    let (left, right) = (side::<T>(left), side::<T>(right));
    let rows = if left.is_scalar { right.values.len() } else { left.values.len() };
    let all = 0..rows;
    let equal = |a: T::Native, b: T::Native| a == b || is_nan(a) && is_nan(b);
    let less = |a: T::Native, b: T::Native| a < b || !is_nan(a) && is_nan(b);
    let values = match operator {
        Comparison::Equal | Comparison::NotDistinct => collect(all, &left, &right, equal),
        Comparison::NotEqual | Comparison::Distinct => collect(all, &left, &right, |a, b| !equal(a, b)),
        Comparison::Less => collect(all, &left, &right, less),
        Comparison::LessOrEqual => collect(all, &left, &right, |a, b| !less(b, a)),
        Comparison::Greater => collect(all, &left, &right, |a, b| less(b, a)),
        Comparison::GreaterOrEqual => collect(all, &left, &right, |a, b| !less(a, b)),
    };
    let nulls = [left.nulls(rows), right.nulls(rows)];
    Ok(match operator {
        Comparison::Distinct => distinct(&values, &nulls, rows),
        Comparison::NotDistinct => {
            let is_distinct = distinct(&!&values, &nulls, rows);
            BooleanArray::new(!is_distinct.values(), None)
        }
        _ => BooleanArray::new(values, NullBuffer::union(nulls[0].as_ref(), nulls[1].as_ref())),
    })
}

#[expect(clippy::eq_op, reason = "the only value that differs from itself")]
fn is_nan<T: PartialEq + Copy>(value: T) -> bool {
    value != value
}

fn collect<T: Copy>(
    rows: Range<usize>,
    left: &Side<'_, T>,
    right: &Side<'_, T>,
    is_true: impl Fn(T, T) -> bool,
) -> BooleanBuffer {
    BooleanBuffer::collect_bool(rows.len(), |row| is_true(left.value(row), right.value(row)))
}

/// Returns the rows with exactly one null side, or with two values that differ.
fn distinct(differ: &BooleanBuffer, nulls: &[Option<NullBuffer>; 2], rows: usize) -> BooleanArray {
    let valid = |nulls: &Option<NullBuffer>| {
        nulls.as_ref().map_or_else(|| BooleanBuffer::new_set(rows), |nulls| nulls.inner().clone())
    };
    let (left, right) = (valid(&nulls[0]), valid(&nulls[1]));
    let both = &left & &right;
    BooleanArray::new(&(&left ^ &right) | &(&both & differ), None)
}
