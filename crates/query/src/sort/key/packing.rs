//! Codes: the digits of several key columns packed into 64 bits.
//!
//! The bits of a column suffice for these values:
//!
//! ```text
//! nulls first:  0 null | 1 below | 2 … the digits | above
//! nulls last:            0 below | 1 … the digits | above | null
//! ```
//!
//! *Below* and *above* stand for digits outside of the range of the packing. They set all later columns to their
//! minimum or maximum. Codes therefore never contradict the order of rows, but such rows can have equal codes. So can
//! rows whose texts are longer than a digit, where the later columns are 0. A range that needs more bits than are left
//! loses its lower bits, and no later column is packed.

use super::digit::{Digits, Prefix, is_narrow, is_whole};
use super::range::Range;
use super::{KeyColumn, KeyForm, Keys};

/// Layout of the key columns in a code.
#[derive(Clone, Debug)]
pub(crate) struct Packing {
    /// The packed columns, the most significant first.
    fields: Vec<Field>,
    /// Bits of a code.
    pub(crate) bits: u32,
    /// Whether all columns are packed without loss: rows within the ranges are equal if their codes are.
    is_lossless: bool,
}

/// A column in a code.
#[derive(Clone, Debug)]
struct Field {
    /// Index of its key.
    key: usize,
    prefix: Prefix,
    /// The smallest digit.
    base: u128,
    /// Difference of the largest and the smallest digit.
    span: u128,
    /// Number of low bits dropped from digits less `base`.
    drop: u32,
    /// Position of its lowest bit in a code.
    shift: u32,
    nulls_first: bool,
    descending: bool,
}

/// Bits of a code.
const CODE_BITS: u32 = u64::BITS;

/// Values of a field besides its digits: null, below, above.
const EXTRA_CODES: u128 = 3;

impl Packing {
    /// Creates a packing for keys within `ranges`. With `slack`, spare bits widen the ranges, because they come from a
    /// sample.
    pub(crate) fn new(keys: &Keys, ranges: &[Range], slack: bool) -> Packing {
        let mut fields: Vec<Field> = Vec::with_capacity(keys.columns.len());
        let (mut used, mut is_lossless) = (0, true);
        for (key, (column, range)) in keys.columns.iter().zip(ranges).enumerate() {
            if !is_lossless || used == CODE_BITS {
                is_lossless = false;
                break;
            }
            let mut field = Field::new(key, column, range);
            let wanted = field.bits();
            let bits = wanted.min(CODE_BITS - used);
            while field.bits() > bits && field.drop < u128::BITS - 1 {
                field.drop += 1;
            }
            if field.bits() > bits || (field.drop > 0 && field.last() == 0) {
                // The extra values do not fit, or nothing besides them.
                is_lossless = false;
                break;
            }
            used += field.bits();
            let is_bytes = matches!(column.form, KeyForm::Bytes(_));
            is_lossless = field.drop == 0 && (!is_bytes || field.prefix.is_short);
            fields.push(field);
        }
        if slack {
            used = widen(&mut fields, used);
        }
        let mut shift = used;
        for field in &mut fields {
            shift -= field.bits();
            field.shift = shift;
        }
        Packing { fields, bits: used, is_lossless }
    }

    /// Returns the prefix of a key column.
    ///
    /// # Panics
    /// If the column is not packed.
    pub(crate) fn prefix(&self, key: usize) -> &Prefix {
        &self.fields[key].prefix
    }

    /// Returns whether a key column is packed.
    pub(crate) fn has(&self, key: usize) -> bool {
        key < self.fields.len()
    }

    /// Returns whether rows within the ranges are equal if their codes are.
    pub(crate) fn is_lossless(&self) -> bool {
        self.is_lossless
    }

    /// Appends the codes of `rows` rows from the digits of each key column.
    pub(crate) fn codes(&self, keys: &Keys, digits: &[Digits], rows: usize, codes: &mut Vec<u64>) {
        let first = codes.len();
        codes.resize(first + rows, 0);
        let codes = &mut codes[first..];
        // In reverse, because a digit outside of its range overwrites the bits of the later columns.
        for field in self.fields.iter().rev() {
            let digits = &digits[field.key];
            match is_narrow(keys.columns[field.key].form) {
                true => field.put_narrow(digits, codes),
                false => field.put_wide(digits, codes),
            }
        }
    }

    /// Returns whether all rows with a code have equal keys, even rows outside of the ranges.
    pub(crate) fn is_single(&self, keys: &Keys, code: u64) -> bool {
        self.is_lossless
            && self.fields.iter().all(|field| {
                let value = u128::from(code >> field.shift) & ((1 << field.bits()) - 1);
                if value == field.null_code() {
                    return true;
                }
                let is_within = (field.first()..=field.first() + field.last()).contains(&value);
                let is_bytes = matches!(keys.columns[field.key].form, KeyForm::Bytes(_));
                is_within && (!is_bytes || is_whole(field.digit(value), &field.prefix))
            })
    }
}

