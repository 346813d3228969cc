//! Scalar functions.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_arith::temporal::{DatePart, date_part};
use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, Float32Type, Float64Type, Int64Type,
};
use arrow_array::{Array, ArrayRef, ArrowNativeTypeOp, Int64Array, PrimitiveArray, StringArray};
use arrow_buffer::ArrowNativeType;
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use arrow_string::{concat_elements, like};

use crate::node::{Comparison, Function, Part};
use crate::values::Values;

use super::compare::compare;

/// Computes a function. The result has one row if all arguments are constants, else one for each row of the batch.
pub(super) fn call(function: Function, values: &[Values], to: &DataType) -> Result<ArrayRef, ArrowError> {
    let rows = values.iter().find_map(|value| match value {
        Values::Array(array) => Some(array.len()),
        Values::Scalar(_) => None,
    });
    let rows = rows.unwrap_or(1);
    let array = |place: usize| values[place].clone().into_array(rows);
    match function {
        Function::Abs => absolute(&array(0)?),
        Function::Ceil => rounded(&array(0)?, true, to),
        Function::Floor => rounded(&array(0)?, false, to),
        Function::Lower => Ok(texts(&array(0)?, |text, out| out.push_str(&text.to_lowercase()))),
        Function::Upper => Ok(texts(&array(0)?, |text, out| out.push_str(&text.to_uppercase()))),
        Function::Trim => Ok(texts(&array(0)?, |text, out| out.push_str(text.trim_matches(' ')))),
        Function::Length => {
            let lengths: Int64Array =
                array(0)?.as_string::<i32>().iter().map(|text| Some(text?.chars().count() as i64)).collect();
            Ok(Arc::new(lengths))
        }
        Function::Substring => {
            let numbers = (1..values.len()).map(array).collect::<Result<Vec<ArrayRef>, _>>()?;
            substring(&array(0)?, &numbers)
        }
        Function::Concat => {
            let (left, right) = (array(0)?, array(1)?);
            let joined =
                concat_elements::concat_elements_utf8(left.as_string::<i32>(), right.as_string::<i32>())?;
            Ok(Arc::new(joined))
        }
        Function::StartsWith => Ok(Arc::new(like::starts_with(&values[0], &values[1])?)),
        Function::EndsWith => Ok(Arc::new(like::ends_with(&values[0], &values[1])?)),
        Function::Contains => Ok(Arc::new(like::contains(&values[0], &values[1])?)),
        Function::Extract(part) => cast(&date_part(&array(0)?, date_part_of(part))?, to),
        Function::NullIf => {
            let (left, right) = (array(0)?, array(1)?);
            let is_equal = compare(Comparison::Equal, &Values::Array(left.clone()), &Values::Array(right))?;
            arrow_select::nullif::nullif(&left, &is_equal)
        }
    }
}

fn date_part_of(part: Part) -> DatePart {
    match part {
        Part::Year => DatePart::Year,
        Part::Quarter => DatePart::Quarter,
        Part::Month => DatePart::Month,
        Part::Week => DatePart::Week,
        Part::Day => DatePart::Day,
        Part::DayOfWeek => DatePart::DayOfWeekSunday0,
        Part::DayOfYear => DatePart::DayOfYear,
        Part::Hour => DatePart::Hour,
        Part::Minute => DatePart::Minute,
        Part::Second => DatePart::Second,
    }
}

fn absolute(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let overflow = || ArrowError::ArithmeticOverflow(String::new());
    Ok(match *array.data_type() {
        DataType::Int64 => {
            let result = array
                .as_primitive::<Int64Type>()
                .try_unary::<_, Int64Type, _>(|value| value.checked_abs().ok_or_else(overflow))?;
            Arc::new(result)
        }
        DataType::Float32 => Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::abs)),
        DataType::Float64 => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::abs)),
        DataType::Decimal64(precision, scale) => {
            let result = array
                .as_primitive::<Decimal64Type>()
                .try_unary::<_, Decimal64Type, _>(|value| value.checked_abs().ok_or_else(overflow))?;
            Arc::new(result.with_precision_and_scale(precision, scale)?)
        }
        DataType::Decimal128(precision, scale) => {
            let result = array
                .as_primitive::<Decimal128Type>()
                .try_unary::<_, Decimal128Type, _>(|value| value.checked_abs().ok_or_else(overflow))?;
            Arc::new(result.with_precision_and_scale(precision, scale)?)
        }
        DataType::Decimal256(precision, scale) => {
            let result = array
                .as_primitive::<Decimal256Type>()
                .try_unary::<_, Decimal256Type, _>(|value| value.checked_abs().ok_or_else(overflow))?;
            Arc::new(result.with_precision_and_scale(precision, scale)?)
        }
        ref other => return Err(ArrowError::InvalidArgumentError(format!("abs of {other} is not defined"))),
    })
}

