//! Our sorts and joins in plans of DataFusion: their results are those of DataFusion's operators.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array, Int32Array,
    Int64Array, LargeStringArray, RecordBatch, StringArray, StringViewArray, StructArray,
    TimestampMicrosecondArray, UInt16Array, UInt64Array,
};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::MemTable;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::DataFusionError;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::{FutureExt, StreamExt, stream};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_datafusion::operators::{OperatorChoice, OperatorOptions, OperatorRule, Operators, stock_plan};
use sakiyomi_testing::{Scratch, wait_until};

use crate::spill::with_watchdog;

fn below(random: &mut Pcg64, end: u64) -> u64 {
    random.next_u64() % end
}

/// A column of a random type. Keys have few values, so that some are equal; one in `nulls` is null, if that is not 0.
fn column(random: &mut Pcg64, kind: u64, rows: usize, distinct: u64, nulls: u64) -> ArrayRef {
    let mut values: Vec<Option<u64>> = Vec::new();
    for _ in 0..rows {
        let is_null = nulls > 0 && below(random, nulls) == 0;
        values.push((!is_null).then(|| below(random, distinct)));
    }
    let of = |value: u64| value.wrapping_mul(0x9e37_79b9) as i64 - (1 << 31);
    let text = |value: u64| format!("{}{value}", "shared prefix ".repeat((value % 3) as usize));
    let texts = || values.iter().map(|value| value.map(text));
    match kind {
        0 => Arc::new(values.iter().map(|value| value.map(of)).collect::<Int64Array>()),
        1 => Arc::new(values.iter().map(|value| value.map(|value| of(value) as i32)).collect::<Int32Array>()),
        2 => Arc::new(values.iter().map(|value| value.map(|value| value as i8)).collect::<Int8Array>()),
        3 => Arc::new(values.iter().map(|value| value.map(|value| value as u16)).collect::<UInt16Array>()),
        4 => {
            Arc::new(values.iter().map(|value| value.map(|value| u64::MAX - value)).collect::<UInt64Array>())
        }
        5 => Arc::new(
            values.iter().map(|value| value.map(|value| value.is_multiple_of(2))).collect::<BooleanArray>(),
        ),
        6 => Arc::new(texts().collect::<StringArray>()),
        7 => Arc::new(texts().collect::<StringViewArray>()),
        8 => Arc::new(texts().collect::<LargeStringArray>()),
        9 => Arc::new(values.iter().map(|value| value.map(u64::to_be_bytes)).collect::<BinaryArray>()),
        10 => {
            Arc::new(values.iter().map(|value| value.map(|value| of(value) as i32)).collect::<Date32Array>())
        }
        11 => Arc::new(values.iter().map(|value| value.map(of)).collect::<TimestampMicrosecondArray>()),
        12 => {
            let decimals: Decimal128Array =
                values.iter().map(|value| value.map(|value| i128::from(of(value)))).collect();
            Arc::new(decimals.with_precision_and_scale(20, 2).unwrap())
        }
        13 => Arc::new(
            values.iter().map(|value| value.map(|value| value as f64 / 3.0)).collect::<Float64Array>(),
        ),
        _ => {
            let inner: ArrayRef = Arc::new(texts().collect::<StringArray>());
            let field = Field::new("inner", DataType::Utf8, true);
            Arc::new(StructArray::from(vec![(Arc::new(field), inner)]))
        }
    }
}

/// Kinds of columns that can be keys.
const KEY_KINDS: u64 = 13;
const KINDS: u64 = 15;

