//! Costs of aggregation, joins, expressions and filters, measured with the operators of this crate.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, BooleanArray, DictionaryArray, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SortOptions};
use rand_core::Rng;
use sakiyomi_os::cpu::of_this_thread;

use super::data::{batch, column, generator, job, text};
use super::measure::{Effort, cpu_ns, fitted, median, split};
use super::rows::{Sizes, TEXT_COLUMNS, TEXT_MEAN_BYTES};
use crate::aggregate::{Aggregate, Aggregation, Function, aggregate};
use crate::batches::InMemory;
use crate::cost::curve::{Curve, CurvePoint};
use crate::cost::operators::{RowCost, ValueKind};
use crate::join::{Condition, HashJoin, JoinKind, JoinSide, MergeJoin};
use crate::spill::{Level, SpillCompression};
use crate::{Batches, Error, Job, JobOptions};
use sakiyomi_expression::Expression;

/// Measured costs of tables and expressions.
pub(super) struct TableCosts {
    pub(super) build: Curve,
    pub(super) probe: Curve,
    pub(super) partition: RowCost,
    pub(super) grouped: Grouped,
    pub(super) group_text: Curve,
    /// For a row, and for each column of the key.
    pub(super) code_group: (f64, f64),
    pub(super) update_ns_per_value: f64,
    /// For a row, and for each sum.
    pub(super) sums: (f64, f64),
    pub(super) merge_ns_per_value: f64,
    pub(super) merge_join_ns_per_row: f64,
    pub(super) expression_ns_per_value: f64,
    pub(super) filter_ns_per_value: f64,
}

/// Rows of the build side: within private caches, and beyond.
const BUILD_ROW_COUNTS: [usize; 3] = [1 << 12, 1 << 16, 1 << 20];
/// Rows of the probe side.
const PROBE_ROWS: usize = 1 << 18;
/// Bytes of a row of the build side: a key, a number, and the hash table entry.
const BUILD_ROW_BYTES: f64 = 40.0;
/// Numbers of groups: tables in the caches of a core, in a shared cache, and beyond.
const GROUP_COUNTS: [usize; 5] = [4, 1 << 12, 1 << 17, 1 << 20, 1 << 22];
/// Number of the first of them that are also merged.
const MERGED_COUNTS: usize = 4;
/// Bytes of a group of the calibration: a key and its index entry.
const GROUP_BYTES: f64 = 24.0;
/// Rows of the input of an aggregation.
const GROUPED_ROWS: usize = 1 << 20;
/// Numbers of distinct texts that are grouped: within the nearest cache, and too many for codes.
const TEXT_GROUPS: [usize; 2] = [16, 1 << 12];
/// Bytes of a group of such a text: its key, and its index entry.
const TEXT_GROUP_BYTES: f64 = 64.0;
const GROUPED_TEXT_BYTES: u64 = 16;
/// Aggregates to measure the cost of merging. They share the count of the rows.
const STATES: [(Function, usize); 4] =
    [(Function::Sum, 1), (Function::Sum, 0), (Function::Min, 1), (Function::Max, 1)];
/// Aggregates whose states are updated one after the other.
const EXTREMES: [(Function, usize); 4] =
    [(Function::Min, 0), (Function::Max, 0), (Function::Min, 1), (Function::Max, 1)];
/// Columns of codes.
const CODE_COLUMNS: usize = 2;
/// Numbers of sums that are updated in one pass.
const SUM_COUNTS: [usize; 2] = [1, 6];
/// Index of the number of groups with which merging is measured: the tables of partitions exceed private caches.
const MERGED_GROUPS: usize = 3;
/// Columns of narrow and of wide rows of numbers that are partitioned.
const PARTITIONED_COLUMNS: [usize; 2] = [2, 12];
/// Bytes of the rows that are partitioned: a multiple of what a job with this memory limit keeps.
const PARTITIONED_BYTES: usize = 16 << 20;
const PARTITIONING_MEMORY_BYTES: usize = 64 << 20;
/// Partitions of such a job.
const MEASURED_PARTITIONS: f64 = 64.0;
/// Rows of each side of a merge join.
const JOINED_ROWS: usize = 1 << 18;
/// Rows of a batch.
const BATCH_ROWS: usize = 8192;
/// Memory limit of a job that does not spill; allocated on demand.
const JOB_MEMORY_BYTES: usize = 1 << 30;
/// Runs of an operator, including a warm-up.
const OPERATOR_RUNS: usize = 4;

