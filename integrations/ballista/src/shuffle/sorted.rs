//! The writer of stages that repartition by hash: one file for each task, with all partitions.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ballista_core::execution_plans::sort_shuffle::{ShuffleIndex, get_index_path};
use ballista_core::execution_plans::{SortShuffleWriterExec, create_shuffle_path};
use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::protobuf::ShuffleWritePartition;
use ballista_core::utils::create_write_options;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use futures::StreamExt;
use sakiyomi_io::{Block, ReadStream};
use tokio::task::JoinSet;

use super::buckets::{BucketSpec, Buckets, Counts, Encoded};
use super::file::{CancelOnDrop, Cancellation, ShuffleFile, Temporary, commit};
use super::{Shared, Shuffle, encode_error, io_error, opened};

/// Writes the rows of a task by partition.
#[derive(Debug)]
pub(crate) struct SortedWriter {
    shuffle: Shuffle,
    /// Ballista's writer, for its names, partitioning and configuration.
    stock: SortShuffleWriterExec,
    plan: Arc<dyn ExecutionPlan>,
    work_dir: String,
    metrics: ExecutionPlanMetricsSet,
    nulls: Mutex<Vec<u64>>,
}

/// The metrics of Ballista's writer.
struct WriterMetrics {
    /// Time to distribute and encode rows.
    repart: Time,
    write: Time,
    input_rows: Count,
    output_rows: Count,
}

impl WriterMetrics {
    fn new(partition: usize, metrics: &ExecutionPlanMetricsSet) -> WriterMetrics {
        WriterMetrics {
            repart: MetricBuilder::new(metrics).subset_time("repart_time", partition),
            write: MetricBuilder::new(metrics).subset_time("write_time", partition),
            input_rows: MetricBuilder::new(metrics).counter("input_rows", partition),
            output_rows: MetricBuilder::new(metrics).output_rows(partition),
        }
    }
}

impl SortedWriter {
    /// `stock` is Ballista's writer of the same task.
    pub(crate) fn new(shuffle: &Shuffle, stock: SortShuffleWriterExec, work_dir: &str) -> SortedWriter {
        let plan = Arc::clone(stock.children()[0]);
        SortedWriter {
            shuffle: shuffle.clone(),
            stock,
            plan,
            work_dir: work_dir.to_owned(),
            metrics: ExecutionPlanMetricsSet::new(),
            nulls: Mutex::default(),
        }
    }

    pub(crate) fn stock(&self) -> &SortShuffleWriterExec {
        &self.stock
    }

    pub(crate) fn metrics(&self) -> MetricsSet {
        self.metrics.clone_inner()
    }

