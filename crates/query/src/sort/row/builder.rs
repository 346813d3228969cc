//! Column builder, filled by blocks of rows.

use std::sync::Arc;

use arrow_array::builder::make_view;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, Buffer, NullBuffer, NullBufferBuilder, i256};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_row::RowConverter;
use arrow_schema::{ArrowError, DataType};

use super::layout::{Column, Form};
use super::nulls::NullBlock;
use super::{array_at, u32_at};

/// Builder of a column.
#[derive(Debug)]
pub(crate) struct Builder {
    values: Values,
    nulls: NullBufferBuilder,
}

#[derive(Debug)]
enum Values {
    Fixed1(Vec<u8>),
    Fixed2(Vec<u16>),
    Fixed4(Vec<u32>),
    Fixed8(Vec<u64>),
    Fixed16(Vec<i128>),
    Fixed32(Vec<i256>),
    Bits(BooleanBufferBuilder),
    /// Bytes, and the end offset of each value.
    Bytes(Vec<u8>, Vec<usize>),
    Nothing,
}

/// Copy size for short values: most are shorter, and a copy takes three moves instead of a call.
const COPIED_BYTES: usize = 48;

impl Builder {
    /// Creates an empty column with capacity for `rows` rows.
    pub(crate) fn new(column: &Column, rows: usize) -> Builder {
        let values = match column.form {
            Form::Fixed(1) | Form::Code { width: 1, .. } => Values::Fixed1(Vec::with_capacity(rows)),
            Form::Fixed(2) | Form::Code { .. } => Values::Fixed2(Vec::with_capacity(rows)),
            Form::Fixed(4) => Values::Fixed4(Vec::with_capacity(rows)),
            Form::Fixed(8) => Values::Fixed8(Vec::with_capacity(rows)),
            Form::Fixed(16) => Values::Fixed16(Vec::with_capacity(rows)),
            Form::Fixed(_) => Values::Fixed32(Vec::with_capacity(rows)),
            Form::Bool => Values::Bits(BooleanBufferBuilder::new(rows)),
            Form::Bytes(_) | Form::Encoded(..) => Values::Bytes(Vec::new(), Vec::with_capacity(rows)),
            Form::Nothing => Values::Nothing,
        };
        Builder { values, nulls: NullBufferBuilder::new(rows) }
    }

    /// Appends a column's values from the fixed parts of rows.
    pub(crate) fn extend(&mut self, column: &Column, fixed: &[u8], stride: usize) {
        let rows = fixed.chunks_exact(stride);
        let at = column.offset;
        match &mut self.values {
            Values::Fixed1(values) => values.extend(rows.map(|row| row[at])),
            Values::Fixed2(values) => {
                values.extend(rows.map(|row| u16::from_le_bytes(array_at(row, at))));
            }
            Values::Fixed4(values) => values.extend(rows.map(|row| u32_at(row, at))),
            Values::Fixed8(values) => {
                values.extend(rows.map(|row| u64::from_le_bytes(array_at(row, at))));
            }
            Values::Fixed16(values) => {
                values.extend(rows.map(|row| i128::from_le_bytes(array_at(row, at))));
            }
            Values::Fixed32(values) => {
                values.extend(rows.map(|row| i256::from_le_bytes(array_at(row, at))));
            }
            Values::Bits(bits) => {
                for rows in fixed.chunks(u64::BITS as usize * stride) {
                    let values = rows.chunks_exact(stride).map(|row| u64::from(row[at] != 0));
                    let word = values.clone().zip(0..).fold(0, |word, (value, bit)| word | value << bit);
                    bits.append_word(word, values.len());
                }
            }
            Values::Bytes(..) | Values::Nothing => {}
        }
    }

    /// Appends the nulls of a column's values, those of a block of rows.
    pub(super) fn extend_nulls(&mut self, column: &Column, nulls: &NullBlock) {
        match column.null.and_then(|bit| nulls.get(bit)) {
            Some(nulls) => self.nulls.append_buffer(&nulls),
            None => self.nulls.append_n_non_nulls(nulls.rows()),
        }
    }

    /// Appends variable values of `total` bytes: each has some bytes at the start of a longer slice.
    pub(crate) fn extend_values<'a>(
        &mut self,
        total: usize,
        values: impl Iterator<Item = (&'a [u8], usize)>,
    ) {
        let Values::Bytes(bytes, ends) = &mut self.values else { return };
        let mut end = bytes.len();
        bytes.resize(end + total + COPIED_BYTES, 0);
        for (slice, length) in values {
            match slice.first_chunk::<COPIED_BYTES>() {
                Some(first) if length <= COPIED_BYTES => {
                    bytes[end..end + COPIED_BYTES].copy_from_slice(first);
                }
                _ => bytes[end..end + length].copy_from_slice(&slice[..length]),
            }
            end += length;
            ends.push(end);
        }
        bytes.truncate(end);
    }

    /// Returns the column as an array of a type.
    pub(crate) fn finish(self, data_type: &DataType, rows: usize) -> Result<ArrayData, ArrowError> {
        let (values, nulls) = self.into_parts();
        if let Values::Nothing = values {
            return Ok(ArrayData::new_null(data_type, rows));
        }
        let builder = ArrayDataBuilder::new(data_type.clone()).len(rows);
        let builder = match values {
            Values::Bytes(bytes, ends) => with_bytes(builder, data_type, bytes, &ends, nulls.as_ref())?,
            values => builder.add_buffer(values.into_buffer()),
        };
        builder.nulls(nulls).build()
    }

