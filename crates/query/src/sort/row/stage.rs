//! Columns → rows: a block of rows with contiguous fixed parts and contiguous variable values.
//!
//! One loop with a constant stride writes each column. The block stays in cache until its rows are copied to a chunk.

use std::sync::Arc;

use arrow_buffer::NullBuffer;

use super::RowView;
use super::layout::{Form, Layout};
use super::nulls::NullBlock;
use super::view::{BatchView, ColumnView, Values};

/// A block of rows.
#[derive(Debug)]
pub(crate) struct Stage {
    layout: Arc<Layout>,
    fixed: Vec<u8>,
    rows: usize,
    nulls: NullBlock,
    variable: Vec<u8>,
    /// End offset of the variable values of each row.
    ends: Vec<usize>,
}

impl Stage {
    /// Creates an empty block.
    pub(crate) fn new(layout: &Arc<Layout>) -> Stage {
        Stage {
            layout: Arc::clone(layout),
            fixed: Vec::new(),
            rows: 0,
            nulls: NullBlock::default(),
            variable: Vec::new(),
            ends: vec![0; layout.block_rows],
        }
    }

    /// Fills the block with `rows` rows of a batch from row `from` on, at most `layout.block_rows`. `number` is the row
    /// number of the first one.
    pub(crate) fn fill(&mut self, batch: &BatchView, from: usize, rows: usize, number: u64) {
        let layout = Arc::clone(&self.layout);
        let stride = layout.stride;
        debug_assert!(rows <= layout.block_rows && from + rows <= batch.rows);
        self.fixed.resize(layout.block_rows * stride, 0);
        self.rows = rows;
        let fixed = &mut self.fixed[..rows * stride];
        self.nulls.start(rows, layout.null_bytes);
        for (column, view) in layout.columns.iter().zip(&batch.columns) {
            if let (Some(bit), Some(nulls)) = (column.null, &view.nulls) {
                self.nulls.set(bit, nulls, from);
            }
            put_fixed(fixed, stride, column.offset, &column.form, &view.values, from..from + rows);
        }
        self.nulls.write(fixed, stride);
        if let Some(offset) = layout.row_number {
            for (row, number) in fixed.chunks_exact_mut(stride).zip(number..) {
                row[offset..offset + 8].copy_from_slice(&number.to_le_bytes());
            }
        }
        if !layout.lengths.is_empty() {
            self.fill_variable(&layout, batch, from);
        }
    }

    /// Writes the lengths, then the bytes, each column by column.
    fn fill_variable(&mut self, layout: &Layout, batch: &BatchView, from: usize) {
        let columns = || {
            let columns = layout.columns.iter().zip(&batch.columns);
            columns.filter(|(column, _)| matches!(column.form, Form::Bytes(_) | Form::Encoded(..)))
        };
        let ends = &mut self.ends[..self.rows];
        ends.fill(0);
        for (column, view) in columns() {
            let mut lengths =
                Lengths { fixed: &mut self.fixed, stride: layout.stride, offset: column.offset, ends };
            each_value(view, from, lengths.ends.len(), |row, value| lengths.put(row, value.len()));
        }
        let mut end = 0;
        for length in ends.iter_mut() {
            // Start of the row's values; becomes their end as they are copied.
            end += std::mem::replace(length, end);
        }
        if self.variable.len() < end {
            self.variable.resize(end.next_power_of_two(), 0);
        }
        let variable = &mut self.variable[..end];
        for (_, view) in columns() {
            each_value(view, from, self.rows, |row, value| {
                let at = ends[row];
                variable[at..at + value.len()].copy_from_slice(value);
                ends[row] += value.len();
            });
        }
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Returns the rows; `variable` ends with the row's own values.
    pub(crate) fn rows(&self) -> impl Iterator<Item = RowView<'_>> {
        let fixed = self.fixed[..self.rows * self.layout.stride].chunks_exact(self.layout.stride);
        let mut begin = 0;
        fixed.zip(&self.ends).map(move |(fixed, &end)| {
            let variable = &self.variable[begin..end];
            begin = end;
            RowView { fixed, variable }
        })
    }

    /// Frees the excess memory of a block with long values.
    pub(crate) fn shrink(&mut self) {
        self.variable.truncate(KEPT_VARIABLE_BYTES);
        self.variable.shrink_to(KEPT_VARIABLE_BYTES);
    }
}

/// Bytes for variable values kept by [`Stage::shrink`]: 512 rows of 2 KiB.
const KEPT_VARIABLE_BYTES: usize = 1 << 20;