pub(super) fn measure(effort: Effort) -> Result<TableCosts, Error> {
    let (mut build, mut probe) = (Vec::new(), Vec::new());
    for rows in BUILD_ROW_COUNTS {
        let rows = effort.amount(rows);
        let size = rows as f64 * BUILD_ROW_BYTES;
        let (build_ns, probe_ns) = hash_join(effort, rows)?;
        build.push(CurvePoint { size, ns: build_ns });
        probe.push(CurvePoint { size, ns: probe_ns });
    }
    let grouped = grouped(effort)?;
    let few = random_keys(effort.amount(GROUPED_ROWS), GROUP_COUNTS[0], 32);
    let coded = coded_table(&few)?;
    let by_codes = |keys: usize| Ok::<_, Error>((keys as f64, grouping_by(effort, &coded, keys, &[])?));
    let [by_one, by_two] = [by_codes(1)?, by_codes(CODE_COLUMNS)?];
    let summing = |sums: usize| {
        let sums: Vec<_> = (0..sums).map(|sum| (Function::Sum, CODE_COLUMNS + sum)).collect();
        let ns = grouping(effort, &coded, &sums)?;
        Ok::<_, Error>((sums.len() as f64, (ns - by_one.1).max(0.0)))
    };
    let sums = split(summing(SUM_COUNTS[0])?, summing(SUM_COUNTS[1])?);
    let updated = grouping(effort, &grouped_table(&few, None)?, &EXTREMES)?;
    // A pass counts the rows.
    let update_ns_per_value = ((updated - grouped.find.at(1.0) - sums.0) / EXTREMES.len() as f64).max(0.0);
    let groups = effort.amount(GROUP_COUNTS[MERGED_GROUPS]);
    let [without, with] = [&[][..], &STATES].map(|states| merging(effort, groups, 0, states));
    let merge_ns_per_value = ((with? - without?) / (STATES.len() + 1) as f64).max(0.0);
    let group_text = TEXT_GROUPS.map(|groups| {
        let keys = random_keys(effort.amount(GROUPED_ROWS), groups, 36);
        let [numbers, texts] =
            [None, Some(GROUPED_TEXT_BYTES)].map(|text| grouping(effort, &grouped_table(&keys, text)?, &[]));
        let ns = (texts? - numbers?).max(0.0);
        Ok::<_, Error>(CurvePoint { size: groups as f64 * TEXT_GROUP_BYTES, ns })
    });
    let group_text = Curve::new(group_text.into_iter().collect::<Result<_, _>>()?);
    let (expression_ns_per_value, filter_ns_per_value) = expressions(effort)?;
    Ok(TableCosts {
        build: Curve::new(build),
        probe: Curve::new(probe),
        partition: partition(effort)?,
        grouped,
        group_text,
        code_group: split(by_one, by_two),
        update_ns_per_value,
        sums,
        merge_ns_per_value,
        merge_join_ns_per_row: merge_join(effort)?,
        expression_ns_per_value,
        filter_ns_per_value,
    })
}

/// Median of the times that `run` returns, without the warm-up.
fn operator_ns(effort: Effort, mut run: impl FnMut() -> Result<f64, Error>) -> Result<f64, Error> {
    let runs = if effort == Effort::Full { OPERATOR_RUNS } else { 2 };
    let mut times = (0..runs).map(|_| run()).collect::<Result<Vec<f64>, Error>>()?;
    Ok(median(&mut times[1..]))
}

/// CPU time of this thread to consume a stream, in nanoseconds.
fn drained_ns(mut stream: impl Batches) -> Result<f64, Error> {
    let begun = of_this_thread();
    while let Some(batch) = stream.next()? {
        std::hint::black_box(batch);
    }
    Ok((of_this_thread() - begun).as_nanos() as f64)
}

