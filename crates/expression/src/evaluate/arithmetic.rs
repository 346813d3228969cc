//! Arithmetic on values: Arrow's kernels, decimals with a check of the precision, and dates.

use std::sync::Arc;

use arrow_arith::numeric;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal64Type, Decimal128Type, Decimal256Type, DecimalType};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_buffer::i256;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType};

use crate::types::{Arithmetic, DIGITS_128_BITS};
use crate::values::Values;

/// Computes an operator with a result of type `to`.
pub(super) fn compute(
    operator: Arithmetic,
    left: &Values,
    right: &Values,
    to: &DataType,
) -> Result<ArrayRef, ArrowError> {
    match (left.data_type(), right.data_type(), operator) {
        (DataType::Date32, DataType::Int64, _) => move_days(operator, left, right),
        (DataType::Date32, DataType::Date32, _) => {
            let days = |value: &Values| value.map(as_days);
            numeric::sub(&days(left)?, &days(right)?)
        }
        (
            DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..),
            _,
            Arithmetic::Divide,
        ) => fitted(divide(left, right, to)?, to),
        _ => {
            let kernel = match operator {
                Arithmetic::Add => numeric::add,
                Arithmetic::Subtract => numeric::sub,
                Arithmetic::Multiply => numeric::mul,
                Arithmetic::Divide => numeric::div,
                Arithmetic::Remainder => numeric::rem,
            };
            fitted(kernel(left, right)?, to)
        }
    }
}

fn exactly(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(array, to, &CastOptions { safe: false, ..CastOptions::default() })
}

fn as_days(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    exactly(&exactly(array, &DataType::Int32)?, &DataType::Int64)
}

fn move_days(operator: Arithmetic, date: &Values, days: &Values) -> Result<ArrayRef, ArrowError> {
    let kernel = if operator == Arithmetic::Subtract { numeric::sub } else { numeric::add };
    let moved = kernel(&date.map(as_days)?, days)?;
    exactly(&exactly(&moved, &DataType::Int32)?, &DataType::Date32)
}

/// Relabels a decimal with a larger precision; scale, width and memory stay the same.
pub(super) fn relabelled(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    fn more<T: DecimalType>(array: &ArrayRef, [from, to]: [u8; 2], scale: i8) -> Option<ArrayRef> {
        let array = array.as_primitive::<T>().clone();
        (from <= to).then(|| Some(Arc::new(array.with_precision_and_scale(to, scale).ok()?) as ArrayRef))?
    }
    match (array.data_type(), to) {
        (DataType::Decimal64(p, s), DataType::Decimal64(q, t)) if s == t => {
            more::<Decimal64Type>(array, [*p, *q], *s)
        }
        (DataType::Decimal128(p, s), DataType::Decimal128(q, t)) if s == t => {
            more::<Decimal128Type>(array, [*p, *q], *s)
        }
        (DataType::Decimal256(p, s), DataType::Decimal256(q, t)) if s == t => {
            more::<Decimal256Type>(array, [*p, *q], *s)
        }
        _ => None,
    }
}

/// Sets the precision of a kernel's result. Only results at the maximum precision are checked value by value; others
/// cannot overflow.
fn fitted(array: ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    fn fit<T: DecimalType>(array: &ArrayRef, precision: u8, scale: i8) -> Result<ArrayRef, ArrowError> {
        let array = array.as_primitive::<T>().clone().with_precision_and_scale(precision, scale)?;
        if precision == T::MAX_PRECISION || precision == DIGITS_128_BITS {
            let checked = array.validate_decimal_precision(precision);
            checked.map_err(|_| ArrowError::ArithmeticOverflow(String::new()))?;
        }
        Ok(Arc::new(array))
    }
    match *to {
        DataType::Decimal64(precision, scale) => fit::<Decimal64Type>(&array, precision, scale),
        DataType::Decimal128(precision, scale) => fit::<Decimal128Type>(&array, precision, scale),
        DataType::Decimal256(precision, scale) => fit::<Decimal256Type>(&array, precision, scale),
        _ => Ok(array),
    }
}

/// Divides decimals, rounding half away from zero.
fn divide(left: &Values, right: &Values, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let (scales, to_scale) = match (left.data_type(), right.data_type(), to) {
        (DataType::Decimal64(_, a), DataType::Decimal64(_, b), DataType::Decimal64(_, c))
        | (DataType::Decimal128(_, a), DataType::Decimal128(_, b), DataType::Decimal128(_, c))
        | (DataType::Decimal256(_, a), DataType::Decimal256(_, b), DataType::Decimal256(_, c)) => {
            ([*a, *b], *c)
        }
        (a, b, _) => return Err(ArrowError::InvalidArgumentError(format!("{a} / {b} is not defined"))),
    };
    let shift = u32::try_from(i32::from(to_scale) - i32::from(scales[0]) + i32::from(scales[1]));
    let shift = shift.map_err(|_| ArrowError::ArithmeticOverflow(String::new()))?;
    match to {
        DataType::Decimal64(..) => divided::<Decimal64Type>(left, right, shift, |a, b| {
            let quotient = divide_128(a.into(), b.into(), shift)?;
            quotient.try_into().ok()
        }),
        DataType::Decimal128(..) => {
            divided::<Decimal128Type>(left, right, shift, |a, b| divide_128(a, b, shift))
        }
        _ => divided::<Decimal256Type>(left, right, shift, |a, b| divide_256(a, b, shift)),
    }
}

fn divided<T: DecimalType>(
    left: &Values,
    right: &Values,
    _shift: u32,
    quotient: impl Fn(T::Native, T::Native) -> Option<T::Native>,
) -> Result<ArrayRef, ArrowError> {
    let rows = match (left, right) {
        (Values::Array(array), _) | (_, Values::Array(array)) => array.len(),
        _ => 1,
    };
    let (left, right) = (left.clone().into_array(rows)?, right.clone().into_array(rows)?);
    let (left, right) = (left.as_primitive::<T>(), right.as_primitive::<T>());
    let result: PrimitiveArray<T> = arrow_arith::arity::try_binary(left, right, |a, b| {
        if b == T::Native::default() {
            return Err(ArrowError::DivideByZero);
        }
        quotient(a, b).ok_or_else(|| ArrowError::ArithmeticOverflow(String::new()))
    })?;
    Ok(Arc::new(result))
}

/// Returns `a * 10^shift / b`, or `None` on overflow.
pub(crate) fn divide_128(a: i128, b: i128, shift: u32) -> Option<i128> {
    let Some(dividend) = 10i128.checked_pow(shift).and_then(|factor| a.checked_mul(factor)) else {
        return divide_256(i256::from_i128(a), i256::from_i128(b), shift)?.to_i128();
    };
    let quotient = dividend.checked_div(b)?;
    let rest = (dividend % b).unsigned_abs();
    let is_up = rest >= b.unsigned_abs() - rest;
    let step = if (dividend < 0) == (b < 0) { 1 } else { -1 };
    if is_up && rest > 0 { quotient.checked_add(step) } else { Some(quotient) }
}

fn divide_256(a: i256, b: i256, shift: u32) -> Option<i256> {
    let dividend = i256::from_i128(10).checked_pow(shift)?.checked_mul(a)?;
    let quotient = dividend.checked_div(b)?;
    let rest = dividend.checked_rem(b)?.checked_abs()?;
    let is_up = rest >= b.checked_abs()?.checked_sub(rest)?;
    let step = if (dividend < i256::ZERO) == (b < i256::ZERO) { 1 } else { -1 };
    if is_up && rest > i256::ZERO { quotient.checked_add(i256::from_i128(step)) } else { Some(quotient) }
}