/// Distributes spare bits over the columns in turn; each bit doubles a column's range. Returns the bits used.
fn widen(fields: &mut [Field], used: u32) -> u32 {
    let mut used = used;
    let mut has_widened = true;
    while has_widened && used < CODE_BITS {
        has_widened = false;
        for field in &mut *fields {
            if used < CODE_BITS && field.drop == 0 && field.widen() {
                (used, has_widened) = (used + 1, true);
            }
        }
    }
    used
}

impl Field {
    fn new(key: usize, column: &KeyColumn, range: &Range) -> Field {
        let (base, max) = range.digits().unwrap_or((0, 0));
        Field {
            key,
            prefix: range.prefix(),
            base,
            span: max - base,
            drop: 0,
            shift: 0,
            nulls_first: column.nulls_first,
            descending: column.descending,
        }
    }

    /// Returns the difference of the largest and the smallest value of a digit.
    fn last(&self) -> u128 {
        self.span >> self.drop
    }

    fn bits(&self) -> u32 {
        u128::BITS - self.last().saturating_add(EXTRA_CODES).leading_zeros()
    }

    /// Returns the smallest value of a digit.
    fn first(&self) -> u128 {
        if self.nulls_first { 2 } else { 1 }
    }

    fn null_code(&self) -> u128 {
        if self.nulls_first { 0 } else { self.first() + self.last() + 2 }
    }

    /// Returns the digit of a value; no bits may be dropped.
    fn digit(&self, code: u128) -> u128 {
        let step = code - self.first();
        self.base + if self.descending { self.last() - step } else { step }
    }

    /// Adds a bit; returns false if the range cannot grow.
    fn widen(&mut self) -> bool {
        let codes = (1_u128 << self.bits().min(CODE_BITS)) * 2;
        let span = codes - 1 - EXTRA_CODES;
        let room = span.saturating_sub(self.span);
        if self.span >= u128::from(u64::MAX) || room == 0 {
            return false;
        }
        self.base = self.base.saturating_sub(room / 2);
        self.span = span.min(u128::MAX - self.base);
        true
    }

    /// Packs digits of numbers; a null keeps the bits of the later columns.
    fn put_narrow(&self, digits: &Digits, codes: &mut [u64]) {
        // A widened range can exceed 64 bits.
        let base = u64::try_from(self.base).unwrap_or(u64::MAX);
        let span = u64::try_from(self.span).unwrap_or(u64::MAX);
        let (first, last, shift, drop) = (self.first() as u64, self.last() as u64, self.shift, self.drop);
        let null = (self.null_code() as u64) << shift;
        let (low, high) = self.outside();
        let with = |code: u64, digit: u64| {
            let difference = digit.wrapping_sub(base);
            let step = difference >> drop;
            let step = if self.descending { last.wrapping_sub(step) } else { step };
            match digit < base || difference > span {
                true if (digit < base) == self.descending => high,
                true => low,
                false => code | first.wrapping_add(step) << shift,
            }
        };
        let pairs = codes.iter_mut().zip(&digits.narrow);
        if !digits.nulls.contains(&true) {
            return pairs.for_each(|(code, &digit)| *code = with(*code, digit));
        }
        for ((code, &digit), &is_null) in pairs.zip(&digits.nulls) {
            *code = if is_null { *code | null } else { with(*code, digit) };
        }
    }

    /// Packs digits of wide numbers or texts; a null keeps the bits of the later columns. Texts that are longer than
    /// assumed and have the same digit may differ: the later columns must not order them, so their bits are cleared.
    fn put_wide(&self, digits: &Digits, codes: &mut [u64]) {
        let (first, last) = (self.first(), self.last());
        let null = (self.null_code() as u64) << self.shift;
        let (low, high) = self.outside();
        for (index, (code, &digit)) in codes.iter_mut().zip(&digits.wide).enumerate() {
            if digits.nulls.get(index).is_some_and(|&is_null| is_null) {
                *code |= null;
                continue;
            }
            let difference = digit.wrapping_sub(self.base);
            if digit < self.base || difference > self.span {
                *code = if (digit < self.base) == self.descending { high } else { low };
                continue;
            }
            let step = difference >> self.drop;
            let step = if self.descending { last - step } else { step };
            let is_cut = self.prefix.is_short && !is_whole(digit, &self.prefix);
            let later = if is_cut { 0 } else { *code };
            *code = later | ((first + step) as u64) << self.shift;
        }
    }

    /// Returns the codes below and above all digits.
    fn outside(&self) -> (u64, u64) {
        let below = (self.first() - 1) as u64;
        let above = (self.first() + self.last() + 1) as u64;
        (below << self.shift, (above << self.shift) | ((1_u64 << self.shift) - 1))
    }
}

#[cfg(test)]
mod tests;