/// Batches of a key and a number.
fn table(keys: &[i64], names: [&str; 2]) -> Result<InMemory, Error> {
    let fields = names.map(|name| Field::new(name, DataType::Int64, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let batch = |keys: &[i64]| {
        let column = Arc::new(Int64Array::from(keys.to_vec())) as ArrayRef;
        Ok(RecordBatch::try_new(schema.clone(), vec![column.clone(), column])?)
    };
    let batches = keys.chunks(BATCH_ROWS).map(batch).collect::<Result<_, Error>>()?;
    Ok(InMemory::new(schema, batches))
}

fn random_keys(rows: usize, distinct: usize, stream: u64) -> Vec<i64> {
    let mut random = generator(stream);
    (0..rows).map(|_| (random.next_u64() % distinct.max(1) as u64) as i64).collect()
}

/// CPU times of a hash join per row of the build side and of the probe side, in nanoseconds.
fn hash_join(effort: Effort, rows: usize) -> Result<(f64, f64), Error> {
    let job = job(JOB_MEMORY_BYTES, 1)?;
    let build = table(&random_permutation(rows, 30), ["k", "a"])?;
    let probes = random_keys(effort.amount(PROBE_ROWS), rows, 31);
    let (one, many) = (table(&probes[..1], ["k2", "b"])?, table(&probes, ["k2", "b"])?);
    let condition = Condition::parse("k=k2", &build.schema(), &many.schema())?;
    let join = |probe: &InMemory| -> Result<f64, Error> {
        let (left, right) = (Box::new(build.clone()), Box::new(probe.clone()));
        let joined = HashJoin::new(&job, left, right, &condition, JoinKind::Inner, JoinSide::Left)?;
        drained_ns(joined)
    };
    let built = operator_ns(effort, || join(&one))?;
    let probed = operator_ns(effort, || join(&many))?;
    Ok((built / rows as f64, (probed - built).max(0.0) / probes.len() as f64))
}

/// CPU time to partition rows, in nanoseconds.
fn partition(effort: Effort) -> Result<RowCost, Error> {
    let numbers = |columns: usize| -> Result<(f64, f64), Error> {
        let ns = partitioning(effort, Sizes::numbers(effort, PARTITIONED_BYTES, columns))?;
        Ok((columns as f64, ns))
    };
    let [narrow, wide] = PARTITIONED_COLUMNS.map(numbers);
    let (row_ns, ns_per_value) = fitted(&[narrow?, wide?]);
    let texts = |bytes: usize| -> Result<(f64, f64), Error> {
        let ns = partitioning(effort, Sizes::texts(effort, PARTITIONED_BYTES, bytes))?;
        Ok(((bytes * TEXT_COLUMNS) as f64, ns))
    };
    let [short, long] = TEXT_MEAN_BYTES.map(texts);
    let (texts_ns, ns_per_byte) = split(short?, long?);
    let ns_per_text = ((texts_ns - row_ns - ns_per_value) / TEXT_COLUMNS as f64).max(0.0);
    let ns_per_row = Curve::new(vec![CurvePoint { size: MEASURED_PARTITIONS, ns: row_ns }]);
    Ok(RowCost { ns_per_row, ns_per_value, ns_per_text, ns_per_byte })
}

/// CPU time to partition a row, in nanoseconds, in a hash join whose build side exceeds the memory.
fn partitioning(effort: Effort, sizes: Sizes) -> Result<f64, Error> {
    let build = InMemory::new(sizes.schema(), sizes.batches()?);
    let probe = table(&[0], ["k2", "b"])?;
    let condition = Condition::parse("c0=k2", &build.schema(), &probe.schema())?;
    let spent = operator_ns(effort, || {
        let job = Job::new(JobOptions {
            memory: PARTITIONING_MEMORY_BYTES,
            threads: 1,
            spill_compression: SpillCompression::Fixed(Level::None),
            ..JobOptions::default()
        })?;
        let (left, right) = (Box::new(build.clone()), Box::new(probe.clone()));
        HashJoin::new(&job, left, right, &condition, JoinKind::Inner, JoinSide::Left)?;
        Ok(cpu_ns(&job, "partition"))
    })?;
    Ok(spent / sizes.rows.max(1) as f64)
}

/// Batches of a key and a number; the key is a text of some mean bytes, or a number.
fn grouped_table(keys: &[i64], text_bytes: Option<u64>) -> Result<InMemory, Error> {
    let Some(mean) = text_bytes else { return table(keys, ["k", "v"]) };
    let fields = [("k", DataType::Utf8), ("v", DataType::Int64)];
    let fields = fields.map(|(name, data_type)| Field::new(name, data_type, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let batch = |keys: &[i64]| {
        let texts = keys.iter().map(|key| format!("{key:016}{}", text(key.cast_unsigned(), mean)));
        let columns: [ArrayRef; 2] =
            [Arc::new(StringArray::from_iter_values(texts)), Arc::new(Int64Array::from(keys.to_vec()))];
        Ok(RecordBatch::try_new(schema.clone(), columns.to_vec())?)
    };
    let batches = keys.chunks(BATCH_ROWS).map(batch).collect::<Result<_, Error>>()?;
    Ok(InMemory::new(schema, batches))
}

/// Batches of two keys, which are codes of texts, and of numbers to sum.
fn coded_table(keys: &[i64]) -> Result<InMemory, Error> {
    let distinct = keys.iter().max().map_or(0, |&key| key + 1);
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..distinct).map(|key| key.to_string())));
    let key_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let codes = (0..CODE_COLUMNS).map(|key| Field::new(format!("k{key}"), key_type.clone(), false));
    let numbers = (0..SUM_COUNTS[1]).map(|number| Field::new(format!("v{number}"), DataType::Int64, false));
    let schema = Arc::new(Schema::new(codes.chain(numbers).collect::<Vec<Field>>()));
    let batch = |keys: &[i64]| {
        let codes = keys.iter().map(|&key| key as i32).collect();
        let codes: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::try_new(codes, texts.clone())?);
        let number = |_| Arc::new(Int64Array::from(keys.to_vec())) as ArrayRef;
        let columns = std::iter::repeat_n(codes, CODE_COLUMNS).chain((0..SUM_COUNTS[1]).map(number));
        Ok(RecordBatch::try_new(schema.clone(), columns.collect())?)
    };
    let batches = keys.chunks(BATCH_ROWS).map(batch).collect::<Result<_, Error>>()?;
    Ok(InMemory::new(schema, batches))
}

