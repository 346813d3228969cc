//! Tests of whole joins of unsorted and sorted sides.

use arrow_array::{ArrayRef, Float64Array};

use super::*;
use crate::sort::SortOptions as Sort;

/// How the sides of a random join are given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) streams: usize,
    pub(super) batch_rows: usize,
    /// Bytes of buffers, if few.
    pub(super) memory: Option<usize>,
    /// Whether a side has a sample; it comes from that many of its rows.
    pub(super) sample_rows: Option<usize>,
}

fn given() -> impl Strategy<Value = Given> {
    let memory = prop_oneof![1 => Just(None), 3 => (300_usize << 10..1 << 20).prop_map(Some)];
    let sample_rows = prop_oneof![1 => Just(None), 5 => (0_usize..40).prop_map(Some)];
    (1_usize..5, 1_usize..12, memory, sample_rows).prop_map(|(streams, batch_rows, memory, sample_rows)| {
        Given { streams, batch_rows, memory, sample_rows }
    })
}

/// Splits a table into streams.
pub(super) fn streams(table: &RecordBatch, given: Given) -> Vec<Box<dyn Batches>> {
    let batches = split(table, given.batch_rows);
    let stream = |first: usize| -> Box<dyn Batches> {
        let of_stream = batches.iter().skip(first).step_by(given.streams).cloned().collect();
        Box::new(InMemory::new(table.schema(), of_stream))
    };
    (0..given.streams).map(stream).collect()
}

pub(super) fn input(table: &RecordBatch, keys: usize, given: Given) -> JoinInput<'static> {
    let places: Vec<usize> = (0..keys).collect();
    let sample = given.sample_rows.map(|rows| {
        let step = (table.num_rows() / rows.max(1)).max(1);
        let taken = (0..table.num_rows()).step_by(step).take(rows).map(|row| row as u32);
        let taken = arrow_array::UInt32Array::from_iter_values(taken);
        arrow_select::take::take_record_batch(&table.project(&places).unwrap(), &taken).unwrap()
    });
    let sort = Sort {
        sample,
        expected_bytes: Some(table.get_array_memory_size() as u64),
        expected_rows: Some(table.num_rows() as u64),
        memory: given.memory.map(|bytes| bytes / 2),
        resident: given.memory.map_or(1 << 20, |bytes| bytes / 8),
        block: 4096,
        batch_rows: 1 + given.batch_rows * 7,
        ..Sort::default()
    };
    JoinInput::of_streams(streams(table, given), false, sort)
}

/// Reads all parts with several threads; returns the rows in the order of the parts.
pub(super) fn in_parallel(joined: &Joined, threads: usize) -> Vec<RecordBatch> {
    let parts = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((number, part)) = joined.next_part().unwrap() {
                    let rows = collect(part).unwrap();
                    parts.lock().unwrap().push((number, rows));
                }
            });
        }
    });
    let mut parts = parts.into_inner().unwrap();
    parts.sort_by_key(|(number, _)| *number);
    assert!(parts.iter().enumerate().all(|(place, (number, _))| place == *number), "each number once");
    parts.into_iter().flat_map(|(_, rows)| rows).collect()
}

pub(super) fn of_threads(scratch: &Scratch, threads: usize) -> Job {
    let spill = vec![scratch.root().to_owned()];
    Job::new(JobOptions { memory: TEST_MEMORY_BYTES, threads, spill, ..JobOptions::default() }).unwrap()
}

fn methods() -> impl Strategy<Value = JoinMethod> {
    prop_oneof![
        3 => Just(JoinMethod::Merge),
        1 => Just(JoinMethod::Hash(JoinSide::Left)),
        1 => Just(JoinMethod::Hash(JoinSide::Right)),
    ]
}

