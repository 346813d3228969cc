//! Joins that spill as an operator: hash joins while the smaller side fits, else merge joins.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, NullEquality, Result, Statistics, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::joins::{HashJoinExec, JoinOn, PartitionMode, SortMergeJoinExec};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildStats, ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties, ReplaceChildrenOptions, StatisticsArgs,
    apply_expression_roots,
};
use sakiyomi_query::join::{Condition, JoinInput, JoinKind, JoinMethod, join};
use sakiyomi_query::sort::SortOptions;
use sakiyomi_query::{Batches, Error};

use super::bridge::{self, Input, Lazy, Parts, Run};
use super::cost::{Estimate, Prediction};
use super::sort::{Limited, OperatorMetrics};
use super::types::{key_fault, row_fault};
use super::{Operators, memory};

/// Joins each partition of its left input with that of its right one, within the memory that the pool grants. The order of
/// its rows is undefined.
#[derive(Clone, Debug)]
pub struct SpillingJoinExec {
    /// DataFusion's join of the same inputs: for their distribution, the statistics and the schema.
    stock: Arc<dyn ExecutionPlan>,
    spec: Arc<Spec>,
    prediction: Prediction,
    operators: Operators,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// The sides, keys and kind of a join.
#[derive(Debug)]
struct Spec {
    on: JoinOn,
    join_type: JoinType,
    kind: JoinKind,
    /// Whether DataFusion's right input is the left side here: that of semi and anti joins is the one that is returned.
    is_swapped: bool,
    condition: Condition,
    /// The sides' schemas with unique names, so that no columns are merged.
    schemas: [SchemaRef; 2],
    /// Columns of the result, if not all are returned.
    projection: Option<Vec<usize>>,
    schema: SchemaRef,
}

impl SpillingJoinExec {
    /// The same join as DataFusion's hash join or merge join. The sorts below a merge join are left out.
    ///
    /// # Errors
    /// The reason, if its result would differ.
    pub fn of(plan: &Arc<dyn ExecutionPlan>, operators: &Operators) -> Result<SpillingJoinExec, String> {
        let stock = unsorted(plan)?;
        let (on, join_type, null_equality, has_filter, projection) = parts_of(&stock)?;
        if null_equality == NullEquality::NullEqualsNull {
            return Err("its nulls are equal".to_owned());
        }
        if has_filter {
            return Err("it has a condition besides equality".to_owned());
        }
        if stock.children().iter().any(|input| input.boundedness().is_unbounded()) {
            return Err("an input is unbounded".to_owned());
        }
        let (kind, is_swapped) = match join_type {
            JoinType::Inner => (JoinKind::Inner, false),
            JoinType::Left => (JoinKind::Left, false),
            JoinType::Right => (JoinKind::Right, false),
            JoinType::Full => (JoinKind::Full, false),
            JoinType::LeftSemi => (JoinKind::Semi, false),
            JoinType::LeftAnti => (JoinKind::Anti, false),
            JoinType::RightSemi => (JoinKind::Semi, true),
            JoinType::RightAnti => (JoinKind::Anti, true),
            JoinType::LeftMark | JoinType::RightMark => {
                return Err(format!("joins of the kind {join_type} are not supported"));
            }
        };
        let inputs: Vec<SchemaRef> = stock.children().into_iter().map(|input| input.schema()).collect();
        if let Some(fault) = inputs.iter().find_map(|schema| row_fault(schema)) {
            return Err(fault);
        }
        let mut places = Vec::new();
        for (left, right) in &on {
            let of = |expression: &Arc<dyn PhysicalExpr>, schema: &Schema| {
                let Some(column) = expression.downcast_ref::<Column>() else {
                    return Err(format!("the key {expression} is an expression"));
                };
                key_fault(schema, column.index()).map_or(Ok(column.index()), Err)
            };
            let pair = (of(left, &inputs[0])?, of(right, &inputs[1])?);
            let types = [inputs[0].field(pair.0).data_type(), inputs[1].field(pair.1).data_type()];
            if types[0] != types[1] {
                return Err(format!("it compares {} with {}", types[0], types[1]));
            }
            places.push(if is_swapped { (pair.1, pair.0) } else { pair });
        }
        let order = if is_swapped { [1, 0] } else { [0, 1] };
        let schemas = order.map(|side| renamed(&inputs[side], ["left", "right"][side]));
        let condition =
            Condition::new(&places, &schemas[0], &schemas[1]).map_err(|error| error.to_string())?;
        let schema = stock.schema();
        let spec = Spec { on, join_type, kind, is_swapped, condition, schemas, projection, schema };
        Ok(SpillingJoinExec {
            properties: Arc::new(properties(&stock)),
            stock,
            spec: Arc::new(spec),
            prediction: Prediction::default(),
            operators: operators.clone(),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// With the prediction by which it was chosen.
    pub(super) fn with_prediction(mut self, prediction: Prediction) -> SpillingJoinExec {
        self.prediction = prediction;
        self
    }

    /// The prediction by which it was chosen.
    #[must_use]
    pub fn prediction(&self) -> &Prediction {
        &self.prediction
    }

    /// Pairs of columns that are equal in joined rows.
    #[must_use]
    pub fn on(&self) -> &JoinOn {
        &self.spec.on
    }

    /// The kind of the join.
    #[must_use]
    pub fn join_type(&self) -> JoinType {
        self.spec.join_type
    }

    /// DataFusion's operators that do the same.
    pub(super) fn stock(&self) -> Result<Arc<dyn ExecutionPlan>> {
        if !self.stock.is::<SortMergeJoinExec>() {
            return Ok(Arc::clone(&self.stock));
        }
        let inputs = self.stock.children().into_iter().zip(self.stock.required_input_ordering());
        let sorted = inputs.map(|(input, required)| {
            let ordering = required.and_then(|required| {
                let required = required.into_single();
                LexOrdering::new(required.into_iter().map(PhysicalSortExpr::from))
            });
            let ordering = ordering.ok_or_else(|| internal_datafusion_err!("a merge join has keys"))?;
            let is_partitioned = input.output_partitioning().partition_count() > 1;
            let sort = SortExec::new(ordering, Arc::clone(input)).with_preserve_partitioning(is_partitioned);
            Ok(Arc::new(sort) as Arc<dyn ExecutionPlan>)
        });
        let mode = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Arc::clone(&self.stock).replace_children(sorted.collect::<Result<_>>()?, mode)
    }

    /// Rows and bytes of a partition of a side, as the query engine sees the sides.
    fn estimate(&self, side: usize) -> Option<Estimate> {
        let side = if self.spec.is_swapped { 1 - side } else { side };
        let partitions = self.stock.children()[side].output_partitioning().partition_count() as u64;
        let whole = self.prediction.inputs.get(side).copied().flatten()?;
        Some(Estimate { rows: whole.rows / partitions.max(1), bytes: whole.bytes / partitions.max(1) })
    }
}

/// The keys, the kind, the equality of nulls, whether there is another condition, and the columns of the result.
type JoinParts = (JoinOn, JoinType, NullEquality, bool, Option<Vec<usize>>);

fn parts_of(stock: &Arc<dyn ExecutionPlan>) -> Result<JoinParts, String> {
    if let Some(join) = stock.downcast_ref::<HashJoinExec>() {
        if join.null_aware {
            return Err("a null of its right input excludes all rows".to_owned());
        }
        if join.fetch().is_some() {
            return Err("only its first rows are needed".to_owned());
        }
        let partitions = join.right().output_partitioning().partition_count();
        if *join.partition_mode() != PartitionMode::Partitioned && partitions > 1 {
            return Err("all partitions share its build side, which is small".to_owned());
        }
        let projection = join.projection.as_ref().map(|columns| columns.to_vec());
        let parts = (join.on().to_vec(), *join.join_type(), join.null_equality());
        return Ok((parts.0, parts.1, parts.2, join.filter().is_some(), projection));
    }
    let Some(join) = stock.downcast_ref::<SortMergeJoinExec>() else {
        return Err(format!("{} is not a join on equal columns", stock.name()));
    };
    let parts = (join.on().to_vec(), join.join_type(), join.null_equality());
    Ok((parts.0, parts.1, parts.2, join.filter().is_some(), None))
}

/// A merge join of the inputs of its sorts; other joins as they are.
fn unsorted(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>, String> {
    let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() else {
        return Ok(Arc::clone(plan));
    };
    let input = |side: &Arc<dyn ExecutionPlan>| {
        let sort = side.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none());
        let sort = sort.ok_or("an input is in order already, and DataFusion merges it as it comes")?;
        Ok::<_, String>(Arc::clone(sort.input()))
    };
    let (left, right) = (input(join.left())?, input(join.right())?);
    let (on, filter) = (join.on().to_vec(), join.filter().clone());
    let options = join.sort_options().to_vec();
    let (join_type, nulls) = (join.join_type(), join.null_equality());
    let join = SortMergeJoinExec::try_new(left, right, on, filter, join_type, options, nulls);
    join.map(|join| Arc::new(join) as _).map_err(|error| error.to_string())
}

/// The schema with a name for each column that is unique among both sides.
fn renamed(schema: &Schema, side: &str) -> SchemaRef {
    let fields = schema.fields().iter().enumerate();
    let fields = fields.map(|(index, field)| {
        Field::new(format!("{side} {index}"), field.data_type().clone(), field.is_nullable())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Those of DataFusion's join, but without an order.
fn properties(stock: &Arc<dyn ExecutionPlan>) -> PlanProperties {
    let of_stock = stock.properties();
    let mut equivalences = EquivalenceProperties::new(stock.schema());
    // Equal columns and constants do not depend on the order.
    let groups = of_stock.equivalence_properties().eq_group().clone();
    if equivalences.add_equivalence_group(groups).is_err() {
        equivalences = EquivalenceProperties::new(stock.schema());
    }
    let partitioning = stock.output_partitioning().clone();
    PlanProperties::new(equivalences, partitioning, EmissionType::Final, stock.boundedness())
}

impl DisplayAs for SpillingJoinExec {
    fn fmt_as(&self, form: DisplayFormatType, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on: Vec<String> = self.spec.on.iter().map(|(left, right)| format!("({left}, {right})")).collect();
        let (kind, on) = (self.spec.join_type, on.join(", "));
        if matches!(form, DisplayFormatType::TreeRender) {
            return writeln!(to, "join_type={kind:?}\non={on}");
        }
        write!(to, "SpillingJoinExec: join_type={kind:?}, on=[{on}]")?;
        if let Some(projection) = &self.spec.projection {
            let names: Vec<&str> =
                self.spec.schema.fields().iter().map(|field| field.name().as_str()).collect();
            let columns = names.iter().zip(projection).map(|(name, index)| format!("{name}@{index}"));
            write!(to, ", projection=[{}]", columns.collect::<Vec<_>>().join(", "))?;
        }
        match form {
            DisplayFormatType::Verbose => write!(to, ", {}", self.prediction),
            _ => Ok(()),
        }
    }
}

impl ExecutionPlan for SpillingJoinExec {
    fn name(&self) -> &'static str {
        "SpillingJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.stock.input_distribution_requirements()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.stock.children()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let keys = self.spec.on.iter().flat_map(|(left, right)| [left, right]);
        apply_expression_roots(keys, visit)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mode = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let stock = Arc::clone(&self.stock).replace_children(children, mode)?;
        let properties = Arc::new(properties(&stock));
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Arc::new(SpillingJoinExec { stock, properties, metrics, ..Self::clone(&self) }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let children = self.stock.children();
        let [left, right] = [0, 1].map(|side: usize| {
            // A side with one partition is that of all others; then the other one has only one as well.
            children[side].execute(partition, Arc::clone(&context))
        });
        let mut sides = [left?, right?];
        if self.spec.is_swapped {
            sides.reverse();
        }
        let consumer = MemoryConsumer::new(format!("SpillingJoin[{partition}]")).with_can_spill(true);
        let mut reservation = consumer.register(context.memory_pool());
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let metrics = OperatorMetrics::new(&self.metrics, &baseline, partition);
        let estimates = [0, 1].map(|side| self.estimate(side));
        let expected = estimates[0].zip(estimates[1]).map(|(ours, theirs)| ours.bytes + theirs.bytes);
        let (operators, spec) = (self.operators.clone(), Arc::clone(&self.spec));
        let (schema, partitions) = (self.schema(), self.properties.partitioning.partition_count());
        let start = move || {
            let unlimited = operators.options().memory;
            let bounds = memory::Bounds { expected, partitions, unlimited, min: memory::JOIN_MIN_BYTES };
            let bytes = memory::take(context.memory_pool(), &mut reservation, &bounds)?;
            metrics.memory.set(bytes);
            let run = Run::new(operators.job(bytes, 1)?, reservation);
            let work =
                move |run: &Arc<Run>, parts: &Parts| work(run, parts, (&operators, &spec), sides, estimates);
            bridge::start(&run, work, move |job| metrics.record(job))
        };
        Ok(Box::pin(Lazy::new(schema, baseline, start)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.stock.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        arguments: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.stock.statistics_from_inputs(inputs, arguments)
    }
}

/// Joins the sides of a partition.
fn work(
    run: &Arc<Run>,
    parts: &Parts,
    (operators, spec): (&Operators, &Arc<Spec>),
    sides: [SendableRecordBatchStream; 2],
    estimates: [Option<Estimate>; 2],
) -> Result<(), Error> {
    let mut inputs = sides.into_iter().enumerate().map(|(side, stream)| {
        let schema = Arc::clone(&spec.schemas[side]);
        let input = Input::new(run, Arc::clone(&schema), vec![stream]);
        let input = Limited { input, job: run.job.clone(), operators: operators.clone() };
        let sort = SortOptions {
            bytes_max: estimates[side].map(|estimate| estimate.bytes),
            ..SortOptions::default()
        };
        let open = Box::new(move |_: &_| Ok(vec![Box::new(input) as Box<dyn Batches>]));
        JoinInput { schema, open, is_sorted: false, sort }
    });
    let (Some(left), Some(right)) = (inputs.next(), inputs.next()) else { unreachable!("two sides") };
    let sizes = estimates.map(|estimate| estimate.map(|estimate| (estimate.bytes, estimate.rows)));
    let method = JoinMethod::choose(&run.job, sizes[0], sizes[1]);
    let joined = join(&run.job, left, right, &spec.condition, spec.kind, method)?;
    let finish = |batch: RecordBatch| {
        let columns = match &spec.projection {
            Some(projection) => projection.iter().map(|&index| Arc::clone(batch.column(index))).collect(),
            None => batch.columns().to_vec(),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&spec.schema), columns, &options)?)
    };
    while let Some((number, part)) = joined.next_part()? {
        parts.pass(number, part, &finish)?;
    }
    Ok(())
}