/// Returns the groups of the first columns with some aggregates of columns.
fn aggregation(input: &InMemory, keys: usize, states: &[(Function, usize)]) -> Result<Aggregation, Error> {
    let schema = input.schema();
    let aggregate = |(at, &(function, column)): (usize, &(Function, usize))| {
        let aggregate = Aggregate::new(function, Expression::column(column, &schema), "s")?;
        Ok(aggregate.named(&format!("s{at}")))
    };
    let aggregates = states.iter().enumerate().map(aggregate).collect::<Result<Vec<_>, Error>>()?;
    let keys = (0..keys).map(|key| (format!("k{key}"), Expression::column(key, &schema))).collect();
    Aggregation::new(keys, aggregates, None, &schema)
}

/// CPU time per row to find its group by the first column and update some aggregates, in nanoseconds.
fn grouping(effort: Effort, input: &InMemory, states: &[(Function, usize)]) -> Result<f64, Error> {
    grouping_by(effort, input, 1, states)
}

/// Like [`grouping`], by some columns.
fn grouping_by(
    effort: Effort,
    input: &InMemory,
    keys: usize,
    states: &[(Function, usize)],
) -> Result<f64, Error> {
    let spent = operator_ns(effort, || {
        let job: Job = job(JOB_MEMORY_BYTES, 1)?;
        aggregate(&job, aggregation(input, keys, states)?, vec![Box::new(input.clone())])?;
        Ok(cpu_ns(&job, "group"))
    })?;
    Ok(spent / input.row_count().max(1) as f64)
}

/// Costs of groups by the bytes of their table.
pub(super) struct Grouped {
    /// Finding the group of a row, and adding a new one.
    pub(super) find: Curve,
    pub(super) insert: Curve,
    /// Costs of merging a group of a thread into a table of all groups.
    pub(super) merge: Curve,
    pub(super) merge_insert: Curve,
}

fn grouped(effort: Effort) -> Result<Grouped, Error> {
    let mut points: [Vec<CurvePoint>; 4] = Default::default();
    for (at, groups) in GROUP_COUNTS.into_iter().enumerate() {
        let groups = if groups > BATCH_ROWS { effort.amount(groups) } else { groups };
        let rows = effort.amount(GROUPED_ROWS).max(groups);
        let mixed = grouping(effort, &grouped_table(&random_keys(rows, groups, 32), None)?, &[])?;
        let new = grouping(effort, &grouped_table(&random_permutation(groups, 38), None)?, &[])?;
        // Groups that random keys meet.
        let met = groups as f64 * (1.0 - (-(rows as f64) / groups as f64).exp());
        let (find, insert) = separate(mixed, new, met / rows as f64);
        let size = groups as f64 * GROUP_BYTES;
        points[0].push(CurvePoint { size, ns: find });
        points[1].push(CurvePoint { size, ns: insert });
        if at >= MERGED_COUNTS {
            continue;
        }
        let [same, other] = [0, groups].map(|offset| merging(effort, groups, offset, &[]));
        let (merge, merge_insert) = separate(same?, other?, 1.0 / MERGED_TABLES as f64);
        let size = size * MERGED_TABLES as f64;
        points[2].push(CurvePoint { size, ns: merge });
        points[3].push(CurvePoint { size, ns: merge_insert });
    }
    let [find, insert, merge, merge_insert] = points.map(Curve::new);
    Ok(Grouped { find, insert, merge, merge_insert })
}

