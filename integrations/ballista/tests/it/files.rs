//! Files of our writers and Ballista's: each is read by the other, and damaged ones are refused.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

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
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor};
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Int32Array, Int64Array, ListArray,
    NullArray, RecordBatch, RecordBatchOptions, StringArray, StringViewArray, StructArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::root_as_message;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use datafusion::prelude::SessionConfig;
use futures::{StreamExt, TryStreamExt, stream};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_ballista::engine::ShuffleEngine;
use sakiyomi_ballista::shuffle::{Shuffle, ShuffleOptions};
use sakiyomi_io::engine::{self, Completion, Engine, EngineThreads, Op};
use sakiyomi_io::{Access, EngineKind, EngineSpec};
use sakiyomi_testing::{Scratch, wait_until};
use tokio::runtime::{Builder, Runtime};

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
            Arc::new(StructArray::from(vec![
                (Arc::new(Field::new("inner", DataType::Utf8, true)), inner),
                (
                    Arc::new(Field::new("view", DataType::Utf8View, true)),
                    Arc::new(texts().collect::<StringViewArray>()) as ArrayRef,
                ),
            ])) as _,
            true,
        ),
        ("list", Arc::new(lists(texts().collect())) as _, true),
        ("place", Arc::new((0..rows as i32).collect::<Int32Array>()) as _, true),
    ])
    .unwrap()
}

