//! Codes: the digits of several key columns in 64 bits.
//!
//! A column takes as many bits as the number of its different codes needs:
//!
//! ```text
//! nulls first:  0 null | 1 below | 2 … the digits | above
//! nulls last:            0 below | 1 … the digits | above | null
//! ```
//!
//! *Below* and *above* are for digits outside of the range that the packing was made for. A row with one of them has the
//! smallest or the largest bits in all columns after it, so that codes never contradict the order of rows, whatever the
//! rows hold; they only stop to tell rows apart. A range that needs more bits than are left loses its lower ones, and no
//! column after it is packed.

use super::digit::{Digits, Prefix, is_narrow, is_whole};
use super::range::Range;
use super::{KeyColumn, KeyForm, Keys};

/// How codes are made.
#[derive(Clone, Debug)]
pub(crate) struct Packing {
    /// The packed columns, the most significant first.
    fields: Vec<Field>,
    /// Bits of a code.
    pub(crate) bits: u32,
    /// Whether all columns are packed without loss: rows inside of the ranges are equal if their codes are.
    is_lossless: bool,
}

/// A column in a code.
#[derive(Clone, Debug)]
struct Field {
    /// Its place among the keys.
    key: usize,
    prefix: Prefix,
    /// The smallest digit.
    base: u128,
    /// The largest digit less the smallest one.
    span: u128,
    /// Lower bits of that difference that are left out.
    drop: u32,
    /// Lowest bit in a code.
    shift: u32,
    nulls_first: bool,
    descending: bool,
}

/// Bits of a code.
const CODE_BITS: u32 = u64::BITS;

/// Codes of a column beside those of its digits: null, below, above.
const EXTRA_CODES: u128 = 3;

impl Packing {
    /// For rows whose keys are in ranges. With `slack`, bits that are left widen the ranges, for rows of which the ranges
    /// are only a sample.
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
                // Not even the extra codes fit, or nothing beside them.
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

    /// How digits are made of the bytes of a key column.
    ///
    /// # Panics
    /// If codes do not need them.
    pub(crate) fn prefix(&self, key: usize) -> &Prefix {
        &self.fields[key].prefix
    }

    /// Whether codes need the digits of a key column.
    pub(crate) fn has(&self, key: usize) -> bool {
        key < self.fields.len()
    }

    /// Whether rows are equal if their codes are, of rows inside of the ranges.
    pub(crate) fn is_lossless(&self) -> bool {
        self.is_lossless
    }

    /// Appends the codes of rows with these digits, those of each key column.
    pub(crate) fn codes(&self, keys: &Keys, digits: &[Digits], rows: usize, codes: &mut Vec<u64>) {
        let first = codes.len();
        codes.resize(first + rows, 0);
        let codes = &mut codes[first..];
        // A digit outside of its range replaces the bits of the columns after it, which are therefore there already.
        for field in self.fields.iter().rev() {
            let digits = &digits[field.key];
            let has_nulls = digits.nulls.contains(&true);
            match (is_narrow(keys.columns[field.key].form), has_nulls) {
                (true, false) => field.put_narrow(&digits.narrow, codes),
                (true, true) => {
                    field.put_nullable(digits.narrow.iter().map(|&digit| digit.into()), digits, codes)
                }
                (false, _) => field.put_nullable(digits.wide.iter().copied(), digits, codes),
            }
        }
    }

    /// Whether all rows with a code are equal, whatever they hold.
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

/// Gives bits that are left to columns whose ranges are wider than they, in turn: each bit doubles the number of digits.
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

    /// The largest code of a digit, less the smallest one.
    fn last(&self) -> u128 {
        self.span >> self.drop
    }

    fn bits(&self) -> u32 {
        u128::BITS - self.last().saturating_add(EXTRA_CODES).leading_zeros()
    }

    /// The smallest code of a digit.
    fn first(&self) -> u128 {
        if self.nulls_first { 2 } else { 1 }
    }

    fn null_code(&self) -> u128 {
        if self.nulls_first { 0 } else { self.first() + self.last() + 2 }
    }

    /// The digit of a code of a digit, if none of its bits are left out.
    fn digit(&self, code: u128) -> u128 {
        let step = code - self.first();
        self.base + if self.descending { self.last() - step } else { step }
    }

    /// Doubles the number of codes, if there are digits for it.
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

    fn put_narrow(&self, digits: &[u64], codes: &mut [u64]) {
        // The range of narrow digits is one of narrow digits, unless it was widened.
        let base = u64::try_from(self.base).unwrap_or(u64::MAX);
        let span = u64::try_from(self.span).unwrap_or(u64::MAX);
        let (first, last, shift, drop) = (self.first() as u64, self.last() as u64, self.shift, self.drop);
        let (low, high) = self.outside();
        for (code, &digit) in codes.iter_mut().zip(digits) {
            let difference = digit.wrapping_sub(base);
            let step = difference >> drop;
            let step = if self.descending { last.wrapping_sub(step) } else { step };
            *code |= first.wrapping_add(step) << shift;
            if digit < base || difference > span {
                *code = if (digit < base) == self.descending { high } else { low };
            }
        }
    }

    /// The code of a null keeps the bits of the columns after it.
    fn put_nullable(&self, values: impl Iterator<Item = u128>, digits: &Digits, codes: &mut [u64]) {
        let (first, last) = (self.first(), self.last());
        let null = (self.null_code() as u64) << self.shift;
        let (low, high) = self.outside();
        for (index, (code, digit)) in codes.iter_mut().zip(values).enumerate() {
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
            *code |= ((first + step) as u64) << self.shift;
        }
    }

    /// The codes of rows before and behind all digits, in the order of codes.
    fn outside(&self) -> (u64, u64) {
        let below = (self.first() - 1) as u64;
        let above = (self.first() + self.last() + 1) as u64;
        (below << self.shift, (above << self.shift) | ((1_u64 << self.shift) - 1))
    }
}

#[cfg(test)]
mod tests;
