//! The reader of a stage's input: local files with blocks read ahead, those of other executors as Ballista fetches them.

use std::fmt;
use std::fs;
use std::path::{Component, Path};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use ballista_core::JobId;
use ballista_core::client_pool::BallistaClientPool;
use ballista_core::error::BallistaError;
use ballista_core::execution_plans::ShuffleReaderExec;
use ballista_core::execution_plans::range_shuffle::is_ipc_file;
use ballista_core::execution_plans::sort_shuffle::{ShuffleIndex, get_index_path, is_sort_shuffle_output};
use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::scheduler::PartitionLocation;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, exec_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce::{LimitedBatchCoalescer, PushBatchStatus};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, RecordBatchStream,
    StatisticsArgs,
};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use rand::seq::SliceRandom;
use sakiyomi_io::{Access, Error, IoFile};

use super::messages::Messages;
use super::{Shared, Shuffle, sentence};

/// Files that are open at the same time: one is decoded while the first blocks of the next are read.
const FILES_OPEN: usize = 2;

/// Reads the partitions of a stage.
#[derive(Clone)]
pub(crate) struct ReadAheadShuffleReaderExec {
    shuffle: Shuffle,
    /// Ballista's reader of the same locations, for statistics and partitioning.
    stock: Arc<ShuffleReaderExec>,
    work_dir: Arc<str>,
    clients: Arc<dyn BallistaClientPool>,
    metrics: ExecutionPlanMetricsSet,
    /// Readers of other executors' files that were started, for their metrics.
    remote: Arc<Mutex<Vec<Arc<ShuffleReaderExec>>>>,
}

impl ReadAheadShuffleReaderExec {
    pub(crate) fn new(
        shuffle: &Shuffle,
        stock: &ShuffleReaderExec,
        work_dir: &str,
        clients: Arc<dyn BallistaClientPool>,
    ) -> ReadAheadShuffleReaderExec {
        ReadAheadShuffleReaderExec {
            shuffle: shuffle.clone(),
            stock: Arc::new(stock.clone()),
            work_dir: work_dir.into(),
            clients,
            metrics: ExecutionPlanMetricsSet::new(),
            remote: Arc::default(),
        }
    }

    /// Begins to fetch the files of other executors.
    fn fetch(
        &self,
        locations: Vec<PartitionLocation>,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let one = Partitioning::UnknownPartitioning(1);
        let reader = ShuffleReaderExec::try_new(self.stock.stage_id, vec![locations], self.schema(), one)?
            .with_work_dir(self.work_dir.to_string())
            .with_client_pool(Arc::clone(&self.clients));
        let reader = Arc::new(reader);
        self.remote.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&reader));
        reader.execute(0, context)
    }

    /// The batches of a partition. Called by a thread that may wait for a device.
    fn inputs(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        // All consumers of a broadcast read the same.
        let place = if self.stock.broadcast { 0 } else { partition };
        let mut locations = self.stock.partition[place].clone();
        locations.iter().try_for_each(|location| check_job(&location.partition_id.job_id))?;
        // As Ballista: so that the tasks of a stage do not all ask the same executor first.
        locations.shuffle(&mut rand::rng());
        let is_forced = context.session_config().ballista_shuffle_reader_force_remote_read();
        let is_local = |location: &PartitionLocation| {
            let path = location.path(&self.work_dir).ok().filter(|path| fs::exists(path).unwrap_or(false));
            // A range shuffle is in the format of IPC files, which Ballista's reader knows.
            !is_forced && path.is_some_and(|path| !is_ipc_file(&path))
        };
        let (local, others): (Vec<_>, Vec<_>) = locations.into_iter().partition(is_local);
        MetricBuilder::new(&self.metrics).counter("local_partitions", partition).add(local.len());
        let input = self.local(local, partition);
        if others.is_empty() {
            return Ok(input);
        }
        Ok(input.chain(self.fetch(others, context)?).boxed())
    }

    /// The batches of local files, in some order.
    fn local(
        &self,
        locations: Vec<PartitionLocation>,
        partition: usize,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let time = MetricBuilder::new(&self.metrics).subset_time("local_read_time", partition);
        let (shared, work_dir) = (Arc::clone(self.shuffle.shared()), Arc::clone(&self.work_dir));
        let open = move |location: PartitionLocation| {
            let (shared, work_dir, time) = (Arc::clone(&shared), Arc::clone(&work_dir), time.clone());
            async move {
                let opened = tokio::task::spawn_blocking(move || {
                    let _timer = time.timer();
                    let opened = open(&shared, &work_dir, &location);
                    let batches = opened.map_err(|fault| failed(&location, fault))?;
                    Ok::<_, DataFusionError>(
                        batches.map(move |batch| batch.map_err(|fault| failed(&location, fault))),
                    )
                });
                let ended =
                    |error| DataFusionError::Execution(format!("a shuffle file was not opened: {error}"));
                opened.await.map_err(ended)?
            }
        };
        stream::iter(locations).map(open).buffered(FILES_OPEN).try_flatten().boxed()
    }
}

/// Fails unless a job's directory is one in the work directory: identifiers come from other processes.
///
/// # Errors
/// If the identifier is not the name of a directory.
pub(crate) fn check_job(job: &JobId) -> Result<()> {
    let mut parts = Path::new(job.as_str()).components();
    match (parts.next(), parts.next()) {
        // Also without the separators and the dots that a path may have in vain.
        (Some(Component::Normal(name)), None) if name.to_str() == Some(job.as_str()) => Ok(()),
        _ => exec_err!("{:?} is not the identifier of a job; it names no directory", job.as_str()),
    }
}

