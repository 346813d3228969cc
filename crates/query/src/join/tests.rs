//! Tests of joins against a nested-loop join.

mod faults;
mod hash;
mod operator;
mod oracle;
mod tables;

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SortOptions};
use proptest::prelude::*;
use sakiyomi_testing::Scratch;

use super::*;
use crate::batches::InMemory;
use crate::{Batches, Error, Job, JobOptions};
use oracle::{joined, rows_of};
use tables::{KEY_TYPES, Side, sorted, split, table};

/// Memory limit of the test jobs: their buffers suffice for one run being written and one being read.
const TEST_MEMORY_BYTES: usize = 8 << 20;

fn job(scratch: &Scratch) -> Job {
    let spill = vec![scratch.root().to_owned()];
    Job::new(JobOptions { memory: TEST_MEMORY_BYTES, threads: 2, spill, ..JobOptions::default() }).unwrap()
}

fn collect(mut batches: impl Batches) -> Result<Vec<RecordBatch>, Error> {
    let mut all = Vec::new();
    while let Some(batch) = batches.next()? {
        assert!(batch.num_rows() > 0, "a batch has rows");
        assert_eq!(batch.schema(), batches.schema());
        all.push(batch);
    }
    Ok(all)
}

fn stream(table: &RecordBatch, batch_rows: usize) -> Box<dyn Batches> {
    Box::new(InMemory::new(table.schema(), split(table, batch_rows)))
}

fn ints(name: &str, values: &[Option<i64>]) -> RecordBatch {
    let fields = vec![Field::new(name, DataType::Int64, true)];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![Arc::new(Int64Array::from(values.to_vec()))])
        .unwrap()
}

fn kinds() -> impl Strategy<Value = JoinKind> {
    prop::sample::select(JOIN_KINDS.to_vec())
}

/// Key values: few distinct ones, and some nulls.
fn values() -> impl Strategy<Value = Vec<Vec<Option<i64>>>> {
    let value = prop_oneof![1 => Just(None), 8 => (-3_i64..6).prop_map(Some)];
    prop::collection::vec(prop::collection::vec(value, 3), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_merge_join_gives_what_a_nested_loop_gives(
        kind in kinds(),
        (left, right) in (values(), values()),
        types in prop::collection::vec(0..KEY_TYPES.len(), 1..4),
        descending in prop::collection::vec(any::<bool>(), 3),
        nulls_first in any::<bool>(),
        (left_rows, right_rows, batch_rows) in (1_usize..12, 1_usize..12, 4_usize..20),
        spare in prop::option::of(0_usize..20_000),
    ) {
        let scratch = Scratch::new("join");
        let job = job(&scratch);
        let _rest = spare.map(|spare| job.reserve(job.available().saturating_sub(spare), "a test").unwrap());
        let order: Vec<SortOptions> = descending[..types.len()]
            .iter()
            .map(|&descending| SortOptions { descending, nulls_first })
            .collect();
        let left = sorted(&table(Side::Left, &types, &left), types.len(), &order);
        let right = sorted(&table(Side::Right, &types, &right), types.len(), &order);
        let places: Vec<(usize, usize)> = (0..types.len()).map(|place| (place, place)).collect();
        let condition = Condition::new(&places, &left.schema(), &right.schema()).unwrap();
        let join = MergeJoin::with_batch_rows(
            &job,
            stream(&left, left_rows),
            stream(&right, right_rows),
            &condition,
            &order,
            kind,
            batch_rows,
        );
        let join = join.unwrap();
        let schema = join.schema();
        let found = collect(join).unwrap();
        // Semi joins can return slices of left batches.
        let rows_max = if kind == JoinKind::Semi { batch_rows.max(left_rows) } else { batch_rows };
        prop_assert!(found.iter().all(|batch| batch.num_rows() <= rows_max));
        let mut rows: Vec<Vec<String>> = found.iter().flat_map(rows_of).collect();
        let mut expected = joined(kind, &left, &right, &condition, &schema);
        rows.sort();
        expected.sort();
        prop_assert_eq!(rows, expected);
    }
}

#[test]
fn the_result_of_an_inner_join_is_in_the_order_of_its_keys() {
    let scratch = Scratch::new("join");
    let job = job(&scratch);
    let values = |step: i64| (0..500).map(|row| Some(row / step)).collect::<Vec<_>>();
    let (left, right) = (ints("k", &values(3)), ints("k", &values(2)));
    let condition = Condition::parse("k", &left.schema(), &right.schema()).unwrap();
    let order = [SortOptions::default()];
    let join =
        MergeJoin::new(&job, stream(&left, 64), stream(&right, 50), &condition, &order, JoinKind::Inner);
    let keys: Vec<i64> = collect(join.unwrap())
        .unwrap()
        .iter()
        .flat_map(|batch| batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec())
        .collect();
    // 3 times 2 pairs for each common key: 166 complete keys, and 2 left rows of the last key.
    assert_eq!(keys.len(), 166 * 6 + 2 * 2);
    assert!(keys.is_sorted());
}

#[test]
fn the_rows_of_a_foreign_key_are_not_copied() {
    let scratch = Scratch::new("join");
    let job = job(&scratch);
    let left = ints("k", &(0..4000).map(|row| Some(row / 4)).collect::<Vec<_>>());
    let right = ints("k2", &(0..1000).map(Some).collect::<Vec<_>>());
    let condition = Condition::parse("k=k2", &left.schema(), &right.schema()).unwrap();
    let order = [SortOptions::default()];
    let join =
        MergeJoin::new(&job, stream(&left, 4000), stream(&right, 1000), &condition, &order, JoinKind::Inner);
    let found = collect(join.unwrap()).unwrap();
    let values = |batch: &RecordBatch| {
        let values = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().as_ptr();
        values as usize
    };
    assert_eq!(values(&found[0]), values(&left));
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 4000);
}