/// Each value as a list of one.
fn lists(values: StringViewArray) -> ListArray {
    let field = Arc::new(Field::new("item", DataType::Utf8View, true));
    let rows = datafusion::arrow::array::Array::len(&values);
    ListArray::new(field, OffsetBuffer::from_lengths(vec![1; rows]), Arc::new(values), None)
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

fn runtime(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap()
}

/// A task of a stage.
fn stage(
    engine: &dyn ExecutionEngine,
    directory: &Path,
    plan: Arc<dyn ExecutionPlan>,
    config: &SessionConfig,
) -> Result<Arc<dyn QueryStageExecutor>> {
    let directory = directory.to_str().unwrap();
    engine.create_query_stage_exec("job".into(), 3, 7, (0..8).collect(), plan, directory, config)
}

/// Runs a task of a stage; returns its reports of the partitions written.
fn write(
    engine: &dyn ExecutionEngine,
    directory: &Path,
    plan: Arc<dyn ExecutionPlan>,
    config: &SessionConfig,
    pool: Option<usize>,
) -> Result<Vec<ShuffleWritePartition>> {
    let stage = stage(engine, directory, plan, config)?;
    let written = runtime(2).block_on(stage.execute_query_stage(7, context(config, pool)));
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
    read_as(engine, directory, location, batch(&mut Pcg64::seed_from_u64(0), 1).schema())
}

fn read_as(
    engine: &dyn ExecutionEngine,
    directory: &Path,
    location: PartitionLocation,
    schema: SchemaRef,
) -> Result<Vec<RecordBatch>> {
    let one = Partitioning::UnknownPartitioning(1);
    let reader = ShuffleReaderExec::try_new(3, vec![vec![location]], schema, one).unwrap();
    let writer = ShuffleWriterExec::try_new("job".into(), 4, Arc::new(reader), String::new()).unwrap();
    let config = config("lz4");
    let name = directory.to_str().unwrap();
    let stage =
        engine.create_query_stage_exec("job".into(), 4, 1, vec![0], Arc::new(writer), name, &config)?;
    runtime(2).block_on(stage.execute_query_stage(1, context(&config, None)))?;
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
        assert!(!error.contains("panicked"), "{error}");
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
    refused("bytes, and");
    std::fs::write(&path, &whole).unwrap();
    std::fs::remove_file(&index).unwrap();
    refused("its index cannot be read");
    std::fs::write(&index, &offsets).unwrap();
    let damaged = |at: usize, bytes: &[u8]| {
        let mut content = whole.clone();
        content[at..at + bytes.len()].copy_from_slice(bytes);
        std::fs::write(&path, content).unwrap();
    };
    damaged(start, b"ARROW");
    refused("it is not an Arrow IPC stream");
    damaged(start + 4, &0x7fff_fff0_u32.to_le_bytes());
    refused("bytes more, and the partition");
    // A length before a compressed buffer, of which the decoder would allocate memory.
    let mut at = start;
    let body = loop {
        let metadata = u32::from_le_bytes(whole[at + 4..at + 8].try_into().unwrap()) as usize;
        let message = root_as_message(&whole[at + 8..at + 8 + metadata]).unwrap();
        let body = at + 8 + metadata;
        if message.header_as_record_batch().is_some() {
            break body;
        }
        at = body + message.bodyLength() as usize;
    };
    for length in [1_u64 << 60, 1 << 40, 1 << 31] {
        damaged(body, &length.to_le_bytes());
        refused("cannot become");
    }
    // Any other change gives rows or an error, and neither a panic nor an endless wait.
    let end = u64::from_le_bytes(offsets[16..24].try_into().unwrap()) as usize;
    for _ in 0..60 {
        let at = start + (random.next_u64() % (end - start) as u64) as usize;
        damaged(at, &[random.next_u64() as u8]);
        if let Err(error) = read() {
            assert!(!error.to_string().contains("panicked"), "{at}: {error}");
        }
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(read().unwrap(), rows);
    std::fs::remove_file(&path).unwrap();
    // Its executor is asked, which is not there.
    let error = read().unwrap_err().to_string();
    assert!(error.contains("map_stage 3"), "{error}");
}

#[test]
fn batches_without_columns_values_or_rows_are_read_as_they_were_written() {
    let scratch = Scratch::new("ballista_bodyless");
    let engine = ShuffleEngine::new(&Shuffle::new(small()).unwrap());
    let without_columns = |rows| {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options).unwrap()
    };
    let nulls =
        |rows| RecordBatch::try_from_iter([("nothing", Arc::new(NullArray::new(rows)) as ArrayRef)]).unwrap();
    let full = batch(&mut Pcg64::seed_from_u64(4), 50);
    for (number, batches) in [
        vec![without_columns(5), without_columns(0), without_columns(7)],
        vec![without_columns(20_000)],
        vec![nulls(6), nulls(9)],
        vec![full.clone(), full.slice(0, 0), full.clone()],
        vec![full.slice(0, 0)],
    ]
    .into_iter()
    .enumerate()
    {
        let schema = batches[0].schema();
        let plan = || {
            let partitions = std::slice::from_ref(&batches);
            MemorySourceConfig::try_new_exec(partitions, Arc::clone(&schema), None).unwrap()
        };
        let expected: usize = batches.iter().map(RecordBatch::num_rows).sum();
        for (side, writer) in
            [&engine as &dyn ExecutionEngine, &DefaultExecutionEngine::new()].into_iter().enumerate()
        {
            let directory = scratch.path(&format!("{number}-{side}"));
            std::fs::create_dir(&directory).unwrap();
            write(writer, &directory, kept(plan()), &config("lz4"), None).unwrap();
            let read = read_as(&engine, &directory, location(0, false), Arc::clone(&schema)).unwrap();
            assert_eq!(read.iter().map(RecordBatch::num_rows).sum::<usize>(), expected, "{number}");
            if !schema.fields().is_empty() && expected > 0 {
                assert_eq!(sorted(&read), sorted(&batches), "{number}");
            }
        }
    }
}

/// A partition that gives some batches, and then ends in some way.
#[derive(Debug)]
struct Partition {
    batches: Vec<RecordBatch>,
    end: End,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Done,
    Pending,
    Error,
}

/// Long enough for other partitions to end before.
const ERROR_AFTER: Duration = Duration::from_millis(300);

impl PartitionStream for Partition {
    fn schema(&self) -> &SchemaRef {
        self.batches[0].schema_ref()
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let end = match self.end {
            End::Done => stream::empty().boxed(),
            End::Pending => stream::pending().boxed(),
            End::Error => stream::once(async {
                tokio::time::sleep(ERROR_AFTER).await;
                Err(DataFusionError::Execution("the input is broken".into()))
            })
            .boxed(),
        };
        let rows = stream::iter(self.batches.clone()).map(Ok).chain(end);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(self.schema()), rows))
    }
}

