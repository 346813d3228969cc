//! The rule that puts our operators into plans.
//!
//! It runs after all rules of DataFusion. Joins are replaced one by one, and only if the plan with the join is still valid
//! and its rows keep their order: our joins promise none. Then sorts are replaced, together with the merge above them. An
//! operator that stays is kept with the reason, which `EXPLAIN VERBOSE` shows.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, StatisticsArgs, StatisticsContext};

use super::cost::{Estimate, Prediction, Setting};
use super::join::SpillingJoinExec;
use super::kept::KeptExec;
use super::sort::ExternalSortExec;
use super::{OperatorChoice, Operators, memory};

/// Replaces sorts and joins of a plan where that keeps the result and, by the cost model, saves time.
#[derive(Debug)]
pub struct OperatorRule {
    operators: Operators,
}

/// The outcome for an operator: ours, or the reason why not.
type Outcome = Result<Arc<dyn ExecutionPlan>, String>;

impl OperatorRule {
    /// A rule for `SessionStateBuilder::with_physical_optimizer_rule`.
    #[must_use]
    pub fn new(operators: &Operators) -> Arc<OperatorRule> {
        Arc::new(OperatorRule { operators: operators.clone() })
    }

    /// Replaces joins until all have been considered.
    fn joins(
        &self,
        mut plan: Arc<dyn ExecutionPlan>,
        share: usize,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        while let Some(join) = first_join(&plan) {
            let outcome = self.join(&join, share).and_then(|ours| {
                let candidate = replaced(&plan, &join, &ours).map_err(|error| error.to_string())?;
                let is_valid = !depends_on_order(&plan, &join)
                    && keeps_order(&plan, &candidate)
                    && SanityCheckPlan::new().optimize(Arc::clone(&candidate), config).is_ok();
                is_valid
                    .then_some(candidate)
                    .ok_or_else(|| "its rows may be needed in their order".to_owned())
            });
            plan = match outcome {
                Ok(candidate) => candidate,
                Err(reason) => {
                    replaced(&plan, &join, &(Arc::new(KeptExec::new(Arc::clone(&join), &reason)) as _))?
                }
            };
        }
        Ok(plan)
    }

    fn join(&self, join: &Arc<dyn ExecutionPlan>, share: usize) -> Outcome {
        let ours = SpillingJoinExec::of(join, &self.operators)?;
        let children = ours.children();
        let schemas = [0, 1].map(|side| children[side].schema());
        let inputs = [0, 1].map(|side| estimate(children[side]));
        let texts = ours.on().iter().filter_map(|(left, _)| left.data_type(&schemas[0]).ok());
        let partitions = children[0].output_partitioning().partition_count();
        let setting = Setting {
            memory: share,
            threads: partitions.min(self.operators.options().threads),
            texts: texts.filter(|data_type| data_type.primitive_width().is_none()).count(),
        };
        let is_hashed = join.is::<HashJoinExec>();
        let model = self.operators.model();
        let prediction = model.join([&schemas[0], &schemas[1]], inputs, is_hashed, setting);
        self.decide(&prediction, partitions * memory::JOIN_MIN_BYTES, share)?;
        Ok(Arc::new(ours.with_prediction(prediction)))
    }

    /// Replaces a sort, with the merge above it if there is one; `None` for other operators.
    fn sort(&self, plan: &Arc<dyn ExecutionPlan>, share: usize) -> Option<Outcome> {
        let merge = plan.downcast_ref::<SortPreservingMergeExec>();
        let sort = match merge {
            Some(merge) => {
                merge.input().downcast_ref::<SortExec>().filter(|sort| sort.expr() == merge.expr())?
            }
            None => plan.downcast_ref::<SortExec>()?,
        };
        Some(self.sorted(sort, merge, share))
    }

