//! Values of columns in text, and the names of their types. Pure.

use arrow_schema::{DataType, TimeUnit};

use super::time;
use crate::row::Cell;

/// The names of the types of columns.
pub(crate) const TYPE_NAMES: [&str; 18] = [
    "text",
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "date",
    "timestamp(s)",
    "timestamp(ms)",
    "timestamp(us)",
    "timestamp(ns)",
    "timestamp",
];

/// Returns the type of a name; `timestamp` alone is in milliseconds.
pub(crate) fn type_of(name: &str) -> Option<DataType> {
    Some(match name {
        "text" => DataType::Utf8,
        "bool" => DataType::Boolean,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float32" => DataType::Float32,
        "float64" => DataType::Float64,
        "date" => DataType::Date32,
        "timestamp(s)" => DataType::Timestamp(TimeUnit::Second, None),
        "timestamp(ms)" | "timestamp" => DataType::Timestamp(TimeUnit::Millisecond, None),
        "timestamp(us)" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "timestamp(ns)" => DataType::Timestamp(TimeUnit::Nanosecond, None),
        _ => return None,
    })
}

/// How the values of a type are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Bool,
    /// An integer in a range.
    Int(i64, i64),
    UInt,
    Float32,
    Float64,
    Date,
    Timestamp(TimeUnit),
}

impl Kind {
    /// Returns the kind of the types that have a name.
    pub(crate) fn of(data_type: &DataType) -> Option<Kind> {
        Some(match data_type {
            DataType::Utf8 => Kind::Text,
            DataType::Boolean => Kind::Bool,
            DataType::Int8 => Kind::Int(i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => Kind::Int(i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => Kind::Int(i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => Kind::Int(i64::MIN, i64::MAX),
            DataType::UInt8 => Kind::Int(0, u8::MAX.into()),
            DataType::UInt16 => Kind::Int(0, u16::MAX.into()),
            DataType::UInt32 => Kind::Int(0, u32::MAX.into()),
            DataType::UInt64 => Kind::UInt,
            DataType::Float32 => Kind::Float32,
            DataType::Float64 => Kind::Float64,
            DataType::Date32 => Kind::Date,
            DataType::Timestamp(unit, None) => Kind::Timestamp(*unit),
            _ => return None,
        })
    }

    /// Returns the name of its values, for errors.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Kind::Text => "a text",
            Kind::Bool => "true or false",
            Kind::Int(..) => "an integer of its type",
            Kind::UInt => "an integer of 0 or more",
            Kind::Float32 | Kind::Float64 => "a number",
            Kind::Date => "a date such as 2026-11-23",
            Kind::Timestamp(_) => "a time such as 2026-11-23T12:00:00Z",
        }
    }

    /// Returns the value of a text that is not empty and does not stand for null; none if it is not of this kind. The
    /// text is `start..` of its block.
    #[inline]
    pub(crate) fn cell(self, text: &str, start: usize) -> Option<Cell> {
        let bytes = text.as_bytes();
        Some(match self {
            Kind::Text => Cell::Text { start: start as u32, length: text.len() as u32 },
            Kind::Int(min, max) => Cell::Int(integer(bytes).filter(|value| (min..=max).contains(value))?),
            Kind::UInt => Cell::UInt(natural(bytes)?),
            Kind::Float64 => Cell::Float(float(text)?),
            Kind::Float32 => Cell::Float(f64::from(float(text)? as f32)),
            Kind::Bool => Cell::Bool(boolean(bytes)?),
            Kind::Date => Cell::Int(time::date(bytes)?),
            Kind::Timestamp(unit) => Cell::Int(timestamp(bytes, unit)?),
        })
    }

    /// Returns the value of a number, as JSON has it.
    pub(crate) fn of_integer(self, value: i64) -> Option<Cell> {
        Some(match self {
            Kind::Int(min, max) => Cell::Int(Some(value).filter(|value| (min..=max).contains(value))?),
            Kind::UInt => Cell::UInt(u64::try_from(value).ok()?),
            Kind::Float64 => Cell::Float(value as f64),
            Kind::Float32 => Cell::Float(f64::from(value as f32)),
            Kind::Timestamp(_) => Cell::Int(value),
            Kind::Text | Kind::Bool | Kind::Date => return None,
        })
    }
}

/// Returns a time, or a whole number of units since 1970-01-01.
fn timestamp(bytes: &[u8], unit: TimeUnit) -> Option<i64> {
    time::time(bytes).and_then(|moment| moment.in_unit(unit)).or_else(|| integer(bytes))
}

fn boolean(text: &[u8]) -> Option<bool> {
    match text.len() {
        4 if text.eq_ignore_ascii_case(b"true") => Some(true),
        5 if text.eq_ignore_ascii_case(b"false") => Some(false),
        _ => None,
    }
}

/// Digits that cannot exceed 64 bits.
const SAFE_DIGITS: usize = 19;

fn natural(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let (safe, rest) = digits.split_at(digits.len().min(SAFE_DIGITS));
    let value = safe.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| value * 10 + u64::from(digit))
    })?;
    rest.iter().try_fold(value, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 { value.checked_mul(10)?.checked_add(u64::from(digit)) } else { None }
    })
}

fn integer(text: &[u8]) -> Option<i64> {
    match text {
        [b'-', digits @ ..] => 0_i64.checked_sub_unsigned(natural(digits)?),
        [b'+', digits @ ..] | digits => i64::try_from(natural(digits)?).ok(),
    }
}

/// Returns a number; words such as `inf` are not.
fn float(text: &str) -> Option<f64> {
    let first = text.trim_start_matches(['-', '+']).as_bytes().first()?;
    if first.is_ascii_digit() || *first == b'.' { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_a_type_that_is_read() {
        for name in TYPE_NAMES {
            let data_type = type_of(name).unwrap();
            assert!(Kind::of(&data_type).is_some(), "{name}");
        }
        assert_eq!(type_of("int"), None);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let cell = |name: &str, text: &str| Kind::of(&type_of(name).unwrap()).unwrap().cell(text, 0);
        assert_eq!(cell("int64", "-9223372036854775808"), Some(Cell::Int(i64::MIN)));
        assert_eq!(cell("int64", "9223372036854775808"), None);
        assert_eq!(cell("uint64", "18446744073709551615"), Some(Cell::UInt(u64::MAX)));
        assert_eq!(cell("uint64", "18446744073709551616"), None);
        assert_eq!(cell("uint8", "256"), None);
        assert_eq!(cell("int8", "-128"), Some(Cell::Int(-128)));
        for text in ["", "-", "1x", "1.5"] {
            assert_eq!(cell("int64", text), None, "{text}");
        }
        assert_eq!(cell("float64", "-1.5e3"), Some(Cell::Float(-1500.0)));
        assert_eq!(cell("float64", "inf"), None);
        assert_eq!(cell("bool", "TRUE"), Some(Cell::Bool(true)));
        assert_eq!(cell("date", "1970-01-02"), Some(Cell::Int(1)));
        assert_eq!(cell("timestamp(ms)", "1970-01-01T00:00:01.5Z"), Some(Cell::Int(1500)));
        assert_eq!(cell("timestamp(s)", "1500"), Some(Cell::Int(1500)));
    }
}
