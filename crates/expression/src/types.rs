//! Types of expressions: the operand types of operators, implicit conversions, and result types.
//!
//! | operands | computed as | result |
//! |---|---|---|
//! | integers | 64 bits; signed and `UInt64` together as decimals | the same; an overflow is an error |
//! | decimals `(p, s)`, integers as decimals | exactly | `+ -`: scale max(s1, s2), one digit more; `*`: scale s1 + s2, p1 + p2 digits; `/`: scale s1 + 4, rounded half away from zero; `%`: scale max(s1, s2). 38 digits at most (76 if an operand has more than 38), and a value that does not fit is an error |
//! | a float and any number | `Float64`, or the type of both if equal | IEEE 754: division by zero gives an infinity or NaN |
//! | date ± integer, date - date | days | date, `Int64` |
//! | date ± interval, timestamp ± interval or duration | calendar | the same; a date with an interval of less than a day becomes a timestamp |

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

/// Maximum precision of decimals of 64, 128 and 256 bits.
const DIGITS_64_BITS: u8 = 18;
pub(crate) const DIGITS_128_BITS: u8 = 38;
const DIGITS_256_BITS: u8 = 76;
/// Decimal places added to the dividend's for a quotient, as in DataFusion and Spark's minimum.
const QUOTIENT_SCALE_EXTRA: i8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Arithmetic {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Remainder => "%",
        }
    }
}

/// The types to which the operands of an operator are converted, and the type of the result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Signature {
    pub(crate) left: DataType,
    pub(crate) right: DataType,
    pub(crate) result: DataType,
}

impl Signature {
    fn same(data_type: DataType) -> Signature {
        Signature { left: data_type.clone(), right: data_type.clone(), result: data_type }
    }
}

/// A decimal type, or an integer type as one.
#[derive(Clone, Copy, Debug)]
struct Decimal {
    precision: u8,
    scale: i8,
    /// Width of the type in bits; 0 for integers.
    bits: u16,
}

impl Decimal {
    fn of(data_type: &DataType) -> Option<Decimal> {
        let decimal = |precision, scale, bits| Some(Decimal { precision, scale, bits });
        match *data_type {
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                decimal(precision, scale, 64)
            }
            DataType::Decimal128(precision, scale) => decimal(precision, scale, 128),
            DataType::Decimal256(precision, scale) => decimal(precision, scale, 256),
            DataType::Int8 | DataType::UInt8 => decimal(3, 0, 0),
            DataType::Int16 | DataType::UInt16 => decimal(5, 0, 0),
            DataType::Int32 | DataType::UInt32 => decimal(10, 0, 0),
            DataType::Int64 => decimal(19, 0, 0),
            DataType::UInt64 => decimal(20, 0, 0),
            _ => None,
        }
        .map(|decimal| match decimal.scale < 0 {
            true => Decimal {
                precision: decimal.precision.saturating_add(decimal.scale.unsigned_abs()),
                scale: 0,
                ..decimal
            },
            false => decimal,
        })
    }

    /// Digits before the point.
    fn whole(self) -> u8 {
        self.precision.saturating_sub(self.scale as u8)
    }
}

/// Returns the smallest decimal type of at least `bits` bits. The precision exceeds 38 only if `bits` exceeds 128.
fn decimal(precision: u8, scale: i8, bits: u16) -> Option<DataType> {
    let most = if bits > 128 { DIGITS_256_BITS } else { DIGITS_128_BITS };
    let precision = precision.clamp(1, most);
    let data_type = match precision {
        ..=DIGITS_64_BITS if bits <= 64 => DataType::Decimal64(precision, scale),
        ..=DIGITS_128_BITS if bits <= 128 => DataType::Decimal128(precision, scale),
        _ => DataType::Decimal256(precision, scale),
    };
    (scale >= 0 && scale as u8 <= precision).then_some(data_type)
}

/// Returns a type without its dictionary.
pub(crate) fn flat(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => flat(values),
        other => other,
    }
}

pub(crate) fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

pub(crate) fn is_binary(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)
    )
}

pub(crate) fn is_decimal(data_type: &DataType) -> bool {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    matches!(data_type, Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..))
}

/// Returns the number of digits after the point.
pub(crate) fn decimal_places(data_type: &DataType) -> i8 {
    Decimal::of(data_type).map_or(0, |decimal| decimal.scale)
}

/// Returns the number of digits before the point.
pub(crate) fn whole_digits(data_type: &DataType) -> u8 {
    Decimal::of(data_type).map_or(0, Decimal::whole)
}

