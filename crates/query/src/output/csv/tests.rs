use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal64Array, Decimal128Array, Decimal256Array, Float64Array,
    Int64Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt64Array,
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{Field, Schema};
use proptest::prelude::*;

use super::*;

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|column| column.1).collect())
        .unwrap()
}

fn lines(batch: &RecordBatch) -> String {
    let mut out = Buf::default();
    Encoder::new(&batch.schema()).unwrap().encode(std::slice::from_ref(batch), &mut out).unwrap();
    String::from_utf8(out.as_slice().to_vec()).unwrap()
}

/// Reference lines in Arrow's display format, for rows without quotes and nulls.
fn displayed(batch: &RecordBatch) -> String {
    let options = FormatOptions::default();
    let columns: Vec<_> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let line =
        |row: usize| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(",");
    (0..batch.num_rows()).map(|row| line(row) + "\n").collect()
}

proptest! {
    #[test]
    fn numbers_decimals_and_dates_are_as_arrow_displays_them(
        rows in proptest::collection::vec((any::<i64>(), any::<u64>(), any::<i128>(), any::<i32>(), any::<f64>()), 1..20),
        scale in -3_i8..19,
    ) {
        let narrow = Decimal64Array::from_iter_values(rows.iter().map(|row| row.0 / 10));
        let wide = Decimal128Array::from_iter_values(rows.iter().map(|row| row.2 / 10));
        let batch = table(vec![
            ("i", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)))),
            ("u", Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.1)))),
            ("n", Arc::new(narrow.with_precision_and_scale(18, scale.min(18)).unwrap())),
            ("w", Arc::new(wide.with_precision_and_scale(38, scale * 2).unwrap())),
            ("d", Arc::new(Date32Array::from_iter_values(rows.iter().map(|row| row.3 % 4_000_000)))),
            ("f", Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.4)))),
            ("b", Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(row.0 > 0))))),
        ]);
        prop_assert_eq!(lines(&batch), displayed(&batch));
    }

    #[test]
    fn any_text_is_read_back(texts in proptest::collection::vec("[a,\"\n\r ä]{1,6}", 1..20)) {
        let batch = table(vec![
            ("text", Arc::new(StringArray::from_iter_values(&texts))),
            ("more", Arc::new(StringArray::from_iter_values(&texts))),
        ]);
        let lines = lines(&batch);
        let schema = batch.schema();
        let reader = arrow_csv::ReaderBuilder::new(schema).build(lines.as_bytes()).unwrap();
        let read: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
        prop_assert_eq!(read, [batch]);
    }
}

#[test]
fn nulls_are_empty_and_empty_strings_are_quoted() {
    let batch = table(vec![
        ("a", Arc::new(StringArray::from(vec![Some("x"), None, Some("")]))),
        ("b", Arc::new(Int64Array::from(vec![None, Some(-7), None]))),
    ]);
    assert_eq!(lines(&batch), "x,\n,-7\n\"\",\n");
}

#[test]
fn a_row_of_one_null_is_an_empty_line() {
    let batch = table(vec![("a", Arc::new(StringArray::from(vec![None, Some("1"), Some("")])))]);
    assert_eq!(lines(&batch), "\n1\n\"\"\n");
}

#[test]
fn a_dictionary_without_values_is_all_nulls() {
    let values = Arc::new(StringArray::from(Vec::<&str>::new()));
    let keys = arrow_array::Int8Array::from(vec![None, None]);
    let batch = table(vec![
        ("d", Arc::new(arrow_array::DictionaryArray::new(keys, values))),
        ("i", Arc::new(Int64Array::from(vec![1, 2]))),
    ]);
    assert_eq!(lines(&batch), ",1\n,2\n");
}

#[test]
fn other_types_are_as_arrow_displays_them() {
    let wide = arrow_buffer::i256::from_i128(-123_456);
    let wide = Decimal256Array::from_iter_values([wide]).with_precision_and_scale(50, 3).unwrap();
    let batch = table(vec![
        ("t", Arc::new(TimestampMillisecondArray::from_iter_values([1_600_000_000_123]))),
        ("w", Arc::new(wide)),
    ]);
    assert_eq!(lines(&batch), "2020-09-13T12:26:40.123,-123.456\n");
}
