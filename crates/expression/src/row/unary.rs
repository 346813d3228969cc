//! Operators of one value without kernels. Where an operator has no result, the kernel decides: it has the value, or the
//! error and its text.

use std::fmt::{Display, Write};

use arrow_schema::DataType;

use crate::calendar::{DAY_SECONDS, per_second};
use crate::evaluate::Operation;
use crate::node::{Function, Part, Test};
use crate::types::{decimal_places, flat};

use super::extract::{Clock, extract};
use super::memory::Memory;
use super::value::{Form, Value};

/// An operator of one value. Limits are those of a decimal's precision: a result is less than the limit.
#[derive(Clone, Debug)]
pub(super) enum Unary {
    Same,
    /// To an integer type of this range.
    ToInt {
        min: i64,
        max: i64,
    },
    ToUInt,
    /// From an integer or a boolean.
    ToText,
    ToFloat64,
    ToFloat32,
    /// From a decimal; `unit` is 10 to the power of its scale.
    DecimalToFloat {
        unit: f64,
        is_single: bool,
    },
    ToDecimal {
        factor: i128,
        limit: i128,
    },
    /// To a finer unit of time.
    Times(i64),
    Negate {
        limit: i128,
    },
    Abs {
        limit: i128,
    },
    /// To the next whole number; `unit` is 10 to the power of a decimal's scale.
    Round {
        is_up: bool,
        unit: i128,
    },
    Not,
    Is {
        test: Test,
        negated: bool,
    },
    Lower,
    Upper,
    Trim,
    Length,
    Extract(Part, Clock),
}