/// Key values: few distinct ones, one of which may be frequent, and some nulls.
pub(super) fn skewed() -> impl Strategy<Value = Vec<Vec<Option<i64>>>> {
    let frequent = prop_oneof![Just(0_u32), Just(8), Just(1000)];
    let rows = prop_oneof![1 => Just(0_usize), 6 => 1_usize..80];
    (frequent, rows).prop_flat_map(|(weight, rows)| {
        let value = prop_oneof![1 => Just(None), weight => Just(Some(2)), 8 => (-30_i64..60).prop_map(Some)];
        prop::collection::vec(prop::collection::vec(value, 3), rows)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sides_in_any_order_are_divided_sorted_or_hashed_and_joined(
        kind in kinds(),
        (left, right) in (skewed(), skewed()),
        types in prop::collection::vec(0..KEY_TYPES.len(), 1..4),
        (ours, theirs) in (given(), given()),
        method in methods(),
        threads in 1_usize..5,
    ) {
        let scratch = Scratch::new("join");
        let job = of_threads(&scratch, threads);
        let (left, right) = (table(Side::Left, &types, &left), table(Side::Right, &types, &right));
        let places: Vec<(usize, usize)> = (0..types.len()).map(|place| (place, place)).collect();
        let condition = Condition::new(&places, &left.schema(), &right.schema()).unwrap();
        let inputs = (input(&left, types.len(), ours), input(&right, types.len(), theirs));
        let joined_rows = join(&job, inputs.0, inputs.1, &condition, kind, method).unwrap();
        let schema = joined_rows.schema();
        let found = in_parallel(&joined_rows, threads);
        drop(joined_rows);
        let mut rows: Vec<Vec<String>> = found.iter().flat_map(rows_of).collect();
        let mut expected = joined(kind, &left, &right, &condition, &schema);
        rows.sort();
        expected.sort();
        prop_assert_eq!(rows, expected);
        job.reserve(job.available(), "a test").unwrap();
    }
}

/// A table of keys and texts, in a pseudo-random order of rows.
pub(super) fn large(name: &str, keys: impl Iterator<Item = Option<i64>>) -> RecordBatch {
    let fields = vec![Field::new("k", DataType::Int64, true), Field::new(name, DataType::Utf8, false)];
    let keys: Vec<Option<i64>> = keys.collect();
    let texts: StringArray = (0..keys.len()).map(|row| Some(format!("{name} of the row {row}"))).collect();
    RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        vec![Arc::new(Int64Array::from(keys)), Arc::new(texts)],
    )
    .unwrap()
}

/// A permutation of `0..rows`, which must not be a multiple of 7919.
pub(super) fn permuted(rows: i64) -> impl Iterator<Item = i64> {
    (0..rows).map(move |row| row * 7919 % rows)
}

pub(super) const TIGHT_MEMORY: Given =
    Given { streams: 2, batch_rows: 500, memory: Some(400 << 10), sample_rows: Some(1000) };

fn phases(job: &Job) -> Vec<String> {
    job.phases().list().into_iter().map(|phase| phase.name).collect()
}

#[test]
fn spilled_sides_give_each_pair_once_in_key_order_with_phases_of_each_side() {
    let scratch = Scratch::new("join");
    let left = large("a", permuted(30_000).map(|row| (row % 50 != 0).then_some(row / 3)));
    let right = large("b", permuted(15_000).map(|row| (row % 70 != 0).then_some(row)));
    let condition = Condition::parse("k", &left.schema(), &right.schema()).unwrap();
    let right_of = |key: i64| key < 15_000 && key % 70 != 0;
    let partners: usize = (0..30_000).filter(|row| row % 50 != 0 && right_of(row / 3)).count();
    let alone: usize = (0..30_000).filter(|row| row % 50 == 0 || !right_of(row / 3)).count();
    // Each key has three left rows, not all of which are null.
    let right_alone = (0..15_000).filter(|&key| !right_of(key) || key >= 10_000).count();
    for (kind, rows) in [
        (JoinKind::Inner, partners),
        (JoinKind::Left, partners + alone),
        (JoinKind::Full, partners + alone + right_alone),
        (JoinKind::Semi, partners),
        (JoinKind::Anti, alone),
    ] {
        let job = of_threads(&scratch, 2);
        let inputs = (input(&left, 1, TIGHT_MEMORY), input(&right, 1, TIGHT_MEMORY));
        let found = join(&job, inputs.0, inputs.1, &condition, kind, JoinMethod::Merge).unwrap();
        assert!(found.is_ordered() && found.is_parallel());
        let found = in_parallel(&found, 2);
        assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), rows, "{kind}");
        let keys: Vec<Option<i64>> = found
            .iter()
            .flat_map(|batch| {
                batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().iter().collect::<Vec<_>>()
            })
            .collect();
        let first_null = keys.iter().position(Option::is_none).unwrap_or(keys.len());
        assert!(keys[..first_null].is_sorted(), "{kind}");
        assert!(keys[first_null..].iter().all(Option::is_none), "{kind}: null keys are last");
        let names = phases(&job);
        for name in ["read", "write runs", "read runs", "sort", "gather"] {
            for side in ["left", "right"] {
                assert!(names.contains(&format!("{name} {side}")), "{name} {side} of {names:?}");
            }
        }
        assert!(names.contains(&"join".to_owned()) && !names.contains(&"read".to_owned()), "{names:?}");
        assert!(job.phases().spilled_bytes() > 500_000);
    }
}