fn streaming(batch: &RecordBatch, ends: &[End]) -> Arc<dyn ExecutionPlan> {
    let partition =
        |&end: &End| Arc::new(Partition { batches: vec![batch.clone()], end }) as Arc<dyn PartitionStream>;
    let partitions = ends.iter().map(partition).collect();
    Arc::new(StreamingTableExec::try_new(batch.schema(), partitions, None, [], false, None).unwrap())
}

/// The files below a directory, without the directories.
fn files(directory: &Path) -> Vec<String> {
    tree(directory).into_iter().filter(|path| directory.join(path).is_file()).collect()
}

#[test]
fn an_earlier_attempt_of_a_task_does_not_disturb_the_files_of_a_later_one() {
    let scratch = Scratch::new("ballista_attempts");
    let engine = ShuffleEngine::new(&Shuffle::new(small()).unwrap());
    let rows = batch(&mut Pcg64::seed_from_u64(5), 3000);
    let config = config("lz4");
    let earlier =
        stage(&engine, scratch.root(), kept(streaming(&rows.slice(0, 10), &[End::Pending])), &config)
            .unwrap();
    let runtime = runtime(2);
    let context = context(&config, None);
    let running = runtime.spawn(async move { earlier.execute_query_stage(7, context).await.map(drop) });
    wait_until("the earlier attempt writes", || !files(scratch.root()).is_empty());
    write(&engine, scratch.root(), kept(source(&[vec![rows.clone()]])), &config, None).unwrap();
    running.abort();
    drop(runtime);
    assert_eq!(files(scratch.root()), ["job/3/0/data-7.arrow"]);
    let read = read(&engine, scratch.root(), location(0, false)).unwrap();
    assert_eq!(sorted(&read), sorted(&[rows]));
}

#[test]
fn a_task_that_fails_leaves_no_file() {
    let scratch = Scratch::new("ballista_failed");
    let engine = ShuffleEngine::new(&Shuffle::new(small()).unwrap());
    let rows = batch(&mut Pcg64::seed_from_u64(6), 3000);
    // One partition is whole when the other fails.
    let plan = kept(streaming(&rows, &[End::Done, End::Error]));
    let error = write(&engine, scratch.root(), plan, &config("lz4"), None).unwrap_err();
    assert!(error.to_string().contains("the input is broken"), "{error}");
    assert_eq!(files(scratch.root()), [""; 0]);
    // The file is whole when its index fails.
    std::fs::create_dir_all(scratch.path("job/3/7/data.arrow.index")).unwrap();
    let plan = by_hash(source(&[vec![rows]]), 3, 0);
    let error = write(&engine, scratch.root(), plan, &config("lz4"), None).unwrap_err();
    assert!(error.to_string().contains("cannot write"), "{error}");
    assert_eq!(files(scratch.root()), [""; 0]);
}

/// An engine whose transfers do not end while it is closed.
struct Gated {
    inner: Box<dyn Engine>,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    is_open: AtomicBool,
    waits: AtomicU64,
}

impl Engine for Gated {
    fn free_slots(&self) -> usize {
        self.inner.free_slots()
    }

    fn submit(&mut self, op: Op) {
        self.inner.submit(op);
    }

    fn reap(&mut self, at_least: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        while !self.gate.is_open.load(Ordering::Relaxed) {
            self.gate.waits.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(1));
        }
        self.inner.reap(at_least, completions)
    }

    fn threads(&self) -> EngineThreads {
        self.inner.threads()
    }
}

/// Shuffles whose writes of files, or of spilled rows, wait at a gate.
fn gated(files: &Arc<Gate>, spills: &Arc<Gate>) -> Shuffle {
    let spec = EngineSpec::usual(EngineKind::Pread);
    let engine = |gate: &Arc<Gate>| Gated {
        inner: engine::open(spec, 64 << 10, None).unwrap().engine,
        gate: Arc::clone(gate),
    };
    let options = ShuffleOptions { block: 64 << 10, ..ShuffleOptions::default() };
    Shuffle::over(Box::new(engine(files)), Box::new(engine(spills)), options).unwrap()
}

fn open_gate() -> Arc<Gate> {
    Arc::new(Gate { is_open: AtomicBool::new(true), ..Gate::default() })
}

