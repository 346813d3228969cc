//! Operators of DataFusion that spill: their results are those without a memory limit.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::MemTable;
use datafusion::error::Result;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_datafusion::spill::{SpillFactory, SpillOptions};
use sakiyomi_testing::{Scratch, wait_until};

use crate::spill::{factory, with_watchdog};

/// A [`FairSpillPool`] that always grants the memory of a merge.
///
/// A sort of DataFusion cannot spill while it merges, and fails if its other reservation has taken the pool meanwhile.
/// When that happens depends on its threads, whoever writes the spill files.
#[derive(Debug)]
struct PoolWithMerges {
    others: FairSpillPool,
    merges: AtomicUsize,
}

impl PoolWithMerges {
    /// `bytes` for all that is not a merge.
    fn new(bytes: usize) -> PoolWithMerges {
        PoolWithMerges { others: FairSpillPool::new(bytes), merges: AtomicUsize::new(0) }
    }

    fn is_merge(consumer: &MemoryConsumer) -> bool {
        consumer.name().starts_with("ExternalSorterMerge")
    }
}

impl Display for PoolWithMerges {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}({})", self.name(), self.others)
    }
}

impl MemoryPool for PoolWithMerges {
    fn name(&self) -> &str {
        "pool with merges"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.others.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.others.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        match Self::is_merge(reservation.consumer()) {
            true => _ = self.merges.fetch_add(additional, Ordering::Relaxed),
            false => self.others.grow(reservation, additional),
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        match Self::is_merge(reservation.consumer()) {
            true => _ = self.merges.fetch_sub(shrink, Ordering::Relaxed),
            false => self.others.shrink(reservation, shrink),
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        match Self::is_merge(reservation.consumer()) {
            true => self.grow(reservation, additional),
            false => self.others.try_grow(reservation, additional)?,
        }
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.others.reserved() + self.merges.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.others.memory_limit()
    }
}

/// Rows with keys in random order, a few of which are equal, and texts.
fn table(rows: u64, seed: u64) -> MemTable {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut batch = |rows: u64| {
        let keys: Int64Array = (0..rows).map(|_| (random.next_u64() % 50_000) as i64).collect();
        let numbers: Int64Array =
            (0..rows).map(|row| Some(row as i64).filter(|_| !random.next_u64().is_multiple_of(9))).collect();
        let texts: StringArray =
            (0..rows).map(|_| Some(format!("text {:016x}", random.next_u64()))).collect();
        let columns: [(&str, ArrayRef); 3] =
            [("key", Arc::new(keys)), ("number", Arc::new(numbers)), ("text", Arc::new(texts))];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
    };
    let batches: Vec<RecordBatch> = (0..rows / 4096).map(|_| batch(4096)).collect();
    let half = batches.len() / 2;
    let partitions = vec![batches[..half].to_vec(), batches[half..].to_vec()];
    MemTable::try_new(partitions[0][0].schema(), partitions).unwrap()
}

/// A session with two tables.
fn session(
    memory: Option<usize>,
    factory: Option<&Arc<SpillFactory>>,
    config: SessionConfig,
) -> SessionContext {
    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(bytes) = memory {
        runtime = runtime.with_memory_pool(Arc::new(PoolWithMerges::new(bytes)));
    }
    if let Some(factory) = factory {
        let manager = DiskManagerBuilder::default().with_temp_file_factory(Arc::clone(factory) as _);
        runtime = runtime.with_disk_manager_builder(manager);
    }
    let context = SessionContext::new_with_config_rt(config, runtime.build_arc().unwrap());
    context.register_table("first", Arc::new(table(240_000, 1))).unwrap();
    context.register_table("second", Arc::new(table(120_000, 2))).unwrap();
    context
}

fn config() -> SessionConfig {
    SessionConfig::new()
        .with_target_partitions(2)
        .with_batch_size(2048)
        .set_usize("datafusion.execution.sort_spill_reservation_bytes", 1 << 20)
}

/// Bytes that a plan reports as spilled.
fn spilled_bytes(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.spilled_bytes()).unwrap_or(0);
    own + plan.children().into_iter().map(spilled_bytes).sum::<usize>()
}

/// The result of a statement as text, and the bytes that its operators report as spilled.
async fn run(context: &SessionContext, statement: &str) -> (String, usize) {
    let plan = context.sql(statement).await.unwrap().create_physical_plan().await.unwrap();
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
    (pretty_format_batches(&batches).unwrap().to_string(), spilled_bytes(&plan))
}

/// Runs a statement without a limit, and within one on ours; both results must be the same.
fn check(name: &'static str, memory: usize, config: SessionConfig, statement: &'static str) {
    with_watchdog(name, move || {
        let scratch = Scratch::new(name);
        let factory = factory(&scratch, SpillOptions { memory: 4 << 20, ..SpillOptions::default() });
        for threads in [1, 2] {
            let runtime = match threads {
                1 => tokio::runtime::Builder::new_current_thread().build().unwrap(),
                _ => tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap(),
            };
            runtime.block_on(async {
                let (unlimited, none) = run(&session(None, None, config.clone()), statement).await;
                assert_eq!(none, 0, "without a limit nothing is spilled");
                let before = factory.stats();
                let limited = session(Some(memory), Some(&factory), config.clone());
                let (found, spilled) = run(&limited, statement).await;
                assert!(found == unlimited, "{name} has another result when it spills");
                let written = factory.stats().written_bytes - before.written_bytes;
                assert!(spilled > 0, "{name} did not spill");
                assert_eq!(written as usize, spilled, "the bytes of the metrics are those written");
            });
        }
        let stats = factory.stats();
        assert_eq!((stats.files, stats.current_bytes), (0, 0), "{stats:?}");
        assert!(stats.peak_bytes > 0, "{stats:?}");
    });
}

#[test]
fn a_sort_that_spills_has_the_same_result() {
    let config = config().with_target_partitions(1);
    check("sort", 12 << 20, config, "select * from first order by key, text");
}

#[test]
fn an_aggregation_that_spills_has_the_same_result() {
    let statement = "select count(*), sum(count), sum(sum), min(text), max(text), sum(key) from \
                     (select text, count(*) as count, sum(number) as sum, min(key) as key from first group by text)";
    check("aggregation", 12 << 20, config(), statement);
}

#[test]
fn a_merge_join_that_spills_has_the_same_result() {
    let config = config().set_bool("datafusion.optimizer.prefer_hash_join", false);
    let statement = "select count(*), sum(f.key), max(f.text), max(s.text), sum(s.number) from first f \
                     join second s on f.key = s.key";
    check("merge_join", 12 << 20, config, statement);
}

#[test]
fn a_limit_of_space_ends_a_statement_with_an_error_that_names_it() {
    with_watchdog("a limit of space", || {
        let scratch = Scratch::new("operators_limit");
        let factory = factory(&scratch, SpillOptions { limit_bytes: 1 << 20, ..SpillOptions::default() });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let context = session(Some(12 << 20), Some(&factory), config());
        let error = runtime.block_on(async {
            let sorted = context.sql("select * from first order by key, text").await.unwrap();
            sorted.collect().await.unwrap_err().to_string()
        });
        assert!(error.contains("of at most 1048576 bytes are on disk"), "{error}");
        drop((context, runtime));
        wait_until("the space to be returned", || factory.stats().current_bytes == 0);
    });
}
