use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::SortOptions;
use proptest::prelude::*;
use std::cmp::Ordering;
use std::sync::Arc;

use super::*;
use crate::order::SortKey;
use crate::sort::key::digit::{self};
use crate::sort::row::RowView;
use crate::sort::row::layout::Layout;
use crate::sort::row::stage::Stage;
use crate::sort::row::view::Viewer;

/// Returns the ranges of the keys of rows.
fn ranges(layout: &Layout, keys: &Keys, rows: &[RowView<'_>]) -> Vec<Range> {
    let mut ranges = vec![Range::none(); keys.columns.len()];
    for (column, range) in keys.columns.iter().zip(&mut ranges) {
        let mut digits = Digits::default();
        digit::extend(layout, column, &Prefix::default(), rows.iter().copied(), &mut digits);
        range.add(column, &digits);
        range.add_bytes(layout, column, rows.iter().copied());
    }
    ranges
}

fn codes(layout: &Layout, keys: &Keys, packing: &Packing, rows: &[RowView<'_>]) -> Vec<u64> {
    let mut digits: Vec<Digits> = (0..keys.columns.len()).map(|_| Digits::default()).collect();
    for (key, (column, digits)) in keys.columns.iter().zip(&mut digits).enumerate() {
        if packing.has(key) {
            digit::extend(layout, column, packing.prefix(key), rows.iter().copied(), digits);
        }
    }
    let mut codes = Vec::new();
    packing.codes(keys, &digits, rows.len(), &mut codes);
    codes
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ab\0]{0,9}", "shared[a-c]{0,3}", "shared text[\0-\x7f]{0,12}", Just("é".to_owned())]
}

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![-3..4_i64, 1000..1100_i64, any::<i64>(), Just(i64::MAX), Just(i64::MIN)]
}

/// Numbers that need slightly more bits than the other columns leave.
fn near() -> impl Strategy<Value = i64> {
    prop_oneof![0..4_i64, (0..62_u32).prop_map(|bits| 1 << bits), number()]
}

type Row = (Option<i64>, Option<String>, Option<i64>);

fn batch(rows: &[Row]) -> RecordBatch {
    let numbers =
        |n: &dyn Fn(&Row) -> Option<i64>| Arc::new(rows.iter().map(n).collect::<Int64Array>()) as ArrayRef;
    RecordBatch::try_from_iter_with_nullable([
        ("a", numbers(&|row| row.0), true),
        ("b", Arc::new(rows.iter().map(|row| row.1.clone()).collect::<StringArray>()) as ArrayRef, true),
        ("c", numbers(&|row| row.2), true),
    ])
    .unwrap()
}

/// Checks the codes of all pairs of rows by a packing made from the first `known` rows.
fn check(batch: &RecordBatch, order: &[SortKey], known: usize, slack: bool) -> Result<(), TestCaseError> {
    let layout = Arc::new(Layout::new(&batch.schema(), order, false).unwrap());
    let keys = Keys::new(&layout, order).unwrap();
    let view = Viewer::new(&layout, &Vec::new().into()).view(batch).unwrap();
    let mut stage = Stage::new(&layout);
    stage.fill(&view, 0, batch.num_rows(), 0);
    let views: Vec<RowView<'_>> = stage.rows().collect();
    let known = known.min(views.len());
    let packing = Packing::new(&keys, &ranges(&layout, &keys, &views[..known]), slack);
    prop_assert!(packing.bits <= 64);
    let codes = codes(&layout, &keys, &packing, &views);
    for (left, &code) in views.iter().zip(&codes) {
        for (right, &other) in views.iter().zip(&codes) {
            let real = keys.compare(&layout, *left, *right);
            let by_code = code.cmp(&other);
            prop_assert!(by_code.is_eq() || by_code == real, "codes say {by_code:?}, and values {real:?}");
            if packing.is_single(&keys, code) && by_code.is_eq() {
                prop_assert_eq!(real, Ordering::Equal);
            }
        }
    }
    for (index, &code) in codes[..known].iter().enumerate().filter(|_| packing.is_lossless()) {
        for (other, &other_code) in codes[..known].iter().enumerate() {
            prop_assert_eq!(code.cmp(&other_code), keys.compare(&layout, views[index], views[other]));
        }
    }
    Ok(())
}

#[test]
fn texts_that_are_longer_than_those_known_are_not_ordered_by_later_columns() {
    let row = |number, text: &str| (number, Some(text.to_owned()), None);
    let rows = [
        row(None, "shareda"),
        row(None, "a"),
        row(None, "shared text0"),
        row(Some(0), "shared text"),
        row(Some(1), "shared text0"),
    ];
    for (descending, slack) in [(false, false), (true, false), (false, true), (true, true)] {
        let key =
            |column, descending| SortKey { column, options: SortOptions { descending, nulls_first: false } };
        check(&batch(&rows), &[key(1, descending), key(0, false)], 2, slack).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn codes_never_contradict_the_order_of_rows_and_decide_it_if_they_are_lossless(
        rows in prop::collection::vec((prop::option::of(number()), prop::option::of(text()), prop::option::of(near())), 1..60),
        known in 1..60_usize,
        order in prop::collection::vec((0..3_usize, any::<bool>(), any::<bool>()), 1..4),
        slack in any::<bool>(),
    ) {
        let batch = batch(&rows);
        let order: Vec<SortKey> = order
            .into_iter()
            .map(|(column, descending, nulls_first)| SortKey { column, options: SortOptions { descending, nulls_first } })
            .collect();
        check(&batch, &order, known, slack)?;
    }
}
