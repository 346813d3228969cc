//! Tests aggregation against a map of rows, in memory and spilled, on random tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::*;
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use proptest::prelude::*;
use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{BufferPool, Io, Memory, Spill};
use sakiyomi_testing::Scratch;

use super::overflow::SpillPlace;
use super::run::aggregate_within;
use super::*;
use crate::batches::InMemory;
use crate::spill::{Level, SpillCompression};
use crate::{Batches, Error, Job, JobOptions};
use sakiyomi_expression::Expression;

mod merging;
mod oracle;

use oracle::{Row, expected, rows};

/// The aggregates that the oracle supports, by their texts.
const AGGREGATES: [(Function, &str); 16] = [
    (Function::Sum, "i"),
    (Function::Sum, "d"),
    (Function::Sum, "w"),
    (Function::Sum, "f"),
    (Function::Avg, "d"),
    (Function::Avg, "i"),
    (Function::Min, "i"),
    (Function::Max, "d"),
    (Function::Max, "w"),
    (Function::Min, "f"),
    (Function::Max, "f"),
    (Function::Min, "t"),
    (Function::Max, "day"),
    (Function::Count, "f"),
    (Function::CountDistinct, "t"),
    (Function::CountDistinct, "f"),
];

const KEYS: [&str; 11] =
    ["", "k", "s", "flag", "flag, code", "k, s", "k, day", "i", "f", "w", "flag, k, code"];

fn schema() -> SchemaRef {
    let dictionary = DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into());
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int32, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("flag", DataType::Utf8, false),
        Field::new("code", dictionary, false),
        Field::new("i", DataType::Int64, true),
        Field::new("d", DataType::Decimal64(12, 2), true),
        Field::new("w", DataType::Decimal128(34, 1), true),
        Field::new("f", DataType::Float64, true),
        Field::new("t", DataType::Utf8, true),
        Field::new("day", DataType::Date32, true),
    ]))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let code: DictionaryArray<arrow_array::types::Int8Type> = rows.iter().map(|row| Some(row.code)).collect();
    let d: Decimal64Array = rows.iter().map(|row| row.d).collect();
    let w: Decimal128Array = rows.iter().map(|row| row.w).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.k).collect::<Int32Array>()),
        Arc::new(rows.iter().map(|row| row.s).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| Some(row.flag)).collect::<StringArray>()),
        Arc::new(code),
        Arc::new(rows.iter().map(|row| row.i).collect::<Int64Array>()),
        Arc::new(d.with_precision_and_scale(12, 2).unwrap()),
        Arc::new(w.with_precision_and_scale(34, 1).unwrap()),
        Arc::new(rows.iter().map(|row| row.f).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| row.t).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.day).collect::<Date32Array>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn aggregation(keys: &str, aggregates: &[(Function, &str)], condition: Option<&str>) -> Aggregation {
    let schema = schema();
    let mut parsed: Vec<Aggregate> = aggregates
        .iter()
        .map(|(function, text)| Aggregate::parse(*function, text, &schema).unwrap())
        .collect();
    parsed.push(Aggregate::rows());
    let condition = condition.map(|text| Expression::condition(text, &schema).unwrap());
    Aggregation::new(Aggregation::parse_keys(keys, &schema).unwrap(), parsed, condition, &schema).unwrap()
}

/// Distributes rows over streams, in batches of `batch_rows` rows.
fn streams(rows: &[Row], streams: usize, batch_rows: usize) -> Vec<Box<dyn Batches>> {
    let mut shares: Vec<Vec<RecordBatch>> = vec![Vec::new(); streams];
    for (place, chunk) in rows.chunks(batch_rows).enumerate() {
        shares[place % streams].push(batch(chunk));
    }
    shares.into_iter().map(|share| Box::new(InMemory::new(schema(), share)) as Box<dyn Batches>).collect()
}

fn shown(batch: &RecordBatch, row: usize) -> Vec<String> {
    let value = |array: &ArrayRef| match array.is_null(row) {
        true => "∅".into(),
        false => array_value_to_string(array, row).unwrap(),
    };
    batch.columns().iter().map(value).collect()
}