/// Random partitions: columns `k0`, `k1`, … that can be keys, others, and `id`, which is unique.
fn partitions(
    random: &mut Pcg64,
    name: &str,
    kinds: &[u64],
    rows: usize,
    count: usize,
) -> Vec<Vec<RecordBatch>> {
    let others: Vec<u64> = (0..below(random, 4)).map(|_| below(random, KINDS)).collect();
    let (distinct, nulls) = (1 + below(random, rows as u64), below(random, 9));
    let mut partitions = vec![Vec::new(); count];
    let (mut next, mut left) = (0_i64, rows);
    while left > 0 {
        let taken = left.min(1 + below(random, 2000) as usize);
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        for (index, kind) in kinds.iter().enumerate() {
            columns.push((format!("{name}_k{index}"), column(random, *kind, taken, distinct, nulls)));
        }
        for (index, kind) in others.iter().enumerate() {
            columns.push((format!("{name}_v{index}"), column(random, *kind, taken, 1 << 40, nulls)));
        }
        let ids: Int64Array = (next..next + taken as i64).collect();
        columns.push((format!("{name}_id"), Arc::new(ids)));
        next += taken as i64;
        left -= taken;
        let columns = columns.iter().map(|(name, column)| (name, Arc::clone(column), true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        partitions[below(random, count as u64) as usize].push(batch);
    }
    partitions
}

/// A table of partitions, some of which may be empty.
fn table(partitions: Vec<Vec<RecordBatch>>) -> Arc<MemTable> {
    let schema = partitions.iter().flatten().next().unwrap().schema();
    Arc::new(MemTable::try_new(schema, partitions).unwrap())
}

/// A session on a pool; `operators` are put into its plans.
fn session(
    pool: Option<Arc<dyn MemoryPool>>,
    operators: Option<OperatorOptions>,
    config: SessionConfig,
) -> SessionContext {
    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(pool) = pool {
        runtime = runtime.with_memory_pool(pool);
    }
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime.build_arc().unwrap())
        .with_default_features();
    if let Some(options) = operators {
        state = state.with_physical_optimizer_rule(OperatorRule::new(&Operators::new(options)));
    }
    SessionContext::new_with_state(state.build())
}

/// Ours wherever possible, with spill files in a directory.
fn ours(scratch: &Scratch, memory: usize) -> OperatorOptions {
    OperatorOptions {
        choice: OperatorChoice::Sakiyomi,
        memory,
        threads: 2,
        directories: vec![scratch.root().to_path_buf()],
        ..OperatorOptions::default()
    }
}

fn runtime(threads: usize) -> tokio::runtime::Runtime {
    match threads {
        1 => tokio::runtime::Builder::new_current_thread().build().unwrap(),
        _ => tokio::runtime::Builder::new_multi_thread().worker_threads(threads).build().unwrap(),
    }
}

async fn plan(context: &SessionContext, statement: &str) -> Arc<dyn ExecutionPlan> {
    context.sql(statement).await.unwrap().create_physical_plan().await.unwrap()
}

fn text(plan: &Arc<dyn ExecutionPlan>, is_verbose: bool) -> String {
    DisplayableExecutionPlan::new(plan.as_ref()).indent(is_verbose).to_string()
}

fn spilled_bytes(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.spilled_bytes()).unwrap_or(0);
    own + plan.children().into_iter().map(spilled_bytes).sum::<usize>()
}

/// The rows of a statement, in their order.
async fn rows(context: &SessionContext, plan: Arc<dyn ExecutionPlan>) -> Result<RecordBatch> {
    let schema = plan.schema();
    let batches = collect(plan, context.task_ctx()).await?;
    Ok(concat_batches(&schema, &batches)?)
}

