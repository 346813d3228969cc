//! Ranges of the digits of key columns.

use super::digit::{Digits, Prefix, SHORT_BYTES, is_narrow, of_bytes};
use super::{KeyColumn, KeyForm};
use crate::sort::row::RowView;
use crate::sort::row::layout::Layout;

/// Range of a key column in a set of rows.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    /// The smallest digit; greater than `max` if there are no digits.
    min: u128,
    /// The largest digit.
    max: u128,
    /// Whether a row is null.
    pub(crate) has_nulls: bool,
    /// Range of a column of bytes, whose digits depend on the common prefix.
    bytes: Option<BytesRange>,
}

/// Range of a column of bytes.
#[derive(Clone, Debug)]
struct BytesRange {
    /// First bytes of the smallest value.
    min: Vec<u8>,
    /// First bytes of the largest value.
    max: Vec<u8>,
    /// Bytes of the longest value.
    longest: usize,
}

/// Maximum bytes of a common prefix: skipping longer ones costs more than it gains.
const COMMON_MAX_BYTES: usize = 256;

/// Maximum bytes kept of the smallest and the largest value: the common prefix and the bytes of a digit.
const KNOWN_MAX_BYTES: usize = COMMON_MAX_BYTES + 16;

impl Range {
    /// Returns the range of no rows.
    pub(crate) fn none() -> Range {
        Range { min: u128::MAX, max: 0, has_nulls: false, bytes: None }
    }

    /// Adds the digits of rows; for columns of bytes, adds nulls only.
    pub(crate) fn add(&mut self, column: &KeyColumn, digits: &Digits) {
        let is_valid = |index: usize| !digits.nulls.get(index).copied().unwrap_or(false);
        self.has_nulls |= digits.nulls.contains(&true);
        if is_narrow(column.form) {
            let (mut min, mut max) = (u64::MAX, u64::MIN);
            if self.has_nulls {
                for (&digit, &is_null) in digits.narrow.iter().zip(&digits.nulls) {
                    min = min.min(if is_null { u64::MAX } else { digit });
                    max = max.max(if is_null { u64::MIN } else { digit });
                }
            } else {
                digits.narrow.iter().for_each(|&digit| (min, max) = (min.min(digit), max.max(digit)));
            }
            if min <= max {
                (self.min, self.max) = (self.min.min(min.into()), self.max.max(max.into()));
            }
        } else if column.form == KeyForm::Signed128 {
            for (_, &digit) in digits.wide.iter().enumerate().filter(|(index, _)| is_valid(*index)) {
                (self.min, self.max) = (self.min.min(digit), self.max.max(digit));
            }
        }
    }

    /// Adds the values of rows if the column is one of bytes.
    pub(crate) fn add_bytes<'a>(
        &mut self,
        layout: &Layout,
        column: &KeyColumn,
        rows: impl Iterator<Item = RowView<'a>>,
    ) {
        let KeyForm::Bytes(index) = column.form else { return };
        for row in rows {
            if column.null.is_some_and(|bit| bit.is_set(row.fixed)) {
                self.has_nulls = true;
            } else {
                let value = layout.variable(row, index);
                self.add_value(value, value.len());
            }
        }
    }

    /// Adds a value of `length` bytes by its first bytes.
    fn add_value(&mut self, value: &[u8], length: usize) {
        let known = &value[..value.len().min(KNOWN_MAX_BYTES)];
        let Some(bytes) = &mut self.bytes else {
            self.bytes = Some(BytesRange { min: known.to_vec(), max: known.to_vec(), longest: length });
            return;
        };
        bytes.longest = bytes.longest.max(length);
        if known < &bytes.min[..] {
            bytes.min = known.to_vec();
        } else if known > &bytes.max[..] {
            bytes.max = known.to_vec();
        }
    }

    /// Extends the range by another one.
    pub(crate) fn join(&mut self, other: &Range) {
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
        self.has_nulls |= other.has_nulls;
        if let Some(bytes) = &other.bytes {
            self.add_value(&bytes.min, bytes.longest);
            self.add_value(&bytes.max, bytes.longest);
        }
    }

    /// Returns the common prefix of the values.
    pub(crate) fn prefix(&self) -> Prefix {
        let Some(BytesRange { min, max, longest }) = &self.bytes else { return Prefix::default() };
        let common = min.iter().zip(max).take_while(|(a, b)| a == b).count().min(COMMON_MAX_BYTES);
        Prefix { common: min[..common].to_vec(), is_short: longest - common <= SHORT_BYTES }
    }

    /// Returns the smallest and the largest digit; `None` if all rows are null.
    pub(crate) fn digits(&self) -> Option<(u128, u128)> {
        match &self.bytes {
            Some(BytesRange { min, max, .. }) => {
                let prefix = self.prefix();
                Some((of_bytes(min, &prefix), of_bytes(max, &prefix)))
            }
            None => Some((self.min, self.max)).filter(|(min, max)| min <= max),
        }
    }
}