/// Rounds up or down; decimals exactly.
fn rounded(array: &ArrayRef, is_up: bool, to: &DataType) -> Result<ArrayRef, ArrowError> {
    Ok(match array.data_type() {
        DataType::Float32 => {
            let round = if is_up { f32::ceil } else { f32::floor };
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(round))
        }
        DataType::Float64 => {
            let round = if is_up { f64::ceil } else { f64::floor };
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(round))
        }
        DataType::Decimal64(_, scale) => whole::<Decimal64Type>(array, *scale, is_up, to)?,
        DataType::Decimal128(_, scale) => whole::<Decimal128Type>(array, *scale, is_up, to)?,
        DataType::Decimal256(_, scale) => whole::<Decimal256Type>(array, *scale, is_up, to)?,
        other => {
            return Err(ArrowError::InvalidArgumentError(format!("rounding of {other} is not defined")));
        }
    })
}

/// Rounds decimals of a positive scale to whole numbers.
fn whole<T: DecimalType>(
    array: &ArrayRef,
    scale: i8,
    is_up: bool,
    to: &DataType,
) -> Result<ArrayRef, ArrowError> {
    let (zero, one) = (T::Native::ZERO, T::Native::ONE);
    let unit = T::Native::usize_as(10).pow_checked(u32::from(scale.unsigned_abs()))?;
    let round = |value: T::Native| {
        let (towards_zero, rest) = (value.div_checked(unit)?, value.mod_checked(unit)?);
        match (is_up, rest.compare(zero)) {
            (true, Ordering::Greater) => towards_zero.add_checked(one),
            (false, Ordering::Less) => towards_zero.sub_checked(one),
            _ => Ok(towards_zero),
        }
    };
    let rounded: PrimitiveArray<T> = array.as_primitive::<T>().try_unary(round)?;
    Ok(Arc::new(rounded.with_data_type(to.clone())))
}

/// Maps strings to strings; `write` appends a result to an empty string.
fn texts(array: &ArrayRef, write: impl Fn(&str, &mut String)) -> ArrayRef {
    let array = array.as_string::<i32>();
    let mut texts = StringBuilder::with_capacity(array.len(), array.value_data().len());
    let mut text = String::new();
    for value in array {
        text.clear();
        texts.append_option(value.map(|value| {
            write(value, &mut text);
            text.as_str()
        }));
    }
    Arc::new(texts.finish())
}

/// Computes `substring(text FROM start FOR length)`; characters are numbered from 1.
fn substring(array: &ArrayRef, numbers: &[ArrayRef]) -> Result<ArrayRef, ArrowError> {
    let numbers: Vec<&Int64Array> = numbers.iter().map(|array| array.as_primitive::<Int64Type>()).collect();
    let texts: &StringArray = array.as_string();
    let mut result = StringBuilder::with_capacity(texts.len(), texts.value_data().len());
    for row in 0..texts.len() {
        let is_null = texts.is_null(row) || numbers.iter().any(|numbers| numbers.is_null(row));
        if is_null {
            result.append_null();
            continue;
        }
        let start = i128::from(numbers[0].value(row));
        let end = match numbers.get(1).map(|lengths| lengths.value(row)) {
            Some(length) if length < 0 => {
                return Err(ArrowError::ComputeError("the length of a substring is negative".into()));
            }
            Some(length) => start + i128::from(length),
            None => i128::MAX,
        };
        result.append_value(characters(texts.value(row), start.max(1), end));
    }
    Ok(Arc::new(result.finish()))
}

/// The characters `start..end`, numbered from 1.
pub(crate) fn characters(text: &str, start: i128, end: i128) -> &str {
    if end <= start {
        return "";
    }
    let place = |number: i128| match usize::try_from(number - 1) {
        Ok(skipped) => text.char_indices().nth(skipped).map_or(text.len(), |(place, _)| place),
        Err(_) => text.len(),
    };
    &text[place(start)..place(end)]
}
