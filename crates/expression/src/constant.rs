//! SQL constants: numbers, strings, dates, timestamps, intervals.

use std::sync::Arc;

use arrow_array::BinaryArray;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use sqlparser::ast::{DataType as SqlType, DateTimeField, Expr, Interval, Value};

use crate::Error;

use crate::literal;
use crate::node::Node;
use crate::parse::shortened;

pub(crate) fn bind(expr: &Expr) -> Result<Node, Error> {
    match expr {
        Expr::Value(value) => from_value(&value.value),
        Expr::TypedString(typed) => match (&typed.value.value, target(&typed.data_type)) {
            (Value::SingleQuotedString(text), Ok(to)) => {
                nanoseconds(text, &typed.data_type).map_or_else(|| read(text, &to), Ok)
            }
            (_, Err(error)) => Err(error),
            _ => Err(unsupported(&typed.value.value.to_string())),
        },
        Expr::Interval(interval) => from_interval(interval),
        other => Err(unsupported(&other.to_string())),
    }
}

/// Reads a timestamp whose text has more digits of a second than microseconds and whose type has no number of them.
/// `None` for others, and outside the range of nanoseconds.
fn nanoseconds(text: &str, data_type: &SqlType) -> Option<Node> {
    use sqlparser::ast::TimezoneInfo;
    let is_open = matches!(
        data_type,
        SqlType::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)
            | SqlType::Datetime(None)
    );
    let (_, fraction, _) = literal::at_fraction(text);
    let is_finer = fraction.trim_end_matches('0').len() > 6;
    if !is_open || !is_finer {
        return None;
    }
    literal::parsed(text, &DataType::Timestamp(TimeUnit::Nanosecond, None)).map(literal::typed)
}

fn unsupported(text: &str) -> Error {
    Error::Expression(format!("{} is not supported here", shortened(text)))
}

fn from_value(value: &Value) -> Result<Node, Error> {
    match value {
        Value::Number(text, _) => literal::number(text)
            .ok_or_else(|| Error::Expression(format!("the number {} has too many digits", shortened(text)))),
        Value::SingleQuotedString(text) => Ok(literal::string(text)),
        Value::Boolean(value) => Ok(literal::boolean(*value)),
        Value::Null => Ok(literal::null()),
        Value::HexStringLiteral(digits) => {
            let bytes = hex(digits).ok_or_else(|| unsupported(&value.to_string()))?;
            Ok(literal::typed(Arc::new(BinaryArray::from(vec![bytes.as_slice()]))))
        }
        other => Err(unsupported(&other.to_string())),
    }
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    // A number, but not a literal, may begin with a sign.
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let digit =
        |place: usize| digits.get(place..place + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..digits.len()).step_by(2).map(digit).collect()
}

/// Parses a text as a value of a type.
fn read(text: &str, to: &DataType) -> Result<Node, Error> {
    let value = literal::parsed(text, to).filter(|value| !arrow_array::Array::is_null(value, 0));
    value.map(literal::typed).ok_or_else(|| {
        Error::Expression(format!("'{}' cannot be read as {}", shortened(text), literal::type_name(to)))
    })
}

/// Binds `INTERVAL '3' MONTH` or `INTERVAL '1 year 2 days'`.
fn from_interval(interval: &Interval) -> Result<Node, Error> {
    let text = match &*interval.value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::Number(text, _) => text.clone(),
            other => return Err(unsupported(&format!("INTERVAL {other}"))),
        },
        _ => {
            return Err(Error::Expression(
                "an interval must be a constant, such as INTERVAL '3 months'".into(),
            ));
        }
    };
    let unit = match &interval.leading_field {
        None => "",
        Some(DateTimeField::Year | DateTimeField::Years) => " years",
        Some(DateTimeField::Month | DateTimeField::Months) => " months",
        Some(DateTimeField::Weeks | DateTimeField::Week(None)) => " weeks",
        Some(DateTimeField::Day | DateTimeField::Days) => " days",
        Some(DateTimeField::Hour | DateTimeField::Hours) => " hours",
        Some(DateTimeField::Minute | DateTimeField::Minutes) => " minutes",
        Some(DateTimeField::Second | DateTimeField::Seconds) => " seconds",
        Some(other) => return Err(unsupported(&format!("INTERVAL … {other}"))),
    };
    if unit.is_empty() && text.trim().parse::<f64>().is_ok() {
        return Err(Error::Expression(format!(
            "INTERVAL '{text}' needs a unit, such as INTERVAL '{text} days'"
        )));
    }
    if interval.last_field.is_some() {
        return Err(unsupported("INTERVAL … TO …"));
    }
    read(&format!("{text}{unit}"), &DataType::Interval(IntervalUnit::MonthDayNano))
}

