//! Bytes of the rows of a batch, without the other contents of its buffers (pure).

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef, GenericByteViewArray, OffsetSizeTrait, RecordBatch};
use arrow_schema::{ArrowError, DataType};

/// Returns the bytes of the rows of a batch.
pub(crate) fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(column_bytes).sum()
}

/// Returns the memory of a batch of its own buffers: that of its rows, and of the arrays, which matters for few rows of
/// many columns.
pub(crate) fn batch_memory_bytes(batch: &RecordBatch) -> usize {
    batch_bytes(batch) + batch.num_columns() * ARRAY_BYTES
}

/// Bytes of an array besides its values: the object, its buffers' headers, and what the allocator rounds up.
const ARRAY_BYTES: usize = 320;

/// Returns the bytes of the rows of a batch without the values of dictionaries, which batches share.
pub(crate) fn bytes_without_dictionaries(batch: &RecordBatch) -> usize {
    let own = |column: &ArrayRef| match column.as_any_dictionary_opt() {
        Some(dictionary) => dictionary.keys().get_buffer_memory_size().min(column_bytes(column)),
        None => column_bytes(column),
    };
    batch.columns().iter().map(own).sum()
}

/// Returns the bytes of the rows of a column.
pub(crate) fn column_bytes(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Utf8View => view_bytes(column.as_string_view()),
        DataType::BinaryView => view_bytes(column.as_binary_view()),
        // Buffers of nested views, and of types without a slice size, are counted whole.
        _ => column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()),
    }
}

fn view_bytes<T: ByteViewType + ?Sized>(column: &GenericByteViewArray<T>) -> usize {
    // The first 4 bytes of a view are the length; values of up to 12 bytes are stored in the view.
    let length = |view: &u128| *view as u32 as usize;
    let values: usize = column.views().iter().map(length).filter(|&length| length > 12).sum();
    size_of_val(&column.views()[..]) + values
}

/// Approximate bytes of a copy of the largest row of a batch.
pub(crate) fn row_bytes_max(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(value_bytes_max).sum()
}

fn value_bytes_max(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Utf8 => longest(column.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => longest(column.as_string::<i64>().value_offsets()),
        DataType::Binary => longest(column.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => longest(column.as_binary::<i64>().value_offsets()),
        // Copies share their values.
        DataType::Utf8View | DataType::BinaryView => size_of::<u128>(),
        DataType::Dictionary(keys, _) => keys.primitive_width().unwrap_or_default(),
        DataType::FixedSizeBinary(width) => usize::try_from(*width).unwrap_or_default(),
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            longest(list.value_offsets()).saturating_mul(value_bytes_max(list.values()).max(1))
        }
        DataType::LargeList(_) => {
            let list = column.as_list::<i64>();
            longest(list.value_offsets()).saturating_mul(value_bytes_max(list.values()).max(1))
        }
        DataType::Struct(_) => column.as_struct().columns().iter().map(value_bytes_max).sum(),
        other => other.primitive_width().unwrap_or(OTHER_VALUE_BYTES),
    }
}

/// Bytes assumed for a value of a type without a known width.
const OTHER_VALUE_BYTES: usize = 64;

fn longest<T: OffsetSizeTrait>(offsets: &[T]) -> usize {
    offsets.windows(2).map(|pair| (pair[1] - pair[0]).as_usize()).max().unwrap_or_default()
}

/// Returns the batch with its string views compacted. A slice of views otherwise keeps, and is written with, all values
/// of its source.
pub(crate) fn compact(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => std::sync::Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => std::sync::Arc::new(column.as_binary_view().gc()),
            _ => column.clone(),
        }
    });
    RecordBatch::try_new(batch.schema(), columns.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringArray, StringViewArray};
    use arrow_schema::{Field, Schema};

    use super::*;

    #[test]
    fn a_slice_has_the_bytes_of_its_rows() {
        let texts: Vec<String> = (0..1000).map(|row| format!("a text of some length {row:04}")).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(0..1000)),
            Arc::new(StringArray::from(texts.clone())),
            Arc::new(StringViewArray::from(texts)),
        ];
        let field = |(place, column): (usize, &ArrayRef)| {
            Field::new(place.to_string(), column.data_type().clone(), false)
        };
        let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
        let rows = batch.slice(500, 10);
        // 8 bytes, 4 + 26 bytes, 16 + 26 bytes; and the end of the last string.
        assert_eq!(batch_bytes(&rows), 10 * (8 + 30 + 42) + 4);
        assert_eq!(row_bytes_max(&rows), 8 + 26 + 16);
        let compact = compact(&rows).unwrap();
        assert_eq!(compact, rows);
        assert!(compact.column(2).get_array_memory_size() < 2_000);
        assert!(rows.column(2).get_array_memory_size() > 20_000);
    }
}
