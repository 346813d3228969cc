//! Operators of two values without kernels. Where an operator has no result, the kernel decides: it has the value, or the
//! error and its text.

use std::cmp::Ordering;

use arrow_schema::DataType;

use crate::evaluate::{Operation, arithmetic::divide_128};
use crate::node::{Comparison, Function};
use crate::types::{Arithmetic, flat};

use super::memory::Memory;
use super::unary::{limit, product, scale, within};
use super::value::{Form, Value};

/// An operator of two values.
#[derive(Clone, Debug)]
pub(super) enum Binary {
    /// Integers, or dates, times and durations in the same unit; with the range of the results.
    Int {
        operator: Arithmetic,
        min: i64,
        max: i64,
    },
    UInt(Arithmetic),
    Float64(Arithmetic),
    Float32(Arithmetic),
    /// Decimals of one scale, except for `*` and `/`. A result is less than the limit of its precision; a dividend is
    /// multiplied by 10 to the power of `shift`.
    Decimal {
        operator: Arithmetic,
        limit: i128,
        shift: u32,
    },
    Compare(Comparison),
    NullIf,
    Concat,
    StartsWith,
    EndsWith,
    Contains,
}

impl Binary {
    /// Returns the operator for operands of two types and results of another; `None` if only the kernel has it.
    pub(super) fn of(operation: &Operation, types: [&DataType; 2], to: &DataType) -> Option<Binary> {
        let types = types.map(flat);
        Some(match operation {
            Operation::Arithmetic { operator, .. } => return arithmetic(*operator, types, to),
            Operation::Compare(operator) if is_same(types) => Binary::Compare(*operator),
            Operation::Call { function: Function::NullIf, .. } if is_same(types) => Binary::NullIf,
            Operation::Call { function: Function::Concat, .. } => Binary::Concat,
            Operation::Call { function: Function::StartsWith, .. } => Binary::StartsWith,
            Operation::Call { function: Function::EndsWith, .. } => Binary::EndsWith,
            Operation::Call { function: Function::Contains, .. } => Binary::Contains,
            _ => return None,
        })
    }

    /// Applies the operator; `None` where the kernel decides. A text is written to a buffer.
    pub(super) fn apply<'a>(
        &self,
        a: Value<'a>,
        b: Value<'a>,
        (memory, buffer): (&'a Memory, usize),
    ) -> Option<Value<'a>> {
        Some(match (self, a, b) {
            (Binary::Compare(operator), ..) => return compare(*operator, a, b),
            (Binary::NullIf, _, Value::Null) => a,
            (_, Value::Null, _) | (_, _, Value::Null) => Value::Null,
            (Binary::NullIf, ..) if order(a, b)?.is_eq() => Value::Null,
            (Binary::NullIf, ..) => a,
            (Binary::Int { operator, min, max }, Value::Int(a), Value::Int(b)) => {
                let value = match operator {
                    Arithmetic::Add => a.checked_add(b),
                    Arithmetic::Subtract => a.checked_sub(b),
                    Arithmetic::Multiply => a.checked_mul(b),
                    Arithmetic::Divide => a.checked_div(b),
                    Arithmetic::Remainder => a.checked_rem(b),
                };
                Value::Int(value.filter(|value| (*min..=*max).contains(value))?)
            }
            (Binary::UInt(operator), Value::UInt(a), Value::UInt(b)) => Value::UInt(match operator {
                Arithmetic::Add => a.checked_add(b)?,
                Arithmetic::Subtract => a.checked_sub(b)?,
                Arithmetic::Multiply => a.checked_mul(b)?,
                Arithmetic::Divide => a.checked_div(b)?,
                Arithmetic::Remainder => a.checked_rem(b)?,
            }),
            (Binary::Float64(operator), Value::Float(a), Value::Float(b)) => Value::Float(match operator {
                Arithmetic::Add => a + b,
                Arithmetic::Subtract => a - b,
                Arithmetic::Multiply => a * b,
                Arithmetic::Divide => a / b,
                Arithmetic::Remainder => a % b,
            }),
            (Binary::Float32(operator), Value::Float(a), Value::Float(b)) => {
                let (a, b) = (a as f32, b as f32);
                let value = match operator {
                    Arithmetic::Add => a + b,
                    Arithmetic::Subtract => a - b,
                    Arithmetic::Multiply => a * b,
                    Arithmetic::Divide => a / b,
                    Arithmetic::Remainder => a % b,
                };
                Value::Float(value.into())
            }
            (Binary::Decimal { operator, limit, shift }, Value::Decimal(a), Value::Decimal(b)) => {
                let value = match operator {
                    Arithmetic::Add => a.checked_add(b)?,
                    Arithmetic::Subtract => a.checked_sub(b)?,
                    Arithmetic::Multiply => product(a, b)?,
                    Arithmetic::Divide => divide_128(a, b, *shift)?,
                    Arithmetic::Remainder => a.checked_rem(b)?,
                };
                within(value, *limit)?
            }
            (Binary::Concat, Value::Text(a), Value::Text(b)) => Value::Text(memory.text(buffer, |text| {
                text.push_str(a);
                text.push_str(b);
            })),
            (Binary::StartsWith, Value::Text(a), Value::Text(b)) => Value::Bool(a.starts_with(b)),
            (Binary::EndsWith, Value::Text(a), Value::Text(b)) => Value::Bool(a.ends_with(b)),
            (Binary::Contains, Value::Text(a), Value::Text(b)) => Value::Bool(a.contains(b)),
            _ => return None,
        })
    }
}

