//! The external sort as an operator.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, assert_eq_or_internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Distribution, LexOrdering, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{CardinalityEffect, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricsSet, Time,
};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    ChildStats, ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PlanProperties, ReplaceChildrenOptions, StatisticsArgs,
    apply_expression_roots,
};
use sakiyomi_query::order::SortKey;
use sakiyomi_query::sort::{SortOptions, Sorted, sort};
use sakiyomi_query::{Batches, Error, Job};

use super::bridge::{self, Input, Lazy, Parts, Run};
use super::cost::Prediction;
use super::types::{key_fault, row_fault};
use super::{Operators, memory};

/// Sorts its input by columns, within the memory that the pool grants: in memory, or by runs in spill files.
///
/// It sorts each partition, or all of them into one: that stands for DataFusion's sort and the merge above it.
#[derive(Clone, Debug)]
pub struct ExternalSortExec {
    input: Arc<dyn ExecutionPlan>,
    ordering: LexOrdering,
    keys: Vec<SortKey>,
    fetch: Option<usize>,
    merges: bool,
    prediction: Prediction,
    operators: Operators,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ExternalSortExec {
    /// The same sort as DataFusion's. `merges` sorts all partitions into one; `fetch` is the number of rows that are wanted.
    ///
    /// # Errors
    /// The reason, if its result would differ.
    pub fn of(
        sort: &SortExec,
        merges: bool,
        fetch: Option<usize>,
        operators: &Operators,
    ) -> Result<ExternalSortExec, String> {
        let schema = sort.input().schema();
        let mut keys = Vec::new();
        for term in sort.expr() {
            let Some(column) = term.expr.downcast_ref::<Column>() else {
                return Err(format!("the key {} is an expression", term.expr));
            };
            if let Some(fault) = key_fault(&schema, column.index()) {
                return Err(fault);
            }
            keys.push(SortKey { column: column.index(), options: term.options });
        }
        if let Some(fault) = row_fault(&schema) {
            return Err(fault);
        }
        if sort.input().boundedness().is_unbounded() {
            return Err("its input is unbounded".to_owned());
        }
        let merges = merges || !sort.preserve_partitioning();
        let properties = properties(sort.input(), sort.expr(), merges).map_err(|error| error.to_string())?;
        Ok(ExternalSortExec {
            input: Arc::clone(sort.input()),
            ordering: sort.expr().clone(),
            keys,
            fetch,
            merges,
            prediction: Prediction::default(),
            operators: operators.clone(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// With the prediction by which it was chosen.
    pub(super) fn with_prediction(mut self, prediction: Prediction) -> ExternalSortExec {
        self.prediction = prediction;
        self
    }

    /// The prediction by which it was chosen.
    #[must_use]
    pub fn prediction(&self) -> &Prediction {
        &self.prediction
    }

    /// The order of its rows.
    #[must_use]
    pub fn ordering(&self) -> &LexOrdering {
        &self.ordering
    }

    /// Whether it sorts all partitions into one.
    #[must_use]
    pub fn merges(&self) -> bool {
        self.merges
    }

    /// DataFusion's operators that do the same.
    pub(super) fn stock(&self) -> Arc<dyn ExecutionPlan> {
        let sort = SortExec::new(self.ordering.clone(), Arc::clone(&self.input)).with_fetch(self.fetch);
        if !self.merges || self.inputs() == 1 {
            return Arc::new(sort.with_preserve_partitioning(!self.merges));
        }
        let sort = Arc::new(sort.with_preserve_partitioning(true));
        Arc::new(SortPreservingMergeExec::new(self.ordering.clone(), sort).with_fetch(self.fetch))
    }

    /// Partitions of the input that one execution reads.
    fn inputs(&self) -> usize {
        if self.merges { self.input.output_partitioning().partition_count() } else { 1 }
    }

    fn options(&self, batch_rows: usize) -> SortOptions {
        let parts = if self.merges { 1 } else { self.input.output_partitioning().partition_count() };
        let part = |all: u64| all / parts.max(1) as u64;
        let estimate = self.prediction.inputs.first().copied().flatten();
        SortOptions {
            bytes_max: estimate.map(|estimate| part(estimate.bytes)),
            batch_rows,
            limit: self.fetch.map(|rows| rows as u64),
            ..SortOptions::default()
        }
    }
}

/// A sort of one partition changes nothing but the order.
fn properties(
    input: &Arc<dyn ExecutionPlan>,
    ordering: &LexOrdering,
    merges: bool,
) -> Result<PlanProperties> {
    let mut equivalences = input.equivalence_properties().clone();
    if merges {
        // A constant of each partition is none of all their rows.
        equivalences.clear_per_partition_constants();
    }
    equivalences.reorder(ordering.clone())?;
    let partitioning =
        if merges { Partitioning::UnknownPartitioning(1) } else { input.output_partitioning().clone() };
    Ok(PlanProperties::new(equivalences, partitioning, EmissionType::Final, input.boundedness()))
}

impl DisplayAs for ExternalSortExec {
    fn fmt_as(&self, form: DisplayFormatType, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(form, DisplayFormatType::TreeRender) {
            writeln!(to, "{}", self.ordering)?;
            return self.fetch.map_or(Ok(()), |fetch| writeln!(to, "limit={fetch}"));
        }
        write!(to, "ExternalSortExec: ")?;
        if let Some(fetch) = self.fetch {
            write!(to, "fetch={fetch}, ")?;
        }
        write!(to, "expr=[{}], preserve_partitioning=[{}]", self.ordering, !self.merges)?;
        match form {
            DisplayFormatType::Verbose => write!(to, ", {}", self.prediction),
            _ => Ok(()),
        }
    }
}

impl ExecutionPlan for ExternalSortExec {
    fn name(&self) -> &'static str {
        "ExternalSortExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::UnspecifiedDistribution])
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.ordering.iter().map(|term| &term.expr), visit)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        assert_eq_or_internal_err!(children.len(), 1, "a sort has one input");
        let input = Arc::clone(&children[0]);
        let properties = Arc::new(properties(&input, &self.ordering, self.merges)?);
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(ExternalSortExec { input, properties, metrics, ..Self::clone(&self) }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mode = ChildrenPropertiesMode::Recompute;
        self.replace_children(children, ReplaceChildrenOptions::new(mode))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = if self.merges { 0..self.inputs() } else { partition..partition + 1 };
        let inputs: Result<Vec<_>> =
            partitions.map(|input| self.input.execute(input, Arc::clone(&context))).collect();
        let mut inputs = inputs?;
        let threads = inputs.len().clamp(1, self.operators.options().threads.max(1));
        // Registered before any operator takes memory, so that the pool divides it among all.
        let consumer = MemoryConsumer::new(format!("ExternalSort[{partition}]")).with_can_spill(true);
        let mut reservation = consumer.register(context.memory_pool());
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let metrics = OperatorMetrics::new(&self.metrics, &baseline, partition);
        let (operators, keys) = (self.operators.clone(), self.keys.clone());
        let options = self.options(context.session_config().batch_size());
        let (expected, schema) = (options.bytes_max, self.schema());
        let partitions = self.properties.partitioning.partition_count();
        let start = {
            let schema = Arc::clone(&schema);
            move || {
                let unlimited = operators.options().memory;
                let bounds = memory::Bounds { expected, partitions, unlimited, min: memory::SORT_MIN_BYTES };
                let bytes = memory::take(context.memory_pool(), &mut reservation, &bounds)?;
                let threads = memory::threads(bytes, threads);
                metrics.memory.set(bytes);
                let run = Run::new(operators.job(bytes, threads)?, reservation);
                // The streams of each thread are polled together.
                let mut shares: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
                for (index, input) in inputs.drain(..).enumerate() {
                    shares[index % threads].push(input);
                }
                let work = {
                    let schema = Arc::clone(&schema);
                    move |run: &Arc<Run>, parts: &Parts| {
                        let inputs = shares.into_iter().map(|streams| -> Box<dyn Batches> {
                            let input = Input::new(run, Arc::clone(&schema), streams);
                            Box::new(Limited { input, job: run.job.clone(), operators: operators.clone() })
                        });
                        let sorted = sort(&run.job, inputs.collect(), &keys, &options)?;
                        output(&run.job, &sorted, threads, parts)
                    }
                };
                bridge::start(&run, work, move |job| metrics.record(job))
            }
        };
        Ok(Box::pin(Lazy::new(schema, baseline, start)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(if self.merges { None } else { partition })]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _arguments: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::new(inputs[0].as_ref().clone().with_fetch(self.fetch, 0, 1)?))
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(ExternalSortExec { fetch, metrics: ExecutionPlanMetricsSet::new(), ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        if self.fetch.is_none() { CardinalityEffect::Equal } else { CardinalityEffect::LowerEqual }
    }
}

/// Passes the partitions of a sort on, by some threads.
fn output(job: &Job, sorted: &Sorted, threads: usize, parts: &Parts) -> Result<(), Error> {
    let work = || -> Result<(), Error> {
        while let Some((number, partition)) = sorted.next_partition()? {
            parts.pass(number, partition, &Ok)?;
        }
        Ok(())
    };
    let results = thread::scope(|scope| {
        let start = |_| scope.spawn(|| work().inspect_err(|_| job.cancel()));
        let started: Vec<_> = (0..threads).map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        started.into_iter().map(join).collect::<Vec<Result<(), Error>>>()
    });
    // An error of one thread cancels the others.
    let mut first = Ok(());
    for result in results {
        if matches!(first, Ok(()) | Err(Error::Cancelled)) && result.is_err() {
            first = result;
        }
    }
    first
}

/// The input of an operator whose spilled bytes are limited.
pub(super) struct Limited {
    pub(super) input: Input,
    pub(super) job: Job,
    pub(super) operators: Operators,
}

impl Batches for Limited {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.operators.check_limit(&self.job)?;
        self.input.next()
    }
}

/// Metrics besides those of all operators.
pub(super) struct OperatorMetrics {
    /// Memory that the pool granted.
    pub(super) memory: Gauge,
    spilled_bytes: Count,
    stored_bytes: Count,
    cpu: Time,
    io_wait: Time,
}

impl OperatorMetrics {
    /// The CPU time of an operator's threads is the compute time of its `baseline`.
    pub(super) fn new(
        metrics: &ExecutionPlanMetricsSet,
        baseline: &BaselineMetrics,
        partition: usize,
    ) -> OperatorMetrics {
        let builder = || MetricBuilder::new(metrics);
        OperatorMetrics {
            memory: builder().mem_used(partition),
            spilled_bytes: builder().spilled_bytes(partition),
            stored_bytes: builder().counter("spill_stored_bytes", partition),
            cpu: baseline.elapsed_compute().clone(),
            io_wait: builder().subset_time("io_wait", partition),
        }
    }

    /// Records the figures of a job that has ended.
    pub(super) fn record(&self, job: &Job) {
        let add = |count: &Count, bytes: u64| {
            count.add(usize::try_from(bytes).unwrap_or(usize::MAX));
        };
        add(&self.spilled_bytes, job.phases().spilled_bytes());
        add(&self.stored_bytes, job.spill_bytes().iter().map(|level| level.stored_bytes).sum());
        for phase in job.phases().list() {
            self.cpu.add_duration(Duration::from_nanos(phase.user_ns + phase.system_ns));
            self.io_wait.add_duration(Duration::from_nanos(phase.waited_ns));
        }
    }
}
