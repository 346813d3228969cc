//! Tests of the division of keys into partitions.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_schema::SortOptions;
use proptest::prelude::*;

use super::*;

fn batch(column: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("k", column, true)]).unwrap()
}

fn routes(bounds: &Arc<Bounds>, encoder: &Arc<KeyEncoder>, batch: &RecordBatch, keeps: bool) -> Vec<u32> {
    let (bounds, encoder) = (Arc::clone(bounds), Arc::clone(encoder));
    let router = SideRouter { bounds, encoder, places: vec![0], keeps_unmatched: keeps };
    let mut routes = Vec::new();
    router.route(batch, &mut routes).unwrap();
    routes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn partitions_follow_the_order_of_the_keys_and_single_ones_have_one_key(
        sample in prop::collection::vec(prop::option::weighted(0.9, 0_i64..12), 0..60),
        rows in prop::collection::vec(prop::option::weighted(0.9, -3_i64..15), 1..60),
        is_text in any::<bool>(),
        parts in 1_usize..9,
    ) {
        let column = |values: &[Option<i64>]| -> ArrayRef {
            if !is_text {
                return Arc::new(Int64Array::from(values.to_vec()));
            }
            let text = |value: &Option<i64>| value.map(|value| "a".repeat((value + 3) as usize));
            Arc::new(values.iter().map(text).collect::<StringArray>())
        };
        let (sample, rows_batch) = (batch(column(&sample)), batch(column(&rows)));
        let data_type = sample.column(0).data_type().clone();
        let encoder = Arc::new(KeyEncoder::new(&[(data_type, SortOptions::default())]).unwrap());
        let bounds = Bounds::new(&encoder, &[Sample { keys: &sample, row_weight: 2.0 }], parts).unwrap();
        let bounds = Arc::new(bounds);
        prop_assert!(bounds.partitions() <= parts + 2, "{} of {parts}", bounds.partitions());
        let routes_of_rows = routes(&bounds, &encoder, &rows_batch, true);
        let mut placed: Vec<(i64, u32)> = Vec::new();
        for (value, &route) in rows.iter().zip(&routes_of_rows) {
            match value {
                Some(value) => placed.push((*value, route)),
                None => prop_assert_eq!(route as usize, bounds.partitions() - 1),
            }
        }
        placed.sort_unstable();
        prop_assert!(placed.is_sorted_by_key(|(_, route)| *route));
        for pair in placed.windows(2).filter(|pair| pair[0].1 == pair[1].1) {
            let is_single = bounds.singles[pair[0].1 as usize];
            prop_assert!(!is_single || pair[0].0 == pair[1].0, "{pair:?}");
        }
        let dropped = routes(&bounds, &encoder, &rows_batch, false);
        prop_assert!(rows.iter().zip(dropped).all(|(value, route)| value.is_none() == (route == DROPPED_ROW_ROUTE)));
    }
}

#[test]
fn a_frequent_key_gets_a_partition_and_weights_balance_the_sides() {
    let key = |value: u64| Key::Narrow(value);
    let weighted: Vec<(Key, f64)> =
        (0..100).map(|row| (key(if (20..80).contains(&row) { 50 } else { row }), 1.0)).collect();
    let mut sorted = weighted.clone();
    sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
    let (splitters, singles) = quantiles(&sorted, 10);
    let place = splitters.iter().position(|splitter| *splitter == key(50)).unwrap();
    assert_eq!(splitters[place + 1], key(51));
    assert!(singles[place + 1]);
    assert_eq!(singles.iter().filter(|&&is_single| is_single).count(), 1);
    // The light half of the rows is one part of two.
    let weighted: Vec<(Key, f64)> = (0..10).map(|row| (key(row), if row < 9 { 1.0 } else { 9.0 })).collect();
    assert_eq!(quantiles(&weighted, 2).0, [key(9)]);
}