    /// Null values of each column in all rows written.
    pub(crate) fn nulls(&self) -> Vec<u64> {
        self.nulls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs the plan and writes its rows.
    pub(crate) async fn write(&self, context: &Arc<TaskContext>) -> Result<Vec<ShuffleWritePartition>> {
        let config = context.session_config().ballista_config();
        let write = create_write_options(config.shuffle_compression_codec()?)?;
        let Partitioning::Hash(keys, partitions) = self.stock.shuffle_output_partitioning() else {
            return internal_err!("a shuffle by {}", self.stock.shuffle_output_partitioning());
        };
        let schema = self.plan.schema();
        let spec = BucketSpec {
            schema: Arc::clone(&schema),
            keys: keys.clone(),
            partitions: *partitions,
            batch_rows: self.stock.config().batch_size,
            write: write.clone(),
            limit_bytes: self.stock.config().memory_limit_per_task_bytes,
            // Not that of the job, which Ballista may remove.
            directory: PathBuf::from(&self.work_dir),
        };
        // Dropped with this future, it ends the tasks.
        let mut inputs = JoinSet::new();
        for input in 0..self.plan.output_partitioning().partition_count() {
            inputs.spawn(collect(
                Arc::clone(self.shuffle.shared()),
                Arc::clone(&self.plan),
                input,
                Arc::clone(context),
                spec.clone(),
                WriterMetrics::new(input, &self.metrics),
            ));
        }
        let mut encoded = Vec::new();
        while let Some(joined) = inputs.join_next().await {
            let ended = |error| DataFusionError::Execution(format!("a task of a shuffle has ended: {error}"));
            encoded.push(joined.map_err(ended)??);
        }
        if encoded.is_empty() {
            return Ok(Vec::new());
        }
        self.add_nulls(&encoded);
        self.finish(encoded, schema, write).await
    }

    fn add_nulls(&self, encoded: &[Encoded]) {
        let mut nulls = self.nulls.lock().unwrap_or_else(PoisonError::into_inner);
        nulls.resize(self.plan.schema().fields().len(), 0);
        for (sum, count) in encoded.iter().flat_map(nulls_of) {
            nulls[sum] += count;
        }
    }

    /// Writes the file and its index on a thread that may wait.
    async fn finish(
        &self,
        encoded: Vec<Encoded>,
        schema: SchemaRef,
        write: IpcWriteOptions,
    ) -> Result<Vec<ShuffleWritePartition>> {
        let file_id = self.stock.task_id() as u64;
        let (job, stage) = (self.stock.job_id(), self.stock.stage_id());
        let path = create_shuffle_path(&self.work_dir, job, stage, 0, Some(file_id), true)?;
        let shared = Arc::clone(self.shuffle.shared());
        let metrics = WriterMetrics::new(0, &self.metrics);
        let time = metrics.write.clone();
        // Dropped with this future, it ends the write.
        let canceler = CancelOnDrop::default();
        let cancellation = canceler.cancellation();
        let written = tokio::task::spawn_blocking(move || {
            let _timer = time.timer();
            write_file(&shared, &path, encoded, &schema, &write, &cancellation)
        });
        let ended = |error| DataFusionError::Execution(format!("the write of a shuffle has ended: {error}"));
        let counts = written.await.map_err(ended)??;
        let mut summaries = Vec::new();
        for (partition, counts) in counts.into_iter().enumerate().filter(|(_, counts)| counts.rows > 0) {
            metrics.output_rows.add(counts.rows as usize);
            summaries.push(ShuffleWritePartition {
                partition_id: partition as u64,
                num_batches: counts.batches,
                num_rows: counts.rows,
                num_bytes: counts.bytes,
                file_id: Some(file_id),
                is_sort_shuffle: true,
            });
        }
        // As Ballista: rows without columns have no bytes, and are not fetched.
        summaries.retain(|summary| summary.num_bytes > 0);
        Ok(summaries)
    }
}

fn nulls_of(input: &Encoded) -> impl Iterator<Item = (usize, u64)> + '_ {
    input.nulls.iter().copied().enumerate()
}

/// Runs one input partition.
async fn collect(
    shared: Arc<Shared>,
    plan: Arc<dyn ExecutionPlan>,
    input: usize,
    context: Arc<TaskContext>,
    spec: BucketSpec,
    metrics: WriterMetrics,
) -> Result<Encoded> {
    let mut rows = plan.execute(input, Arc::clone(&context))?;
    let reservation = MemoryConsumer::new(format!("SakiyomiShuffle[{input}]"))
        .with_can_spill(true)
        .register(&context.runtime_env().memory_pool);
    let mut buckets = Buckets::new(&shared, spec, reservation);
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let _timer = metrics.repart.timer();
        metrics.input_rows.add(batch.num_rows());
        buckets.push(batch)?;
    }
    let _timer = metrics.repart.timer();
    buckets.finish()
}

