//! Parsing of numbers and columns in byte slices, exact and without allocation.

use std::fmt;

use sakiyomi_model::{Bytes, Nanos, Op};

pub(crate) const NANOS_PER_US: u64 = 1_000;
pub(crate) const NANOS_PER_MS: u64 = 1_000_000;
pub(crate) const NANOS_PER_S: u64 = 1_000_000_000;

/// An error about a line, as a sentence without its position.
pub(crate) type Problem = String;

/// A field in a message: truncated, with non-printable bytes escaped.
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Maximum length shown, so that the message stays on one line.
        const SHOWN_MAX_BYTES: usize = 60;
        let (shown, rest) = self.0.split_at(self.0.len().min(SHOWN_MAX_BYTES));
        let dots = if rest.is_empty() { "" } else { "…" };
        write!(f, "`{}{dots}`", shown.escape_ascii())
    }
}

/// Parses a decimal integer.
pub(crate) fn whole(field: &[u8], column: &str) -> Result<u64, Problem> {
    digits(field).ok_or_else(|| {
        format!("the column {column} holds {}, but must be a whole number that fits 64 bits", Shown(field))
    })
}

/// Parses a decimal integer below 2^32.
pub(crate) fn whole_u32(field: &[u8], column: &str) -> Result<u32, Problem> {
    digits(field).and_then(|number| u32::try_from(number).ok()).ok_or_else(|| {
        format!("the column {column} holds {}, but must be a whole number below 2^32", Shown(field))
    })
}

/// Parses a hexadecimal number, with or without `0x`.
pub(crate) fn hexadecimal(field: &[u8], column: &str) -> Result<u64, Problem> {
    let bare = field.strip_prefix(b"0x").unwrap_or(field);
    let valid = !bare.is_empty() && bare.len() <= 16 && bare.iter().all(u8::is_ascii_hexdigit);
    if !valid {
        return Err(format!("the column {column} holds {}, but must be a hexadecimal number", Shown(field)));
    }
    Ok(bare.iter().fold(0, |number, &digit| number << 4 | u64::from(hex_value(digit))))
}

/// Parses a decimal number in units of `unit_ns` nanoseconds, exactly; fractions of a nanosecond are truncated.
pub(crate) fn nanos(field: &[u8], unit_ns: u64, column: &str) -> Result<Nanos, Problem> {
    decimal(field, unit_ns).map(Nanos).ok_or_else(|| {
        format!(
            "the column {column} holds {}, but must be a time: a decimal number of at least 0 that fits 64 bits \
             in nanoseconds",
            Shown(field)
        )
    })
}

/// Parses a time; an empty field is `None`.
pub(crate) fn optional_nanos(field: &[u8], unit_ns: u64, column: &str) -> Result<Option<Nanos>, Problem> {
    if field.is_empty() { Ok(None) } else { nanos(field, unit_ns, column).map(Some) }
}

/// Parses a number of blocks, and converts it to bytes.
pub(crate) fn blocks(field: &[u8], block: u64, column: &str) -> Result<Bytes, Problem> {
    let count = whole(field, column)?;
    count.checked_mul(block).map(Bytes).ok_or_else(|| {
        format!("the column {column} holds {}, and as many blocks of {block} bytes pass 2^64", Shown(field))
    })
}

/// Parses an operation in the format's spelling.
pub(crate) fn operation(field: &[u8], read: &str, write: &str) -> Result<Op, Problem> {
    match field {
        word if word == read.as_bytes() => Ok(Op::Read),
        word if word == write.as_bytes() => Ok(Op::Write),
        other => Err(format!("the operation is {}, but must be {read} or {write}", Shown(other))),
    }
}