/// The rows as sorted text.
fn unordered(batch: &RecordBatch) -> Vec<String> {
    let text = pretty_format_batches(std::slice::from_ref(batch)).unwrap().to_string();
    let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Waits until a pool has all of its memory back. Tasks that were aborted are dropped by their runtime, which a thread must
/// run if it has none of its own.
fn wait_for(runtime: &tokio::runtime::Runtime, pool: &Arc<dyn MemoryPool>) {
    wait_until("the memory of the pool to be returned", || {
        runtime.block_on(tokio::task::yield_now());
        pool.reserved() == 0
    });
}

#[test]
fn random_sorts_have_the_rows_of_datafusion_in_its_order() {
    with_watchdog("random sorts", || {
        let scratch = Scratch::new("our_sorts");
        for seed in 0..60 {
            let random = &mut Pcg64::seed_from_u64(seed);
            let kinds: Vec<u64> = (0..1 + below(random, 3)).map(|_| below(random, KEY_KINDS)).collect();
            let (size, count) = (1 + below(random, 9000) as usize, 1 + below(random, 3) as usize);
            let data = partitions(random, "t", &kinds, size, count);
            let mut keys: Vec<String> = (0..kinds.len())
                .map(|index| {
                    let direction = ["asc", "desc"][below(random, 2) as usize];
                    let nulls = ["first", "last"][below(random, 2) as usize];
                    format!("t_k{index} {direction} nulls {nulls}")
                })
                .collect();
            keys.push("t_id".to_owned());
            let limit = match below(random, 3) {
                0 => format!(" limit {}", below(random, size as u64 + 10)),
                _ => String::new(),
            };
            let statement = format!("select * from t order by {}{limit}", keys.join(", "));
            let config = SessionConfig::new()
                .with_target_partitions(1 + below(random, 3) as usize)
                .with_batch_size(1 + below(random, 5000) as usize);
            let bytes = (12 << 20) + below(random, 30 << 20) as usize;
            let pool: Arc<dyn MemoryPool> = match below(random, 2) {
                0 => Arc::new(FairSpillPool::new(bytes)),
                _ => Arc::new(GreedyMemoryPool::new(2 * bytes)),
            };
            let runtime = runtime(1 + seed as usize % 2);
            runtime.block_on(async {
                let stock = session(None, None, config.clone());
                let limited = session(Some(Arc::clone(&pool)), Some(ours(&scratch, bytes)), config.clone());
                for context in [&stock, &limited] {
                    context.register_table("t", table(data.clone())).unwrap();
                }
                let expected = plan(&stock, &statement).await;
                let expected = rows(&stock, expected).await.unwrap();
                let ours = plan(&limited, &statement).await;
                let shown = text(&ours, false);
                assert!(limit == " limit 0" || shown.contains("ExternalSortExec"), "seed {seed}: {shown}");
                assert!(!shown.contains("SortPreservingMerge"), "seed {seed}: {shown}");
                let found = rows(&limited, Arc::clone(&ours)).await.unwrap();
                assert!(found == expected, "seed {seed}: {statement}");
                assert_eq!(
                    ours.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(expected.num_rows()),
                    expected.num_rows()
                );
            });
            wait_for(&runtime, &pool);
        }
        assert_eq!(scratch.entries(), 0);
    });
}

#[test]
fn random_joins_have_the_rows_of_datafusion() {
    with_watchdog("random joins", || {
        let scratch = Scratch::new("our_joins");
        let joins = [
            "select * from l inner join r on ON",
            "select * from l left join r on ON",
            "select * from l right join r on ON",
            "select * from l full join r on ON",
            "select * from l left semi join r on ON",
            "select * from l left anti join r on ON",
            "select * from l right semi join r on ON",
            "select * from l right anti join r on ON",
            "select count(*), sum(l_id), max(r_id) from l join r on ON",
        ];
        let (mut replaced, mut reasons) = (0, Vec::new());
        for seed in 0..90 {
            let random = &mut Pcg64::seed_from_u64(seed);
            let kinds: Vec<u64> = (0..1 + below(random, 2)).map(|_| below(random, KEY_KINDS)).collect();
            let mut side = |name: &str| {
                let (size, count) = (1 + below(random, 3000) as usize, 1 + below(random, 3) as usize);
                partitions(random, name, &kinds, size, count)
            };
            let (left, right) = (side("l"), side("r"));
            let on: Vec<String> = (0..kinds.len()).map(|index| format!("l_k{index} = r_k{index}")).collect();
            let statement = joins[seed as usize % joins.len()].replace("ON", &on.join(" and "));
            let config = SessionConfig::new()
                .with_target_partitions([1, 2, 2, 3, 3][below(random, 5) as usize])
                .with_batch_size(1 + below(random, 5000) as usize)
                .set_bool("datafusion.optimizer.prefer_hash_join", below(random, 2) == 0)
                // No table is small.
                .set_u64("datafusion.optimizer.hash_join_single_partition_threshold", 0)
                .set_u64("datafusion.optimizer.hash_join_single_partition_threshold_rows", 0);
            let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(64 << 20));
            let runtime = runtime(1 + seed as usize % 2);
            runtime.block_on(async {
                let stock = session(None, None, config.clone());
                let limited =
                    session(Some(Arc::clone(&pool)), Some(ours(&scratch, 64 << 20)), config.clone());
                for context in [&stock, &limited] {
                    context.register_table("l", table(left.clone())).unwrap();
                    context.register_table("r", table(right.clone())).unwrap();
                }
                let expected = plan(&stock, &statement).await;
                let expected = unordered(&rows(&stock, expected).await.unwrap());
                let ours = plan(&limited, &statement).await;
                let shown = text(&ours, true);
                replaced += usize::from(shown.contains("SpillingJoinExec"));
                reasons.extend(
                    shown
                        .split_once("stock because ")
                        .map(|(_, reason)| reason.lines().next().unwrap().to_owned()),
                );
                let found = unordered(&rows(&limited, Arc::clone(&ours)).await.unwrap());
                assert!(found == expected, "seed {seed}: {statement}\n{}", text(&ours, true));
            });
            wait_for(&runtime, &pool);
        }
        assert!(replaced > 45, "{replaced} plans had our join: {reasons:?}");
    });
}