#[test]
fn one_key_in_all_rows_and_partitions_that_exceed_their_memory_are_joined() {
    let scratch = Scratch::new("join");
    let rows = 20_000;
    // A sample of one key makes a partition of all other keys.
    let ranges = large("a", permuted(rows).map(Some));
    let equal = large("a", (0..rows).map(|_| Some(7)));
    let nulls = large("a", (0..rows).map(|_| None));
    let few = large("b", [Some(7), None, Some(3), Some(rows + 5)].into_iter());
    let condition = Condition::parse("k", &equal.schema(), &few.schema()).unwrap();
    for (left, inner, full) in [(&ranges, 2, rows + 2), (&equal, rows, rows + 3), (&nulls, 0, rows + 4)] {
        for sample_rows in [0, 1, 1000] {
            for (kind, expected) in [(JoinKind::Inner, inner), (JoinKind::Full, full)] {
                let job = of_threads(&scratch, 3);
                let given = Given { sample_rows: Some(sample_rows), ..TIGHT_MEMORY };
                let (ours, theirs) = (input(left, 1, given), input(&few, 1, TIGHT_MEMORY));
                let found = join(&job, ours, theirs, &condition, kind, JoinMethod::Merge).unwrap();
                let found = in_parallel(&found, 3);
                let found: usize = found.iter().map(RecordBatch::num_rows).sum();
                assert_eq!(found as i64, expected, "{kind} with {sample_rows} sampled rows");
            }
        }
    }
}

#[test]
fn partitions_without_a_partner_are_not_read() {
    let scratch = Scratch::new("join");
    let left = large("a", permuted(20_000).map(Some));
    let right = large("b", permuted(20_000).map(|row| Some(row + 1_000_000)));
    let condition = Condition::parse("k", &left.schema(), &right.schema()).unwrap();
    let job = of_threads(&scratch, 2);
    let inputs = (input(&left, 1, TIGHT_MEMORY), input(&right, 1, TIGHT_MEMORY));
    let found = join(&job, inputs.0, inputs.1, &condition, JoinKind::Inner, JoinMethod::Merge).unwrap();
    assert!(in_parallel(&found, 2).is_empty());
    let bytes = |name: &str| -> u64 {
        let list = job.phases().list();
        list.iter().filter(|phase| phase.name.starts_with(name)).map(|phase| phase.bytes).sum()
    };
    // At most the partition around the boundary.
    assert!(bytes("read runs") < bytes("write runs") / 4, "{:?}", job.phases().list());
}

#[test]
fn a_hash_join_that_exceeds_memory_spills_and_one_that_fits_has_a_part_for_each_stream() {
    let scratch = Scratch::new("join");
    let (left, right) = (large("a", permuted(20_000).map(Some)), large("b", permuted(9_000).map(Some)));
    let condition = Condition::parse("k", &left.schema(), &right.schema()).unwrap();
    for (spare, is_spilled) in [(None, false), (Some(600 << 10), true)] {
        let job = of_threads(&scratch, 2);
        let _rest = spare.map(|spare: usize| job.reserve(job.available() - spare, "a test").unwrap());
        for (kind, rows) in [(JoinKind::Inner, 9_000), (JoinKind::Full, 20_000), (JoinKind::Anti, 11_000)] {
            let inputs = (input(&left, 1, TIGHT_MEMORY), input(&right, 1, TIGHT_MEMORY));
            let method = JoinMethod::Hash(JoinSide::Right);
            let found = join(&job, inputs.0, inputs.1, &condition, kind, method).unwrap();
            assert!(found.is_parallel() && !found.is_ordered());
            let found = in_parallel(&found, 2);
            assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), rows, "{kind}");
        }
        assert_eq!(job.phases().spilled_bytes() > 0, is_spilled);
        let names = phases(&job);
        let needed = ["read left", "read right", "build right", "join"];
        assert!(needed.iter().all(|name| names.iter().any(|known| known == name)), "{names:?}");
    }
}