#[test]
fn a_task_that_is_cancelled_while_it_writes_its_file_leaves_none() {
    let scratch = Scratch::new("ballista_cancelled");
    let gate = Arc::new(Gate::default());
    let engine = ShuffleEngine::new(&gated(&gate, &open_gate()));
    let rows = batch(&mut Pcg64::seed_from_u64(7), 5000);
    let config = config("none");
    let task = stage(&engine, scratch.root(), by_hash(source(&[vec![rows]]), 3, 0), &config).unwrap();
    let runtime = runtime(2);
    let context = context(&config, None);
    let running = runtime.spawn(async move { task.execute_query_stage(7, context).await.map(drop) });
    wait_until("the task writes its file", || gate.waits.load(Ordering::Relaxed) > 0);
    running.abort();
    let _ = runtime.block_on(running);
    gate.is_open.store(true, Ordering::Relaxed);
    // Waits for the thread that writes.
    drop(runtime);
    assert_eq!(files(scratch.root()), [""; 0]);
}

#[test]
fn other_tasks_continue_while_a_task_waits_for_a_device() {
    let scratch = Scratch::new("ballista_waiting");
    let rows = batch(&mut Pcg64::seed_from_u64(8), 20_000);
    let config = config("none");
    let closed = || Arc::new(Gate::default());
    // Spilled rows, and the file of a partition.
    for (files, spills) in [(open_gate(), closed()), (closed(), open_gate())] {
        let gate = if files.is_open.load(Ordering::Relaxed) { &spills } else { &files };
        let engine = ShuffleEngine::new(&gated(&files, &spills));
        let source = source(&[vec![rows.clone(), rows.clone()]]);
        let plan = if Arc::ptr_eq(gate, &spills) { by_hash(source, 3, 30_000) } else { kept(source) };
        let task = stage(&engine, scratch.root(), plan, &config).unwrap();
        let runtime = runtime(1);
        let context = context(&config, None);
        let running = runtime.spawn(async move { task.execute_query_stage(7, context).await.map(drop) });
        wait_until("the task waits", || gate.waits.load(Ordering::Relaxed) > 0);
        let (tell, told) = mpsc::channel();
        runtime.spawn(async move { tell.send(()) });
        let other = told.recv_timeout(Duration::from_secs(30));
        gate.is_open.store(true, Ordering::Relaxed);
        runtime.block_on(running).unwrap().unwrap();
        other.expect("the other task has run");
    }
}

#[test]
fn a_reader_does_not_wait_for_a_file_system_on_a_thread_of_the_runtime() {
    let scratch = Scratch::new("ballista_reader_waits");
    let engine = ShuffleEngine::new(&Shuffle::new(small()).unwrap());
    // To open a pipe waits for a writer.
    std::fs::create_dir_all(scratch.path("job/3/0")).unwrap();
    let pipe = scratch.path("job/3/0/data-7.arrow");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let schema = batch(&mut Pcg64::seed_from_u64(0), 1).schema();
    let one = Partitioning::UnknownPartitioning(1);
    let reader = ShuffleReaderExec::try_new(3, vec![vec![location(0, false)]], schema, one).unwrap();
    let config = config("lz4");
    let task = stage(&engine, scratch.root(), kept(Arc::new(reader)), &config).unwrap();
    let runtime = runtime(1);
    let context = context(&config, None);
    let running = runtime.spawn(async move { task.execute_query_stage(7, context).await.map(drop) });
    let (tell, told) = mpsc::channel();
    // The task is before this one.
    runtime.spawn(async move { tell.send(()) });
    let other = told.recv_timeout(Duration::from_secs(30));
    drop(std::fs::OpenOptions::new().write(true).open(&pipe).unwrap());
    let error = runtime.block_on(running).unwrap().unwrap_err().to_string();
    other.expect("the other task has run");
    assert!(error.contains("a regular file or a block device is needed"), "{error}");
}

#[test]
fn slices_count_as_their_rows_in_the_memory_of_a_task() {
    let scratch = Scratch::new("ballista_slices");
    let shuffle = Shuffle::new(ShuffleOptions::default()).unwrap();
    let engine = ShuffleEngine::new(&shuffle);
    let large = batch(&mut Pcg64::seed_from_u64(9), 60_000);
    let limit = 4 << 20;
    assert!(large.get_array_memory_size() > limit);
    let slices = (0..20).map(|number| large.slice(number * 100, 100)).collect();
    let plan = by_hash(source(&[slices]), 500, limit);
    write(&engine, scratch.root(), plan, &config("none"), Some(64 << 20)).unwrap();
    assert_eq!(shuffle.stats().spills, 0, "{:?}", shuffle.stats());
}