fn digits(field: &[u8]) -> Option<u64> {
    if field.is_empty() {
        return None;
    }
    // Up to 19 digits cannot overflow, so the common case needs no check per digit.
    if field.len() <= 19 {
        let mut number = 0u64;
        for &byte in field {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            number = number * 10 + u64::from(digit);
        }
        return Some(number);
    }
    field.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

fn decimal(field: &[u8], unit: u64) -> Option<u64> {
    let Some(point) = field.iter().position(|&byte| byte == b'.') else {
        return digits(field)?.checked_mul(unit);
    };
    let (whole, fraction) = (&field[..point], &field[point + 1..]);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { digits(whole)? };
    // Each digit is worth a tenth of the previous one; with a unit of at most 10^9, at most nine digits count.
    let (mut parts, mut worth) = (0, unit);
    for &byte in fraction {
        if !byte.is_ascii_digit() {
            return None;
        }
        worth /= 10;
        parts += u64::from(byte - b'0') * worth;
    }
    whole.checked_mul(unit)?.checked_add(parts)
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.to_ascii_lowercase().saturating_sub(b'a') + 10,
    }
}

/// Splits a line at commas into exactly `N` columns, trimmed.
pub(crate) fn commas<const N: usize>(line: &[u8]) -> Result<[&[u8]; N], Problem> {
    let mut columns = [&b""[..]; N];
    let mut count = 0;
    for field in line.split(|&byte| byte == b',') {
        if let Some(column) = columns.get_mut(count) {
            *column = field.trim_ascii();
        }
        count += 1;
    }
    if count == N { Ok(columns) } else { Err(wrong_count(line, count, N, "commas")) }
}

/// Splits a line at spaces and tabs into exactly `N` columns.
pub(crate) fn blanks<const N: usize>(line: &[u8]) -> Result<[&[u8]; N], Problem> {
    let mut columns = [&b""[..]; N];
    let mut count = 0;
    for field in words(line) {
        if let Some(column) = columns.get_mut(count) {
            *column = field;
        }
        count += 1;
    }
    if count == N { Ok(columns) } else { Err(wrong_count(line, count, N, "blanks")) }
}

/// Returns the words of a line, separated by spaces and tabs.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

fn wrong_count(line: &[u8], found: usize, wanted: usize, separator: &str) -> Problem {
    let s = if found == 1 { "" } else { "s" };
    format!("{} has {found} column{s} separated by {separator}, but the format has {wanted}", Shown(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_exact() {
        let seconds = |text: &str| decimal(text.as_bytes(), 1_000_000_000);
        assert_eq!(seconds("1455591804.310701000"), Some(1_455_591_804_310_701_000));
        assert_eq!(seconds("0.1"), Some(100_000_000));
        assert_eq!(seconds("5"), Some(5_000_000_000));
        assert_eq!(seconds(".5"), Some(500_000_000));
        assert_eq!(seconds("5."), Some(5_000_000_000));
        assert_eq!(seconds("0.0000000019"), Some(1));
        assert_eq!(decimal(b"6811.710524", 1_000), Some(6_811_710));
        for bad in ["", ".", "-1", "1e3", "1.2.3", "18446744074", "NaN", "+1"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn hexadecimal_numbers_are_read_with_and_without_prefix() {
        assert_eq!(hexadecimal(b"2a", "op"), Ok(0x2a));
        assert_eq!(hexadecimal(b"0xFF", "op"), Ok(255));
        assert!(hexadecimal(b"0x", "op").is_err());
        assert!(hexadecimal(b"2g", "op").is_err());
    }

    #[test]
    fn columns_are_counted() {
        assert_eq!(commas::<2>(b"a, b"), Ok([&b"a"[..], b"b"]));
        assert_eq!(blanks::<2>(b" a \t b "), Ok([&b"a"[..], b"b"]));
        assert_eq!(
            blanks::<3>(b"a b").unwrap_err(),
            "`a b` has 2 columns separated by blanks, but the format has 3"
        );
    }

    proptest! {
        #[test]
        fn whole_numbers_agree_with_the_standard_library(text in "[0-9]{1,21}") {
            prop_assert_eq!(digits(text.as_bytes()), text.parse().ok());
        }

        #[test]
        fn a_time_printed_with_nine_decimals_reads_back(time: u64) {
            let text = format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
            prop_assert_eq!(decimal(text.as_bytes(), 1_000_000_000), Some(time));
        }
    }
}