/// Rows of numbers and texts.
fn large(name: &str, seed: u64, rows: usize, distinct: u64) -> Arc<MemTable> {
    let random = &mut Pcg64::seed_from_u64(seed);
    let batches: Vec<RecordBatch> = (0..rows / 4096)
        .map(|number| {
            let keys: Int64Array = (0..4096).map(|_| below(random, distinct) as i64).collect();
            let ids: Int64Array = (0..4096).map(|row| number as i64 * 4096 + row).collect();
            let texts: StringArray =
                (0..4096).map(|_| Some(format!("text {:032x}", random.next_u64()))).collect();
            let columns: [(&str, ArrayRef); 3] =
                [("key", Arc::new(keys)), ("id", Arc::new(ids)), ("text", Arc::new(texts))];
            let columns = columns.map(|(column, values)| (format!("{name}_{column}"), values, true));
            RecordBatch::try_from_iter_with_nullable(columns).unwrap()
        })
        .collect();
    let half = batches.len() / 2;
    table(vec![batches[..half].to_vec(), batches[half..].to_vec()])
}

/// Runs a statement without a limit on DataFusion's operators, and within one on ours, which spill.
fn check_spilling(name: &'static str, memory: usize, operator: &'static str, statement: &'static str) {
    with_watchdog(name, move || {
        let scratch = Scratch::new(name);
        let config = SessionConfig::new()
            .with_target_partitions(2)
            .set_u64("datafusion.optimizer.hash_join_single_partition_threshold", 0)
            .set_u64("datafusion.optimizer.hash_join_single_partition_threshold_rows", 0);
        for threads in [1, 2] {
            let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(memory));
            let runtime = runtime(threads);
            runtime.block_on(async {
                let stock = session(None, None, config.clone());
                let limited = session(Some(Arc::clone(&pool)), Some(ours(&scratch, memory)), config.clone());
                for context in [&stock, &limited] {
                    context.register_table("a", large("a", 1, 160_000, 40_000)).unwrap();
                    context.register_table("b", large("b", 2, 120_000, 40_000)).unwrap();
                }
                let expected = plan(&stock, statement).await;
                let expected = rows(&stock, expected).await.unwrap();
                let ours = plan(&limited, statement).await;
                assert!(text(&ours, false).contains(operator), "{}", text(&ours, true));
                let found = rows(&limited, Arc::clone(&ours)).await.unwrap();
                let is_same = match operator {
                    // Its order is undefined.
                    "SpillingJoinExec" => unordered(&found) == unordered(&expected),
                    _ => found == expected,
                };
                assert!(is_same, "{name}: other rows");
                assert!(spilled_bytes(&ours) > 1 << 20, "{name} spilled {} bytes", spilled_bytes(&ours));
            });
            wait_for(&runtime, &pool);
        }
        assert_eq!(scratch.entries(), 0);
    });
}

