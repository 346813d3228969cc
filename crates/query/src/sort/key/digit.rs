//! Digits: the values of a key column as unsigned integers in the column's order.

use super::{KeyColumn, KeyForm};
use crate::sort::row::layout::Layout;
use crate::sort::row::{RowView, array_at};

/// The digits of a column for some rows.
#[derive(Debug, Default)]
pub(crate) struct Digits {
    /// Digits of columns with numbers of at most 8 bytes.
    pub(crate) narrow: Vec<u64>,
    /// Digits of other columns.
    pub(crate) wide: Vec<u128>,
    /// Whether each row is null; empty if the column has no null bit.
    pub(crate) nulls: Vec<bool>,
}

impl Digits {
    /// Removes all rows.
    pub(crate) fn clear(&mut self) {
        self.narrow.clear();
        self.wide.clear();
        self.nulls.clear();
    }
}

/// Returns whether the digits of a column are narrow.
pub(crate) fn is_narrow(form: KeyForm) -> bool {
    !matches!(form, KeyForm::Signed128 | KeyForm::Bytes(_))
}

/// Assumed common prefix of a column's values; the digit encodes the bytes after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// The common prefix.
    pub(crate) common: Vec<u8>,
    /// Whether values are assumed to have at most [`SHORT_BYTES`] after the prefix, so that a digit holds all of them.
    pub(crate) is_short: bool,
}

/// Bytes that fit in a digit together with their length.
pub(crate) const SHORT_BYTES: usize = 7;

/// Bytes that fit in a digit without their length.
const LONG_BYTES: usize = 8;

/// First digit of values with the common prefix. Smaller values without it have digit 0, greater ones twice this.
const WITHIN_BASE: u128 = 1 << 64;

/// Appends the digits of a column for some rows.
pub(crate) fn extend<'a>(
    layout: &Layout,
    column: &KeyColumn,
    prefix: &Prefix,
    rows: impl Iterator<Item = RowView<'a>> + Clone,
    digits: &mut Digits,
) {
    let at = column.offset;
    if let Some(bit) = column.null {
        digits.nulls.extend(rows.clone().map(|row| bit.is_set(row.fixed)));
    }
    let narrow = &mut digits.narrow;
    match column.form {
        KeyForm::Unsigned(1) => narrow.extend(rows.map(|row| u64::from(row.fixed[at]))),
        KeyForm::Unsigned(2) => {
            narrow.extend(rows.map(|row| u64::from(u16::from_le_bytes(array_at(row.fixed, at)))))
        }
        KeyForm::Unsigned(4) => {
            narrow.extend(rows.map(|row| u64::from(u32::from_le_bytes(array_at(row.fixed, at)))))
        }
        KeyForm::Unsigned(_) => narrow.extend(rows.map(|row| u64::from_le_bytes(array_at(row.fixed, at)))),
        KeyForm::Signed(1) => narrow.extend(rows.map(|row| signed(i64::from(row.fixed[at] as i8)))),
        KeyForm::Signed(2) => {
            narrow.extend(rows.map(|row| signed(i64::from(i16::from_le_bytes(array_at(row.fixed, at))))));
        }
        KeyForm::Signed(4) => {
            narrow.extend(rows.map(|row| signed(i64::from(i32::from_le_bytes(array_at(row.fixed, at))))));
        }
        KeyForm::Signed(_) => {
            narrow.extend(rows.map(|row| signed(i64::from_le_bytes(array_at(row.fixed, at)))))
        }
        KeyForm::Float(width) => narrow.extend(rows.map(|row| float(&row.fixed[at..at + width]))),
        KeyForm::Signed128 => digits.wide.extend(rows.map(|row| signed128(row, at))),
        KeyForm::Bytes(index) => {
            digits.wide.extend(rows.map(|row| of_bytes(layout.variable(row, index), prefix)));
        }
    }
}

fn signed(value: i64) -> u64 {
    value.cast_unsigned() ^ (1 << 63)
}

/// Returns the digit of a 16-byte number.
pub(crate) fn signed128(row: RowView<'_>, at: usize) -> u128 {
    u128::from_le_bytes(array_at(row.fixed, at)) ^ (1 << 127)
}

/// Returns the digit of a number of at most 8 bytes.
pub(crate) fn narrow(row: RowView<'_>, column: &KeyColumn) -> u64 {
    let at = column.offset;
    match column.form {
        KeyForm::Unsigned(width) => extended(&row.fixed[at..at + width], 0),
        KeyForm::Signed(width) => {
            let value = &row.fixed[at..at + width];
            let sign = if value[width - 1] & 0x80 == 0 { 0 } else { 0xff };
            signed(extended(value, sign).cast_signed())
        }
        KeyForm::Float(width) => float(&row.fixed[at..at + width]),
        KeyForm::Signed128 | KeyForm::Bytes(_) => 0,
    }
}

fn extended(value: &[u8], fill: u8) -> u64 {
    let mut bytes = [fill; 8];
    bytes[..value.len()].copy_from_slice(value);
    u64::from_le_bytes(bytes)
}

/// Returns the order of SQL: -0 equals 0, and all NaNs are equal and greatest. 0 / 0 can give a negative NaN.
fn float(value: &[u8]) -> u64 {
    let bits = extended(value, 0);
    let width = 8 * value.len();
    let (sign, all) = (1 << (width - 1), u64::MAX >> (64 - width));
    let infinity = match width {
        16 => 0x7c00,
        32 => 0x7f80_0000,
        _ => 0x7ff0_0000_0000_0000,
    };
    match () {
        () if bits & !sign > infinity => all,
        () if bits & sign == 0 || bits == sign => bits | sign,
        () => !bits & all,
    }
}

/// Returns the digit of a byte string. It is monotonic: a prefix of the string has no greater digit.
pub(crate) fn of_bytes(value: &[u8], prefix: &Prefix) -> u128 {
    let Some(rest) = value.strip_prefix(&prefix.common[..]) else {
        return if value < &prefix.common[..] { 0 } else { 2 * WITHIN_BASE };
    };
    let mut bytes = [0; LONG_BYTES];
    if !prefix.is_short {
        let count = rest.len().min(LONG_BYTES);
        bytes[..count].copy_from_slice(&rest[..count]);
        return WITHIN_BASE | u128::from(u64::from_be_bytes(bytes));
    }
    let count = rest.len().min(SHORT_BYTES);
    bytes[..count].copy_from_slice(&rest[..count]);
    // The length distinguishes values with trailing zero bytes from padding.
    bytes[SHORT_BYTES] = rest.len().min(SHORT_BYTES + 1) as u8;
    WITHIN_BASE | u128::from(u64::from_be_bytes(bytes))
}

/// Returns whether a digit of bytes identifies a single value.
pub(crate) fn is_whole(digit: u128, prefix: &Prefix) -> bool {
    prefix.is_short && digit >> 64 == 1 && digit as u8 as usize <= SHORT_BYTES
}