impl Unary {
    /// Returns the operator for an operand of one type and results of another; `None` if only the kernel has it.
    pub(super) fn of(operation: &Operation, from: &DataType, to: &DataType) -> Option<Unary> {
        let (from, to) = (flat(from), flat(to));
        Some(match operation {
            Operation::Cast { .. } => return cast(from, to),
            Operation::Negate => Unary::Negate { limit: limit(to) },
            Operation::Not => Unary::Not,
            Operation::Is { test, negated } => Unary::Is { test: *test, negated: *negated },
            Operation::Call { function, .. } => match function {
                Function::Abs => Unary::Abs { limit: limit(to) },
                Function::Ceil | Function::Floor => {
                    let unit = power_of_ten(decimal_places(from))?;
                    Unary::Round { is_up: *function == Function::Ceil, unit }
                }
                Function::Lower => Unary::Lower,
                Function::Upper => Unary::Upper,
                Function::Trim => Unary::Trim,
                Function::Length => Unary::Length,
                Function::Extract(part) => Unary::Extract(*part, Clock::of(from)?),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Applies the operator; `None` where the kernel decides. A text is written to a buffer.
    pub(super) fn apply<'a>(
        &self,
        value: Value<'a>,
        (memory, buffer): (&'a Memory, usize),
    ) -> Option<Value<'a>> {
        if let Unary::Is { test, negated } = self {
            let is = match test {
                Test::Null => value.is_null(),
                Test::True => value == Value::Bool(true),
                Test::False => value == Value::Bool(false),
            };
            return Some(Value::Bool(is != *negated));
        }
        Some(match (self, value) {
            (_, Value::Null) | (Unary::Same, _) => value,
            (Unary::ToInt { min, max }, Value::Int(value)) => {
                Value::Int(Some(value).filter(|value| (*min..=*max).contains(value))?)
            }
            (Unary::ToInt { min, max }, Value::UInt(value)) => {
                let value = i64::try_from(value).ok();
                Value::Int(value.filter(|value| (*min..=*max).contains(value))?)
            }
            (Unary::ToUInt, Value::Int(value)) => Value::UInt(value.try_into().ok()?),
            (Unary::ToText, Value::Bool(value)) => Value::Text(if value { "true" } else { "false" }),
            (Unary::ToText, Value::Int(value)) => written(value, memory, buffer),
            (Unary::ToText, Value::UInt(value)) => written(value, memory, buffer),
            (Unary::ToFloat64, Value::Int(value)) => Value::Float(value as f64),
            (Unary::ToFloat64, Value::UInt(value)) => Value::Float(value as f64),
            (Unary::ToFloat32, Value::Int(value)) => Value::Float((value as f32).into()),
            (Unary::ToFloat32, Value::UInt(value)) => Value::Float((value as f32).into()),
            (Unary::DecimalToFloat { unit, is_single }, Value::Decimal(value)) => {
                let value = value as f64 / unit;
                Value::Float(if *is_single { f64::from(value as f32) } else { value })
            }
            (Unary::ToDecimal { factor, limit }, Value::Decimal(value)) => scaled(value, *factor, *limit)?,
            (Unary::ToDecimal { factor, limit }, Value::Int(value)) => scaled(value.into(), *factor, *limit)?,
            (Unary::ToDecimal { factor, limit }, Value::UInt(value)) => {
                scaled(value.into(), *factor, *limit)?
            }
            (Unary::Times(factor), Value::Int(value)) => Value::Int(value.checked_mul(*factor)?),
            (Unary::Negate { .. }, Value::Int(value)) => Value::Int(value.checked_neg()?),
            (Unary::Negate { .. }, Value::Float(value)) => Value::Float(-value),
            (Unary::Negate { limit }, Value::Decimal(value)) => within(value.checked_neg()?, *limit)?,
            (Unary::Abs { .. }, Value::Int(value)) => Value::Int(value.checked_abs()?),
            (Unary::Abs { .. }, Value::Float(value)) => Value::Float(value.abs()),
            (Unary::Abs { limit }, Value::Decimal(value)) => within(value.checked_abs()?, *limit)?,
            (Unary::Round { is_up, .. }, Value::Float(value)) => {
                Value::Float(if *is_up { value.ceil() } else { value.floor() })
            }
            (Unary::Round { is_up, unit }, Value::Decimal(value)) => {
                let below = value.div_euclid(*unit);
                let is_whole = below * unit == value;
                Value::Decimal(if *is_up && !is_whole { below + 1 } else { below })
            }
            (Unary::Not, Value::Bool(value)) => Value::Bool(!value),
            (Unary::Lower, Value::Text(text)) => Value::Text(memory.text(buffer, |lower| {
                if text.is_ascii() {
                    lower.push_str(text);
                    lower.make_ascii_lowercase();
                } else {
                    lower.push_str(&text.to_lowercase());
                }
            })),
            (Unary::Upper, Value::Text(text)) => Value::Text(memory.text(buffer, |upper| {
                if text.is_ascii() {
                    upper.push_str(text);
                    upper.make_ascii_uppercase();
                } else {
                    upper.push_str(&text.to_uppercase());
                }
            })),
            (Unary::Trim, Value::Text(text)) => Value::Text(text.trim_matches(' ')),
            (Unary::Length, Value::Text(text)) => Value::Int(text.chars().count() as i64),
            (Unary::Extract(part, clock), Value::Int(value)) => Value::Int(extract(*part, value, *clock)?),
            _ => return None,
        })
    }
}

fn cast(from: &DataType, to: &DataType) -> Option<Unary> {
    let is_integer = from.is_integer();
    Some(match (Form::of(from), Form::of(to)) {
        _ if from == to => Unary::Same,
        (Form::Null, _) | (Form::Text, Form::Text) => Unary::Same,
        (Form::Binary, Form::Binary) if !matches!(to, DataType::FixedSizeBinary(_)) => Unary::Same,
        (Form::Float, Form::Float) if *to == DataType::Float64 => Unary::Same,
        (_, Form::Text) if is_integer || *from == DataType::Boolean => Unary::ToText,
        (Form::Int | Form::UInt, _) if is_integer && to.is_integer() => match range(to) {
            Some((min, max)) if range(from).is_some_and(|from| min <= from.0 && from.1 <= max) => Unary::Same,
            Some((min, max)) => Unary::ToInt { min, max },
            None => Unary::ToUInt,
        },
        (Form::Int | Form::UInt, Form::Float) if is_integer => match to {
            DataType::Float64 => Unary::ToFloat64,
            DataType::Float32 => Unary::ToFloat32,
            _ => return None,
        },
        (Form::Decimal, Form::Float) if *to != DataType::Float16 => {
            let is_single = *to == DataType::Float32;
            Unary::DecimalToFloat { unit: 10f64.powi(scale(from)?.into()), is_single }
        }
        (Form::Int | Form::UInt, Form::Decimal) if is_integer => {
            Unary::ToDecimal { factor: power_of_ten(scale(to)?)?, limit: limit(to) }
        }
        (Form::Decimal, Form::Decimal) => {
            let more = scale(to)?.checked_sub(scale(from)?)?;
            match more == 0 && limit(from) <= limit(to) {
                true => Unary::Same,
                false => Unary::ToDecimal { factor: power_of_ten(more)?, limit: limit(to) },
            }
        }
        _ => Unary::Times(finer(from, to)?),
    })
}

fn written(value: impl Display, memory: &Memory, buffer: usize) -> Value<'_> {
    Value::Text(memory.text(buffer, |text| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{value}");
    }))
}

/// Returns the range of an integer type; `None` for `UInt64`.
fn range(data_type: &DataType) -> Option<(i64, i64)> {
    Some(match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN, i64::MAX),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        _ => return None,
    })
}