    fn sorted(&self, sort: &SortExec, merge: Option<&SortPreservingMergeExec>, share: usize) -> Outcome {
        let input = sort.input();
        let ordered = input.equivalence_properties().ordering_satisfy(sort.expr().clone());
        if ordered.map_err(|error| error.to_string())? {
            return Err("its input is in order already".to_owned());
        }
        let fetch =
            [sort.fetch(), merge.and_then(SortPreservingMergeExec::fetch)].into_iter().flatten().min();
        let ours = ExternalSortExec::of(sort, merge.is_some(), fetch, &self.operators)?;
        let partitions = input.output_partitioning().partition_count();
        let schema = input.schema();
        let texts = sort.expr().iter().filter_map(|term| term.expr.data_type(&schema).ok());
        let setting = Setting {
            memory: share,
            threads: partitions.min(self.operators.options().threads),
            texts: texts.filter(|data_type| data_type.primitive_width().is_none()).count(),
        };
        let prediction = self.operators.model().sort(&schema, estimate(input), fetch, setting);
        // A sort of all partitions may have fewer threads.
        let executions = if ours.merges() { 1 } else { partitions };
        self.decide(&prediction, executions * memory::SORT_MIN_BYTES, share)?;
        Ok(Arc::new(ours.with_prediction(prediction)))
    }

    /// Whether an operator of ours that needs some memory is chosen; the reason if it is not.
    fn decide(&self, prediction: &Prediction, needed: usize, share: usize) -> Result<(), String> {
        if self.operators.options().choice == OperatorChoice::Sakiyomi {
            return Ok(());
        }
        match prediction.ours {
            None => Err("the number of rows of an input is not known".to_owned()),
            Some(_) if needed > share => {
                Err(format!("{needed} bytes of memory are needed, and its share is {share}"))
            }
            Some(_) if prediction.is_faster() => Ok(()),
            Some(_) => Err(format!("it is faster: {prediction}")),
        }
    }
}

