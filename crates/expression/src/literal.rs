//! Constants: parsing, printing and conversion.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::types::{Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, NullArray, StringArray};
use arrow_buffer::i256;
use arrow_cast::display::array_value_to_string;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ord::cmp;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::node::{Literal, Node};
use crate::types::{decimal_places, whole_digits};

/// Makes a constant whose type is fixed.
pub(crate) fn typed(value: ArrayRef) -> Node {
    Node::Literal(Literal { value, untyped: false })
}

pub(crate) fn null() -> Node {
    typed(Arc::new(NullArray::new(1)))
}

pub(crate) fn boolean(value: bool) -> Node {
    typed(Arc::new(BooleanArray::from(vec![value])))
}

pub(crate) fn integer(value: i64) -> Node {
    typed(Arc::new(Int64Array::from(vec![value])))
}

/// Makes a string that takes the type of the other operand.
pub(crate) fn string(value: &str) -> Node {
    Node::Literal(Literal { value: Arc::new(StringArray::from(vec![value])), untyped: true })
}

/// Parses a number: `5` is an integer, `0.05` a decimal, `5e-2` a float.
pub(crate) fn number(text: &str) -> Option<Node> {
    if text.contains(['e', 'E']) {
        let value: f64 = text.parse().ok()?;
        return Some(typed(Arc::new(arrow_array::Float64Array::from(vec![value]))));
    }
    if let Ok(value) = text.parse::<i64>() {
        return Some(integer(value));
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    decimal("", &format!("{whole}{fraction}"), fraction.len()).map(typed)
}

/// Makes a decimal of a sign, digits, and the number of digits after the point; `None` if it has too many digits.
fn decimal(sign: &str, digits: &str, places: usize) -> Option<ArrayRef> {
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let scale = i8::try_from(places).ok()?;
    let precision = u8::try_from(digits.trim_start_matches('0').len()).ok()?.max(places as u8).max(1);
    let digits = format!("{sign}{digits}");
    let value: ArrayRef = if precision <= Decimal64Type::MAX_PRECISION {
        let array = arrow_array::Decimal64Array::from(vec![digits.parse::<i64>().ok()?]);
        Arc::new(array.with_precision_and_scale(precision, scale).ok()?)
    } else if precision <= Decimal128Type::MAX_PRECISION {
        let array = arrow_array::Decimal128Array::from(vec![digits.parse::<i128>().ok()?]);
        Arc::new(array.with_precision_and_scale(precision, scale).ok()?)
    } else if precision <= Decimal256Type::MAX_PRECISION {
        let array = arrow_array::Decimal256Array::from(vec![i256::from_string(&digits)?]);
        Arc::new(array.with_precision_and_scale(precision, scale).ok()?)
    } else {
        return None;
    };
    Some(value)
}

/// Reads a string constant as a value beside one of type `to`. Digits that `to` has not are kept: the value is then a
/// decimal with more places, or a time in a finer unit. `None` if the string is not such a value.
pub(crate) fn read(text: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    use arrow_array::cast::AsArray;
    let string = text.as_string::<i32>().value(0);
    if to.is_decimal() {
        let value = decimal_text(string, to)?;
        return Some(exactly(&value, to).unwrap_or(value));
    }
    let units = finer_units(to);
    match units.last().and_then(|finest| parsed(string, finest)) {
        Some(finest) => units.iter().find_map(|unit| exactly(&finest, unit)),
        None => parsed(string, to),
    }
}

/// Reads a text as a value of a type. A time in microseconds or nanoseconds is rounded half to even, as in PostgreSQL.
pub(crate) fn parsed(text: &str, to: &DataType) -> Option<ArrayRef> {
    use TimeUnit::{Microsecond, Nanosecond};
    let string = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    let places = match to {
        DataType::Timestamp(Microsecond, _) | DataType::Time64(Microsecond) => 6,
        DataType::Timestamp(Nanosecond, _) | DataType::Time64(Nanosecond) => 9,
        _ => return converted(&string(text), to),
    };
    let (before, fraction, after) = at_fraction(text);
    let Some((kept, cut)) = fraction.split_at_checked(places) else { return converted(&string(text), to) };
    let value = converted(&string(&format!("{before}{kept}{after}")), to)?;
    let is_odd = kept.bytes().next_back().is_some_and(|digit| digit % 2 == 1);
    let is_up = match cut.trim_end_matches('0').cmp("5") {
        Ordering::Less => false,
        Ordering::Equal => is_odd,
        Ordering::Greater => true,
    };
    if is_up { next_unit(&value) } else { Some(value) }
}

/// Splits a time before and after the digits of a fraction of a second.
pub(crate) fn at_fraction(text: &str) -> (&str, &str, &str) {
    let (before, rest) = text.split_at(text.find('.').map_or(text.len(), |point| point + 1));
    let (fraction, after) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    (before, fraction, after)
}

/// Returns a time one unit later; `None` if the type has no such time.
fn next_unit(time: &ArrayRef) -> Option<ArrayRef> {
    use arrow_array::cast::AsArray;
    let count = converted(time, &DataType::Int64)?;
    let next = count.as_primitive::<Int64Type>().value(0).checked_add(1)?;
    converted(&(Arc::new(Int64Array::from(vec![next])) as ArrayRef), time.data_type())
}

/// Reads `-12.50` or `1.25e1` as a decimal with as many places as are needed, as PostgreSQL reads a `numeric`. Places
/// that decimals have not which also have the whole digits of the type `beside` are cut off, except for one more than that
/// type has. The last place is then not 0, so that comparisons with values of that type are exact.
fn decimal_text(text: &str, beside: &DataType) -> Option<ArrayRef> {
    let text = text.trim();
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let exponent = exponent.parse::<i32>().ok()?;
    let significant = digits.trim_end_matches('0');
    let zeros = digits.len() - significant.len();
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return decimal("", "0", 0);
    }
    // The value is the significant digits divided by 10 to the power of `places`.
    let signed = |count: usize| i64::try_from(count).ok();
    let places = signed(fraction.len())? - signed(zeros)? - i64::from(exponent);
    let digits_max = i64::from(Decimal256Type::MAX_PRECISION);
    let whole = (signed(significant.len())? - places).max(whole_digits(beside).into());
    if whole > digits_max {
        return None;
    }
    if places <= 0 {
        return decimal(sign, &format!("{significant}{}", "0".repeat(usize::try_from(-places).ok()?)), 0);
    }
    let places_max = (digits_max - whole).max(i64::from(decimal_places(beside)) + 1);
    if places <= places_max {
        return decimal(sign, significant, usize::try_from(places).ok()?);
    }
    let kept = signed(significant.len())? - (places - places_max);
    let mut digits = format!("0{}", &significant[..usize::try_from(kept).unwrap_or(0)]);
    if digits.ends_with('0') {
        digits.pop();
        digits.push('1');
    }
    decimal(sign, &digits, usize::try_from(places_max).ok()?)
}

