//! The writer of stages that keep their partitioning: one file for each partition of a task.

use std::sync::Arc;

use ballista_core::execution_plans::{
    ShuffleWriterExec, compute_global_output_partition_ids, create_shuffle_path,
};
use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::protobuf::ShuffleWritePartition;
use ballista_core::utils::create_write_options;
use datafusion::arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use tokio::task::{JoinError, JoinSet};

use super::file::{CancelOnDrop, Finished, ShuffleFile, commit};
use super::{Shuffle, encode_error, waiting};

/// Writes each partition of a task to its file.
#[derive(Debug)]
pub(crate) struct Passthrough {
    shuffle: Shuffle,
    /// Ballista's writer, for its names and its reports.
    stock: Arc<ShuffleWriterExec>,
    work_dir: String,
    metrics: ExecutionPlanMetricsSet,
}

struct WriterMetrics {
    write: Time,
    input_rows: Count,
    output_rows: Count,
}

impl WriterMetrics {
    fn new(partition: usize, metrics: &ExecutionPlanMetricsSet) -> WriterMetrics {
        WriterMetrics {
            write: MetricBuilder::new(metrics).subset_time("write_time", partition),
            input_rows: MetricBuilder::new(metrics).counter("input_rows", partition),
            output_rows: MetricBuilder::new(metrics).output_rows(partition),
        }
    }
}

impl Passthrough {
    /// `stock` is Ballista's writer of the same task.
    pub(crate) fn new(shuffle: &Shuffle, stock: ShuffleWriterExec, work_dir: &str) -> Passthrough {
        Passthrough {
            shuffle: shuffle.clone(),
            stock: Arc::new(stock),
            work_dir: work_dir.to_owned(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    pub(crate) fn stock(&self) -> &Arc<ShuffleWriterExec> {
        &self.stock
    }

    pub(crate) fn metrics(&self) -> MetricsSet {
        self.metrics.clone_inner()
    }

    /// Runs the plan and writes its rows. All partitions run at the same time: operators below may need that.
    pub(crate) async fn write(&self, context: &Arc<TaskContext>) -> Result<Vec<ShuffleWritePartition>> {
        let config = context.session_config().ballista_config();
        let write = create_write_options(config.shuffle_compression_codec()?)?;
        let plan = Arc::clone(self.stock.children()[0]);
        let known = Arc::clone(&self.stock) as Arc<dyn ExecutionPlan>;
        let global = compute_global_output_partition_ids(&known, self.stock.global_output_partition_ids());
        let file_id = Some(self.stock.task_id() as u64);
        let (job, stage) = (self.stock.job_id(), self.stock.stage_id());
        let canceler = CancelOnDrop::default();
        // Dropped with this future, it ends the tasks.
        let mut tasks = JoinSet::new();
        for local in 0..plan.output_partitioning().partition_count() {
            let partition = global.get(local).copied().unwrap_or(local);
            let path = create_shuffle_path(&self.work_dir, job, stage, partition, file_id, false)?;
            let rows = plan.execute(local, Arc::clone(context))?;
            let (write, metrics) = (write.clone(), WriterMetrics::new(local, &self.metrics));
            let (shared, cancellation) = (Arc::clone(self.shuffle.shared()), canceler.cancellation());
            tasks.spawn(async move {
                let file = waiting(|| {
                    cancellation.check()?;
                    ShuffleFile::create(&shared, &path)
                })?;
                let (batches, rows, file) = write_rows(rows, file, write, &metrics).await?;
                metrics.output_rows.add(rows as usize);
                let summary = ShuffleWritePartition {
                    partition_id: partition as u64,
                    num_batches: batches,
                    num_rows: rows,
                    num_bytes: file.len(),
                    file_id,
                    is_sort_shuffle: false,
                };
                Ok::<_, DataFusionError>((summary, file))
            });
        }
        let (mut summaries, mut files) = (Vec::new(), Vec::new());
        while let Some(joined) = tasks.join_next().await {
            let (summary, file) = joined.map_err(ended)??;
            summaries.push(summary);
            files.push(file);
        }
        let (shared, cancellation) = (Arc::clone(self.shuffle.shared()), canceler.cancellation());
        let committed = tokio::task::spawn_blocking(move || commit(&shared, files, None, &cancellation));
        committed.await.map_err(ended)??;
        summaries.sort_unstable_by_key(|summary| summary.partition_id);
        Ok(summaries)
    }
}

fn ended(error: JoinError) -> DataFusionError {
    DataFusionError::Execution(format!("a task of a shuffle has ended: {error}"))
}

/// Writes the rows of a partition; returns the number of batches and of rows, and the file.
async fn write_rows(
    mut rows: SendableRecordBatchStream,
    file: ShuffleFile,
    write: IpcWriteOptions,
    metrics: &WriterMetrics,
) -> Result<(u64, u64, Finished)> {
    let mut writer = StreamWriter::try_new_with_options(file, &rows.schema(), write).map_err(encode_error)?;
    let (mut batches, mut count) = (0, 0);
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let _timer = metrics.write.timer();
        metrics.input_rows.add(batch.num_rows());
        batches += 1;
        count += batch.num_rows() as u64;
        waiting(|| writer.write(&batch)).map_err(encode_error)?;
    }
    let time = metrics.write.clone();
    let finished = tokio::task::spawn_blocking(move || {
        let _timer = time.timer();
        writer.into_inner().map_err(encode_error)?.finish()
    });
    Ok((batches, count, finished.await.map_err(ended)??))
}