#[test]
fn a_sort_beyond_the_memory_of_the_pool_spills_and_has_the_same_rows() {
    check_spilling("our_sort_spills", 8 << 20, "ExternalSortExec", "select * from a order by a_text, a_id");
}

#[test]
fn a_join_beyond_the_memory_of_the_pool_spills_and_has_the_same_rows() {
    let statement = "select a_id, a_text from a left anti join b on a_key = b_key";
    check_spilling("our_join_spills", 24 << 20, "SpillingJoinExec", statement);
}

/// The behavior of an input after some batches.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Error,
    Panic,
    Hang,
    None,
}

/// A partition with batches, and then a fault.
#[derive(Debug)]
struct Faulty {
    schema: SchemaRef,
    batches: usize,
    fault: Fault,
}

impl PartitionStream for Faulty {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let batch = move |number: usize| {
            let keys: Int64Array = (0..1000).map(|row| (row * 7919 + number as i64) % 1009).collect();
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(keys)]).map_err(DataFusionError::from)
        };
        let batches = stream::iter((0..self.batches).map(batch));
        let fault = self.fault;
        let last = async move {
            match fault {
                Fault::Error => Some(Err(DataFusionError::Execution("the input is broken".into()))),
                Fault::Panic => panic!("the input panics"),
                Fault::Hang => std::future::pending().await,
                Fault::None => None,
            }
        };
        let last = stream::once(last).filter_map(std::future::ready);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches.chain(last)))
    }
}

/// A table `name` of two partitions, the second of which has a fault.
fn register(context: &SessionContext, name: &str, batches: usize, fault: Fault) {
    let schema = Arc::new(Schema::new(vec![Field::new(format!("{name}_k"), DataType::Int64, true)]));
    let partition = |batches, fault| -> Arc<dyn PartitionStream> {
        Arc::new(Faulty { schema: Arc::clone(&schema), batches, fault })
    };
    let partitions = vec![partition(batches, Fault::None), partition(batches, fault)];
    let table = StreamingTable::try_new(Arc::clone(&schema), partitions).unwrap();
    context.register_table(name, Arc::new(table)).unwrap();
}

const SORT: &str = "select * from a order by a_k";
const JOIN: &str = "select * from a full join b on a_k = b_k";

fn faulty(scratch: &Scratch, pool: &Arc<dyn MemoryPool>, faults: [Fault; 2]) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2);
    let context = session(Some(Arc::clone(pool)), Some(ours(scratch, 32 << 20)), config);
    register(&context, "a", 5, faults[0]);
    register(&context, "b", 5, faults[1]);
    context
}

#[test]
fn errors_and_panics_of_an_input_end_the_statement_and_return_the_memory() {
    with_watchdog("faulty inputs", || {
        let scratch = Scratch::new("our_faults");
        for (statement, faults) in [
            (SORT, [Fault::Error, Fault::None]),
            (SORT, [Fault::Panic, Fault::None]),
            (JOIN, [Fault::Error, Fault::None]),
            (JOIN, [Fault::None, Fault::Error]),
            (JOIN, [Fault::Error, Fault::Hang]),
            (JOIN, [Fault::None, Fault::Panic]),
        ] {
            for threads in [1, 2] {
                let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(32 << 20));
                let runtime = runtime(threads);
                let context = faulty(&scratch, &pool, faults);
                let outcome = runtime.block_on(async {
                    let plan = plan(&context, statement).await;
                    assert!(
                        ["ExternalSort", "SpillingJoin"].iter().any(|name| text(&plan, false).contains(name))
                    );
                    AssertUnwindSafe(collect(plan, context.task_ctx())).catch_unwind().await
                });
                match outcome {
                    Ok(outcome) => {
                        let error = outcome.unwrap_err().to_string();
                        assert!(
                            faults.contains(&Fault::Error) || error.contains("the input panics"),
                            "{error}"
                        );
                        assert!(
                            error.contains("the input is broken") || faults.contains(&Fault::Panic),
                            "{error}"
                        );
                    }
                    Err(panic) => {
                        assert!(faults.contains(&Fault::Panic));
                        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the input panics"));
                    }
                }
                wait_for(&runtime, &pool);
            }
        }
    });
}