/// Returns the types in which a string constant beside a time may be, the coarsest first: units from that of the time
/// to microseconds, as PostgreSQL has them. Nanoseconds remain what they are, because other times need not fit them.
/// Empty for other types.
fn finer_units(data_type: &DataType) -> Vec<DataType> {
    use TimeUnit::{Microsecond, Millisecond, Second};
    let timestamp = |unit, zone: &Option<Arc<str>>| DataType::Timestamp(unit, zone.clone());
    let all = match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, _) | DataType::Time64(TimeUnit::Nanosecond) => {
            return vec![data_type.clone()];
        }
        DataType::Date64 => vec![DataType::Date64, timestamp(Microsecond, &None)],
        DataType::Timestamp(_, zone) => {
            [Second, Millisecond, Microsecond].map(|unit| timestamp(unit, zone)).to_vec()
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            vec![DataType::Time32(Second), DataType::Time32(Millisecond), DataType::Time64(Microsecond)]
        }
        _ => Vec::new(),
    };
    all.into_iter().skip_while(|finer| finer != data_type).collect()
}

/// Returns the number of digits of an `Int64` constant, for conversion to a decimal.
pub(crate) fn integer_digits(value: &ArrayRef) -> Option<u8> {
    use arrow_array::cast::AsArray;
    if *value.data_type() != DataType::Int64 || value.is_null(0) {
        return None;
    }
    let value = value.as_primitive::<Int64Type>().value(0).unsigned_abs();
    Some(value.checked_ilog10().unwrap_or(0) as u8 + 1)
}