#[test]
fn a_group_that_exceeds_memory_is_spilled_and_joined_in_full() {
    let scratch = Scratch::new("join");
    let job = job(&scratch);
    let text = "a value that takes some memory when there are many";
    let table = |name: &str, rows: usize| {
        let fields = vec![Field::new("k", DataType::Int64, false), Field::new(name, DataType::Utf8, false)];
        let keys = Int64Array::from(vec![7; rows]);
        let values: StringArray = (0..rows).map(|row| Some(format!("{text} {row}"))).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![Arc::new(keys), Arc::new(values)]).unwrap()
    };
    let (left, right) = (table("a", 1500), table("b", 2000));
    let rest = job.reserve(job.available() - (60 << 10), "a test").unwrap();
    let condition = Condition::parse("k", &left.schema(), &right.schema()).unwrap();
    let order = [SortOptions::default()];
    let streams = || {
        // Batches with separate memory.
        let own = |table: &RecordBatch| {
            let batches = split(table, 100)
                .into_iter()
                .map(|batch| arrow_select::concat::concat_batches(&batch.schema(), [&batch]).unwrap());
            Box::new(InMemory::new(table.schema(), batches.collect()))
        };
        (own(&left), own(&right))
    };
    let (ours, theirs) = streams();
    let mut join = MergeJoin::new(&job, ours, theirs, &condition, &order, JoinKind::Full).unwrap();
    let mut rows = 0;
    let mut pairs = vec![false; 1500 * 2000];
    while let Some(batch) = join.next().unwrap() {
        rows += batch.num_rows();
        let number = |column: usize, row: usize| {
            let values = batch.column(column).as_any().downcast_ref::<StringArray>().unwrap();
            values.value(row).rsplit(' ').next().unwrap().parse::<usize>().unwrap()
        };
        for row in 0..batch.num_rows() {
            pairs[number(1, row) * 2000 + number(2, row)] = true;
        }
        assert!(job.available() <= 60 << 10);
    }
    assert_eq!(rows, 1500 * 2000);
    assert!(pairs.iter().all(|&seen| seen));
    drop((join, rest));
}