impl PhysicalOptimizerRule for OperatorRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.operators.options().choice == OperatorChoice::Stock {
            return Ok(plan);
        }
        let share = self.operators.options().memory / memory_users(&plan)?.max(1);
        let plan = self.joins(plan, share, config)?;
        let sorts = |node: Arc<dyn ExecutionPlan>| {
            if is_kept(&node) {
                return Ok(Transformed::no(node));
            }
            Ok(match self.sort(&node, share) {
                None => Transformed::no(node),
                Some(Ok(ours)) => Transformed::yes(ours),
                // The sort below a merge is considered with it, and once more alone.
                Some(Err(_)) if node.is::<SortPreservingMergeExec>() => Transformed::no(node),
                Some(Err(reason)) => Transformed::yes(Arc::new(KeptExec::new(node, &reason)) as _),
            })
        };
        Ok(plan.transform_down(sorts)?.data)
    }

    fn name(&self) -> &str {
        "sakiyomi_operators"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with DataFusion's operators in place of ours, for another process: it is serialized as any plan of
/// DataFusion, and the rule is applied to it where it runs, with the memory and the calibrations of that machine.
///
/// # Errors
/// If an operator cannot be built.
pub fn stock_plan(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let stock = |node: Arc<dyn ExecutionPlan>| {
        if let Some(kept) = (node.as_ref() as &dyn Any).downcast_ref::<KeptExec>() {
            return Ok(Transformed::yes(Arc::clone(kept.inner())));
        }
        if let Some(sort) = node.downcast_ref::<ExternalSortExec>() {
            return Ok(Transformed::yes(sort.stock()));
        }
        match node.downcast_ref::<SpillingJoinExec>() {
            Some(join) => Ok(Transformed::yes(join.stock()?)),
            None => Ok(Transformed::no(node)),
        }
    };
    Ok(Arc::clone(plan).transform_up(stock)?.data)
}

fn is_kept(plan: &Arc<dyn ExecutionPlan>) -> bool {
    (plan.as_ref() as &dyn Any).is::<KeptExec>()
}

/// The first join that has not been considered.
fn first_join(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let mut found = None;
    let visit = |node: &Arc<dyn ExecutionPlan>| {
        if !is_kept(node) && (node.is::<HashJoinExec>() || node.is::<SortMergeJoinExec>()) {
            found = Some(Arc::clone(node));
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    };
    plan.apply(visit).ok()?;
    found
}

/// The plan with one operator replaced.
fn replaced(
    plan: &Arc<dyn ExecutionPlan>,
    old: &Arc<dyn ExecutionPlan>,
    new: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut is_done = false;
    let replace = |node: Arc<dyn ExecutionPlan>| {
        if !is_done && Arc::ptr_eq(&node, old) {
            is_done = true;
            return Ok(Transformed::new(Arc::clone(new), true, TreeNodeRecursion::Stop));
        }
        Ok(Transformed::no(node))
    };
    Ok(Arc::clone(plan).transform_down(replace)?.data)
}

/// Whether the rows of another plan are in the order of a plan, and in as many partitions.
fn keeps_order(plan: &Arc<dyn ExecutionPlan>, other: &Arc<dyn ExecutionPlan>) -> bool {
    let order: Option<&LexOrdering> = plan.output_ordering();
    let keeps =
        |order: &LexOrdering| other.equivalence_properties().ordering_satisfy(order.clone()).unwrap_or(false);
    order.is_none_or(keeps)
        && plan.output_partitioning().partition_count() == other.output_partitioning().partition_count()
}

/// Returns whether an operator above a join may depend on the order of its rows without a requirement that
/// [`SanityCheckPlan`] checks: a limit, a sink, or an aggregation such as `first_value`, from whose order an earlier rule has
/// concluded that its input needs no sort.
fn depends_on_order(plan: &Arc<dyn ExecutionPlan>, join: &Arc<dyn ExecutionPlan>) -> bool {
    join.output_ordering().is_some() && order_above(plan, join) == Some(Order::Used)
}

/// The order of a join's rows in the result of an operator above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The rows have it.
    Kept,
    /// The rows have it no more, and nothing depended on it.
    Lost,
    /// An operator may depend on it.
    Used,
}

/// `None` if the join is not part of the plan.
fn order_above(plan: &Arc<dyn ExecutionPlan>, join: &Arc<dyn ExecutionPlan>) -> Option<Order> {
    if Arc::ptr_eq(plan, join) {
        return Some(Order::Kept);
    }
    let found = |(index, child): (usize, &Arc<dyn ExecutionPlan>)| Some((index, order_above(child, join)?));
    let (index, order) = plan.children().into_iter().enumerate().find_map(found)?;
    let is_sensitive = |aggregate: &AggregateExec| {
        aggregate.aggr_expr().iter().any(|function| !function.order_sensitivity().is_insensitive())
    };
    Some(match order {
        Order::Kept if plan.is::<SortExec>() => Order::Lost,
        Order::Kept
            if plan.fetch().is_some() || plan.is::<GlobalLimitExec>() || plan.is::<DataSinkExec>() =>
        {
            Order::Used
        }
        Order::Kept if plan.downcast_ref::<AggregateExec>().is_some_and(is_sensitive) => Order::Used,
        Order::Kept if !plan.maintains_input_order().get(index).copied().unwrap_or(true) => Order::Lost,
        order => order,
    })
}

/// Rows and bytes of a plan's result, if known.
fn estimate(plan: &Arc<dyn ExecutionPlan>) -> Option<Estimate> {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
    Estimate::of(&plan.schema(), &statistics)
}

/// Number of the operators that share the memory of a pool.
fn memory_users(plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
    let mut count = 0;
    plan.apply(|node| {
        let is_user = node.is::<SortExec>()
            || node.is::<HashJoinExec>()
            || node.is::<SortMergeJoinExec>()
            || node.is::<AggregateExec>();
        count += usize::from(is_user);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(count)
}