#[test]
fn the_rest_of_a_task_is_spilled_if_the_budget_of_all_has_no_room() {
    let scratch = Scratch::new("ballista_rest");
    let shuffle = Shuffle::new(small()).unwrap();
    let engine = ShuffleEngine::new(&shuffle);
    let rows = batch(&mut Pcg64::seed_from_u64(10), 60_000);
    // Fewer rows than a batch for each partition.
    let plan = by_hash(source(&[vec![rows]]), 1000, 0);
    write(&engine, scratch.root(), plan, &config("none"), None).unwrap();
    assert_eq!(shuffle.stats().spills, 1, "{:?}", shuffle.stats());
}

#[test]
fn views_of_text_are_written_once_also_in_structs_and_lists() {
    let scratch = Scratch::new("ballista_views");
    let shuffle = Shuffle::new(ShuffleOptions::default()).unwrap();
    let engine = ShuffleEngine::new(&shuffle);
    let rows = 4000;
    let text = |row: usize| format!("a text that is not within its view {row}");
    let views = || (0..rows).map(|row| Some(text(row))).collect::<StringViewArray>();
    let bytes: usize = (0..rows).map(|row| text(row).len()).sum();
    let field = Arc::new(Field::new("view", DataType::Utf8View, true));
    let batch = RecordBatch::try_from_iter([
        ("key", Arc::new((0..rows as i64).collect::<Int64Array>()) as ArrayRef),
        ("name", Arc::new(views())),
        ("nested", Arc::new(StructArray::from(vec![(field, Arc::new(views()) as ArrayRef)]))),
        ("list", Arc::new(lists(views()))),
    ])
    .unwrap();
    let schema = batch.schema();
    let plan = MemorySourceConfig::try_new_exec(&[vec![batch.clone()]], Arc::clone(&schema), None).unwrap();
    write(&engine, scratch.root(), by_hash(plan, 40, 0), &config("none"), None).unwrap();
    let written = shuffle.stats().written_bytes as usize;
    // Three columns, with views and headers.
    assert!(written < 6 * bytes, "{written} of {bytes}");
    let mut read = Vec::new();
    for partition in 0..40 {
        let location = location(partition, true);
        read.extend(read_as(&engine, scratch.root(), location, Arc::clone(&schema)).unwrap());
    }
    assert_eq!(sorted(&read), sorted(&[batch]));
}

#[test]
fn jobs_whose_identifiers_are_paths_and_options_that_cannot_work_are_refused() {
    let scratch = Scratch::new("ballista_refused");
    std::fs::create_dir(scratch.path("work")).unwrap();
    let work = scratch.path("work");
    let engine = ShuffleEngine::new(&Shuffle::new(small()).unwrap());
    let data = [vec![batch(&mut Pcg64::seed_from_u64(11), 10)]];
    let config = config("lz4");
    for job in ["../x", "..", ".", "", "/x", "x/y", "x/", "./x"] {
        let plan = kept(source(&data));
        let work = work.to_str().unwrap();
        let made = engine.create_query_stage_exec(job.into(), 3, 7, vec![0], plan, work, &config);
        let error = made.map(drop).unwrap_err().to_string();
        assert!(error.contains("is not the identifier of a job"), "{job}: {error}");
        let outside =
            PartitionLocation { partition_id: PartitionId::new(&job.into(), 3, 0), ..location(0, false) };
        let error = read(&engine, work.as_ref(), outside).unwrap_err().to_string();
        assert!(error.contains("is not the identifier of a job"), "{job}: {error}");
    }
    for (options, text) in [
        (ShuffleOptions { block: 0, ..small() }, "ShuffleOptions::block is 0; give at least 65536 bytes"),
        (ShuffleOptions { ahead: 0, ..small() }, "ShuffleOptions::ahead is 0; give at least 1"),
    ] {
        let error = Shuffle::new(options).map(drop).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}