fn all(mut stream: Box<dyn Batches + '_>) -> Result<Vec<Vec<String>>, Error> {
    let mut rows = Vec::new();
    while let Some(batch) = stream.next()? {
        assert!(batch.num_rows() > 0);
        assert_eq!(batch.schema(), stream.schema());
        rows.extend((0..batch.num_rows()).map(|row| shown(&batch, row)));
    }
    Ok(rows)
}

fn job(scratch: &Scratch) -> Job {
    let options = JobOptions {
        memory: 16 << 20,
        threads: 2,
        spill: vec![scratch.root().to_owned()],
        ..JobOptions::default()
    };
    Job::new(options).unwrap()
}

fn as_map(keys: usize, rows: Vec<Vec<String>>) -> Map {
    let groups = rows.len();
    let map: BTreeMap<_, _> =
        rows.into_iter().map(|row| (row[..keys].to_vec(), row[keys..].to_vec())).collect();
    assert_eq!(map.len(), groups, "a group came twice");
    map
}

type Map = BTreeMap<Vec<String>, Vec<String>>;

fn check(found: Map, expected: Map) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (key, values) in &expected {
        assert_eq!(&found[key], values, "{key:?}");
    }
}

#[test]
fn expressions_that_are_printed_alike_are_summed_apart() {
    let rows: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    let batch =
        RecordBatch::try_from_iter([("a", Arc::clone(&rows)), ("b", Arc::new(Int64Array::from(vec![3])))]);
    let batch = batch.unwrap();
    let texts = ["cast(a / 2 * b as bigint)", "cast(a / cast(2 as decimal(5)) * b as bigint)"];
    let sum = |text: &str| Aggregate::parse(Function::Sum, text, &batch.schema()).unwrap();
    let plan = Aggregation::new(Vec::new(), texts.map(sum).to_vec(), None, &batch.schema()).unwrap();
    let scratch = Scratch::new("aggregate_alike");
    let input = InMemory::new(batch.schema(), vec![batch]);
    let result = all(aggregate(&job(&scratch), plan, vec![Box::new(input)]).unwrap().into_stream()).unwrap();
    assert_eq!(result, [["9", "11"]]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn aggregates_are_those_of_a_map_in_memory_and_spilled(
        seed: u64,
        count in prop::sample::select(vec![0usize, 1, 2, 50, 700, 4000]),
        wide: bool,
        keys in prop::sample::select(KEYS.to_vec()),
        threads in 1usize..4,
        batch_rows in 1usize..3000,
        bytes in prop::sample::select(vec![16usize << 10, 128 << 10, 4 << 20]),
        condition in prop::sample::select(vec![None, Some("k > 3"), Some("i % 8 <> 0"), Some("d >= 0.01 or f is null")]),
    ) {
        let scratch = Scratch::new("aggregate");
        let job = job(&scratch);
        let rows = rows(seed, count, wide);
        let plan = aggregation(keys, &AGGREGATES, condition);
        let key_columns = plan.keys().len();
        let inputs = streams(&rows, threads, batch_rows.max(count / 40));
        let result = aggregate_within(&job, &SpillPlace::of(&job).unwrap(), bytes, plan, inputs).unwrap();
        let is_sorted = result.is_sorted();
        let mut found = Vec::new();
        for stream in result.into_streams(threads) {
            found.extend(all(stream).unwrap());
        }
        if is_sorted && keys == "flag" {
            prop_assert!(found.is_sorted_by_key(|row| row[0].clone()));
        }
        check(as_map(key_columns, found), expected(&rows, keys, &AGGREGATES, condition));
        prop_assert_eq!(scratch.entries(), 0);
    }

    #[test]
    fn a_sorted_stream_gives_the_same_groups_in_its_order(
        seed: u64,
        count in prop::sample::select(vec![0usize, 1, 300, 3000]),
        keys in prop::sample::select(KEYS.to_vec()),
        batch_rows in 1usize..900,
        condition in prop::sample::select(vec![None, Some("k > 3")]),
    ) {
        let mut rows = rows(seed, count, true);
        rows.sort_by_cached_key(|row| oracle::key(row, keys));
        let aggregates = &AGGREGATES[..14];
        let plan = aggregation(keys, aggregates, condition);
        let key_columns = plan.keys().len();
        let input = streams(&rows, 1, batch_rows.max(count / 40)).pop().unwrap();
        let found = all(Box::new(SortedAggregate::new(input, plan).unwrap())).unwrap();
        check(as_map(key_columns, found), expected(&rows, keys, aggregates, condition));
    }

    #[test]
    fn an_io_error_is_an_error_and_never_other_groups(
        seed: u64,
        fault in 0u64..200_000,
        errno in prop::sample::select(vec![5i32, 28]),
        short: u8,
    ) {
        let scratch = Scratch::new("aggregate-faults");
        let job = job(&scratch);
        let disk = FakeDisk::default();
        let faults = Faults { seed, short_of_256: short / 2, errors: vec![(fault, errno)], ..Faults::default() };
        let io = Io::over(disk.engine(8, faults), BufferPool::with_budget(4 << 20, Memory::Ordinary));
        let spill = Spill::over(&io, disk.file(Vec::new(), 512).unwrap());
        let place = SpillPlace::over(&job, spill);
        let rows = rows(seed, 1500, true);
        let plan = aggregation("i", &AGGREGATES[..6], None);
        let result = aggregate_within(&job, &place, 16 << 10, plan, streams(&rows, 1, 100));
        let found = result.and_then(|result| all(result.into_stream()));
        if let Ok(found) = found {
            check(as_map(1, found), expected(&rows, "i", &AGGREGATES[..6], None));
        }
    }

    #[test]
    fn a_flipped_bit_is_an_error_or_never_read(
        seed: u64,
        bit in 0u64..800_000,
        level in prop::sample::select(Level::ALL.to_vec()),
    ) {
        let scratch = Scratch::new("aggregate-flips");
        let mut options = job(&scratch).options().clone();
        options.spill_compression = SpillCompression::Fixed(level);
        let disk = FakeDisk::default();
        let engine = disk.engine(8, Faults { flips: vec![bit], ..Faults::default() });
        let io = Io::over(engine, BufferPool::with_budget(4 << 20, Memory::Ordinary));
        let job = Job::over(options, io.clone());
        let place = SpillPlace::over(&job, Spill::over(&io, disk.file(Vec::new(), 512).unwrap()));
        let rows = rows(seed, 1500, true);
        let plan = aggregation("i", &AGGREGATES[..6], None);
        let result = aggregate_within(&job, &place, 16 << 10, plan, streams(&rows, 1, 100));
        match result.and_then(|result| all(result.into_stream())) {
            Ok(found) => check(as_map(1, found), expected(&rows, "i", &AGGREGATES[..6], None)),
            Err(error) => prop_assert!(matches!(error, Error::SpillDamaged { .. }), "{:?}", error),
        }
    }
}

#[test]
fn the_bytes_of_a_group_are_those_of_its_key_and_its_states() {
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 2, 3]));
    let sums = aggregation("k", &[(Function::Sum, "i"), (Function::Count, "i")], None);
    // A word, a sum of 128 bits with the number of its values, and a count; spilled, with the lengths of the record and
    // of the key.
    assert_eq!(group_bytes(&sums, &[numbers]).unwrap(), [40.0, 48.0]);
    let text = |length: usize| -> ArrayRef { Arc::new(StringArray::from(vec!["x".repeat(length); 5])) };
    let counts = aggregation("s", &[(Function::Count, "i")], None);
    let [short, long] = [10, 1000].map(|length| group_bytes(&counts, &[text(length)]).unwrap());
    assert!(short[1] >= 26.0 && long[1] >= 1016.0 && long[0] > 2000.0, "{short:?} {long:?}");
}