/// Milliseconds within which an operator must have started, also on a busy machine.
const STARTED_TRIES_MAX: u32 = 20_000;

#[test]
fn a_stream_that_is_dropped_ends_its_threads_and_returns_the_memory() {
    with_watchdog("dropped streams", || {
        let scratch = Scratch::new("our_drops");
        for (statement, fault, taken) in
            [(SORT, Fault::Hang, 0), (JOIN, Fault::Hang, 0), (SORT, Fault::None, 1), (JOIN, Fault::None, 1)]
        {
            for threads in [1, 2] {
                let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(32 << 20));
                let context = faulty(&scratch, &pool, [fault, fault]);
                let runtime = runtime(threads);
                runtime.block_on(async {
                    let plan = plan(&context, statement).await;
                    let mut stream = execute_stream(plan, context.task_ctx()).unwrap();
                    for _ in 0..taken {
                        assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
                    }
                    // Starts the operator, and leaves the input hanging.
                    if taken == 0 {
                        assert!(stream.next().now_or_never().is_none());
                        // Partitions start on any thread of the runtime.
                        let mut tries = 0;
                        while pool.reserved() == 0 && tries < STARTED_TRIES_MAX {
                            tokio::task::yield_now().await;
                            std::thread::sleep(Duration::from_millis(1));
                            tries += 1;
                        }
                        assert!(pool.reserved() > 0);
                    }
                });
                wait_for(&runtime, &pool);
                // Streams that are never polled have neither threads nor memory.
                runtime.block_on(async {
                    let plan = plan(&context, statement).await;
                    drop(execute_stream(plan, context.task_ctx()).unwrap());
                });
                wait_for(&runtime, &pool);
            }
        }
    });
}

#[test]
fn a_runtime_that_ends_while_an_operator_waits_ends_the_operator() {
    with_watchdog("a runtime that ends", || {
        let scratch = Scratch::new("our_runtime");
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(32 << 20));
        let context = faulty(&scratch, &pool, [Fault::Hang, Fault::None]);
        let runtime = runtime(2);
        let stream = runtime.block_on(async {
            let plan = plan(&context, SORT).await;
            let mut stream = execute_stream(plan, context.task_ctx()).unwrap();
            assert!(stream.next().now_or_never().is_none());
            stream
        });
        drop(runtime);
        drop(stream);
        wait_until("the memory of the pool to be returned", || pool.reserved() == 0);
    });
}

/// The error of a statement, as one line.
fn error_of(context: &SessionContext, statement: &str) -> String {
    sakiyomi_datafusion::sql::sentence(&failure_of(context, statement))
}

fn failure_of(context: &SessionContext, statement: &str) -> DataFusionError {
    let outcome = runtime(1).block_on(async {
        let plan = plan(context, statement).await;
        collect(plan, context.task_ctx()).await
    });
    outcome.unwrap_err()
}