#[test]
fn the_method_is_a_hash_join_only_if_the_smaller_side_is_small() {
    let job = Job::new(JobOptions { memory: 64 << 20, ..JobOptions::default() }).unwrap();
    let mebibytes = |count: u64| Some((count << 20, 1000));
    let choose = |left, right| JoinMethod::choose(&job, left, right);
    assert_eq!(choose(mebibytes(1000), mebibytes(2)), JoinMethod::Hash(JoinSide::Right));
    assert_eq!(choose(mebibytes(1), mebibytes(2)), JoinMethod::Hash(JoinSide::Left));
    assert_eq!(choose(mebibytes(7), mebibytes(8)), JoinMethod::Merge);
    assert_eq!(choose(Some((1000, u64::MAX)), None), JoinMethod::Merge);
    assert_eq!(choose(None, None), JoinMethod::Merge);
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
        let input = |table: &RecordBatch| {
            JoinInput::of_streams(vec![stream(table, 7)], method == JoinMethod::Merge, Sort::default())
        };
        let found = join(&job, input(&left), input(&right), &condition, JoinKind::Full, method).unwrap();
        let mut rows: Vec<Vec<String>> =
            collect(found.into_batches()).unwrap().iter().flat_map(rows_of).collect();
        rows.sort();
        results.push(rows);
        let is_sorted = job.phases().list().iter().any(|phase| phase.name.starts_with("sort "));
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
    let input = || JoinInput::of_streams(vec![stream(&table, 100)], true, Sort::default());
    let found = join(&job, input(), input(), &condition, JoinKind::Inner, JoinMethod::Merge).unwrap();
    assert!(found.is_ordered() && !found.is_parallel());
    assert_eq!(collect(found.into_batches()).unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 1000);
    let mut names = phases(&job);
    names.sort();
    assert_eq!(names, ["join", "read left", "read right"]);
}

#[test]
fn a_result_that_is_dropped_early_ends_its_threads() {
    let scratch = Scratch::new("join");
    let job = job(&scratch);
    let table = ints("k", &(0..1000).map(Some).collect::<Vec<_>>());
    let condition = Condition::parse("k", &table.schema(), &table.schema()).unwrap();
    for method in [JoinMethod::Merge, JoinMethod::Hash(JoinSide::Right)] {
        for is_sorted in [false, true] {
            let ours = JoinInput::of_streams(vec![stream(&table, 10)], is_sorted, Sort::default());
            let found = join(&job, ours, input(&table, 1, TIGHT_MEMORY), &condition, JoinKind::Inner, method);
            let mut found = found.unwrap().into_batches();
            assert!(found.next().unwrap().is_some());
            drop(found);
            job.reserve(job.available(), "a test").unwrap();
        }
    }
    let found = join(
        &job,
        input(&table, 1, TIGHT_MEMORY),
        input(&table, 1, TIGHT_MEMORY),
        &condition,
        JoinKind::Inner,
        JoinMethod::Merge,
    );
    let mut found = found.unwrap().into_batches();
    assert!(found.next().unwrap().is_some());
    drop(found);
    job.reserve(job.available(), "a test").unwrap();
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
            let input = |table: &RecordBatch| {
                JoinInput::of_streams(vec![stream(table, 1000)], false, crate::sort::SortOptions::default())
            };
            let condition = Condition::parse("k", &left.schema(), &right.schema()).unwrap();
            let job = job(&scratch);
            let found = join(&job, input(&left), input(&right), &condition, JoinKind::Full, method).unwrap();
            let mut found: Vec<Vec<String>> =
                collect(found.into_batches()).unwrap().iter().flat_map(rows_of).collect();
            found.sort();
            let expected: Vec<Vec<String>> = texts(0..rows).into_iter().map(|text| vec![text]).collect();
            assert_eq!(found, expected, "{method:?}");
        }
    }
}