fn arithmetic(operator: Arithmetic, [a, b]: [&DataType; 2], to: &DataType) -> Option<Binary> {
    match (Form::of(a), Form::of(b), Form::of(to)) {
        (Form::Int, Form::Int, Form::Int) if *to == DataType::Date32 => {
            Some(Binary::Int { operator, min: i32::MIN.into(), max: i32::MAX.into() })
        }
        (Form::Int, Form::Int, Form::Int) => Some(Binary::Int { operator, min: i64::MIN, max: i64::MAX }),
        (Form::UInt, Form::UInt, Form::UInt) => Some(Binary::UInt(operator)),
        (Form::Float, Form::Float, Form::Float) => match to {
            DataType::Float64 => Some(Binary::Float64(operator)),
            DataType::Float32 => Some(Binary::Float32(operator)),
            _ => None,
        },
        (Form::Decimal, Form::Decimal, Form::Decimal) => {
            let (a, b, result) = (scale(a)?, scale(b)?, scale(to)?);
            let shift = match operator {
                Arithmetic::Multiply => (a + b == result).then_some(0)?,
                Arithmetic::Divide => u32::try_from(i32::from(result) - i32::from(a) + i32::from(b)).ok()?,
                _ => (a == b && a == result).then_some(0)?,
            };
            Some(Binary::Decimal { operator, limit: limit(to), shift })
        }
        _ => None,
    }
}

/// Returns whether values of two types are compared as they are.
fn is_same([a, b]: [&DataType; 2]) -> bool {
    match (Form::of(a), Form::of(b)) {
        (Form::Array, _) => false,
        (Form::Text, Form::Text) | (Form::Binary, Form::Binary) => true,
        (Form::Decimal, Form::Decimal) => scale(a) == scale(b),
        _ => a == b,
    }
}

fn compare<'a>(operator: Comparison, a: Value<'a>, b: Value<'a>) -> Option<Value<'a>> {
    let has_null = a.is_null() || b.is_null();
    match operator {
        Comparison::Distinct if has_null => return Some(Value::Bool(a.is_null() != b.is_null())),
        Comparison::NotDistinct if has_null => return Some(Value::Bool(a.is_null() == b.is_null())),
        _ if has_null => return Some(Value::Null),
        _ => {}
    }
    let order = order(a, b)?;
    Some(Value::Bool(match operator {
        Comparison::Equal | Comparison::NotDistinct => order.is_eq(),
        Comparison::NotEqual | Comparison::Distinct => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }))
}

/// Returns the order of two values of one type: NaN equals NaN and is greater than every number, and -0 equals 0.
fn order(a: Value<'_>, b: Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(&b)),
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(&b)),
        (Value::UInt(a), Value::UInt(b)) => Some(a.cmp(&b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(&b).or(Some(a.is_nan().cmp(&b.is_nan()))),
        (Value::Decimal(a), Value::Decimal(b)) => Some(a.cmp(&b)),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (Value::Binary(a), Value::Binary(b)) => Some(a.cmp(b)),
        _ => None,
    }
}