/// Returns the common type of two types, for comparisons and for results from either.
pub(crate) fn common(a: &DataType, b: &DataType) -> Option<DataType> {
    let (a, b) = (flat(a), flat(b));
    match (a, b) {
        _ if a == b => Some(a.clone()),
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        _ if a.is_floating() && b.is_numeric() || a.is_numeric() && b.is_floating() => {
            Some(DataType::Float64)
        }
        _ if a.is_integer() && b.is_integer() => Some(common_integer(a, b)),
        _ if a.is_numeric() && b.is_numeric() => common_decimal(Decimal::of(a)?, Decimal::of(b)?),
        _ if is_string(a) && is_string(b) => Some(wider(a, b, &[DataType::LargeUtf8, DataType::Utf8View])),
        _ if is_binary(a) && is_binary(b) => {
            Some(wider(a, b, &[DataType::LargeBinary, DataType::BinaryView, DataType::Binary]))
        }
        (DataType::Date32 | DataType::Date64, DataType::Date32 | DataType::Date64) => Some(DataType::Date64),
        (DataType::Date32, DataType::Timestamp(unit, None))
        | (DataType::Timestamp(unit, None), DataType::Date32) => Some(DataType::Timestamp(*unit, None)),
        // These dates have milliseconds.
        (DataType::Date64, DataType::Timestamp(unit, None))
        | (DataType::Timestamp(unit, None), DataType::Date64) => {
            Some(DataType::Timestamp(*unit.max(&TimeUnit::Millisecond), None))
        }
        (DataType::Timestamp(unit, zone), DataType::Timestamp(other, other_zone))
            if zone.is_some() == other_zone.is_some() =>
        {
            Some(DataType::Timestamp(*unit.max(other), zone.clone()))
        }
        (DataType::Duration(unit), DataType::Duration(other)) => Some(DataType::Duration(*unit.max(other))),
        (DataType::Time32(_) | DataType::Time64(_), DataType::Time32(_) | DataType::Time64(_)) => {
            Some(DataType::Time64(TimeUnit::Nanosecond))
        }
        _ => None,
    }
}

/// Returns the first type in `order` that equals `a` or `b`.
fn wider(a: &DataType, b: &DataType, order: &[DataType]) -> DataType {
    order.iter().find(|wide| *wide == a || *wide == b).unwrap_or(a).clone()
}

fn common_integer(a: &DataType, b: &DataType) -> DataType {
    let bits = |data_type: &DataType| data_type.primitive_width().unwrap_or(8) * 8;
    let is_signed = [a.is_signed_integer(), b.is_signed_integer()];
    let needed = match is_signed {
        [true, false] => bits(a).max(bits(b) * 2),
        [false, true] => bits(b).max(bits(a) * 2),
        _ => bits(a).max(bits(b)),
    };
    match (needed, is_signed != [false, false]) {
        (..=8, true) => DataType::Int8,
        (..=16, true) => DataType::Int16,
        (..=32, true) => DataType::Int32,
        (..=64, true) => DataType::Int64,
        (_, true) => DataType::Decimal128(20, 0),
        (..=8, false) => DataType::UInt8,
        (..=16, false) => DataType::UInt16,
        (..=32, false) => DataType::UInt32,
        (_, false) => DataType::UInt64,
    }
}

fn common_decimal(a: Decimal, b: Decimal) -> Option<DataType> {
    let scale = a.scale.max(b.scale);
    let precision = a.whole().max(b.whole()).saturating_add(scale as u8);
    // More than 38 digits need 256 bits, because no value may be lost.
    let bits = a.bits.max(b.bits).max(if precision > DIGITS_128_BITS { 256 } else { 0 });
    decimal(precision, scale, bits)
}

pub(crate) fn is_comparable(data_type: &DataType) -> bool {
    let data_type = flat(data_type);
    data_type.is_primitive()
        || is_string(data_type)
        || is_binary(data_type)
        || matches!(data_type, DataType::Boolean | DataType::Null)
}

