//! The execution engine of an executor: Ballista's stages with our operators, readers and writers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::client_pool::BallistaClientPool;
use ballista_core::execution_plans::{
    RangeShuffleReaderExec, ShuffleReaderExec, ShuffleWriterExec, SortShuffleWriterExec,
    collect_runtime_stats_reports, window_state_to_proto,
};
use ballista_core::serde::protobuf::{
    RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport,
};
use ballista_core::utils::collect_plan_metrics;
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::displayable;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::prelude::SessionConfig;
use sakiyomi_datafusion::operators::{OperatorRule, Operators, stock_plan};

use crate::clients::Clients;
use crate::shuffle::{Passthrough, ReadAheadShuffleReaderExec, Shuffle, SortedWriter, check_job};

/// Idle connections to other executors are closed after this time; Ballista has the same default.
const CLIENT_IDLE: Duration = Duration::from_secs(30);

/// Runs the stages of an executor (`ExecutorProcessConfig::override_execution_engine`).
///
/// Readers that merge ordered partitions (`RangeShuffleReaderExec`) and writers of range shuffles, which only
/// `ballista.planner.parallel_window.enabled` plans, stay Ballista's.
#[derive(Debug)]
pub struct ShuffleEngine {
    shuffle: Shuffle,
    operators: Option<Operators>,
    clients: Arc<dyn BallistaClientPool>,
}

impl ShuffleEngine {
    /// Stages with these shuffles, and with DataFusion's operators.
    #[must_use]
    pub fn new(shuffle: &Shuffle) -> ShuffleEngine {
        ShuffleEngine {
            shuffle: shuffle.clone(),
            operators: None,
            clients: Arc::new(Clients::new(CLIENT_IDLE)),
        }
    }

    /// Puts our sorts and joins into stages, by [`OperatorRule`]: by the memory and the calibrations of this executor, and
    /// the number of rows that earlier stages have written.
    #[must_use]
    pub fn with_operators(mut self, operators: &Operators) -> ShuffleEngine {
        self.operators = Some(operators.clone());
        self
    }

    /// The plan of a stage with our operators and readers.
    fn replaced(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut plan = Arc::clone(plan);
        if let Some(operators) = &self.operators {
            let partitions = plan.output_partitioning().partition_count();
            // Operators of the client or the scheduler know neither this memory nor how many rows there are.
            plan = stock_plan(&plan)?;
            let ours = OperatorRule::new(operators).optimize(Arc::clone(&plan), config.options())?;
            // Ballista addresses the rows by their partition.
            if ours.output_partitioning().partition_count() == partitions {
                plan = ours;
            }
        }
        self.with_readers(plan, work_dir)
    }

    /// The plan with our readers. Those that stay Ballista's are told where files are.
    fn with_readers(&self, plan: Arc<dyn ExecutionPlan>, work_dir: &str) -> Result<Arc<dyn ExecutionPlan>> {
        let replace = |node: Arc<dyn ExecutionPlan>| {
            let clients = Arc::clone(&self.clients);
            if let Some(stock) = node.downcast_ref::<ShuffleReaderExec>() {
                let ours = ReadAheadShuffleReaderExec::new(&self.shuffle, stock, work_dir, clients);
                return Ok(Transformed::yes(Arc::new(ours) as _));
            }
            let Some(stock) = node.downcast_ref::<RangeShuffleReaderExec>() else {
                return Ok(Transformed::no(node));
            };
            let reader = stock.with_work_dir(work_dir.to_owned()).with_client_pool(clients);
            Ok(Transformed::yes(Arc::new(reader) as _))
        };
        Ok(plan.transform_up(replace)?.data)
    }
}

impl ExecutionEngine for ShuffleEngine {
    fn create_query_stage_exec(
        &self,
        job_id: JobId,
        stage_id: usize,
        task_id: usize,
        global_output_partition_ids: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        check_job(&job_id)?;
        let operators = collect_plan_metrics(plan.as_ref()).len();
        let writer = if plan.is::<ShuffleWriterExec>() {
            let rows = self.replaced(plan.children()[0], work_dir, config)?;
            let stock = ShuffleWriterExec::try_new(job_id, stage_id, rows, work_dir.to_owned())?
                .with_task_id(task_id)
                .with_global_output_partition_ids(global_output_partition_ids);
            Writer::Passthrough(Passthrough::new(&self.shuffle, stock, work_dir))
        } else if let Some(writer) = plan.downcast_ref::<SortShuffleWriterExec>() {
            let rows = self.replaced(plan.children()[0], work_dir, config)?;
            let (partitioning, config) =
                (writer.shuffle_output_partitioning().clone(), writer.config().clone());
            let work = work_dir.to_owned();
            let stock = SortShuffleWriterExec::try_new(job_id, stage_id, rows, work, partitioning, config)?
                .with_task_id(task_id)
                .with_global_output_partition_ids(global_output_partition_ids);
            Writer::Sorted(Box::new(SortedWriter::new(&self.shuffle, stock, work_dir)))
        } else {
            let plan = self.with_readers(plan, work_dir)?;
            return DefaultExecutionEngine::with_client_pool(Arc::clone(&self.clients))
                .create_query_stage_exec(
                    job_id,
                    stage_id,
                    task_id,
                    global_output_partition_ids,
                    plan,
                    work_dir,
                    config,
                );
        };
        Ok(Arc::new(Stage { writer, operators }))
    }
}

/// A task of a stage.
#[derive(Debug)]
struct Stage {
    writer: Writer,
    /// Operators of the plan that Ballista knows; all tasks of a stage must report as many.
    operators: usize,
}

#[derive(Debug)]
enum Writer {
    Passthrough(Passthrough),
    Sorted(Box<SortedWriter>),
}

impl Stage {
    /// Ballista's writer over our plan.
    fn plan(&self) -> Arc<dyn ExecutionPlan> {
        match &self.writer {
            Writer::Passthrough(writer) => Arc::clone(writer.stock()) as _,
            Writer::Sorted(writer) => Arc::new(writer.stock().clone()),
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", displayable(self.plan().as_ref()).indent(false))
    }
}

#[async_trait]
impl QueryStageExecutor for Stage {
    async fn execute_query_stage(
        &self,
        _task_id: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        match &self.writer {
            Writer::Passthrough(writer) => writer.write(&context).await,
            Writer::Sorted(writer) => writer.write(&context).await,
        }
    }

    /// The writer's first. One of our operators may stand for several of Ballista's plan, so that later figures belong to
    /// operators further up than their place says.
    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        let own = match &self.writer {
            Writer::Passthrough(writer) => writer.metrics(),
            Writer::Sorted(writer) => writer.metrics(),
        };
        let plan = self.plan();
        let mut metrics = vec![own];
        metrics.extend(plan.children().into_iter().flat_map(|child| collect_plan_metrics(child.as_ref())));
        metrics.resize(self.operators, MetricsSet::new());
        metrics
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        // As Ballista: the rows are right without them.
        collect_runtime_stats_reports(&self.plan()).unwrap_or_default()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        let Writer::Passthrough(writer) = &self.writer else { return Ok(Vec::new()) };
        let states = writer.stock().collect_window_state()?;
        states.iter().map(|(partition, state)| window_state_to_proto(*partition, state)).collect()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        let Writer::Sorted(writer) = &self.writer else { return Vec::new() };
        let columns = writer.nulls().into_iter().enumerate();
        let stats =
            |(column, null_count)| TaskColumnStats { column: column as u32, null_count, sketches: vec![] };
        columns.map(stats).collect()
    }
}
