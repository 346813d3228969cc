//! Small tables with keys of various types.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_cast::cast;
use arrow_ord::sort::{SortColumn, lexsort_to_indices};
use arrow_schema::{DataType, Field, Schema, SortOptions, TimeUnit};
use arrow_select::take::take_record_batch;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Side {
    Left,
    Right,
}

/// Left and right types of a key column.
pub(super) const KEY_TYPES: [fn() -> (DataType, DataType); 14] = [
    || (DataType::Int64, DataType::Int64),
    || (DataType::Int32, DataType::Int64),
    || (DataType::Int8, DataType::Int8),
    || (DataType::UInt64, DataType::Int64),
    || (DataType::Boolean, DataType::Boolean),
    || (DataType::Utf8, DataType::Utf8View),
    || (dictionary(), DataType::Utf8),
    || (dictionary(), dictionary()),
    || (DataType::Float64, DataType::Float64),
    || (DataType::Float64, DataType::Float32),
    || (DataType::Decimal128(10, 2), DataType::Decimal128(10, 2)),
    || (DataType::Decimal64(10, 2), DataType::Int32),
    || (DataType::Date32, DataType::Timestamp(TimeUnit::Millisecond, None)),
    || (DataType::Binary, DataType::LargeBinary),
];

fn dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8))
}

/// Creates a table with key columns, a row number column and a text column.
pub(super) fn table(side: Side, types: &[usize], values: &[Vec<Option<i64>>]) -> RecordBatch {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (place, &chosen) in types.iter().enumerate() {
        let (left, right) = KEY_TYPES[chosen]();
        let data_type = if side == Side::Left { left } else { right };
        let numbers: Vec<Option<i64>> = values.iter().map(|row| row[place]).collect();
        fields.push(Field::new(format!("k{place}"), data_type.clone(), true));
        columns.push(keys(&numbers, &data_type));
    }
    let name = if side == Side::Left { "left" } else { "right" };
    let rows = values.len() as i32;
    fields.push(Field::new(format!("{name}_row"), DataType::Int32, false));
    columns.push(Arc::new(Int32Array::from((0..rows).collect::<Vec<_>>())));
    fields.push(Field::new("text", DataType::Utf8, false));
    let text = (0..rows).map(|row| Some(format!("{name} {row}"))).collect::<StringArray>();
    columns.push(Arc::new(text));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn keys(numbers: &[Option<i64>], data_type: &DataType) -> ArrayRef {
    let column: ArrayRef = match data_type {
        DataType::UInt64 => Arc::new(Int64Array::from_iter(numbers.iter().map(|value| value.map(i64::abs)))),
        _ => Arc::new(Int64Array::from(numbers.to_vec())),
    };
    let text = || cast(&column, &DataType::Utf8).unwrap();
    match data_type {
        DataType::Float64 => floats::<Float64Type>(&column, f64::NAN, -0.0),
        DataType::Float32 => floats::<Float32Type>(&column, f32::NAN, -0.0),
        DataType::Date32 => cast(&cast(&column, &DataType::Int32).unwrap(), data_type).unwrap(),
        DataType::Timestamp(..) => {
            let days = cast(&cast(&column, &DataType::Int32).unwrap(), &DataType::Date32).unwrap();
            cast(&days, data_type).unwrap()
        }
        DataType::Dictionary(..) | DataType::Binary | DataType::LargeBinary => {
            cast(&text(), data_type).unwrap()
        }
        other => cast(&column, other).unwrap(),
    }
}

/// Casts numbers to floats, 5 to NaN, and some zeros to -0.
fn floats<T: ArrowPrimitiveType>(column: &ArrayRef, nan: T::Native, zero: T::Native) -> ArrayRef {
    let numbers = column.as_primitive::<arrow_array::types::Int64Type>();
    let values = cast(column, &T::DATA_TYPE).unwrap();
    let values = values.as_primitive::<T>();
    let value = |row: usize| match numbers.value(row) {
        _ if numbers.is_null(row) => None,
        5 => Some(nan),
        0 if row.is_multiple_of(2) => Some(zero),
        _ => Some(values.value(row)),
    };
    Arc::new((0..numbers.len()).map(value).collect::<arrow_array::PrimitiveArray<T>>())
}

/// Sorts a table by its first `keys` columns.
pub(super) fn sorted(table: &RecordBatch, keys: usize, order: &[SortOptions]) -> RecordBatch {
    let columns = (0..keys).map(|place| {
        let values = with_one_zero(table.column(place));
        SortColumn { values, options: Some(order[place]) }
    });
    let order = lexsort_to_indices(&columns.collect::<Vec<_>>(), None).unwrap();
    take_record_batch(table, &order).unwrap()
}

/// Turns -0 into 0, so that zeros do not separate rows that differ in the next column.
fn with_one_zero(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float64 => {
            Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(|value| value + 0.0))
        }
        DataType::Float32 => {
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(|value| value + 0.0))
        }
        _ => column.clone(),
    }
}

/// Splits a table into batches of `rows` rows.
pub(super) fn split(table: &RecordBatch, rows: usize) -> Vec<RecordBatch> {
    let starts = (0..table.num_rows()).step_by(rows);
    starts.map(|start| table.slice(start, rows.min(table.num_rows() - start))).collect()
}