#[test]
fn too_little_memory_and_space_are_errors_that_say_so() {
    with_watchdog("operators without resources", || {
        let scratch = Scratch::new("our_resources");
        let config = SessionConfig::new().with_target_partitions(1);
        let with = |memory: usize, options: OperatorOptions| {
            let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(memory));
            let context = session(Some(Arc::clone(&pool)), Some(options), config.clone());
            context.register_table("a", large("a", 1, 160_000, 40_000)).unwrap();
            (context, pool)
        };
        let statement = "select * from a order by a_text, a_id";
        let (context, pool) = with(1 << 20, ours(&scratch, 1 << 20));
        let error = error_of(&context, statement);
        assert!(error.contains("ExternalSort[0] needs at least 4MiB of memory"), "{error}");
        wait_until("the memory of the pool to be returned", || pool.reserved() == 0);
        let limited = OperatorOptions { limit_bytes: 1 << 20, ..ours(&scratch, 8 << 20) };
        let (context, pool) = with(8 << 20, limited);
        let error = error_of(&context, statement);
        assert!(error.contains("of at most 1048576; raise the limit of spill files"), "{error}");
        wait_until("the memory of the pool to be returned", || pool.reserved() == 0);
        let absent = OperatorOptions { directories: vec![scratch.path("absent")], ..ours(&scratch, 8 << 20) };
        let (context, pool) = with(8 << 20, absent);
        let error = error_of(&context, statement);
        assert!(error.contains("absent") && error.contains("No such file or directory"), "{error}");
        // Ballista tries a task again whose error is one of the I/O.
        let failure = failure_of(&context, statement);
        assert!(matches!(failure.find_root(), DataFusionError::IoError(_)), "{failure:?}");
        wait_until("the memory of the pool to be returned", || pool.reserved() == 0);
    });
}

/// The plan of a statement in full.
fn explained(options: OperatorOptions, config: SessionConfig, statement: &str) -> String {
    let context = session(None, Some(options), config);
    context.register_table("a", large("a", 1, 40_960, 1000)).unwrap();
    context.register_table("b", large("b", 2, 40_960, 1000)).unwrap();
    runtime(1).block_on(async { text(&plan(&context, statement).await, true) })
}

#[test]
fn operators_whose_result_would_differ_stay_with_the_reason() {
    let scratch = Scratch::new("our_reasons");
    let config = || {
        SessionConfig::new()
            .with_target_partitions(2)
            .set_u64("datafusion.optimizer.hash_join_single_partition_threshold", 0)
            .set_u64("datafusion.optimizer.hash_join_single_partition_threshold_rows", 0)
    };
    let merging = || config().set_bool("datafusion.optimizer.prefer_hash_join", false);
    let single = || merging().with_target_partitions(1);
    let ordered = "from a join b on a_key = b_key order by a_key nulls first";
    let copied =
        format!("copy (select a_id {ordered}) to '{}' stored as csv", scratch.path("copied.csv").display());
    let limited = format!("select sum(id) from (select a_id as id {ordered} limit 10)");
    for (config, statement, reason) in [
        (
            merging(),
            "select first_value(a_id order by a_key nulls first) from a join b on a_key = b_key",
            "its rows may be needed in their order",
        ),
        (config(), "select a_key * 1.5e0 as k from a order by k", "whose NaNs and negative zeros"),
        (config(), "select a_key from a order by a_key % 7", ""),
        (config(), "select * from a join b on a_key = b_key and a_id < b_id", "a condition besides equality"),
        (config(), "select * from a join b on a_key is not distinct from b_key", "its nulls are equal"),
        (config(), "select * from a join b on a_key = b_key + 1", ""),
        (merging(), "select * from a join b on a_key = b_key", "its rows may be needed in their order"),
        (config(), "select * from a where a_key not in (select b_key from b)", ""),
    ] {
        let shown = explained(ours(&scratch, 64 << 20), config, statement);
        assert!(reason.is_empty() || shown.contains("stock because"), "{statement}: {shown}");
        assert!(shown.contains(reason), "{statement}: {shown}");
    }
    // A limit and a sink that depend on the order, and do not require it.
    for statement in [&copied, &limited] {
        let shown = explained(ours(&scratch, 64 << 20), single(), statement);
        assert!(!shown.contains("SpillingJoinExec"), "{statement}: {shown}");
    }
}

