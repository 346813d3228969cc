//! Columns that refer to more than their rows: slices of larger arrays, and views of the text of others.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, make_array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

/// Bytes of the rows of a batch, without those of other rows in the same buffers.
pub(super) fn rows_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(column_bytes).sum()
}

fn column_bytes(column: &ArrayRef) -> usize {
    let validity = if column.nulls().is_some() { column.len().div_ceil(8) } else { 0 };
    let values = match column.data_type() {
        DataType::Utf8View => {
            let views = column.as_string_view();
            size_of_val::<[u128]>(views.views()) + views.total_buffer_bytes_used()
        }
        DataType::BinaryView => {
            let views = column.as_binary_view();
            size_of_val::<[u128]>(views.views()) + views.total_buffer_bytes_used()
        }
        DataType::Struct(_) => column.as_struct().columns().iter().map(column_bytes).sum(),
        DataType::List(_) => {
            let (list, offsets) = (column.as_list::<i32>(), column.as_list::<i32>().value_offsets());
            let (first, last) = (offsets[0] as usize, offsets[column.len()] as usize);
            size_of_val(offsets) + column_bytes(&list.values().slice(first, last - first))
        }
        DataType::LargeList(_) => {
            let (list, offsets) = (column.as_list::<i64>(), column.as_list::<i64>().value_offsets());
            let (first, last) = (offsets[0] as usize, offsets[column.len()] as usize);
            size_of_val(offsets) + column_bytes(&list.values().slice(first, last - first))
        }
        _ => match column.to_data().get_slice_memory_size() {
            // It includes the validity.
            Ok(bytes) => return bytes,
            Err(_) => return column.get_array_memory_size(),
        },
    };
    values + validity
}

/// The batch with views of text that has no other rows. Rows that are taken from views refer to all the data of their sources,
/// which an encoder would write whole.
///
/// # Errors
/// If a column is not valid.
pub(super) fn compact_views(batch: RecordBatch) -> Result<RecordBatch> {
    if !batch.columns().iter().any(|column| has_views(column.data_type())) {
        return Ok(batch);
    }
    let columns: Result<Vec<ArrayRef>> = batch.columns().iter().map(compact).collect();
    Ok(RecordBatch::try_new(batch.schema(), columns?)?)
}

fn compact(column: &ArrayRef) -> Result<ArrayRef> {
    match column.data_type() {
        DataType::Utf8View => Ok(Arc::new(column.as_string_view().gc())),
        DataType::BinaryView => Ok(Arc::new(column.as_binary_view().gc())),
        nested if has_views(nested) => {
            let data = column.to_data();
            let mut children = Vec::new();
            for child in data.child_data() {
                children.push(compact(&make_array(child.clone()))?.to_data());
            }
            Ok(make_array(data.into_builder().child_data(children).build()?))
        }
        _ => Ok(Arc::clone(column)),
    }
}

fn has_views(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_views(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_views(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_views(field.data_type())),
        DataType::Dictionary(_, values) => has_views(values),
        DataType::RunEndEncoded(_, values) => has_views(values.data_type()),
        _ => false,
    }
}