#[test]
fn a_sum_that_does_not_fit_is_an_error_that_names_it() {
    let scratch = Scratch::new("aggregate-overflow");
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let batch =
        RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(vec![i64::MAX, 1]))]).unwrap();
    let sum = Aggregate::parse(Function::Sum, "n", &schema).unwrap();
    let plan = Aggregation::new(Vec::new(), vec![sum], None, &schema).unwrap();
    let input = Box::new(InMemory::new(schema, vec![batch]));
    let result = aggregate(&job(&scratch), plan, vec![input]).unwrap();
    let error = result.into_stream().next().unwrap_err().to_string();
    assert!(error.contains("sum(n) does not fit Int64"), "{error}");
}

#[test]
fn excluded_rows_do_not_cause_errors() {
    let scratch = Scratch::new("aggregate-guard");
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let batch =
        RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(vec![0, 1, 2, 4]))]).unwrap();
    let sum = Aggregate::parse(Function::Sum, "8 / n as s", &schema).unwrap();
    let condition = Expression::condition("n > 0", &schema).unwrap();
    let plan = Aggregation::new(Vec::new(), vec![sum], Some(condition), &schema).unwrap();
    assert_eq!(plan.to_string(), "SELECT sum(8 / n), count(*) WHERE n > 0".replace(", count(*)", ""));
    let input = Box::new(InMemory::new(schema, vec![batch]));
    let result = aggregate(&job(&scratch), plan, vec![input]).unwrap();
    assert_eq!(all(result.into_stream()).unwrap(), [["14"]]);
}