#[test]
fn the_cost_model_chooses_by_rows_and_memory() {
    let scratch = Scratch::new("our_choice");
    let auto = |memory| OperatorOptions { choice: OperatorChoice::Auto, ..ours(&scratch, memory) };
    let config = || SessionConfig::new().with_target_partitions(1);
    let sort = |memory, table: &str| {
        explained(auto(memory), config(), &format!("select * from {table} order by a_text, a_id"))
    };
    // Threads and memory of ours cost more than few rows.
    let few = sort(64 << 20, "(select * from a limit 100)");
    assert!(few.contains("stock because it is faster") && few.contains("default costs"), "{few}");
    let many = sort(64 << 20, "a");
    assert!(many.contains("ExternalSortExec") && many.contains("of DataFusion's operator"), "{many}");
    let unknown = runtime(1).block_on(async {
        let context = session(None, Some(auto(64 << 20)), config());
        register(&context, "a", 5, Fault::None);
        text(&plan(&context, SORT).await, true)
    });
    assert!(unknown.contains("stock because the number of rows of an input is not known"), "{unknown}");
    let tight = sort(2 << 20, "a");
    assert!(tight.contains("bytes of memory are needed"), "{tight}");
    // A hash join that fits is DataFusion's; one that does not is ours.
    let join = |memory, rows| {
        let config = config()
            .with_target_partitions(2)
            .set_u64("datafusion.optimizer.hash_join_single_partition_threshold", 0)
            .set_u64("datafusion.optimizer.hash_join_single_partition_threshold_rows", 0);
        let context = session(None, Some(auto(memory)), config);
        context.register_table("a", large("a", 1, rows, 1000)).unwrap();
        context.register_table("b", large("b", 2, rows, 1000)).unwrap();
        runtime(1)
            .block_on(async { text(&plan(&context, "select * from a join b on a_key = b_key").await, true) })
    };
    let fitting = join(64 << 20, 40_960);
    assert!(fitting.contains("stock because it is faster"), "{fitting}");
    let tight = join(3 << 20, 40_960);
    assert!(tight.contains("bytes of memory are needed"), "{tight}");
    let too_large = join(20 << 20, 327_680);
    assert!(
        too_large.contains("SpillingJoinExec") && too_large.contains("would exceed its memory"),
        "{too_large}"
    );
    let stock = OperatorOptions { choice: OperatorChoice::Stock, ..ours(&scratch, 64 << 20) };
    let stock = explained(stock, config(), "select * from a order by a_text");
    assert!(!stock.contains("stock because") && !stock.contains("ExternalSort"), "{stock}");
}

#[test]
fn plans_for_other_processes_have_operators_of_datafusion_and_the_rule_finds_them_again() {
    let scratch = Scratch::new("our_stock");
    for (prefers_hash, statement) in [
        (true, "select * from a order by a_text, a_id"),
        (
            true,
            "select a_key, count(*) from a join b on a_key = b_key group by a_key order by a_key desc limit 5",
        ),
        (false, "select count(*) from a left join b on a_key = b_key and a_id = b_id"),
        (true, "select sum(a_id * 1e0) over (partition by a_key order by a_text) from a"),
    ] {
        let config = SessionConfig::new()
            .with_target_partitions(2)
            .set_bool("datafusion.optimizer.prefer_hash_join", prefers_hash)
            .set_u64("datafusion.optimizer.hash_join_single_partition_threshold", 0)
            .set_u64("datafusion.optimizer.hash_join_single_partition_threshold_rows", 0);
        let stock = OperatorOptions { choice: OperatorChoice::Stock, ..ours(&scratch, 64 << 20) };
        let options = ours(&scratch, 64 << 20);
        let context = |options| {
            let context = session(None, Some(options), config.clone());
            context.register_table("a", large("a", 1, 40_960, 1000)).unwrap();
            context.register_table("b", large("b", 2, 40_960, 1000)).unwrap();
            context
        };
        let rule = OperatorRule::new(&Operators::new(options.clone()));
        runtime(1).block_on(async {
            let expected = plan(&context(stock), statement).await;
            let ours = plan(&context(options), statement).await;
            assert!(text(&ours, false) != text(&expected, false), "{statement}: {}", text(&ours, true));
            let back = stock_plan(&ours).unwrap();
            assert_eq!(text(&back, true), text(&expected, true), "{statement}");
            let again = rule.optimize(back, config.options()).unwrap();
            assert_eq!(text(&again, true), text(&ours, true), "{statement}");
        });
    }
}
