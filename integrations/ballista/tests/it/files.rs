//! Files of our writers and Ballista's: each is read by the other, and damaged ones are refused.

use std::path::Path;
use std::sync::Arc;

use ballista_core::execution_plans::sort_shuffle::{
    SortShuffleConfig, get_index_path, stream_sort_shuffle_partition,
};
use ballista_core::execution_plans::{ShuffleReaderExec, ShuffleWriterExec, SortShuffleWriterExec};
use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::protobuf::ShuffleWritePartition;
use ballista_core::serde::scheduler::{
    ExecutorMetadata, ExecutorOperatingSystemSpecification, ExecutorSpecification, PartitionId,
    PartitionLocation, PartitionStats,
};
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine};
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Int32Array, Int64Array,
    RecordBatch, StringArray, StringViewArray, StructArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type};
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use datafusion::prelude::SessionConfig;
use futures::TryStreamExt;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_ballista::engine::ShuffleEngine;
use sakiyomi_ballista::shuffle::{Shuffle, ShuffleOptions};
use sakiyomi_io::{Access, EngineKind, EngineSpec};
use sakiyomi_testing::Scratch;

use crate::support::{sorted, tree};

/// Rows of several types, some of them null; the first two columns are keys.
fn batch(random: &mut Pcg64, rows: usize) -> RecordBatch {
    let mut values: Vec<Option<u64>> = Vec::new();
    for _ in 0..rows {
        values.push((!random.next_u64().is_multiple_of(9)).then(|| random.next_u64() % 1000));
    }
    let text = |value: u64| format!("{}{value}", "a longer text ".repeat((value % 4) as usize));
    let texts = || values.iter().map(|value| value.map(text));
    let inner: ArrayRef = Arc::new(texts().collect::<StringArray>());
    let decimals: Decimal128Array = values.iter().map(|value| value.map(i128::from)).collect();
    let coded: DictionaryArray<Int32Type> = values
        .iter()
        .map(|value| value.map(|value| ["red", "green", "blue"][(value % 3) as usize]))
        .collect();
    RecordBatch::try_from_iter_with_nullable([
        (
            "key",
            Arc::new(values.iter().map(|value| value.map(|value| value as i64)).collect::<Int64Array>()) as _,
            true,
        ),
        ("name", Arc::new(texts().collect::<StringViewArray>()) as _, true),
        (
            "day",
            Arc::new(values.iter().map(|value| value.map(|value| value as i32)).collect::<Date32Array>())
                as _,
            true,
        ),
        (
            "flag",
            Arc::new(values.iter().map(|value| value.map(|value| value > 500)).collect::<BooleanArray>())
                as _,
            true,
        ),
        ("price", Arc::new(decimals.with_precision_and_scale(15, 2).unwrap()) as _, true),
        ("color", Arc::new(coded) as _, true),
        (
            "nested",
            Arc::new(StructArray::from(vec![(Arc::new(Field::new("inner", DataType::Utf8, true)), inner)]))
                as _,
            true,
        ),
        ("place", Arc::new((0..rows as i32).collect::<Int32Array>()) as _, true),
    ])
    .unwrap()
}

fn source(partitions: &[Vec<RecordBatch>]) -> Arc<dyn ExecutionPlan> {
    let schema = batch(&mut Pcg64::seed_from_u64(0), 1).schema();
    MemorySourceConfig::try_new_exec(partitions, schema, None).unwrap()
}

fn config(codec: &str) -> SessionConfig {
    let mut config = SessionConfig::new_with_ballista();
    config.options_mut().set("ballista.shuffle.compression.codec", codec).unwrap();
    config
}

fn context(config: &SessionConfig, pool: Option<usize>) -> Arc<TaskContext> {
    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(bytes) = pool {
        runtime = runtime.with_memory_pool(Arc::new(GreedyMemoryPool::new(bytes)));
    }
    Arc::new(
        TaskContext::default().with_session_config(config.clone()).with_runtime(runtime.build_arc().unwrap()),
    )
}

