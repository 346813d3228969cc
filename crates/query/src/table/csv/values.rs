//! Values in text, and the types that keep them. Pure.

use arrow_array::types::Float64Type;
use arrow_cast::parse::Parser;
use arrow_schema::{DataType, TimeUnit};
use sakiyomi_expression::calendar::{DAY_SECONDS, days_of};

use super::fields::Field;

/// Maximum digits of a timestamp's fraction.
const FRACTION_DIGITS_MAX: usize = 9;

/// Maximum digits of a 64-bit integer.
const INTEGER_DIGITS_MAX: usize = 19;

/// Nanoseconds of a second.
const SECOND_NANOS: i64 = 1_000_000_000;

/// The narrowest type of a column's values so far. Within numbers and within times, later kinds include earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Nothing,
    Boolean,
    Integer,
    /// Integers of which some are no floating-point numbers, as identifiers of 64 bits are.
    LongInteger,
    Float,
    Date,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    Text,
}

impl Kind {
    /// Returns the kind of a column of a CSV file's schema.
    pub(super) fn of_type(data_type: &DataType) -> Kind {
        match data_type {
            DataType::Boolean => Kind::Boolean,
            DataType::Int64 => Kind::Integer,
            DataType::Float64 => Kind::Float,
            DataType::Date32 => Kind::Date,
            DataType::Timestamp(TimeUnit::Second, None) => Kind::Second,
            DataType::Timestamp(TimeUnit::Millisecond, None) => Kind::Millisecond,
            DataType::Timestamp(TimeUnit::Microsecond, None) => Kind::Microsecond,
            DataType::Timestamp(TimeUnit::Nanosecond, None) => Kind::Nanosecond,
            _ => Kind::Text,
        }
    }

    pub(super) fn data_type(self) -> DataType {
        match self {
            Kind::Boolean => DataType::Boolean,
            Kind::Integer | Kind::LongInteger => DataType::Int64,
            Kind::Float => DataType::Float64,
            Kind::Date => DataType::Date32,
            Kind::Second => DataType::Timestamp(TimeUnit::Second, None),
            Kind::Millisecond => DataType::Timestamp(TimeUnit::Millisecond, None),
            Kind::Microsecond => DataType::Timestamp(TimeUnit::Microsecond, None),
            Kind::Nanosecond => DataType::Timestamp(TimeUnit::Nanosecond, None),
            Kind::Nothing | Kind::Text => DataType::Utf8,
        }
    }

    /// In words, for errors.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Kind::Nothing => "empty",
            Kind::Boolean => "true or false",
            Kind::Integer | Kind::LongInteger => "an integer without leading zeros",
            Kind::Float => "a number that 64 bits of floating point keep",
            Kind::Date => "a date",
            Kind::Second => "a time in seconds",
            Kind::Millisecond => "a time in milliseconds",
            Kind::Microsecond => "a time in microseconds",
            Kind::Nanosecond => "a time in nanoseconds",
            Kind::Text => "a text",
        }
    }

    /// Returns the kind of one value. An empty string is a text.
    pub(super) fn of(field: &Field<'_>) -> Kind {
        let text = field.bytes;
        match () {
            () if field.is_null() => Kind::Nothing,
            () if boolean(text).is_some() => Kind::Boolean,
            () if integer(text).is_some() && float(text).is_none() => Kind::LongInteger,
            () if integer(text).is_some() => Kind::Integer,
            () if float(text).is_some() => Kind::Float,
            () if date(text).is_some() => Kind::Date,
            () => time(text).map_or(Kind::Text, |(kind, _)| kind),
        }
    }

    /// Returns the kind that includes the values of both.
    pub(super) fn join(self, other: Kind) -> Kind {
        let (less, more) = (self.min(other), self.max(other));
        let is_number = |kind| matches!(kind, Kind::Integer | Kind::Float);
        let is_integer = |kind| matches!(kind, Kind::Integer | Kind::LongInteger);
        let is_time = |kind| (Kind::Date..=Kind::Nanosecond).contains(&kind);
        match () {
            () if less == more || less == Kind::Nothing => more,
            () if is_integer(less) && is_integer(more) => more,
            () if is_number(less) && is_number(more) => more,
            () if is_time(less) && is_time(more) => more,
            () => Kind::Text,
        }
    }

    /// Nanoseconds of a unit of a kind of times.
    fn unit_nanos(self) -> i64 {
        match self {
            Kind::Millisecond => SECOND_NANOS / 1000,
            Kind::Microsecond => SECOND_NANOS / 1_000_000,
            Kind::Nanosecond => 1,
            _ => SECOND_NANOS,
        }
    }

    /// Returns the timestamp of a date or a time in the unit of this kind; `None` if the unit does not keep it.
    pub(super) fn timestamp(self, text: &[u8]) -> Option<i64> {
        if let Some(days) = date(text) {
            return (i64::from(days) * DAY_SECONDS).checked_mul(SECOND_NANOS / self.unit_nanos());
        }
        let (kind, nanos) = time(text)?;
        (kind <= self).then(|| nanos.div_euclid(self.unit_nanos()))
    }
}

