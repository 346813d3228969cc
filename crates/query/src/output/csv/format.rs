//! Formatting of values as CSV fields.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;

use crate::Error;
use crate::output::buffer::Buf;
use crate::output::plain::dictionary_keys;

/// A column of a batch.
pub(super) struct Column<'a> {
    nulls: Option<NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    Boolean(&'a BooleanArray),
    Int8(&'a PrimitiveArray<Int8Type>),
    Int16(&'a PrimitiveArray<Int16Type>),
    Int32(&'a PrimitiveArray<Int32Type>),
    Int64(&'a PrimitiveArray<Int64Type>),
    UInt8(&'a PrimitiveArray<UInt8Type>),
    UInt16(&'a PrimitiveArray<UInt16Type>),
    UInt32(&'a PrimitiveArray<UInt32Type>),
    UInt64(&'a PrimitiveArray<UInt64Type>),
    Decimal32(&'a PrimitiveArray<Decimal32Type>, i8),
    Decimal64(&'a PrimitiveArray<Decimal64Type>, i8),
    Decimal128(&'a PrimitiveArray<Decimal128Type>, i8),
    Date(&'a PrimitiveArray<Date32Type>),
    Utf8(&'a arrow_array::StringArray),
    LargeUtf8(&'a arrow_array::LargeStringArray),
    Utf8View(&'a arrow_array::StringViewArray),
    /// Keys, and the column of the values.
    Dictionary(Vec<usize>, Box<Column<'a>>),
    /// Arrow's display format, with a reused string.
    Other(ArrayFormatter<'a>, String),
}

/// Options for types that Arrow formats; nulls are handled before.
const DISPLAY: FormatOptions<'static> = FormatOptions::new().with_display_error(false);

impl<'a> Column<'a> {
    /// # Errors
    /// If Arrow cannot display the type.
    pub(super) fn new(array: &'a ArrayRef) -> Result<Column<'a>, Error> {
        let values = match array.data_type() {
            DataType::Boolean => Values::Boolean(array.as_boolean()),
            DataType::Int8 => Values::Int8(array.as_primitive()),
            DataType::Int16 => Values::Int16(array.as_primitive()),
            DataType::Int32 => Values::Int32(array.as_primitive()),
            DataType::Int64 => Values::Int64(array.as_primitive()),
            DataType::UInt8 => Values::UInt8(array.as_primitive()),
            DataType::UInt16 => Values::UInt16(array.as_primitive()),
            DataType::UInt32 => Values::UInt32(array.as_primitive()),
            DataType::UInt64 => Values::UInt64(array.as_primitive()),
            DataType::Decimal32(_, scale) => Values::Decimal32(array.as_primitive(), *scale),
            DataType::Decimal64(_, scale) => Values::Decimal64(array.as_primitive(), *scale),
            DataType::Decimal128(_, scale) => Values::Decimal128(array.as_primitive(), *scale),
            DataType::Date32 => Values::Date(array.as_primitive()),
            DataType::Utf8 => Values::Utf8(array.as_string()),
            DataType::LargeUtf8 => Values::LargeUtf8(array.as_string()),
            DataType::Utf8View => Values::Utf8View(array.as_string_view()),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                Values::Dictionary(dictionary_keys(dictionary), Box::new(Column::new(dictionary.values())?))
            }
            _ => Values::Other(ArrayFormatter::try_new(array, &DISPLAY)?, String::new()),
        };
        Ok(Column { nulls: array.logical_nulls().filter(|nulls| nulls.null_count() > 0), values })
    }

    /// Appends the field of a row.
    ///
    /// # Errors
    /// If Arrow cannot display the value.
    pub(super) fn append(&mut self, row: usize, out: &mut Buf) -> Result<(), Error> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(());
        }
        match &mut self.values {
            Values::Boolean(array) => out.extend(if array.value(row) { b"true" } else { b"false" }),
            Values::Int8(array) => append_integer(out, array.value(row).into()),
            Values::Int16(array) => append_integer(out, array.value(row).into()),
            Values::Int32(array) => append_integer(out, array.value(row).into()),
            Values::Int64(array) => append_integer(out, array.value(row)),
            Values::UInt8(array) => append_integer(out, array.value(row).into()),
            Values::UInt16(array) => append_integer(out, array.value(row).into()),
            Values::UInt32(array) => append_integer(out, array.value(row).into()),
            Values::UInt64(array) => append_natural(out, array.value(row)),
            Values::Decimal32(array, scale) => append_decimal(out, array.value(row).into(), *scale),
            Values::Decimal64(array, scale) => append_decimal(out, array.value(row).into(), *scale),
            Values::Decimal128(array, scale) => append_decimal(out, array.value(row), *scale),
            Values::Date(array) => append_date(out, array.value(row)),
            Values::Utf8(array) => append_text(out, array.value(row).as_bytes()),
            Values::LargeUtf8(array) => append_text(out, array.value(row).as_bytes()),
            Values::Utf8View(array) => append_text(out, array.value(row).as_bytes()),
            Values::Dictionary(keys, values) => return values.append(keys[row], out),
            Values::Other(formatter, text) => {
                text.clear();
                formatter.value(row).write(text)?;
                append_text(out, text.as_bytes());
            }
        }
        Ok(())
    }
}

/// Appends a field, quoted if it is empty or contains a comma, a quote or a line end.
pub(super) fn append_text(out: &mut Buf, text: &[u8]) {
    let is_special = |&byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !text.is_empty() && !text.iter().any(is_special) {
        return out.extend(text);
    }
    out.push(b'"');
    for (index, part) in text.split(|&byte| byte == b'"').enumerate() {
        if index > 0 {
            out.extend(b"\"\"");
        }
        out.extend(part);
    }
    out.push(b'"');
}

/// Maximum digits of a 128-bit number.
const DIGITS_MAX: usize = 39;

/// Digits that one division by a 64-bit number splits off.
const WORD_DIGITS: usize = 19;
/// The smallest number with more than [`WORD_DIGITS`] digits.
const WORD_LIMIT: u128 = 10_u128.pow(WORD_DIGITS as u32);

/// Writes a number's decimal digits, at least `least`, to the end of a buffer.
fn digits_of(value: u128, digits: &mut [u8; DIGITS_MAX], least: usize) -> &[u8] {
    let (mut at, mut rest) = (DIGITS_MAX, value);
    loop {
        let mut word = (rest % WORD_LIMIT) as u64;
        rest /= WORD_LIMIT;
        let end = at;
        while word > 0 || rest > 0 && end - at < WORD_DIGITS {
            at -= 1;
            digits[at] = b'0' + (word % 10) as u8;
            word /= 10;
        }
        if rest == 0 {
            break;
        }
    }
    while DIGITS_MAX - at < least {
        at -= 1;
        digits[at] = b'0';
    }
    &digits[at..]
}

/// Appends a 64-bit number, which needs no 128-bit division.
fn append_natural(out: &mut Buf, mut value: u64) {
    let mut digits = [0; WORD_DIGITS + 1];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend(&digits[at..]);
}

fn append_integer(out: &mut Buf, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    append_natural(out, value.unsigned_abs());
}

/// Appends a decimal with as many digits after the point as its scale says.
fn append_decimal(out: &mut Buf, value: i128, scale: i8) {
    let fraction = usize::from(scale.max(0).unsigned_abs());
    if value < 0 {
        out.push(b'-');
    }
    let magnitude = value.unsigned_abs();
    match (u64::try_from(magnitude), 10_u64.checked_pow(fraction as u32)) {
        (Ok(magnitude), Some(unit)) => {
            append_natural(out, magnitude / unit);
            append_fraction(out, magnitude % unit, fraction);
        }
        _ => {
            let mut digits = [0; DIGITS_MAX];
            let digits = digits_of(magnitude, &mut digits, (fraction + 1).min(DIGITS_MAX));
            let (whole, rest) = digits.split_at(digits.len() - fraction.min(digits.len() - 1));
            out.extend(whole);
            if !rest.is_empty() {
                out.push(b'.');
                out.extend(rest);
            }
        }
    }
    if scale < 0 && value != 0 {
        out.space(usize::from(scale.unsigned_abs())).fill(b'0');
    }
}

fn append_fraction(out: &mut Buf, mut value: u64, digits: usize) {
    if digits == 0 {
        return;
    }
    out.push(b'.');
    for place in out.space(digits).iter_mut().rev() {
        *place = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;
/// Days of 400 years, the period of the calendar.
const ERA_DAYS: i64 = 146_097;

/// Appends a date as `YYYY-MM-DD`, in the proleptic Gregorian calendar (Howard Hinnant, "chrono-compatible low-level date
/// algorithms", `civil_from_days`).
fn append_date(out: &mut Buf, days: i32) {
    let days = i64::from(days) + EPOCH_DAYS;
    let (era, day_of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    if (0..=9999).contains(&year) {
        let two = |value: i64| [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        let ([a, b], [c, d]) = (two(year / 100), two(year % 100));
        let ([e, f], [g, h]) = (two(month), two(day));
        out.extend(&[a, b, c, d, b'-', e, f, b'-', g, h]);
    } else {
        // With a sign, as in ISO 8601 and Arrow.
        let text = format!("{year:+05}-{month:02}-{day:02}");
        out.extend(text.as_bytes());
    }
}
