//! Parquet's RLE/bit-packing hybrid encoding (Encodings.md, "RLE"), and bitmaps joined from several arrays.

use arrow_buffer::BooleanBuffer;

use crate::output::buffer::Buf;

/// Values of a bit-packed group, which has as many bytes as a value has bits.
const GROUP_VALUES: usize = 8;

/// Minimum bits of equal codes for a run: packed, they take twice the bytes of the run and the next literal header.
const RUN_MIN_BITS: usize = 64;

/// Bits that numbers up to `max` need; at least one, as some readers reject width 0.
pub(super) fn width_of(max: usize) -> u32 {
    (usize::BITS - max.leading_zeros()).max(1)
}

/// Appends codes of `width` bits as runs and bit-packed groups.
pub(super) fn append_codes(out: &mut Buf, codes: &[u16], width: u32) {
    let run_min = RUN_MIN_BITS.div_ceil(width as usize).max(GROUP_VALUES).min(codes.len());
    let (mut literal, mut at) = (0, 0);
    while at + GROUP_VALUES <= codes.len() {
        let run = run_length(&codes[at..]);
        if run < run_min {
            at += GROUP_VALUES;
            continue;
        }
        append_packed(out, &codes[literal..at], width);
        out.varint((run as u64) << 1);
        out.extend(&codes[at].to_le_bytes()[..width.div_ceil(8) as usize]);
        at += run;
        literal = at;
    }
    append_packed(out, &codes[literal..], width);
}

/// Returns the number of equal codes at the start if they fill at least a group, else 0.
fn run_length(codes: &[u16]) -> usize {
    let (first, group) = (codes[0], &codes[..GROUP_VALUES]);
    if group[GROUP_VALUES - 1] != first || group.iter().any(|&code| code != first) {
        return 0;
    }
    codes.iter().position(|&code| code != first).unwrap_or(codes.len())
}

/// Appends one literal run; the last group is padded with zeros.
fn append_packed(out: &mut Buf, codes: &[u16], width: u32) {
    if codes.is_empty() {
        return;
    }
    let (groups, width) = (codes.len().div_ceil(GROUP_VALUES), width as usize);
    out.varint((groups as u64) << 1 | 1);
    let end = out.len() + groups * width;
    // Each group is written as a 16-byte word that overlaps the next group.
    let space = out.space(groups * width + size_of::<u128>());
    let (whole, rest) = codes.as_chunks::<GROUP_VALUES>();
    let mut at = 0;
    for group in whole {
        space[at..at + size_of::<u128>()].copy_from_slice(&packed(group, width).to_le_bytes());
        at += width;
    }
    if !rest.is_empty() {
        let mut group = [0; GROUP_VALUES];
        group[..rest.len()].copy_from_slice(rest);
        space[at..at + size_of::<u128>()].copy_from_slice(&packed(&group, width).to_le_bytes());
    }
    out.truncate(end);
}

/// Packs eight codes of at most 16 bits.
#[inline]
fn packed(group: &[u16; GROUP_VALUES], width: usize) -> u128 {
    let half = |codes: &[u16]| {
        let word = |code: u16, place: usize| u64::from(code) << (place * width);
        word(codes[0], 0) | word(codes[1], 1) | word(codes[2], 2) | word(codes[3], 3)
    };
    u128::from(half(&group[..4])) | u128::from(half(&group[4..])) << (4 * width)
}

/// Validity bitmap of a column, joined from the arrays of a group.
#[derive(Debug, Default)]
pub(super) struct Bitmap {
    words: Vec<u64>,
    len: usize,
}

impl Bitmap {
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.len = 0;
    }

    pub(super) fn memory(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn append(&mut self, bits: &BooleanBuffer) {
        let chunks = bits.bit_chunks();
        for word in chunks.iter() {
            self.append_word(word, 64);
        }
        self.append_word(chunks.remainder_bits(), chunks.remainder_len());
    }

    pub(super) fn append_ones(&mut self, mut count: usize) {
        while count > 0 {
            let step = count.min(64);
            self.append_word(u64::MAX >> (64 - step), step);
            count -= step;
        }
    }

    /// Appends the lower bits of a word whose other bits are zero.
    fn append_word(&mut self, word: u64, count: usize) {
        if count == 0 {
            return;
        }
        let shift = self.len % 64;
        match self.words.last_mut() {
            Some(last) if shift > 0 => {
                *last |= word << shift;
                if shift + count > 64 {
                    self.words.push(word >> (64 - shift));
                }
            }
            _ => self.words.push(word),
        }
        self.len += count;
    }

    /// 64 bits starting at bit `from`; bits beyond the end are zero.
    pub(super) fn word(&self, from: usize) -> u64 {
        let (index, shift) = (from / 64, from % 64);
        let low = self.words.get(index).copied().unwrap_or(0) >> shift;
        if shift == 0 { low } else { low | self.words.get(index + 1).copied().unwrap_or(0) << (64 - shift) }
    }

    /// Returns the number of ones in a range of bits.
    pub(super) fn ones(&self, range: std::ops::Range<usize>) -> usize {
        let (mut count, mut at) = (0, range.start);
        while at < range.end {
            let word = self.word(at);
            let bits = (range.end - at).min(64);
            count += (word & (u64::MAX >> (64 - bits))).count_ones() as usize;
            at += bits;
        }
        count
    }
}

#[cfg(test)]
mod tests;