/// Writes the partitions one after the other, and the index.
fn write_file(
    shared: &Arc<Shared>,
    path: &Path,
    mut inputs: Vec<Encoded>,
    schema: &SchemaRef,
    write: &IpcWriteOptions,
    cancellation: &Cancellation,
) -> Result<Vec<Counts>> {
    let partitions = inputs.first().map_or(0, |input| input.counts.len());
    let mut counts = vec![Counts::default(); partitions];
    let mut index = ShuffleIndex::new(partitions);
    cancellation.check()?;
    let mut file = ShuffleFile::create(shared, path)?;
    let mut header =
        StreamWriter::try_new_with_options(&mut file, schema, write.clone()).map_err(encode_error)?;
    header.finish().map_err(encode_error)?;
    drop(header);
    let mut spilled = SpilledReader::new(shared, &inputs)?;
    for (partition, counts) in counts.iter_mut().enumerate() {
        cancellation.check()?;
        index.set_offset(partition, file.len() as i64);
        for input in &mut inputs {
            spilled.copy(spilled_bytes(input, partition), &mut file)?;
            for chunk in input.take_kept(partition) {
                file.write_all(&chunk)?;
            }
            let added = input.counts[partition];
            counts.batches += added.batches;
            counts.rows += added.rows;
            counts.bytes += added.bytes;
        }
    }
    let file = file.finish()?;
    index.set_total_length(file.len() as i64);
    let index_file = Temporary::beside(&get_index_path(path));
    let write = index.write_to_file(index_file.path());
    write.map_err(ballista_core::error::BallistaError::into_datafusion)?;
    commit(shared, vec![file], Some(index_file), cancellation)?;
    Ok(counts)
}

/// Bytes of a partition that an input has spilled.
fn spilled_bytes(input: &Encoded, partition: usize) -> u64 {
    let extents = input.spilled.as_ref().map(|spilled| spilled.extents(partition)).unwrap_or_default();
    extents.iter().map(|extent| extent.end - extent.start).sum()
}

/// Reads back what all inputs of a task have spilled, in the order of the file, ahead of the copy.
struct SpilledReader {
    blocks: Option<ReadStream>,
    /// A block of which some bytes belong to the next input, and where they begin.
    rest: Option<(Block, usize)>,
}

impl SpilledReader {
    fn new(shared: &Arc<Shared>, inputs: &[Encoded]) -> Result<SpilledReader> {
        let partitions = inputs.first().map_or(0, |input| input.counts.len());
        let block = shared.options.block as u64;
        let mut ranges = Vec::new();
        for partition in 0..partitions {
            for spilled in inputs.iter().filter_map(|input| input.spilled.as_ref()) {
                for extent in spilled.extents(partition) {
                    for start in extent.clone().step_by(block as usize) {
                        let range = start..extent.end.min(start + block);
                        ranges.push((Arc::clone(spilled.file()), range));
                    }
                }
            }
        }
        if ranges.is_empty() {
            return Ok(SpilledReader { blocks: None, rest: None });
        }
        // Shared, because the opening may be repeated.
        let ranges: Arc<[_]> = ranges.into();
        let blocks = opened(|| {
            let ranges = Arc::clone(&ranges);
            let each = (0..ranges.len()).map(move |index| ranges[index].clone());
            ReadStream::ranges(&shared.spill_io, each, &shared.read_options())
        });
        Ok(SpilledReader { blocks: Some(blocks?), rest: None })
    }

    /// Copies the next bytes.
    fn copy(&mut self, bytes: u64, to: &mut ShuffleFile) -> Result<()> {
        let mut left = bytes;
        while left > 0 {
            let (block, from) = match self.rest.take() {
                Some(rest) => rest,
                None => match self.blocks.as_mut().and_then(Iterator::next) {
                    Some(block) => (block.map_err(io_error)?, 0),
                    None => return internal_err!("spilled rows of a shuffle end early"),
                },
            };
            let taken = (block.len() - from).min(usize::try_from(left).unwrap_or(usize::MAX));
            to.write_all(&block[from..from + taken])?;
            left -= taken as u64;
            if from + taken < block.len() {
                self.rest = Some((block, from + taken));
            }
        }
        Ok(())
    }
}