/// Separates the cost of a row from that of a new group, by the cost if a part of the rows is new and if all are.
fn separate(mixed_ns: f64, new_ns: f64, new_ratio: f64) -> (f64, f64) {
    let insert = ((new_ns - mixed_ns) / (1.0 - new_ratio).max(0.1)).max(0.0).min(new_ns);
    ((mixed_ns - new_ratio * insert).max(0.0), insert)
}

/// Tables that are merged.
const MERGED_TABLES: usize = 2;

/// CPU time per group of two threads to merge them, in nanoseconds; the keys of the second are greater by `offset`.
fn merging(effort: Effort, groups: usize, offset: usize, states: &[(Function, usize)]) -> Result<f64, Error> {
    let keys: Vec<i64> = random_permutation(groups, 37);
    // In another order: the groups of threads have none in common.
    let others: Vec<i64> = random_permutation(groups, 39).iter().map(|key| key + offset as i64).collect();
    let [first, second] = [table(&keys, ["k", "v"])?, table(&others, ["k", "v"])?];
    let spent = operator_ns(effort, || {
        let job: Job = job(JOB_MEMORY_BYTES, 1)?;
        let inputs: Vec<Box<dyn Batches>> = vec![Box::new(first.clone()), Box::new(second.clone())];
        let mut result = aggregate(&job, aggregation(&first, 1, states)?, inputs)?.into_stream();
        while let Some(batch) = result.next()? {
            std::hint::black_box(batch);
        }
        Ok(cpu_ns(&job, "merge"))
    })?;
    Ok(spent / (MERGED_TABLES * groups) as f64)
}

/// Returns the numbers from 0 in random order.
fn random_permutation(count: usize, stream: u64) -> Vec<i64> {
    let mut random = generator(stream);
    let mut numbers: Vec<i64> = (0..count as i64).collect();
    // Fisher-Yates shuffle.
    (1..count).rev().for_each(|last| numbers.swap(last, (random.next_u64() % (last as u64 + 1)) as usize));
    numbers
}

/// CPU time of a merge join per row of either side, in nanoseconds.
fn merge_join(effort: Effort) -> Result<f64, Error> {
    let job = job(JOB_MEMORY_BYTES, 1)?;
    let rows = effort.amount(JOINED_ROWS);
    let sorted = |stream, names| {
        let mut keys = random_keys(rows, rows, stream);
        keys.sort_unstable();
        table(&keys, names)
    };
    let (left, right) = (sorted(33, ["k", "a"])?, sorted(34, ["k2", "b"])?);
    let condition = Condition::parse("k=k2", &left.schema(), &right.schema())?;
    let order = [SortOptions { descending: false, nulls_first: false }];
    let spent = operator_ns(effort, || {
        let (left, right) = (Box::new(left.clone()), Box::new(right.clone()));
        drained_ns(MergeJoin::new(&job, left, right, &condition, &order, JoinKind::Inner)?)
    })?;
    Ok(spent / (2 * rows) as f64)
}

/// CPU times of an operation on a value, and of filtering per value kept, in nanoseconds.
fn expressions(effort: Effort) -> Result<(f64, f64), Error> {
    let rows = effort.amount(BATCH_ROWS);
    let numbers: ArrayRef = column(ValueKind::Fixed8, true, rows, 0);
    let numbers = batch(numbers)?;
    let measured = |text: &str| -> Result<f64, Error> {
        let expression = Expression::parse(text, &numbers.schema())?;
        effort.try_measure(rows, || {
            std::hint::black_box(expression.evaluate(&numbers)?);
            Ok(())
        })
    };
    // Each expression has one operation.
    let operation = (measured("c * 3")? + measured("c < 50")?) / 2.0;
    let mut random = generator(35);
    let mask = BooleanArray::from_iter((0..rows).map(|_| Some(random.next_u64().is_multiple_of(2))));
    let kept = mask.true_count();
    let filter = effort.try_measure(kept, || {
        arrow_select::filter::filter_record_batch(&numbers, &mask)
            .map(|kept| drop(std::hint::black_box(kept)))
    })?;
    Ok((operation, filter))
}