    /// Returns the column as a dictionary array with the given values.
    pub(crate) fn dictionary(
        self,
        keys: &DataType,
        data_type: &DataType,
        rows: usize,
        values: &ArrayRef,
    ) -> Result<ArrayData, ArrowError> {
        let (codes, nulls) = self.into_parts();
        let codes = match codes {
            Values::Fixed2(codes) if keys.primitive_width() == Some(size_of::<u32>()) => {
                Buffer::from_vec(codes.into_iter().map(u32::from).collect())
            }
            Values::Fixed2(codes) if keys.primitive_width() == Some(size_of::<u64>()) => {
                Buffer::from_vec(codes.into_iter().map(u64::from).collect())
            }
            codes => codes.into_buffer(),
        };
        let builder = ArrayDataBuilder::new(data_type.clone()).len(rows).add_buffer(codes);
        builder.nulls(nulls).add_child_data(values.to_data()).build()
    }

    /// Decodes the column from Arrow's row format.
    pub(crate) fn decode(self, converter: &RowConverter) -> Result<ArrayRef, ArrowError> {
        let Values::Bytes(bytes, ends) = &self.values else { unreachable!("rows are bytes") };
        let parser = converter.parser();
        let mut begin = 0;
        let rows = ends.iter().map(|&end| parser.parse(&bytes[std::mem::replace(&mut begin, end)..end]));
        Ok(Arc::clone(&converter.convert_rows(rows)?[0]))
    }

    fn into_parts(self) -> (Values, Option<NullBuffer>) {
        (self.values, self.nulls.build())
    }
}

impl Values {
    fn into_buffer(self) -> Buffer {
        match self {
            Values::Fixed1(values) => Buffer::from_vec(values),
            Values::Fixed2(values) => Buffer::from_vec(values),
            Values::Fixed4(values) => Buffer::from_vec(values),
            Values::Fixed8(values) => Buffer::from_vec(values),
            Values::Fixed16(values) => Buffer::from_vec(values),
            Values::Fixed32(values) => Buffer::from_vec(values),
            Values::Bits(mut bits) => bits.finish().into_inner(),
            Values::Bytes(bytes, _) => Buffer::from_vec(bytes),
            Values::Nothing => Buffer::default(),
        }
    }
}

/// Adds the buffers of an array of strings or binary values.
fn with_bytes(
    builder: ArrayDataBuilder,
    data_type: &DataType,
    bytes: Vec<u8>,
    ends: &[usize],
    nulls: Option<&NullBuffer>,
) -> Result<ArrayDataBuilder, ArrowError> {
    Ok(match data_type {
        DataType::LargeUtf8 | DataType::LargeBinary => {
            builder.add_buffer(offsets::<i64>(ends)?).add_buffer(Buffer::from_vec(bytes))
        }
        DataType::Utf8View | DataType::BinaryView => {
            let mut begin = 0;
            let views = ends.iter().map(|&end| {
                let from = std::mem::replace(&mut begin, end);
                make_view(&bytes[from..end], 0, from as u32)
            });
            builder
                .add_buffer(Buffer::from_vec(views.collect::<Vec<u128>>()))
                .add_buffer(Buffer::from_vec(bytes))
        }
        DataType::FixedSizeBinary(size) => {
            builder.add_buffer(Buffer::from_vec(padded(bytes, *size as usize, ends.len(), nulls)))
        }
        _ => builder.add_buffer(offsets::<i32>(ends)?).add_buffer(Buffer::from_vec(bytes)),
    })
}

/// Returns the offsets of values that end at `ends`; an error if a value of almost 2 GiB follows others in its batch.
fn offsets<T: ArrowNativeType>(ends: &[usize]) -> Result<Buffer, ArrowError> {
    let mut offsets: Vec<T> = Vec::with_capacity(ends.len() + 1);
    offsets.push(T::default());
    for &end in ends {
        offsets.push(T::from_usize(end).ok_or(ArrowError::OffsetOverflowError(end))?);
    }
    Ok(Buffer::from_vec(offsets))
}

/// Inserts `size` zero bytes for each null, which has no bytes in a row.
fn padded(bytes: Vec<u8>, size: usize, rows: usize, nulls: Option<&NullBuffer>) -> Vec<u8> {
    let Some(nulls) = nulls else { return bytes };
    let mut padded = vec![0; size * rows];
    let mut values = bytes.chunks_exact(size.max(1));
    for row in nulls.valid_indices() {
        if let Some(value) = values.next() {
            padded[row * size..][..size].copy_from_slice(value);
        }
    }
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_that_do_not_fit_are_an_error() {
        let last = i32::MAX as usize;
        assert_eq!(offsets::<i32>(&[3, last]).unwrap().typed_data::<i32>(), [0, 3, i32::MAX]);
        assert!(offsets::<i32>(&[3, last + 1]).is_err());
        assert_eq!(offsets::<i64>(&[last + 1]).unwrap().typed_data::<i64>(), [0, 1 << 31]);
    }
}