/// Runs a task of a stage; returns its reports of the partitions written.
fn write(
    engine: &dyn ExecutionEngine,
    directory: &Path,
    plan: Arc<dyn ExecutionPlan>,
    config: &SessionConfig,
    pool: Option<usize>,
) -> Result<Vec<ShuffleWritePartition>> {
    let partitions = (0..8).collect();
    let directory = directory.to_str().unwrap();
    let stage = engine.create_query_stage_exec("job".into(), 3, 7, partitions, plan, directory, config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let written = runtime.block_on(stage.execute_query_stage(7, context(config, pool)));
    assert_eq!(stage.collect_plan_metrics().len(), 2);
    written
}

fn by_hash(plan: Arc<dyn ExecutionPlan>, partitions: usize, limit: usize) -> Arc<dyn ExecutionPlan> {
    let keys = vec![Arc::new(Column::new("key", 0)) as _, Arc::new(Column::new("name", 1)) as _];
    let config = SortShuffleConfig::new(true, 100).with_memory_limit_per_task_bytes(limit);
    let by = Partitioning::Hash(keys, partitions);
    Arc::new(SortShuffleWriterExec::try_new("job".into(), 3, plan, String::new(), by, config).unwrap())
}

fn kept(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(ShuffleWriterExec::try_new("job".into(), 3, plan, String::new()).unwrap())
}

/// Where a reader finds a partition of the task.
fn location(partition: usize, is_sort_shuffle: bool) -> PartitionLocation {
    PartitionLocation {
        map_partition_id: 0,
        partition_id: PartitionId::new(&"job".into(), 3, partition),
        executor_meta: ExecutorMetadata {
            id: "executor".into(),
            host: "127.0.0.1".into(),
            port: 1,
            grpc_port: 1,
            specification: ExecutorSpecification::default(),
            os_info: ExecutorOperatingSystemSpecification::default(),
        },
        partition_stats: PartitionStats::new(Some(1), Some(1), Some(1)),
        file_id: Some(7),
        is_sort_shuffle,
    }
}

/// The rows of a partition by our reader, or by Ballista's: a stage that reads it and writes it again.
fn read(
    engine: &dyn ExecutionEngine,
    directory: &Path,
    location: PartitionLocation,
) -> Result<Vec<RecordBatch>> {
    let schema = batch(&mut Pcg64::seed_from_u64(0), 1).schema();
    let one = Partitioning::UnknownPartitioning(1);
    let reader = ShuffleReaderExec::try_new(3, vec![vec![location]], schema, one).unwrap();
    let writer = ShuffleWriterExec::try_new("job".into(), 4, Arc::new(reader), String::new()).unwrap();
    let config = config("lz4");
    let name = directory.to_str().unwrap();
    let stage =
        engine.create_query_stage_exec("job".into(), 4, 1, vec![0], Arc::new(writer), name, &config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(stage.execute_query_stage(1, context(&config, None)))?;
    let file = std::fs::File::open(directory.join("job/4/0/data-1.arrow")).unwrap();
    Ok(StreamReader::try_new(file, None)?.map(|batch| batch.unwrap()).collect())
}

/// Ballista's way to read a partition.
fn stock_rows(directory: &Path, partition: usize) -> Vec<RecordBatch> {
    let path = directory.join("job/3/7/data.arrow");
    let rows = stream_sort_shuffle_partition(&path, &get_index_path(&path), partition).unwrap();
    futures::executor::block_on(rows.try_collect()).unwrap()
}

fn small() -> ShuffleOptions {
    ShuffleOptions {
        memory: 10_000,
        write_memory: 2 << 20,
        read_memory: 1 << 20,
        block: 64 << 10,
        ..Default::default()
    }
}

/// Options that keep all rows in memory, spill nearly all, write directly, and by another engine.
fn variants() -> [ShuffleOptions; 4] {
    let direct = ShuffleOptions { access: Access::Direct, ..small() };
    let one = ShuffleOptions { engine: EngineSpec::usual(EngineKind::Read), write_memory: 1, ..small() };
    [ShuffleOptions::default(), small(), direct, one]
}

#[test]
fn partitions_by_hash_are_those_of_ballistas_writer_for_both_readers() {
    let scratch = Scratch::new("ballista_hash");
    let mut random = Pcg64::seed_from_u64(1);
    for (round, options) in variants().into_iter().enumerate() {
        let shuffle = Shuffle::new(options).unwrap();
        let engine = ShuffleEngine::new(&shuffle);
        for (codec, partitions, pool) in [("lz4", 5, None), ("none", 1, Some(400_000)), ("zstd", 64, Some(1))]
        {
            let data: Vec<Vec<RecordBatch>> =
                (0..3).map(|input| (0..input * 4).map(|_| batch(&mut random, 300)).collect()).collect();
            let directories = ["stock", "ours"].map(|name| {
                let path = scratch.path(&format!("{name}{round}{codec}"));
                std::fs::create_dir(&path).unwrap();
                path
            });
            let plan = || by_hash(source(&data), partitions, 0);
            let expected =
                write(&DefaultExecutionEngine::new(), &directories[0], plan(), &config(codec), None);
            let written = write(&engine, &directories[1], plan(), &config(codec), pool);
            let counts = |partitions: &[ShuffleWritePartition]| -> Vec<(u64, u64, Option<u64>, bool)> {
                let mut counts: Vec<_> = partitions
                    .iter()
                    .map(|one| (one.partition_id, one.num_rows, one.file_id, one.is_sort_shuffle))
                    .collect();
                counts.sort_unstable();
                counts
            };
            assert_eq!(counts(&written.unwrap()), counts(&expected.unwrap()), "{codec}");
            for partition in 0..partitions {
                let rows = sorted(&stock_rows(&directories[0], partition));
                assert_eq!(sorted(&stock_rows(&directories[1], partition)), rows, "{codec} {partition}");
                if partition < 3 {
                    for directory in &directories {
                        let read = read(&engine, directory, location(partition, true)).unwrap();
                        assert_eq!(sorted(&read), rows, "{codec} {partition}");
                    }
                }
            }
            // No file that Ballista's writer does not leave.
            let names = |directory: &Path| -> Vec<String> {
                tree(directory).into_iter().filter(|path| !path.starts_with("job/4")).collect()
            };
            assert_eq!(names(&directories[1]), names(&directories[0]));
        }
        let stats = shuffle.stats();
        // The pool of one byte has no room for rows.
        assert!(stats.spills > 0, "{stats:?}");
        assert!(stats.files >= 2, "{stats:?}");
    }
}

#[test]
fn partitions_that_are_kept_have_the_same_files_and_rows() {
    let scratch = Scratch::new("ballista_kept");
    let mut random = Pcg64::seed_from_u64(2);
    let data: Vec<Vec<RecordBatch>> =
        (0..3).map(|input| (0..input).map(|_| batch(&mut random, 5000)).collect()).collect();
    for (round, options) in variants().into_iter().enumerate() {
        let shuffle = Shuffle::new(options).unwrap();
        let engine = ShuffleEngine::new(&shuffle);
        let directories = ["stock", "ours"].map(|name| {
            let path = scratch.path(&format!("{name}{round}"));
            std::fs::create_dir(&path).unwrap();
            path
        });
        let mut written = Vec::new();
        for (engine, directory) in
            [&DefaultExecutionEngine::new() as &dyn ExecutionEngine, &engine].iter().zip(&directories)
        {
            let mut partitions =
                write(*engine, directory, kept(source(&data)), &config("lz4"), None).unwrap();
            partitions.sort_unstable_by_key(|partition| partition.partition_id);
            written.push(partitions);
        }
        // The same bytes, because the batches are the same.
        assert_eq!(written[0], written[1]);
        assert_eq!(tree(&directories[0]), tree(&directories[1]));
        for (partition, expected) in data.iter().enumerate() {
            let name = format!("job/3/{partition}/data-7.arrow");
            let files = directories.each_ref().map(|directory| std::fs::read(directory.join(&name)).unwrap());
            assert!(files[0] == files[1], "{name}");
            let rows: Vec<RecordBatch> = read(&engine, &directories[0], location(partition, false)).unwrap();
            assert_eq!(sorted(&rows), sorted(expected));
        }
        // A budget of one byte has no room for a stream.
        assert_eq!(shuffle.stats().plain_files > 0, round == 3, "{:?}", shuffle.stats());
    }
}

#[test]
fn files_that_are_damaged_are_refused_in_a_sentence_that_names_the_task_that_wrote_them() {
    let scratch = Scratch::new("ballista_damaged");
    let shuffle = Shuffle::new(small()).unwrap();
    let engine = ShuffleEngine::new(&shuffle);
    let mut random = Pcg64::seed_from_u64(3);
    let data = vec![vec![batch(&mut random, 4000)]];
    write(&engine, scratch.root(), by_hash(source(&data), 3, 0), &config("lz4"), None).unwrap();
    let path = scratch.path("job/3/7/data.arrow");
    let index = get_index_path(&path);
    let (whole, offsets) = (std::fs::read(&path).unwrap(), std::fs::read(&index).unwrap());
    let read = || read(&engine, scratch.root(), location(1, true)).map(|rows| sorted(&rows));
    let rows = read().unwrap();
    let refused = |what: &str| {
        let error = read().unwrap_err().to_string();
        assert!(error.contains("map_stage 3") && error.contains(what), "{what}: {error}");
        assert!(!error.contains('\n'), "{error}");
    };
    let start = u64::from_le_bytes(offsets[8..16].try_into().unwrap()) as usize;
    std::fs::write(&index, &offsets[..9]).unwrap();
    refused("multiple of 8");
    std::fs::write(&index, &offsets[..16]).unwrap();
    refused("its index has 1 partitions");
    std::fs::write(&index, [&offsets[..8], &u64::MAX.to_le_bytes(), &offsets[16..]].concat()).unwrap();
    refused("partition 1 is at -1");
    std::fs::write(&index, &offsets).unwrap();
    std::fs::write(&path, &whole[..start + 20]).unwrap();
    refused("partition 1 is at");
    let damaged = |at: usize, bytes: &[u8]| {
        let mut content = whole.clone();
        content[at..at + bytes.len()].copy_from_slice(bytes);
        std::fs::write(&path, content).unwrap();
    };
    damaged(start, b"ARROW");
    refused("it is not an Arrow IPC stream");
    damaged(start + 4, &0x7fff_fff0_u32.to_le_bytes());
    refused("bytes more, and the partition");
    // Any other change gives rows or an error, and neither a panic nor an endless wait.
    let end = u64::from_le_bytes(offsets[16..24].try_into().unwrap()) as usize;
    for _ in 0..60 {
        let at = start + (random.next_u64() % (end - start) as u64) as usize;
        damaged(at, &[random.next_u64() as u8]);
        let _ = read();
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(read().unwrap(), rows);
    std::fs::remove_file(&path).unwrap();
    // Its executor is asked, which is not there.
    let error = read().unwrap_err().to_string();
    assert!(error.contains("map_stage 3"), "{error}");
}