#[test]
fn wide_rows_that_many_partners_repeat_come_in_small_batches() {
    let scratch = Scratch::new("join");
    let job = job(&scratch);
    let fields = vec![Field::new("k", DataType::Int64, false), Field::new("wide", DataType::Utf8, false)];
    let text = "x".repeat(1 << 20);
    let columns: Vec<arrow_array::ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![1, 2])), Arc::new(StringArray::from(vec!["short", &text]))];
    let right = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let left = ints("k", &(0..100).map(|row| Some(1 + row / 50)).collect::<Vec<_>>());
    let condition = Condition::parse("k", &left.schema(), &right.schema()).unwrap();
    let order = [SortOptions::default()];
    let merge =
        MergeJoin::new(&job, stream(&left, 100), stream(&right, 2), &condition, &order, JoinKind::Inner);
    let (ours, theirs) = (stream(&left, 100), stream(&right, 2));
    let hash = HashJoin::new(&job, ours, theirs, &condition, JoinKind::Inner, JoinSide::Right);
    let both: [Box<dyn Batches>; 2] = [Box::new(merge.unwrap()), Box::new(hash.unwrap())];
    for mut join in both {
        let mut rows = 0;
        while let Some(batch) = join.next().unwrap() {
            assert!(crate::batch_bytes::batch_bytes(&batch) <= 2 << 20, "{} rows", batch.num_rows());
            rows += batch.num_rows();
        }
        assert_eq!(rows, 100);
    }
}

#[test]
fn a_group_without_a_place_to_spill_is_an_error() {
    let scratch = Scratch::new("join");
    let spill = vec![scratch.path("missing")];
    let job = Job::new(JobOptions { memory: TEST_MEMORY_BYTES, spill, ..JobOptions::default() }).unwrap();
    let _rest = job.reserve(job.available(), "a test").unwrap();
    let table = ints("k", &[Some(1); 100]);
    let condition = Condition::parse("k", &table.schema(), &table.schema()).unwrap();
    let order = [SortOptions::default()];
    let join =
        MergeJoin::new(&job, stream(&table, 10), stream(&table, 10), &condition, &order, JoinKind::Inner);
    let error = collect(join.unwrap()).unwrap_err().to_string();
    assert!(error.contains("missing"), "{error}");
}

#[test]
fn a_side_that_is_not_sorted_is_an_error() {
    let scratch = Scratch::new("join");
    let job = job(&scratch);
    let sorted = ints("k", &[Some(1), Some(2), Some(3)]);
    for (rows, batch_rows, place) in [(vec![Some(2), Some(1)], 5, 1), (vec![Some(2), Some(1)], 1, 1)] {
        let unsorted = ints("k", &rows);
        let condition = Condition::parse("k", &sorted.schema(), &unsorted.schema()).unwrap();
        let order = [SortOptions::default()];
        let (left, right) = (stream(&sorted, 5), stream(&unsorted, batch_rows));
        let join = MergeJoin::new(&job, left, right, &condition, &order, JoinKind::Full);
        let error = collect(join.unwrap()).unwrap_err().to_string();
        assert!(error.contains(&format!("row {place} of the right side is out of order")), "{error}");
    }
}

#[test]
fn an_error_of_a_side_is_an_error_of_the_join() {
    struct Failing(RecordBatch, usize);
    impl Batches for Failing {
        fn schema(&self) -> arrow_schema::SchemaRef {
            self.0.schema()
        }

        fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
            self.1 = self.1.checked_sub(1).ok_or(Error::Cancelled)?;
            Ok(Some(self.0.clone()))
        }
    }
    let scratch = Scratch::new("join");
    let job = job(&scratch);
    let table = ints("k", &[Some(1); 3]);
    let condition = Condition::parse("k", &table.schema(), &table.schema()).unwrap();
    for (kind, batches) in JOIN_KINDS.into_iter().flat_map(|kind| (0..4).map(move |batches| (kind, batches)))
    {
        let order = [SortOptions::default()];
        let (left, right) = (stream(&table, 2), Box::new(Failing(table.clone(), batches)));
        let join = MergeJoin::new(&job, left, right, &condition, &order, kind).unwrap();
        assert!(matches!(collect(join), Err(Error::Cancelled)), "{kind} after {batches}");
    }
}

