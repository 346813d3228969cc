//! Nulls of a column: definition levels, and the value ranges of pages.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};

use super::bits::Bitmap;
use crate::output::buffer::Buf;

/// Maximum rows of a page; other writers use 20,000. It divides the default row group of 122,880 rows. All columns have
/// the same page boundaries, so that readers can skip the same pages in each.
pub(super) const PAGE_ROWS: usize = 20_480;

/// The nulls of one column in one group.
#[derive(Debug, Default)]
pub(super) struct Validity {
    bitmap: Bitmap,
    rows: usize,
    nulls: usize,
    /// Whether the column has definition levels.
    is_nullable: bool,
}

impl Validity {
    /// Joins the validity of the arrays.
    pub(super) fn gather(&mut self, arrays: &[ArrayRef], is_nullable: bool) {
        self.bitmap.clear();
        self.is_nullable = is_nullable;
        self.rows = arrays.iter().map(|array| array.len()).sum();
        self.nulls = arrays.iter().map(|array| array.logical_null_count()).sum();
        if self.nulls == 0 {
            return;
        }
        for array in arrays {
            match array.logical_nulls() {
                Some(nulls) => self.bitmap.append(nulls.inner()),
                None => self.bitmap.append_ones(array.len()),
            }
        }
        debug_assert_eq!(self.bitmap.len(), self.rows);
    }

    pub(super) fn memory(&self) -> usize {
        self.bitmap.memory()
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn nulls(&self) -> usize {
        self.nulls
    }

    /// Returns the number of non-null rows.
    pub(super) fn values(&self) -> usize {
        self.rows - self.nulls
    }

    pub(super) fn nulls_in(&self, rows: &Range<usize>) -> usize {
        if self.nulls == 0 { 0 } else { rows.len() - self.bitmap.ones(rows.clone()) }
    }

    /// Validity bits of 64 rows from `row` on. Bits beyond the end are arbitrary.
    pub(super) fn word(&self, row: usize) -> u64 {
        if self.nulls == 0 { u64::MAX } else { self.bitmap.word(row) }
    }

    /// Pages of [`PAGE_ROWS`] rows: the range of their rows, and of their values among all non-null values.
    pub(super) fn pages(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + '_ {
        let mut values = 0;
        (0..self.rows).step_by(PAGE_ROWS).map(move |start| {
            let rows = start..(start + PAGE_ROWS).min(self.rows);
            let first = values;
            values += rows.len() - self.nulls_in(&rows);
            (rows, first..values)
        })
    }

    /// Appends the definition levels of some rows with a length prefix: one run, or the bitmap, whose layout is that of
    /// bit-packed one-bit levels.
    pub(super) fn append_levels(&self, out: &mut Buf, rows: &Range<usize>) {
        if !self.is_nullable {
            return;
        }
        let prefix = out.len();
        out.extend(&[0; size_of::<u32>()]);
        let nulls = self.nulls_in(rows);
        if nulls == 0 || nulls == rows.len() {
            out.varint((rows.len() as u64) << 1);
            out.push(u8::from(nulls == 0));
        } else {
            let bytes = rows.len().div_ceil(8);
            out.varint((bytes as u64) << 1 | 1);
            let space = out.space(bytes);
            for (index, part) in space.chunks_mut(size_of::<u64>()).enumerate() {
                let row = rows.start + index * 64;
                let beyond = 64 - (rows.end - row).min(64);
                let word = self.bitmap.word(row) & (u64::MAX >> beyond);
                part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
            }
        }
        let length = (out.len() - prefix - size_of::<u32>()) as u32;
        out.overwrite(prefix, &length.to_le_bytes());
    }
}
