//! Minimum and maximum string of pages and chunks, truncated for statistics.

use std::cmp::Ordering;

use parquet::data_type::ByteArray;
use parquet::file::statistics::{Statistics, ValueStatistics};

use super::chunk::PageBounds;
use super::dictionary::first_bytes;

/// Maximum bytes of a bound in statistics and indexes, as in other writers.
const BOUND_MAX_BYTES: usize = 64;

/// Bytes kept of a bound: one more, to tell whether it was truncated.
const KEPT_BYTES: usize = BOUND_MAX_BYTES + 1;

/// The prefix of a string that statistics need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    bytes: [u8; KEPT_BYTES],
    len: usize,
    /// The first bytes as an order-preserving number.
    prefix: u64,
}

/// Minimum and maximum of strings; `None` without values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extremes(pub(super) Option<(Kept, Kept)>);

/// Normalized key: the first eight bytes of a value as an order-preserving number.
#[inline]
fn prefix_of(source: &[u8], start: usize, length: usize) -> u64 {
    let first = first_bytes(source, start, length) as u64;
    let shift = (64 - 8 * length.min(8)) as u32;
    first.swap_bytes() & u64::MAX.checked_shl(shift).unwrap_or(0)
}

impl Kept {
    fn new(value: &[u8], prefix: u64) -> Kept {
        let len = value.len().min(KEPT_BYTES);
        let mut bytes = [0; KEPT_BYTES];
        bytes[..len].copy_from_slice(&value[..len]);
        Kept { bytes, len, prefix }
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn is_cut(&self) -> bool {
        self.len > BOUND_MAX_BYTES
    }

    pub(super) fn is_less(self, other: Kept) -> bool {
        self.as_slice() < other.as_slice()
    }

    /// Returns the longest prefix allowed as a bound; for text, it ends at a character boundary.
    fn beginning(&self, is_text: bool) -> &[u8] {
        let is_start_of_character = |at: usize| self.bytes[at] & 0xc0 != 0x80;
        let at = match is_text {
            true => (1..=BOUND_MAX_BYTES).rfind(|&at| is_start_of_character(at)).unwrap_or(BOUND_MAX_BYTES),
            false => BOUND_MAX_BYTES,
        };
        &self.bytes[..at]
    }

    /// Returns a value not greater than any string with this prefix.
    fn lower_bound(&self, is_text: bool) -> Vec<u8> {
        if self.is_cut() { self.beginning(is_text).to_vec() } else { self.as_slice().to_vec() }
    }

    /// Returns a value not less than any string with this prefix; `None` if no short one exists.
    fn upper_bound(&self, is_text: bool) -> Option<Vec<u8>> {
        if !self.is_cut() {
            return Some(self.as_slice().to_vec());
        }
        let beginning = self.beginning(is_text);
        if is_text { incremented_text(std::str::from_utf8(beginning).ok()?) } else { incremented(beginning) }
    }
}

impl Extremes {
    /// Includes a value.
    #[inline]
    pub(super) fn update(&mut self, source: &[u8], start: usize, length: usize) {
        let prefix = prefix_of(source, start, length);
        match &mut self.0 {
            Some((least, greatest)) => {
                if prefix <= least.prefix {
                    replace(least, &source[start..start + length], prefix, Ordering::Less);
                }
                if prefix >= greatest.prefix {
                    replace(greatest, &source[start..start + length], prefix, Ordering::Greater);
                }
            }
            None => {
                let kept = Kept::new(&source[start..start + length], prefix);
                self.0 = Some((kept, kept));
            }
        }
    }

    /// Includes the extremes of other values.
    pub(super) fn merge(&mut self, other: &Extremes) {
        let Some((least, greatest)) = other.0 else { return };
        self.update(least.as_slice(), 0, least.len);
        self.update(greatest.as_slice(), 0, greatest.len);
    }

    /// Bounds for the column index; `None` without values or without an upper bound.
    pub(super) fn bounds(&self, is_text: bool) -> Option<PageBounds> {
        let (least, greatest) = &self.0?;
        Some((least.lower_bound(is_text), greatest.upper_bound(is_text)?))
    }

    /// Statistics of a chunk with `nulls` nulls.
    pub(super) fn statistics(&self, is_text: bool, nulls: u64) -> Statistics {
        let (least, greatest) = self.bounds(is_text).unzip();
        let is_exact =
            self.0.map_or((false, false), |(least, greatest)| (!least.is_cut(), !greatest.is_cut()));
        let (least, greatest) = (least.map(ByteArray::from), greatest.map(ByteArray::from));
        let statistics = ValueStatistics::new(least, greatest, None, Some(nulls), false);
        Statistics::ByteArray(statistics.with_min_is_exact(is_exact.0).with_max_is_exact(is_exact.1))
    }
}

/// Replaces a bound if the value is beyond it.
fn replace(bound: &mut Kept, value: &[u8], prefix: u64, beyond: Ordering) {
    let beginning = &value[..value.len().min(KEPT_BYTES)];
    if beginning.cmp(bound.as_slice()) == beyond {
        *bound = Kept::new(value, prefix);
    }
}

/// Returns the least string of at most as many bytes that is greater than all strings with this prefix.
fn incremented(bytes: &[u8]) -> Option<Vec<u8>> {
    let last = bytes.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut bytes = bytes[..=last].to_vec();
    bytes[last] += 1;
    Some(bytes)
}

/// Like [`incremented`], but the result is valid UTF-8.
fn incremented_text(text: &str) -> Option<Vec<u8>> {
    text.char_indices().rev().find_map(|(at, character)| {
        let next = char::from_u32(character as u32 + 1)?;
        let mut text = text[..at].to_owned();
        text.push(next);
        (text.len() <= at + character.len_utf8()).then(|| text.into_bytes())
    })
}

#[cfg(test)]
mod tests;