/// Converts a value to another type; `None` if that fails.
pub(crate) fn converted(value: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    if value.data_type().is_decimal() && to.is_floating() {
        // By way of its digits, which are rounded once: a division by a power of ten rounds twice.
        let digits = cast_with_options(value, &DataType::Utf8, &options).ok()?;
        return cast_with_options(&digits, to, &options).ok();
    }
    cast_with_options(value, to, &options).ok()
}

/// Converts a value to another type; `None` if that loses digits.
pub(crate) fn exactly(value: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    let there = converted(value, to)?;
    if value.is_null(0) {
        return Some(there);
    }
    let back = converted(&there, value.data_type())?;
    let is_same = cmp::not_distinct(&back, value).ok()?.value(0);
    is_same.then_some(there)
}

/// Prints a constant as SQL.
pub(crate) fn print(value: &ArrayRef) -> String {
    if value.is_null(0) || *value.data_type() == DataType::Null {
        return "NULL".into();
    }
    let text = array_value_to_string(value, 0).unwrap_or_else(|_| "?".into());
    let quoted = || format!("'{}'", text.replace('\'', "''"));
    match value.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => quoted(),
        DataType::Boolean => text.to_uppercase(),
        DataType::Date32 => format!("DATE {}", quoted()),
        DataType::Timestamp(_, None) => format!("TIMESTAMP '{}'", text.replace('T', " ")),
        DataType::Interval(_) => format!("INTERVAL {}", quoted()),
        DataType::Binary => format!("X'{}'", text.to_uppercase()),
        DataType::Float32 | DataType::Float64 | DataType::Float16 => print_float(&text),
        data_type if data_type.is_numeric() => match text.starts_with('-') {
            true => format!("({text})"),
            false => text,
        },
        data_type => format!("CAST({} AS {})", quoted(), type_name(data_type)),
    }
}

fn print_float(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value.is_sign_negative() => format!("({value:e})"),
        Ok(value) if value.is_finite() => format!("{value:e}"),
        _ => format!("CAST('{text}' AS DOUBLE PRECISION)"),
    }
}

/// Returns the SQL name of a type, or Arrow's name if SQL has none.
pub(crate) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INTEGER".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::UInt8 => "UINT8".into(),
        DataType::UInt16 => "UINT16".into(),
        DataType::UInt32 => "UINT32".into(),
        DataType::UInt64 => "UINT64".into(),
        DataType::Float32 => "REAL".into(),
        DataType::Float64 => "DOUBLE PRECISION".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BYTEA".into(),
        DataType::Date32 => "DATE".into(),
        DataType::Timestamp(TimeUnit::Microsecond, None) => "TIMESTAMP".into(),
        DataType::Timestamp(TimeUnit::Second, None) => "TIMESTAMP(0)".into(),
        DataType::Timestamp(TimeUnit::Millisecond, None) => "TIMESTAMP(3)".into(),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => "TIMESTAMP(9)".into(),
        DataType::Interval(IntervalUnit::MonthDayNano) => "INTERVAL".into(),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        other => other.to_string(),
    }
}
