//! Numbers and dates as text, as a cast to text writes them, appended to bytes.

use crate::calendar::date_of;

/// Bytes that grow at their end.
pub trait Append {
    /// Appends `count` bytes of any value, for the caller to overwrite.
    fn space(&mut self, count: usize) -> &mut [u8];

    /// Appends these bytes.
    fn append(&mut self, bytes: &[u8]) {
        self.space(bytes.len()).copy_from_slice(bytes);
    }
}

impl Append for Vec<u8> {
    #[inline]
    fn space(&mut self, count: usize) -> &mut [u8] {
        let start = self.len();
        self.resize(start + count, 0);
        &mut self[start..]
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Maximum digits of a 128-bit number.
const DIGITS_MAX: usize = 39;

/// Digits that one division by a 64-bit number splits off.
const WORD_DIGITS: usize = 19;
/// The smallest number with more than [`WORD_DIGITS`] digits.
const WORD_LIMIT: u128 = 10_u128.pow(WORD_DIGITS as u32);

/// Appends a number.
pub fn append_natural(out: &mut impl Append, mut value: u64) {
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
    out.append(&digits[at..]);
}

/// Appends a number, with a sign if it is negative.
pub fn append_integer(out: &mut impl Append, value: i64) {
    if value < 0 {
        out.append(b"-");
    }
    append_natural(out, value.unsigned_abs());
}

/// Appends the last `width` digits of a number, with zeros before it if it has fewer.
pub fn append_digits(out: &mut impl Append, mut value: u64, width: usize) {
    for place in out.space(width).iter_mut().rev() {
        *place = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Appends an unscaled decimal with as many digits after the point as its scale says, at most 38.
pub fn append_decimal(out: &mut impl Append, value: i128, scale: i8) {
    let fraction = usize::from(scale.max(0).unsigned_abs());
    if value < 0 {
        out.append(b"-");
    }
    let magnitude = value.unsigned_abs();
    match (u64::try_from(magnitude), 10_u64.checked_pow(fraction as u32)) {
        (Ok(magnitude), Some(unit)) => {
            append_natural(out, magnitude / unit);
            if fraction > 0 {
                out.append(b".");
                append_digits(out, magnitude % unit, fraction);
            }
        }
        _ => {
            let mut digits = [0; DIGITS_MAX];
            let digits = digits_of(magnitude, &mut digits, (fraction + 1).min(DIGITS_MAX));
            let (whole, rest) = digits.split_at(digits.len() - fraction.min(digits.len() - 1));
            out.append(whole);
            if !rest.is_empty() {
                out.append(b".");
                out.append(rest);
            }
        }
    }
    if scale < 0 && value != 0 {
        out.space(usize::from(scale.unsigned_abs())).fill(b'0');
    }
}

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

/// Appends a date as `YYYY-MM-DD`: a day counted from 1970-01-01, at most 10¹⁸ days away. Years before 0 and after 9999
/// have a sign, as in ISO 8601.
pub fn append_date(out: &mut impl Append, days: i64) {
    let (year, month, day) = date_of(days);
    if (0..=9999).contains(&year) {
        let two = |value: i64| [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        let ([a, b], [c, d]) = (two(year / 100), two(year % 100));
        let ([e, f], [g, h]) = (two(month), two(day));
        out.append(&[a, b, c, d, b'-', e, f, b'-', g, h]);
    } else {
        out.append(format!("{year:+05}-{month:02}-{day:02}").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, Date32Array, Decimal128Array, Int64Array, UInt64Array};
    use arrow_cast::display::array_value_to_string;
    use proptest::prelude::*;

    use super::*;

    fn text(append: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        append(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn displayed(array: &dyn Array) -> String {
        array_value_to_string(array, 0).unwrap()
    }

    #[test]
    fn numbers_are_written_as_they_are_read() {
        assert_eq!(text(|out| append_integer(out, i64::MIN)), "-9223372036854775808");
        assert_eq!(text(|out| append_natural(out, u64::MAX)), "18446744073709551615");
        assert_eq!(text(|out| append_digits(out, 1234, 6)), "001234");
        for (value, scale, expected) in [
            (150, 2, "1.50"),
            (-5, 2, "-0.05"),
            (5, 0, "5"),
            (0, 3, "0.000"),
            (7, -2, "700"),
            (0, -2, "0"),
            (12345, 5, "0.12345"),
            (i128::MIN, 38, "-1.70141183460469231731687303715884105728"),
        ] {
            assert_eq!(text(|out| append_decimal(out, value, scale)), expected);
        }
    }

    #[test]
    fn years_of_other_than_four_digits_have_a_sign() {
        for (days, expected) in
            [(-719_528, "0000-01-01"), (-719_529, "-0001-12-31"), (2_932_897, "+10000-01-01")]
        {
            assert_eq!(text(|out| append_date(out, days)), expected);
        }
    }

    proptest! {
        #[test]
        fn values_are_as_arrow_displays_them(
            (integer, natural, days) in (any::<i64>(), any::<u64>(), -4_000_000_i32..4_000_000),
            (decimal, shift, scale) in (any::<i128>(), 0_u32..127, -3_i8..38),
        ) {
            // Arrow's largest precision is 38 digits.
            let decimal = (decimal / 10) >> shift;
            // Arrow writes zero with a negative scale as several zeros.
            let scale = if decimal == 0 { scale.max(0) } else { scale };
            let decimals = Decimal128Array::from(vec![decimal]).with_precision_and_scale(38, scale).unwrap();
            prop_assert_eq!(text(|out| append_integer(out, integer)), displayed(&Int64Array::from(vec![integer])));
            prop_assert_eq!(text(|out| append_natural(out, natural)), displayed(&UInt64Array::from(vec![natural])));
            prop_assert_eq!(text(|out| append_decimal(out, decimal, scale)), displayed(&decimals));
            prop_assert_eq!(
                text(|out| append_date(out, days.into())),
                displayed(&Date32Array::from(vec![days]))
            );
        }
    }
}
