//! Common type for the comparison of two columns (pure).
//!
//! Casts to the common type are strictly monotonic: a sorted column stays sorted, and different values stay different.

use arrow_cast::can_cast_types;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, TimeUnit};

/// Maximum digits of a decimal of 64, 128 and 256 bits.
const DECIMAL_64_DIGITS: u8 = 18; // 10^18 < 2^63
const DECIMAL_128_DIGITS: u8 = 38; // 10^38 < 2^127
const DECIMAL_256_DIGITS: u8 = 76; // 10^76 < 2^255

/// Digits of the largest `u64`.
const UINT_64_DIGITS: u8 = 20;

/// Returns the type in which values of two types are compared; `None` if they are not comparable.
pub(super) fn common_type(left: &DataType, right: &DataType) -> Option<DataType> {
    let (left, right) = (value_type(left), value_type(right));
    let common = match (left, right) {
        // 16-bit floats are too rare for a key form of their width.
        (DataType::Float16, DataType::Float16) => DataType::Float32,
        _ if left == right => left.clone(),
        _ => unequal(left, right)?,
    };
    let has_casts = can_cast_types(left, &common) && can_cast_types(right, &common);
    (has_casts && RowConverter::supports_fields(&[SortField::new(common.clone())])).then_some(common)
}

/// Returns the value type of a dictionary or run-end encoded type; other types as they are.
pub(super) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => value_type(values),
        DataType::RunEndEncoded(_, values) => value_type(values.data_type()),
        other => other,
    }
}

fn unequal(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{BinaryView, Date32, Date64, Float64, Null, Timestamp, Utf8View};
    Some(match (left, right) {
        (Null, other) | (other, Null) => other.clone(),
        (a, b) if a.is_integer() && b.is_integer() => integer(a, b),
        (a, b) if is_number(a) && is_number(b) && (a.is_floating() || b.is_floating()) => {
            (has_float_values(a) && has_float_values(b)).then_some(Float64)?
        }
        (a, b) if is_number(a) && is_number(b) => decimal(a, b)?,
        (a, b) if is_string(a) && is_string(b) => Utf8View,
        (a, b) if is_binary(a) && is_binary(b) => BinaryView,
        (Date32, Date64) | (Date64, Date32) => Date64,
        (Date32 | Date64, Timestamp(unit, None)) | (Timestamp(unit, None), Date32 | Date64) => {
            Timestamp(finer(*unit, TimeUnit::Millisecond), None)
        }
        (Timestamp(a, zone), Timestamp(b, other)) if zone.is_some() == other.is_some() => {
            Timestamp(finer(*a, *b), zone.clone())
        }
        (a, b) => time(a, b)?,
    })
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_floating() || data_type.is_decimal()
}

/// Returns whether a 64-bit float represents all values of the type exactly.
fn has_float_values(data_type: &DataType) -> bool {
    data_type.is_floating() || data_type.is_integer() && data_type.primitive_width() <= Some(4)
}

fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_binary(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    matches!(data_type, Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

fn integer(left: &DataType, right: &DataType) -> DataType {
    use DataType::{Decimal128, Int16, Int32, Int64};
    let width = |data_type: &DataType| data_type.primitive_width().unwrap_or(8);
    let wider = if width(left) >= width(right) { left } else { right };
    if left.is_signed_integer() == right.is_signed_integer() {
        return wider.clone();
    }
    let (signed, unsigned) = if left.is_signed_integer() { (left, right) } else { (right, left) };
    match width(signed).max(2 * width(unsigned)) {
        2 => Int16,
        4 => Int32,
        8 => Int64,
        _ => Decimal128(UINT_64_DIGITS, 0),
    }
}

/// Returns the maximum digits before and after the decimal point.
fn digits(data_type: &DataType) -> Option<(i16, i16)> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256, Int8, Int16, Int32, UInt8, UInt16, UInt32};
    Some(match data_type {
        Decimal32(digits, scale)
        | Decimal64(digits, scale)
        | Decimal128(digits, scale)
        | Decimal256(digits, scale) => (i16::from(*digits) - i16::from(*scale), i16::from(*scale)),
        Int8 | UInt8 => (3, 0),
        Int16 | UInt16 => (5, 0),
        Int32 | UInt32 => (10, 0),
        other => other.is_integer().then_some((i16::from(UINT_64_DIGITS), 0))?,
    })
}

fn decimal(left: &DataType, right: &DataType) -> Option<DataType> {
    let ((before, after), (other_before, other_after)) = (digits(left)?, digits(right)?);
    let scale = after.max(other_after);
    let precision = u8::try_from(before.max(other_before) + scale).ok()?.max(1);
    let scale = i8::try_from(scale).ok()?;
    if i16::from(precision) < i16::from(scale) || precision > DECIMAL_256_DIGITS {
        return None;
    }
    Some(if precision <= DECIMAL_64_DIGITS {
        DataType::Decimal64(precision, scale)
    } else if precision <= DECIMAL_128_DIGITS {
        DataType::Decimal128(precision, scale)
    } else {
        DataType::Decimal256(precision, scale)
    })
}

fn time(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{Duration, Time32, Time64};
    Some(match (left, right) {
        (Time32(a), Time32(b)) => Time32(finer(*a, *b)),
        (Time32(a) | Time64(a), Time32(b) | Time64(b)) => Time64(finer(*a, *b)),
        (Duration(a), Duration(b)) => Duration(finer(*a, *b)),
        _ => return None,
    })
}

/// Returns the finer of two units.
fn finer(left: TimeUnit, right: TimeUnit) -> TimeUnit {
    let rank = |unit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    if rank(left) >= rank(right) { left } else { right }
}