/// Returns how many units of the second type are a unit of the first, if both count time and the second is as fine.
fn finer(from: &DataType, to: &DataType) -> Option<i64> {
    use arrow_schema::TimeUnit::Millisecond;
    let (coarse, fine) = match (from, to) {
        (DataType::Date32, DataType::Timestamp(unit, None)) => return Some(DAY_SECONDS * per_second(*unit)),
        (DataType::Date32, DataType::Date64) => return Some(DAY_SECONDS * per_second(Millisecond)),
        (DataType::Date64, DataType::Timestamp(unit, None)) => (Millisecond, *unit),
        (DataType::Timestamp(coarse, from), DataType::Timestamp(fine, to)) if from == to => (*coarse, *fine),
        (DataType::Duration(coarse), DataType::Duration(fine)) => (*coarse, *fine),
        (
            DataType::Time32(coarse) | DataType::Time64(coarse),
            DataType::Time32(fine) | DataType::Time64(fine),
        ) => (*coarse, *fine),
        _ => return None,
    };
    (coarse <= fine).then(|| per_second(fine) / per_second(coarse))
}

/// Returns the scale of a decimal type.
pub(super) fn scale(data_type: &DataType) -> Option<i8> {
    match *data_type {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            Some(scale)
        }
        _ => None,
    }
}

/// Returns the least integer that a decimal type has not; 0 for other types.
pub(super) fn limit(data_type: &DataType) -> i128 {
    match *data_type {
        DataType::Decimal32(precision, _)
        | DataType::Decimal64(precision, _)
        | DataType::Decimal128(precision, _) => 10i128.checked_pow(precision.into()).unwrap_or(i128::MAX),
        _ => 0,
    }
}

/// 10 to the power of a number; `None` if the number is negative.
fn power_of_ten(exponent: i8) -> Option<i128> {
    10i128.checked_pow(u32::try_from(exponent).ok()?)
}

fn scaled<'a>(value: i128, factor: i128, limit: i128) -> Option<Value<'a>> {
    within(product(value, factor)?, limit)
}

/// Returns the product of two values. Most are of 64 bits, whose product needs no check.
pub(super) fn product(a: i128, b: i128) -> Option<i128> {
    match (i64::try_from(a), i64::try_from(b)) {
        (Ok(a), Ok(b)) => Some(i128::from(a) * i128::from(b)),
        _ => a.checked_mul(b),
    }
}

/// Returns a decimal that is less than the limit of its precision.
pub(super) fn within<'a>(value: i128, limit: i128) -> Option<Value<'a>> {
    (-limit < value && value < limit).then_some(Value::Decimal(value))
}