/// Returns a truth value.
pub(super) fn boolean(text: &[u8]) -> Option<bool> {
    match text.len() {
        4 if text.eq_ignore_ascii_case(b"true") => Some(true),
        5 if text.eq_ignore_ascii_case(b"false") => Some(false),
        _ => None,
    }
}

/// Returns an integer of 64 bits without leading zeros.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let has_leading_zero = digits.len() > 1 && digits[0] == b'0';
    if digits.is_empty() || digits.len() > INTEGER_DIGITS_MAX || has_leading_zero {
        return None;
    }
    let magnitude = natural(digits)?;
    if is_negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Returns the number of at most [`INTEGER_DIGITS_MAX`] digits.
fn natural(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |value: u64, &byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| value * 10 + u64::from(digit))
    })
}

/// Returns an integer, `NaN`, `inf`, or a number with a point or an exponent. A number with a point is the nearest one
/// of 64 bits; one that would become infinite or zero is none, as is an integer that would become another: identifiers
/// that differ would be equal.
pub(super) fn float(text: &[u8]) -> Option<f64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.iter().all(u8::is_ascii_digit) {
        let whole = integer(text)?;
        let number = whole as f64;
        return (number as i128 == i128::from(whole)).then_some(number);
    }
    let has_leading_zero = digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit();
    let is_number = digits[0].is_ascii_digit() || digits[0] == b'.';
    let is_name = matches!(digits, b"NaN" | b"inf");
    if !is_name && (!is_number || has_leading_zero) {
        return None;
    }
    let number = str::from_utf8(text).ok().and_then(Float64Type::parse)?;
    if is_name || (number.is_finite() && number != 0.0) {
        return Some(number);
    }
    let mut mantissa = digits.iter().take_while(|byte| !byte.eq_ignore_ascii_case(&b'e'));
    (number == 0.0 && !mantissa.any(|byte| (b'1'..=b'9').contains(byte))).then_some(number)
}

/// Returns a date `1998-09-02`, as days since 1970-01-01.
pub(super) fn date(text: &[u8]) -> Option<i32> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text else { return None };
    let number = |digits: &[u8]| natural(digits).map(|value| value as i64);
    let (year, month, day) = (number(&[y1, y2, y3, y4])?, number(&[m1, m2])?, number(&[d1, d2])?);
    days_of(year, month, day).map(|days| days as i32)
}

