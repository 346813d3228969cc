//! Iteration over the non-null strings of arrays of all string and binary types.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, StringViewType};
use arrow_array::types::{ByteArrayType, ByteViewType, GenericBinaryType, GenericStringType};
use arrow_array::{Array, GenericByteArray, GenericByteViewArray};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_data::MAX_INLINE_VIEW_LEN;
use arrow_schema::DataType;

use crate::output::plain::dictionary_keys;

/// Receives a value: `length` bytes of a source, from `start` on. The visitor may also read the rest of the source,
/// which allows faster fixed-size reads.
pub(super) trait Visitor: FnMut(&[u8], usize, usize) {}

impl<F: FnMut(&[u8], usize, usize)> Visitor for F {}

/// Returns whether [`visit`] supports arrays of a type.
pub(super) fn is_visited(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_bytes(values),
        other => is_bytes(other),
    }
}

/// Returns whether a type has strings or bytes of variable length.
pub(super) fn is_bytes(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

/// Visits the values of some rows of an array.
///
/// # Panics
/// If [`is_visited`] is false for the array's type.
pub(super) fn visit(array: &dyn Array, rows: Range<usize>, visitor: &mut impl Visitor) {
    match array.data_type() {
        DataType::Utf8 => visit_bytes(array.as_bytes::<GenericStringType<i32>>(), rows, visitor),
        DataType::LargeUtf8 => visit_bytes(array.as_bytes::<GenericStringType<i64>>(), rows, visitor),
        DataType::Binary => visit_bytes(array.as_bytes::<GenericBinaryType<i32>>(), rows, visitor),
        DataType::LargeBinary => visit_bytes(array.as_bytes::<GenericBinaryType<i64>>(), rows, visitor),
        DataType::Utf8View => visit_views(array.as_byte_view::<StringViewType>(), rows, visitor),
        DataType::BinaryView => visit_views(array.as_byte_view::<BinaryViewType>(), rows, visitor),
        DataType::Dictionary(..) => visit_dictionary(array, rows, visitor),
        other => unreachable!("{other} has no strings"),
    }
}

/// Calls `call` for each non-null row.
fn valid_rows(nulls: Option<&NullBuffer>, rows: Range<usize>, mut call: impl FnMut(usize)) {
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None => rows.for_each(call),
        Some(nulls) => {
            let range = nulls.slice(rows.start, rows.len());
            range.valid_indices().for_each(|row| call(rows.start + row));
        }
    }
}

fn visit_bytes<T: ByteArrayType>(
    array: &GenericByteArray<T>,
    rows: Range<usize>,
    visitor: &mut impl Visitor,
) {
    let (offsets, source) = (array.value_offsets(), array.value_data());
    if array.null_count() == 0 {
        for pair in offsets[rows.start..=rows.end].windows(2) {
            visitor(source, pair[0].as_usize(), pair[1].as_usize() - pair[0].as_usize());
        }
        return;
    }
    valid_rows(array.nulls(), rows, |row| {
        let start = offsets[row].as_usize();
        visitor(source, start, offsets[row + 1].as_usize() - start);
    });
}

/// Size of the source buffer for inline values; visitors may read beyond the value.
const INLINE_BYTES: usize = 64;

fn visit_views<T: ByteViewType>(
    array: &GenericByteViewArray<T>,
    rows: Range<usize>,
    visitor: &mut impl Visitor,
) {
    let (views, buffers) = (array.views(), array.data_buffers());
    let mut inline = [0; INLINE_BYTES];
    valid_rows(array.nulls(), rows, |row| {
        let view = views[row];
        let length = view as u32;
        if length <= MAX_INLINE_VIEW_LEN {
            // The value follows its length.
            inline[..size_of::<u128>()].copy_from_slice(&(view >> u32::BITS).to_le_bytes());
            visitor(&inline, 0, length as usize);
        } else {
            // The layout of a long view: length, prefix, buffer, offset.
            let (buffer, offset) = ((view >> 64) as u32, (view >> 96) as u32);
            visitor(&buffers[buffer as usize], offset as usize, length as usize);
        }
    });
}

fn visit_dictionary(array: &dyn Array, rows: Range<usize>, visitor: &mut impl Visitor) {
    let rows = array.slice(rows.start, rows.len());
    let dictionary = rows.as_any_dictionary();
    let (keys, nulls) = (dictionary_keys(dictionary), rows.logical_nulls());
    let values = dictionary.values();
    valid_rows(nulls.as_ref(), 0..rows.len(), |row| visit(values, keys[row]..keys[row] + 1, visitor));
}