/// Returns the signature of an operator for operands of two types; `None` if they are not supported.
pub(crate) fn arithmetic(operator: Arithmetic, a: &DataType, b: &DataType) -> Option<Signature> {
    let (a, b) = (flat(a), flat(b));
    match (a, b) {
        (DataType::Null, DataType::Null) => Some(Signature::same(DataType::Int64)),
        (DataType::Null, other) if other.is_numeric() => arithmetic(operator, other, other),
        (other, DataType::Null) if other.is_numeric() => arithmetic(operator, other, other),
        _ if a.is_floating() && a == b => Some(Signature::same(a.clone())),
        _ if a.is_floating() && b.is_numeric() || a.is_numeric() && b.is_floating() => {
            Some(Signature::same(DataType::Float64))
        }
        _ if a.is_integer() && b.is_integer() => integers(operator, a, b),
        _ if a.is_numeric() && b.is_numeric() => decimals(operator, Decimal::of(a)?, Decimal::of(b)?),
        _ => temporal(operator, a, b),
    }
}

fn integers(operator: Arithmetic, a: &DataType, b: &DataType) -> Option<Signature> {
    match [a, b].map(|data_type| *data_type == DataType::UInt64) {
        [false, false] => Some(Signature::same(DataType::Int64)),
        _ if a.is_unsigned_integer() && b.is_unsigned_integer() => Some(Signature::same(DataType::UInt64)),
        _ => decimals(operator, Decimal::of(a)?, Decimal::of(b)?),
    }
}

fn decimals(operator: Arithmetic, a: Decimal, b: Decimal) -> Option<Signature> {
    let bits = match operator {
        // The quotient of a decimal of few digits and one of many has few digits.
        Arithmetic::Divide if a.precision.max(b.precision) > DIGITS_64_BITS => a.bits.max(b.bits).max(128),
        _ => a.bits.max(b.bits),
    };
    let scale = a.scale.max(b.scale);
    let (precision, scale) = match operator {
        Arithmetic::Add | Arithmetic::Subtract => {
            (a.whole().max(b.whole()).saturating_add(scale as u8).saturating_add(1), scale)
        }
        Arithmetic::Multiply => (a.precision.saturating_add(b.precision), a.scale.checked_add(b.scale)?),
        Arithmetic::Divide => {
            let scale = a.scale.checked_add(QUOTIENT_SCALE_EXTRA)?;
            (a.whole().saturating_add(b.scale as u8).saturating_add(scale as u8), scale)
        }
        Arithmetic::Remainder => (a.whole().max(b.whole()).saturating_add(scale as u8), scale),
    };
    let result = decimal(precision, scale, bits)?;
    let width = match result {
        DataType::Decimal64(..) => 64,
        DataType::Decimal128(..) => 128,
        _ => 256,
    };
    let operand = |own: Decimal| match operator {
        // These operators need equal scales.
        Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Remainder => {
            let needed = own.whole().saturating_add(scale as u8);
            decimal(needed, scale, width)
        }
        Arithmetic::Multiply | Arithmetic::Divide => decimal(own.precision, own.scale, width),
    };
    Some(Signature { left: operand(a)?, right: operand(b)?, result })
}

fn temporal(operator: Arithmetic, a: &DataType, b: &DataType) -> Option<Signature> {
    use DataType::{Date32, Date64, Duration, Interval, Timestamp};
    let is_difference = match operator {
        Arithmetic::Add => false,
        Arithmetic::Subtract => true,
        _ => return None,
    };
    let keep = |result: DataType| Some(Signature { left: a.clone(), right: b.clone(), result });
    match (a, b) {
        (Date32, other) if other.is_integer() => {
            Some(Signature { left: Date32, right: DataType::Int64, result: Date32 })
        }
        (Date32, Date32) if is_difference => keep(DataType::Int64),
        (Date32 | Date64, Interval(IntervalUnit::YearMonth | IntervalUnit::MonthDayNano)) => keep(a.clone()),
        (Timestamp(..), Interval(_)) => keep(a.clone()),
        (Timestamp(unit, zone), Duration(other)) => {
            let finer = *unit.max(other);
            let same = Timestamp(finer, zone.clone());
            Some(Signature { left: same.clone(), right: Duration(finer), result: same })
        }
        (Timestamp(unit, None), Date32) | (Date32, Timestamp(unit, None)) if is_difference => {
            let same = Timestamp(*unit, None);
            Some(Signature { left: same.clone(), right: same, result: Duration(*unit) })
        }
        (Timestamp(..), Timestamp(..)) if is_difference => {
            let same = common(a, b)?;
            let Timestamp(unit, _) = same else { return None };
            Some(Signature { left: same.clone(), right: same, result: Duration(unit) })
        }
        (Duration(_), Duration(_)) => Some(Signature::same(common(a, b)?)),
        (Interval(unit), Interval(other)) if unit == other => Some(Signature::same(a.clone())),
        // The binder swaps the operands of `interval + date`.
        _ => None,
    }
}