/// Returns a time `1998-09-02T12:00:00.5`, or with a space: its kind, and nanoseconds since 1970-01-01. Times whose
/// nanoseconds exceed 64 bits (before 1677 and after 2262) are not recognized.
pub(super) fn time(text: &[u8]) -> Option<(Kind, i64)> {
    let (day, clock) = text.split_at_checked(10)?;
    let (clock, fraction) = clock.split_at_checked(9)?;
    let [b'T' | b' ', h1, h2, b':', m1, m2, b':', s1, s2] = *clock else { return None };
    let two = |tens: u8, ones: u8, limit: i64| {
        natural(&[tens, ones]).map(|value| value as i64).filter(|&value| value < limit)
    };
    let seconds = two(h1, h2, 24)? * 3600 + two(m1, m2, 60)? * 60 + two(s1, s2, 60)?;
    let (kind, nanos) = match fraction {
        [] => (Kind::Second, 0),
        [b'.', digits @ ..] if (1..=FRACTION_DIGITS_MAX).contains(&digits.len()) => {
            let unit = 10_i64.pow((FRACTION_DIGITS_MAX - digits.len()) as u32);
            let kind = match digits.len() {
                ..=3 => Kind::Millisecond,
                4..=6 => Kind::Microsecond,
                _ => Kind::Nanosecond,
            };
            (kind, natural(digits)? as i64 * unit)
        }
        _ => return None,
    };
    let seconds = i64::from(date(day)?) * DAY_SECONDS + seconds;
    Some((kind, seconds.checked_mul(SECOND_NANOS)?.checked_add(nanos)?))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::{Date32Type, TimestampNanosecondType};
    use proptest::prelude::*;

    use super::*;

    fn kind_of(text: &str) -> Kind {
        Kind::of(&Field { bytes: text.as_bytes(), is_quoted: false })
    }

    #[test]
    fn values_have_the_least_type_that_keeps_them() {
        let cases = [
            ("", Kind::Nothing),
            ("TRUE", Kind::Boolean),
            ("-12", Kind::Integer),
            ("9007199254740992", Kind::Integer),
            ("9007199254740993", Kind::LongInteger),
            ("9223372036854775807", Kind::LongInteger),
            ("-9223372036854775808", Kind::Integer),
            ("9223372036854775808", Kind::Text),
            ("-9223372036854775809", Kind::Text),
            ("99999999999999999999", Kind::Text),
            ("007", Kind::Text),
            ("+5", Kind::Text),
            ("-", Kind::Text),
            (".", Kind::Text),
            ("0.50", Kind::Float),
            (".5", Kind::Float),
            ("1e9", Kind::Float),
            ("1e400", Kind::Text),
            ("-1e400", Kind::Text),
            ("1e-400", Kind::Text),
            ("0e400", Kind::Float),
            ("-0.000", Kind::Float),
            ("NaN", Kind::Float),
            ("-inf", Kind::Float),
            ("nan", Kind::Text),
            ("1998-09-02", Kind::Date),
            ("2000-02-29", Kind::Date),
            ("1900-02-29", Kind::Text),
            ("1998-13-02", Kind::Text),
            ("1998-09-02T12:00:00", Kind::Second),
            ("1998-09-02 12:00:00.25", Kind::Millisecond),
            ("1998-09-02 12:00:00.2500001", Kind::Nanosecond),
            ("1998-09-02 12:00:00.", Kind::Text),
            ("1998-09-02 24:00:00", Kind::Text),
            ("1998-09-02 12:00:00Z", Kind::Text),
            ("9998-09-02 12:00:00", Kind::Text),
            ("1998", Kind::Integer),
            ("ü", Kind::Text),
        ];
        for (text, kind) in cases {
            assert_eq!(kind_of(text), kind, "{text}");
        }
        assert_eq!(Kind::of(&Field { bytes: b"", is_quoted: true }), Kind::Text);
    }

    #[test]
    fn mixtures_widen() {
        assert_eq!(Kind::Integer.join(Kind::Float), Kind::Float);
        assert_eq!(Kind::Integer.join(Kind::LongInteger), Kind::LongInteger);
        assert_eq!(Kind::LongInteger.join(Kind::Float), Kind::Text);
        assert_eq!(Kind::LongInteger.join(Kind::Boolean), Kind::Text);
        assert_eq!(Kind::Date.join(Kind::Microsecond), Kind::Microsecond);
        assert_eq!(Kind::Boolean.join(Kind::Integer), Kind::Text);
        assert_eq!(Kind::Float.join(Kind::Date), Kind::Text);
        assert_eq!(Kind::Nothing.join(Kind::Boolean), Kind::Boolean);
    }

    proptest! {
        #[test]
        fn dates_and_times_are_those_of_the_library(
            (year, month, day) in (0u32..10_000, 0u32..14, 0u32..33),
            (hour, minute, second) in (0u32..25, 0u32..60, 0u32..60),
            fraction in "([.][0-9]{1,9})?",
            separator in "[T ]",
        ) {
            let day = format!("{year:04}-{month:02}-{day:02}");
            prop_assert_eq!(date(day.as_bytes()), Date32Type::parse(&day));
            let text = format!("{day}{separator}{hour:02}:{minute:02}:{second:02}{fraction}");
            let found = time(text.as_bytes()).map(|(_, nanos)| nanos);
            prop_assert_eq!(found, TimestampNanosecondType::parse(&text));
        }

        #[test]
        fn numbers_are_those_of_the_library(whole in any::<i64>(), number in any::<f64>()) {
            prop_assert_eq!(integer(whole.to_string().as_bytes()), Some(whole));
            let text = format!("{number:?}");
            prop_assert_eq!(float(text.as_bytes()).map(f64::to_bits), Some(number.to_bits()).filter(|_| !number.is_nan()).or(float(b"NaN").map(f64::to_bits)));
            let is_kept = whole as f64 as i128 == i128::from(whole);
            prop_assert_eq!(float(whole.to_string().as_bytes()), is_kept.then_some(whole as f64));
        }
    }
}
