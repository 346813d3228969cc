//! Null bits of a block of rows: a bit for each nullable column at the start of a row, and Arrow's bitmaps of the columns.
//!
//! Both directions transpose matrices of eight rows and eight columns.

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::BLOCK_ROWS;
use super::layout::NullBit;

/// The validity of the rows of a block, column by column.
#[derive(Debug, Default)]
pub(super) struct NullBlock {
    rows: usize,
    /// For each null byte of a row, the bits of the columns that have nulls.
    columns: Vec<u8>,
    /// For each null byte, the bitmaps of its eight columns, in which a set bit is a value. Those of columns without
    /// nulls are unspecified.
    bitmaps: Vec<[Bitmap; 8]>,
}

type Bitmap = [u8; BLOCK_ROWS / 8];

impl NullBlock {
    /// Starts a block of `rows` rows, at most [`BLOCK_ROWS`], without nulls.
    pub(super) fn start(&mut self, rows: usize, null_bytes: usize) {
        self.rows = rows;
        self.columns.clear();
        self.columns.resize(null_bytes, 0);
        self.bitmaps.resize(null_bytes, [[0; BLOCK_ROWS / 8]; 8]);
    }

    /// Sets the nulls of a column from a row of a batch on.
    pub(super) fn set(&mut self, bit: NullBit, nulls: &NullBuffer, from: usize) {
        let valid = nulls.inner().slice(from, self.rows);
        self.columns[bit.byte] |= bit.mask;
        let (words, _) = self.bitmaps[bit.byte][bit.index()].as_chunks_mut();
        for (target, word) in words.iter_mut().zip(valid.bit_chunks().iter_padded()) {
            *target = word.to_le_bytes();
        }
    }

    /// Writes the null bytes of the rows.
    pub(super) fn write(&self, fixed: &mut [u8], stride: usize) {
        for (byte, (&columns, bitmaps)) in self.columns.iter().zip(&self.bitmaps).enumerate() {
            if columns == 0 {
                fixed.chunks_exact_mut(stride).for_each(|row| row[byte] = 0);
                continue;
            }
            for (place, rows) in fixed.chunks_mut(8 * stride).enumerate() {
                let valid = transposed(std::array::from_fn(|column| bitmaps[column][place]));
                for (row, valid) in rows.chunks_exact_mut(stride).zip(valid) {
                    row[byte] = !valid & columns;
                }
            }
        }
    }

    /// Reads the null bytes of the rows, in place of [`NullBlock::set`].
    pub(super) fn read(&mut self, fixed: &[u8], stride: usize) {
        for (byte, (columns, bitmaps)) in self.columns.iter_mut().zip(&mut self.bitmaps).enumerate() {
            *columns = fixed.chunks_exact(stride).fold(0, |columns, row| columns | row[byte]);
            if *columns == 0 {
                continue;
            }
            for (place, rows) in fixed.chunks(8 * stride).enumerate() {
                let mut nulls = [0; 8];
                rows.chunks_exact(stride).zip(&mut nulls).for_each(|(row, nulls)| *nulls = row[byte]);
                for (bitmap, nulls) in bitmaps.iter_mut().zip(transposed(nulls)) {
                    bitmap[place] = !nulls;
                }
            }
        }
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the nulls of a column; `None` if it has none.
    pub(super) fn get(&self, bit: NullBit) -> Option<NullBuffer> {
        (self.columns[bit.byte] & bit.mask != 0).then(|| {
            let bitmap = &self.bitmaps[bit.byte][bit.index()][..self.rows.div_ceil(8)];
            NullBuffer::new(BooleanBuffer::new(Buffer::from_slice_ref(bitmap), 0, self.rows))
        })
    }
}

/// Transposes a matrix of bits, of which each byte is a row (Warren, Hacker's Delight, section 7-3).
fn transposed(matrix: [u8; 8]) -> [u8; 8] {
    let swap = |word: u64, shift: u32, mask: u64| {
        let changed = (word ^ (word >> shift)) & mask;
        word ^ changed ^ (changed << shift)
    };
    let word = swap(u64::from_le_bytes(matrix), 7, 0x00aa_00aa_00aa_00aa);
    let word = swap(word, 14, 0x0000_cccc_0000_cccc);
    swap(word, 28, 0x0000_0000_f0f0_f0f0).to_le_bytes()
}

#[cfg(test)]
mod tests;
