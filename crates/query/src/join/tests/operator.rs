//! Tests of whole joins of unsorted and sorted sides.

use arrow_array::{ArrayRef, Float64Array};

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sides_in_any_order_are_sorted_or_hashed_and_joined(
        kind in kinds(),
        (left, right) in (values(), values()),
        types in prop::collection::vec(0..KEY_TYPES.len(), 1..4),
        (left_rows, right_rows) in (1_usize..12, 1_usize..12),
        method in prop::sample::select(vec![JoinMethod::Merge, JoinMethod::Hash(JoinSide::Left)]),
        threads in 1_usize..3,
    ) {
        let scratch = Scratch::new("join");
        let job = job(&scratch);
        let (left, right) = (table(Side::Left, &types, &left), table(Side::Right, &types, &right));
        let places: Vec<(usize, usize)> = (0..types.len()).map(|place| (place, place)).collect();
        let condition = Condition::new(&places, &left.schema(), &right.schema()).unwrap();
        let input = |table: &RecordBatch, rows: usize| {
            let half = table.num_rows() / threads;
            let streams = (0..threads).map(|thread| {
                let end = if thread + 1 == threads { table.num_rows() } else { half };
                stream(&table.slice(thread * half, end - thread * half), rows)
            });
            JoinInput { streams: streams.collect(), is_sorted: false, sort: crate::sort::SortOptions::default() }
        };
        let found = join(&job, input(&left, left_rows), input(&right, right_rows), &condition, kind, method).unwrap();
        let schema = found.schema();
        let mut rows: Vec<Vec<String>> = collect(found).unwrap().iter().flat_map(rows_of).collect();
        let mut expected = joined(kind, &left, &right, &condition, &schema);
        rows.sort();
        expected.sort();
        prop_assert_eq!(rows, expected);
        prop_assert!(job.phases().list().iter().any(|phase| phase.name == "join"));
    }
}

#[test]
fn several_float_keys_are_merged_and_match_as_in_a_hash_join() {
    let scratch = Scratch::new("join");
    let floats = [0.0, -0.0, 1.5, f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001)];
    let table = |seed: usize| {
        let column = |step: usize| -> ArrayRef {
            let value = move |row: usize| floats.get((row * step + seed) % 7).copied();
            Arc::new((0..60).map(value).collect::<Float64Array>())
        };
        RecordBatch::try_from_iter([("a", column(1)), ("b", column(3)), ("c", column(5))]).unwrap()
    };
    let (left, right) = (table(1), table(4));
    let condition = Condition::parse("a, b", &left.schema(), &right.schema()).unwrap();
    let mut results = Vec::new();
    for method in [JoinMethod::Merge, JoinMethod::Hash(JoinSide::Left)] {
        let job = job(&scratch);
        // The order of another program is not trusted if -0 and 0 differ in it.
        let input = |table: &RecordBatch| JoinInput {
            streams: vec![stream(table, 7)],
            is_sorted: method == JoinMethod::Merge,
            sort: crate::sort::SortOptions::default(),
        };
        let found = join(&job, input(&left), input(&right), &condition, JoinKind::Full, method).unwrap();
        let mut rows: Vec<Vec<String>> = collect(found).unwrap().iter().flat_map(rows_of).collect();
        rows.sort();
        results.push(rows);
        let is_sorted = job.phases().list().iter().any(|phase| phase.name == "sort");
        assert_eq!(is_sorted, method == JoinMethod::Merge, "{:?}", job.phases().list());
    }
    assert!(results[0].len() > 120);
    assert_eq!(results[0], results[1]);
}

#[test]
fn a_side_that_is_known_to_be_sorted_is_not_sorted_again() {
    let scratch = Scratch::new("join");
    let job = job(&scratch);
    let table = ints("k", &(0..1000).map(Some).collect::<Vec<_>>());
    let condition = Condition::parse("k", &table.schema(), &table.schema()).unwrap();
    let input = || JoinInput {
        streams: vec![stream(&table, 100)],
        is_sorted: true,
        sort: crate::sort::SortOptions::default(),
    };
    let found = join(&job, input(), input(), &condition, JoinKind::Inner, JoinMethod::Merge).unwrap();
    assert_eq!(collect(found).unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 1000);
    assert!(job.phases().list().iter().all(|phase| phase.name == "join"));
}

#[test]
fn a_result_that_is_dropped_early_ends_its_threads() {
    let scratch = Scratch::new("join");
    let job = job(&scratch);
    let table = ints("k", &(0..1000).map(Some).collect::<Vec<_>>());
    let condition = Condition::parse("k", &table.schema(), &table.schema()).unwrap();
    for method in [JoinMethod::Merge, JoinMethod::Hash(JoinSide::Right)] {
        let input = |is_sorted| JoinInput {
            streams: vec![stream(&table, 10)],
            is_sorted,
            sort: crate::sort::SortOptions::default(),
        };
        let mut found = join(&job, input(true), input(false), &condition, JoinKind::Inner, method).unwrap();
        assert!(found.next().unwrap().is_some());
        drop(found);
        job.reserve(job.available(), "a test").unwrap();
    }
}

#[test]
fn keys_of_both_sides_may_be_more_than_a_narrow_dictionary_holds() {
    use arrow_array::DictionaryArray;
    use arrow_array::types::Int8Type;
    let scratch = Scratch::new("join");
    let texts = |rows: std::ops::Range<usize>| rows.map(|row| format!("key {row:03}")).collect::<Vec<_>>();
    let column = |texts: &[String]| -> ArrayRef {
        Arc::new(texts.iter().map(String::as_str).collect::<DictionaryArray<Int8Type>>())
    };
    let plain = |texts: &[String]| -> ArrayRef { Arc::new(StringArray::from_iter_values(texts)) };
    let table = |keys| RecordBatch::try_from_iter([("k", keys)]).unwrap();
    let left = table(column(&texts(0..100)));
    for (right, rows) in [
        (table(column(&texts(50..170))), 170),
        (table(plain(&texts(50..900))), 900),
        (table(plain(&[])), 100),
    ] {
        for method in [JoinMethod::Merge, JoinMethod::Hash(JoinSide::Left), JoinMethod::Hash(JoinSide::Right)]
        {
            let input = |table: &RecordBatch| JoinInput {
                streams: vec![stream(table, 1000)],
                is_sorted: false,
                sort: crate::sort::SortOptions::default(),
            };
            let condition = Condition::parse("k", &left.schema(), &right.schema()).unwrap();
            let job = job(&scratch);
            let found = join(&job, input(&left), input(&right), &condition, JoinKind::Full, method).unwrap();
            let mut found: Vec<Vec<String>> = collect(found).unwrap().iter().flat_map(rows_of).collect();
            found.sort();
            let expected: Vec<Vec<String>> = texts(0..rows).into_iter().map(|text| vec![text]).collect();
            assert_eq!(found, expected, "{method:?}");
        }
    }
}