/// Returns the Arrow type of a SQL type.
pub(crate) fn target(data_type: &SqlType) -> Result<DataType, Error> {
    use sqlparser::ast::{ExactNumberInfo, TimezoneInfo};
    let timestamp = |digits: Option<u64>| {
        let unit = match digits {
            Some(0) => TimeUnit::Second,
            Some(1..=3) => TimeUnit::Millisecond,
            None | Some(4..=6) => TimeUnit::Microsecond,
            Some(_) => TimeUnit::Nanosecond,
        };
        DataType::Timestamp(unit, None)
    };
    Ok(match data_type {
        SqlType::Bool | SqlType::Boolean => DataType::Boolean,
        SqlType::TinyInt(None) => DataType::Int8,
        SqlType::SmallInt(None) | SqlType::Int2(None) | SqlType::Int16 => DataType::Int16,
        SqlType::Int(None) | SqlType::Integer(None) | SqlType::Int4(None) | SqlType::Int32 => DataType::Int32,
        SqlType::BigInt(None) | SqlType::Int8(None) | SqlType::Int64 => DataType::Int64,
        SqlType::UTinyInt | SqlType::UInt8 => DataType::UInt8,
        SqlType::USmallInt | SqlType::UInt16 => DataType::UInt16,
        SqlType::UInt32 => DataType::UInt32,
        SqlType::UBigInt | SqlType::UInt64 => DataType::UInt64,
        SqlType::Real | SqlType::Float4 | SqlType::Float32 => DataType::Float32,
        SqlType::Float(ExactNumberInfo::None)
        | SqlType::Double(ExactNumberInfo::None)
        | SqlType::DoublePrecision
        | SqlType::Float8
        | SqlType::Float64 => DataType::Float64,
        SqlType::Decimal(info) | SqlType::Numeric(info) | SqlType::Dec(info) => decimal(info)?,
        SqlType::Text
        | SqlType::String(None)
        | SqlType::Varchar(None)
        | SqlType::CharVarying(None)
        | SqlType::CharacterVarying(None) => DataType::Utf8,
        SqlType::Bytea | SqlType::Blob(None) => DataType::Binary,
        SqlType::Date | SqlType::Date32 => DataType::Date32,
        SqlType::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => timestamp(*digits),
        SqlType::Datetime(digits) => timestamp(*digits),
        SqlType::Interval { fields: None, .. } => DataType::Interval(IntervalUnit::MonthDayNano),
        other => {
            return Err(Error::Expression(format!(
                "the type {} is not supported",
                shortened(&other.to_string())
            )));
        }
    })
}

fn decimal(info: &sqlparser::ast::ExactNumberInfo) -> Result<DataType, Error> {
    use sqlparser::ast::ExactNumberInfo;
    let (precision, scale) = match *info {
        // DuckDB has the same default.
        ExactNumberInfo::None => (18, 3),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    let valid = (1..=76).contains(&precision) && (0..=precision as i64).contains(&scale);
    if !valid {
        return Err(Error::Expression(format!(
            "DECIMAL({precision}, {scale}) is not supported; use 1 to 76 digits and a scale from 0 to that number"
        )));
    }
    let (precision, scale) = (precision as u8, scale as i8);
    Ok(match precision {
        1..=18 => DataType::Decimal64(precision, scale),
        19..=38 => DataType::Decimal128(precision, scale),
        _ => DataType::Decimal256(precision, scale),
    })
}