#[test]
fn columns_of_a_name_that_is_taken_get_a_suffix_and_equal_keys_appear_once() {
    let schema = |names: &[&str]| {
        Schema::new(names.iter().map(|name| Field::new(*name, DataType::Int64, false)).collect::<Vec<_>>())
    };
    let (left, right) = (schema(&["k", "a", "x"]), schema(&["k", "x", "b", "x_right"]));
    let names = |on: &str, kind| {
        let condition = Condition::parse(on, &left, &right).unwrap();
        let layout = layout::Layout::new(&left, &right, &condition, kind);
        let fields = layout.schema.fields();
        fields
            .iter()
            .map(|field| format!("{}{}", field.name(), if field.is_nullable() { "?" } else { "" }))
            .collect()
    };
    let names = |on: &str, kind| -> Vec<String> { names(on, kind) };
    assert_eq!(names("k", JoinKind::Inner), ["k", "a", "x", "x_right", "b", "x_right_right"]);
    assert_eq!(names("a=x", JoinKind::Left), ["k", "a", "x", "k_right?", "x_right?", "b?", "x_right_right?"]);
    assert_eq!(names("k", JoinKind::Right), ["k", "a?", "x?", "x_right", "b", "x_right_right"]);
    // Names are found as elsewhere, whatever their case.
    assert_eq!(names("K", JoinKind::Anti), ["k", "a", "x"]);
    assert_eq!(names("k", JoinKind::Anti), ["k", "a", "x"]);
}

#[test]
fn columns_have_the_types_of_their_own_source_whatever_they_are_called() {
    let schema = |fields: &[(&str, DataType)]| {
        let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), false);
        Schema::new(fields.iter().map(field).collect::<Vec<_>>())
    };
    let int = || DataType::Int64;
    let left = schema(&[("k", int()), ("a", int())]);
    for right in [
        [("k", int()), ("a", DataType::Float64), ("a_right", DataType::Int32)],
        [("k", int()), ("a_right", DataType::Int32), ("a", DataType::Float64)],
    ] {
        let right = schema(&right);
        let condition = Condition::parse("k", &left, &right).unwrap();
        for kind in [JoinKind::Inner, JoinKind::Full, JoinKind::Semi] {
            let joined = crate::join::schema(&left, &right, &condition, kind);
            let typed = crate::join::schema_with_types([&left, &right], &condition, kind, [&left, &right]);
            assert_eq!(typed, joined, "{kind}");
        }
    }
}

#[test]
fn conditions_that_are_not_possible_are_refused_with_a_sentence() {
    let schema = Schema::new(vec![
        Field::new("i", DataType::Int64, false),
        Field::new("f", DataType::Float64, false),
        Field::new("s", DataType::Utf8, false),
    ]);
    for (on, sentence) in [
        ("", "is not a join condition"),
        ("i,", "is not a join condition"),
        ("x", "no column of the left table is named x; the columns are i, f, s"),
        ("i=x", "no column of the right table is named x; the columns are i, f, s"),
        ("i=f", "cannot compare `i` (Int64) with `f` (Float64); cast one of them with --select"),
        ("s=i", "cannot compare `s` (Utf8) with `i` (Int64); cast one of them with --select"),
    ] {
        let error = Condition::parse(on, &schema, &schema).unwrap_err().to_string();
        assert!(error.contains(sentence), "{error}");
    }
    assert!(
        "outer".parse::<JoinKind>().unwrap_err().to_string().contains("inner, left, right, full, semi, anti")
    );
}