/// Writer of the lengths of a column's values, with a sum for each row.
struct Lengths<'a> {
    fixed: &'a mut [u8],
    stride: usize,
    offset: usize,
    ends: &'a mut [usize],
}

impl Lengths<'_> {
    fn put(&mut self, row: usize, length: usize) {
        let at = row * self.stride + self.offset;
        // `Viewer` rejects longer values.
        let stored = u32::try_from(length).unwrap_or(u32::MAX);
        self.fixed[at..at + 4].copy_from_slice(&stored.to_le_bytes());
        self.ends[row] += stored as usize;
    }
}

fn put_fixed(
    fixed: &mut [u8],
    stride: usize,
    offset: usize,
    form: &Form,
    values: &Values,
    range: std::ops::Range<usize>,
) {
    match (values, form) {
        (Values::Fixed(bytes), Form::Fixed(width)) => {
            let bytes = &bytes[range.start * width..range.end * width];
            match width {
                1 => put::<1>(fixed, stride, offset, bytes),
                2 => put::<2>(fixed, stride, offset, bytes),
                4 => put::<4>(fixed, stride, offset, bytes),
                8 => put::<8>(fixed, stride, offset, bytes),
                16 => put::<16>(fixed, stride, offset, bytes),
                _ => put::<32>(fixed, stride, offset, bytes),
            }
        }
        (Values::Bits(bits), _) => {
            let bits = bits.slice(range.start, range.len());
            fixed
                .chunks_exact_mut(stride)
                .zip(bits.iter())
                .for_each(|(row, bit)| row[offset] = u8::from(bit));
        }
        (Values::Codes(codes), Form::Code { width, .. }) => {
            let rows = fixed.chunks_exact_mut(stride).zip(&codes[range]);
            match width {
                1 => rows.for_each(|(row, &code)| row[offset] = code as u8),
                2 => rows.for_each(|(row, &code)| {
                    row[offset..offset + 2].copy_from_slice(&(code as u16).to_le_bytes());
                }),
                _ => {
                    rows.for_each(|(row, &code)| row[offset..offset + 4].copy_from_slice(&code.to_le_bytes()))
                }
            }
        }
        _ => {}
    }
}

fn put<const WIDTH: usize>(fixed: &mut [u8], stride: usize, offset: usize, bytes: &[u8]) {
    let (values, _) = bytes.as_chunks::<WIDTH>();
    for (row, value) in fixed.chunks_exact_mut(stride).zip(values) {
        row[offset..offset + WIDTH].copy_from_slice(value);
    }
}

/// Calls `take` with the index, from 0, and the value of each row; the value of a null is empty.
fn each_value(view: &ColumnView, from: usize, rows: usize, mut take: impl FnMut(usize, &[u8])) {
    let nulls = view.nulls.as_ref();
    match &view.values {
        Values::Offsets32(offsets, bytes) => {
            let pairs = offsets[from..=from + rows].windows(2);
            let ranges = pairs.map(|pair| pair[0] as usize..pair[1] as usize);
            valid(ranges.map(|range| &bytes[range]), nulls, from, take);
        }
        Values::Offsets64(offsets, bytes) => {
            let pairs = offsets[from..=from + rows].windows(2);
            let ranges = pairs.map(|pair| pair[0] as usize..pair[1] as usize);
            valid(ranges.map(|range| &bytes[range]), nulls, from, take);
        }
        Values::Chunks(size, bytes) => {
            valid((from..from + rows).map(|row| &bytes[row * size..(row + 1) * size]), nulls, from, take);
        }
        Values::StringViews(array) => {
            valid((from..from + rows).map(|row| array.value(row).as_bytes()), nulls, from, take);
        }
        Values::BinaryViews(array) => {
            valid((from..from + rows).map(|row| array.value(row)), nulls, from, take);
        }
        Values::Rows(encoded) => {
            (0..rows).for_each(|row| take(row, encoded.row(from + row).data()));
        }
        Values::Fixed(_) | Values::Bits(_) | Values::Codes(_) | Values::Nothing => {}
    }
}

fn valid<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    nulls: Option<&NullBuffer>,
    from: usize,
    mut take: impl FnMut(usize, &[u8]),
) {
    match nulls {
        None => values.enumerate().for_each(|(row, value)| take(row, value)),
        Some(nulls) => values.enumerate().for_each(|(row, value)| {
            take(row, if nulls.is_valid(from + row) { value } else { &[] });
        }),
    }
}
