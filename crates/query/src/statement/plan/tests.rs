//! Plans against the sorts that the executor makes of them.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use proptest::prelude::*;
use sakiyomi_io::{EngineKind, EngineSpec};

use super::*;
use crate::batches::InMemory;
use crate::cost::algorithms::{Resources, algorithms};
use crate::cost::operators::{Codec, FileFormat, ValueKind};
use crate::cost::plan::{SpillPlan, StreamPlan};
use crate::cost::{ColumnShape, KeyShape, Operator, TableShape, Task};
use crate::order::SortKey;
use crate::sort::{Sorter, sort};
use crate::{Batches, Job};

fn task(rows: u64, columns: usize, limit_rows: Option<u64>) -> Task {
    let column = ColumnShape {
        kind: ValueKind::Fixed8,
        value_bytes: 8.0,
        file_bytes: 8 * rows,
        encoded_bytes: 8 * rows,
        codec: Codec::None,
        is_dictionary: false,
    };
    let table = TableShape {
        rows,
        format: FileFormat::Parquet,
        columns: vec![column; columns],
        splits: 0,
        cached_ratio: 0.0,
        is_sorted: false,
    };
    let operator = Operator::Sort { key: KeyShape::EXACT, limit_rows, is_stable: false };
    Task { operator, tables: vec![table], expressions: 0, selected_ratio: 1.0, projected: None, output: None }
}

fn plan(algorithm: Algorithm, threads: usize, block_bytes: u64) -> Plan {
    let stream = StreamPlan { block_bytes, page_cache: PageCache::Bypassed };
    let spill = Some(SpillPlan { stream, codec: Codec::None });
    let engine = EngineSpec::usual(EngineKind::Pread);
    Plan { algorithm, threads, engine, input: stream, spill, output: None }
}

fn job(memory: usize, threads: usize) -> Job {
    let options = JobOptions { memory, threads, ..JobOptions::default() };
    Job::new(options).unwrap()
}

fn resources(job: &Job, block: usize) -> Resources {
    let (options, buffers) = (job.options(), job.io().pool().budget());
    let heap = options.memory - buffers;
    Resources { buffers, heap, threads: options.threads, directories: options.spill.len(), block }
}

fn batch(rows: i64, columns: usize) -> RecordBatch {
    let column = |place: i64| -> ArrayRef {
        let values =
            (0..rows).map(|row| (row * 7919 + place * 31) % 4099 * i64::from(place == 0) + row * place);
        Arc::new(Int64Array::from_iter_values(values))
    };
    RecordBatch::try_from_iter((0..columns).map(|place| (format!("c{place}"), column(place as i64)))).unwrap()
}

fn by_first() -> [SortKey; 1] {
    [SortKey { column: 0, options: arrow_schema::SortOptions::default() }]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sort_has_the_sizes_of_its_plan(
        mib in 8_usize..2048, threads in 1..5_usize, rows in 1..1_u64 << 32, columns in 1..20_usize,
        block in (16..23_u32).prop_map(|bits| 1_usize << bits),
    ) {
        let job = job(mib << 20, threads);
        for algorithm in algorithms(&task(rows, columns, None), &resources(&job, block)) {
            let Algorithm::Sort { sort } = algorithm else { panic!("{algorithm:?}") };
            let plan = plan(algorithm, threads, block as u64);
            let rows = batch(2, columns);
            let sample = sort.needs_sample().then(|| rows.project(&[0]).unwrap());
            let options = SortOptions { sample, ..plan.sort_options() };
            let sorter = Sorter::new(&job, &rows.schema(), &by_first(), &options).unwrap();
            let memory = sorter.memory();
            prop_assert_eq!(memory.chunk_bytes, block);
            match sort {
                SortMethod::InMemory { partitions, resident_bytes, memory_bytes }
                | SortMethod::RangePartition { partitions, resident_bytes, memory_bytes } => {
                    prop_assert_eq!(memory.partitions as u64, partitions);
                    prop_assert_eq!(memory.resident_bytes as u64, resident_bytes);
                    prop_assert_eq!(memory.bytes as u64, memory_bytes);
                }
                SortMethod::RunsAndMerge { run_bytes, fan_in, memory_bytes, .. } => {
                    prop_assert_eq!((memory.run_bytes as u64, memory.fan_in as u64), (run_bytes, fan_in));
                    prop_assert_eq!(memory.bytes as u64, memory_bytes);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn all_plans_of_a_sort_give_the_same_rows() {
    let (rows, columns) = (20_000, 3);
    let (whole, limit) = (batch(rows, columns), 100);
    for (limit, memory) in [(None, 8 << 20), (None, 64 << 20), (Some(limit), 64 << 20)] {
        let job = job(memory, 2);
        let mut expected: Vec<i64> = keys(&whole);
        expected.sort_unstable();
        expected.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
        let mut methods = 0;
        for algorithm in algorithms(&task(rows as u64, columns, limit), &resources(&job, 64 << 10)) {
            let plan = plan(algorithm, 2, 64 << 10);
            let Algorithm::Sort { sort: method } = algorithm else { panic!("{algorithm:?}") };
            let sample = method.needs_sample().then(|| whole.project(&[0]).unwrap());
            let sample = sample.map(|sample| sample.slice(0, 1000));
            let options = SortOptions { sample, limit, ..plan.sort_options() };
            let stream =
                || Box::new(InMemory::new(whole.schema(), vec![whole.slice(0, 10_000)])) as Box<dyn Batches>;
            let rest = Box::new(InMemory::new(whole.schema(), vec![whole.slice(10_000, 10_000)]));
            let mut sorted = sort(&job, vec![stream(), rest], &by_first(), &options).unwrap().into_batches();
            let mut found = Vec::new();
            while let Some(batch) = sorted.next().unwrap() {
                found.extend(keys(&batch));
            }
            assert!(found == expected, "{method:?}");
            methods += 1;
        }
        assert!(methods > 2, "{methods} methods in {memory} bytes");
    }
}

fn keys(batch: &RecordBatch) -> Vec<i64> {
    use arrow_array::cast::AsArray;
    batch.column(0).as_primitive::<arrow_array::types::Int64Type>().values().to_vec()
}

#[test]
fn a_job_has_the_engine_the_threads_and_the_block_of_its_plan() {
    let plan = plan(Algorithm::HashAggregate { partitions: 1 }, 3, 256 << 10);
    let asked = JobOptions { memory: 77 << 20, threads: 8, ..JobOptions::default() };
    let options = plan.job_options(&asked);
    assert_eq!((options.engine, options.threads, options.block), (plan.engine, 3, 256 << 10));
    assert_eq!((options.memory, options.spill), (asked.memory, asked.spill));
    assert_eq!(plan.access(), Access::Direct);
}