#[test]
fn questions_that_have_no_answer_are_refused_with_a_sentence() {
    let schema = schema();
    let refused = |function, text| Aggregate::parse(function, text, &schema).unwrap_err().to_string();
    assert!(refused(Function::Sum, "t").contains("sum(t) is not defined"));
    assert!(refused(Function::Avg, "day").contains("avg(day) is not defined"));
    assert!(refused(Function::Sum, "nobody").contains("no column"));
    assert!(refused(Function::Sum, "*").contains("not one expression"));
    let none = Aggregation::new(Vec::new(), Vec::new(), None, &schema).unwrap_err().to_string();
    assert!(none.contains("no keys and no aggregates"));
    let twice = vec![Aggregate::rows(), Aggregate::rows()];
    let twice = Aggregation::new(Vec::new(), twice, None, &schema).unwrap_err().to_string();
    assert!(twice.contains("two results are named count"));
    assert!(
        SortedAggregate::new(
            InMemory::new(schema.clone(), Vec::new()),
            aggregation("k", &[(Function::CountDistinct, "t")], None)
        )
        .is_err()
    );
}

#[test]
fn a_failing_stream_ends_all_with_its_error() {
    struct Failing(SchemaRef);
    impl Batches for Failing {
        fn schema(&self) -> SchemaRef {
            self.0.clone()
        }
        fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
            Err(Error::Query("broken".into()))
        }
    }
    let scratch = Scratch::new("aggregate-failing");
    let mut inputs = streams(&rows(1, 500, false), 2, 5);
    inputs.push(Box::new(Failing(schema())));
    let error = aggregate(&job(&scratch), aggregation("k", &AGGREGATES, None), inputs).unwrap_err();
    assert_eq!(error.to_string(), "broken");
    let job = job(&scratch);
    job.cancel();
    let error =
        aggregate(&job, aggregation("k", &AGGREGATES, None), streams(&rows(1, 50, false), 1, 5)).unwrap_err();
    assert!(matches!(error, Error::Cancelled));
}

#[test]
fn query_1_has_the_sums_of_its_rows() {
    use tpchgen::generators::LineItemGenerator;
    use tpchgen_arrow::LineItemArrow;
    let scratch = Scratch::new("aggregate-q1");
    let source = LineItemArrow::new(LineItemGenerator::new(0.01, 1, 1)).with_batch_size(5000);
    let batches: Vec<RecordBatch> = source.map(Result::unwrap).collect();
    let schema = batches[0].schema();
    let expected = oracle::query_1(&batches);
    let plan = q1::aggregation(&schema).unwrap();
    let kept = plan.columns();
    assert_eq!(kept.len(), 7);
    let batches: Vec<RecordBatch> = batches.iter().map(|batch| batch.project(&kept).unwrap()).collect();
    let kept_schema = batches[0].schema();
    let halves = batches.chunks(batches.len().div_ceil(2));
    let inputs =
        halves.map(|half| Box::new(InMemory::new(kept_schema.clone(), half.to_vec())) as Box<dyn Batches>);
    let result = aggregate(&job(&scratch), plan.onto(&kept), inputs.collect()).unwrap();
    assert_eq!(all(result.into_stream()).unwrap(), expected);
}