/// A fetch failure: Ballista repeats the task that wrote the file.
fn failed(location: &PartitionLocation, fault: String) -> DataFusionError {
    let partition = &location.partition_id;
    let executor = location.executor_meta.id.clone();
    BallistaError::FetchFailed(executor, partition.stage_id, partition.partition_id, fault).into_datafusion()
}

/// Opens the part of a local file that is a partition, and begins to read it.
fn open(shared: &Arc<Shared>, work_dir: &str, location: &PartitionLocation) -> Result<Messages, String> {
    let path = location.path(work_dir).map_err(|error| error.to_string())?;
    let name = |fault: &dyn fmt::Display| format!("{}: {fault}", path.display());
    let file = match IoFile::open(&path, shared.options.access) {
        Err(Error::NoDirect { .. }) => IoFile::open(&path, Access::Buffered),
        other => other,
    };
    let file = Arc::new(file.map_err(|error| sentence(&error))?);
    // Without its index, it would be read whole.
    let range = if location.is_sort_shuffle || is_sort_shuffle_output(&path) {
        partition_range(&path, location.partition_id.partition_id, file.size())
            .map_err(|fault| name(&fault))?
    } else {
        0..file.size()
    };
    let length = range.end - range.start;
    shared.read.fetch_add(length, Ordering::Relaxed);
    Ok(Messages::new(shared.blocks.stream(&file, range), length))
}

/// Where a partition is, by the index of its file.
fn partition_range(path: &Path, partition: usize, size: u64) -> Result<std::ops::Range<u64>, String> {
    let index = ShuffleIndex::read_from_file(&get_index_path(path));
    let index = index.map_err(|error| format!("its index cannot be read: {error}"))?;
    if partition >= index.partition_count() {
        return Err(format!("its index has {} partitions, and not {partition}", index.partition_count()));
    }
    let (_, length) = index.get_partition_range(index.partition_count() - 1);
    if u64::try_from(length) != Ok(size) {
        return Err(format!("it has {size} bytes, and {length} by its index"));
    }
    let (start, end) = index.get_partition_range(partition);
    match (u64::try_from(start), u64::try_from(end)) {
        (Ok(start), Ok(end)) if start <= end && end <= size => Ok(start..end),
        _ => Err(format!("partition {partition} is at {start} to {end} of {size} bytes")),
    }
}

impl fmt::Debug for ReadAheadShuffleReaderExec {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("ReadAheadShuffleReaderExec").field("stock", &self.stock).finish_non_exhaustive()
    }
}

impl DisplayAs for ReadAheadShuffleReaderExec {
    fn fmt_as(&self, form: DisplayFormatType, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "ReadAhead")?;
        self.stock.fmt_as(form, to)
    }
}

impl ExecutionPlan for ReadAheadShuffleReaderExec {
    fn name(&self) -> &str {
        "ReadAheadShuffleReaderExec"
    }

    fn schema(&self) -> SchemaRef {
        self.stock.schema()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stock.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a reader of shuffles has no inputs") }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batch_rows = context.session_config().batch_size();
        let reader = self.clone();
        // Started now: the files of other executors are fetched while the local ones are read, or before.
        let inputs = tokio::task::spawn_blocking(move || reader.inputs(partition, context));
        let ended = |error| DataFusionError::Execution(format!("shuffle files were not found: {error}"));
        let input = async move { inputs.await.map_err(ended)? };
        Ok(Box::pin(Coalesced {
            coalescer: LimitedBatchCoalescer::new(self.schema(), batch_rows, None),
            input: stream::once(input).try_flatten().boxed(),
            schema: self.schema(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            is_ended: false,
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        for reader in self.remote.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let fetched = reader.metrics().unwrap_or_default();
            // The rows are counted here.
            let is_counted =
                |name: &str| matches!(name, "output_rows" | "elapsed_compute" | "local_partitions");
            let figures = fetched.iter().filter(|metric| !is_counted(metric.value().name()));
            figures.for_each(|metric| metrics.push(Arc::clone(metric)));
        }
        Some(metrics)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        arguments: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.stock.statistics_from_inputs(inputs, arguments)
    }
}

/// Batches of a given number of rows.
struct Coalesced {
    coalescer: LimitedBatchCoalescer,
    input: BoxStream<'static, Result<RecordBatch>>,
    schema: SchemaRef,
    metrics: BaselineMetrics,
    is_ended: bool,
}

impl Coalesced {
    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            if let Some(batch) = self.coalescer.next_completed_batch() {
                return Poll::Ready(Some(Ok(batch)));
            }
            if self.is_ended {
                return Poll::Ready(None);
            }
            let taken = match ready!(self.input.poll_next_unpin(cx)) {
                Some(Ok(batch)) => self.coalescer.push_batch(batch),
                Some(Err(error)) => Err(error),
                None => Ok(PushBatchStatus::LimitReached),
            };
            match taken {
                Ok(PushBatchStatus::Continue) => {}
                Ok(PushBatchStatus::LimitReached) => {
                    self.is_ended = true;
                    self.coalescer.finish()?;
                }
                Err(error) => {
                    self.is_ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl Stream for Coalesced {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        let polled = self.poll_batch(cx);
        self.metrics.record_poll(polled)
    }
}

impl RecordBatchStream for Coalesced {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
