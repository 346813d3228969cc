use std::sync::Arc;

use arrow_array::{Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};

use super::*;

fn encode(columns: Vec<ArrayRef>, options: SortOptions) -> (KeyValues, Option<NullBuffer>) {
    let types: Vec<_> = columns.iter().map(|column| (column.data_type().clone(), options)).collect();
    let fields = columns
        .iter()
        .enumerate()
        .map(|(place, column)| Field::new(format!("{place}"), column.data_type().clone(), true));
    let fields = fields.collect::<Vec<_>>();
    let places: Vec<usize> = (0..columns.len()).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let encoder = KeyEncoder::new(&types).unwrap();
    let mut values = encoder.empty();
    let nulls = encoder.encode(&batch, &places, &mut values).unwrap();
    (values, nulls)
}

fn assert_ascends(values: &KeyValues, rows: usize) {
    for row in 1..rows {
        assert_eq!(values.compare(row, &values.owned(row - 1)), Ordering::Greater, "row {row}");
    }
}

#[test]
fn keys_compare_as_the_columns_do() {
    let first: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, 1, i64::MAX]));
    let (values, nulls) = encode(vec![first.clone()], SortOptions::default());
    assert!(matches!(values, KeyValues::Narrow(_)) && nulls.is_none());
    assert_ascends(&values, 5);

    let pairs: ArrayRef = Arc::new(Int32Array::from(vec![-5, -5, 0, 7, 7]));
    let second: ArrayRef = Arc::new(Int32Array::from(vec![i32::MIN, 3, -1, -2, i32::MAX]));
    let (values, _) = encode(vec![pairs.clone(), second.clone()], SortOptions::default());
    assert!(matches!(values, KeyValues::Narrow(_)));
    assert_ascends(&values, 5);

    let (values, _) = encode(vec![pairs, first], SortOptions::default());
    assert!(matches!(values, KeyValues::Wide(_)));
    assert_ascends(&values, 5);

    let text: ArrayRef = Arc::new(StringArray::from(vec!["", "a", "a ", "ab", "b"]));
    let (values, _) = encode(vec![text, second], SortOptions::default());
    assert!(matches!(values, KeyValues::Rows(_)));
    assert_ascends(&values, 5);
}

#[test]
fn descending_keys_compare_the_other_way_round() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![9, 3, 0, -4]));
    let options = SortOptions { descending: true, nulls_first: false };
    assert_ascends(&encode(vec![column], options).0, 4);
}

#[test]
fn all_nans_are_equal_and_above_all_numbers_and_both_zeros_are_equal() {
    let floats = vec![f64::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f64::INFINITY, f64::NAN, -f64::NAN];
    let floats: ArrayRef = Arc::new(Float64Array::from(floats));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"; 8]));
    for columns in [vec![floats.clone()], vec![floats, text]] {
        let (values, _) = encode(columns, SortOptions::default());
        let orders: Vec<Ordering> = (1..8).map(|row| values.compare(row, &values.owned(row - 1))).collect();
        let (greater, equal) = (Ordering::Greater, Ordering::Equal);
        assert_eq!(orders, [greater, greater, equal, greater, greater, greater, equal]);
    }
}

#[test]
fn a_row_has_a_null_key_if_any_column_is_null() {
    let first: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    let second: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None]));
    let (_, nulls) = encode(vec![first, second], SortOptions::default());
    let nulls = nulls.unwrap();
    assert_eq!((0..3).map(|row| nulls.is_null(row)).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn the_bytes_of_keys_are_known_before_they_are_encoded() {
    use arrow_array::builder::{ListBuilder, StringBuilder};
    use arrow_array::{DictionaryArray, StringViewArray};
    let texts = |step: usize| (0..300).map(move |row| (row % 5 > 0).then(|| "x".repeat(row * step % 400)));
    let values: StringArray = texts(11).collect();
    let keys = Int32Array::from_iter_values((0..300).map(|row| 299 - row % 7));
    let mut lists = ListBuilder::new(StringBuilder::new());
    texts(3).for_each(|text| lists.append_value([text, Some("y".into())]));
    let columns: Vec<(ArrayRef, DataType)> = vec![
        (Arc::new(values.clone()), DataType::Utf8),
        (Arc::new(texts(7).collect::<StringViewArray>()), DataType::Utf8View),
        (Arc::new(DictionaryArray::new(keys, Arc::new(values))), DataType::Utf8),
        (Arc::new((0..300).map(Some).collect::<Int64Array>()), DataType::Int64),
        (Arc::new(lists.finish()), DataType::new_list(DataType::Utf8, true)),
    ];
    for places in
        [vec![0], vec![1], vec![2], vec![3], vec![4], vec![3, 3], vec![0, 1, 2, 3], vec![3, 3, 3, 4]]
    {
        let types: Vec<_> =
            places.iter().map(|&place: &usize| (columns[place].1.clone(), SortOptions::default())).collect();
        let named = columns.iter().enumerate().map(|(at, (array, _))| (format!("{at}"), Arc::clone(array)));
        let batch = RecordBatch::try_from_iter(named).unwrap();
        let encoder = KeyEncoder::new(&types).unwrap();
        let mut keys = encoder.empty();
        encoder.encode(&batch, &places, &mut keys).unwrap();
        let actual = match &keys {
            KeyValues::Narrow(keys) => size_of_val(&keys[..]),
            KeyValues::Wide(keys) => size_of_val(&keys[..]),
            KeyValues::Rows(keys) => keys.iter().map(|key| key.data().len() + size_of::<usize>()).sum(),
        };
        let known = encoder.bytes(&batch, &places).unwrap();
        assert!((actual..2 * actual + 8192).contains(&known), "{places:?}: {known} for {actual} bytes");
    }
}
