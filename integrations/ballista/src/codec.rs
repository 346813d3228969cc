//! Plans with our sorts and joins on the wire.
//!
//! One of our operators is sent as DataFusion's operator of the same kind, without its inputs, after a marker. The process
//! that reads it builds ours again, with its own memory and options; if the result could differ there, DataFusion's. All else
//! is left to another codec, by default Ballista's.

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err, internal_err, not_impl_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::proto_decode::PhysicalExprDecodeCtx;
use datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};
use datafusion_proto::physical_plan::{
    AsExecutionPlan, PhysicalExtensionCodec, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalPlanNode;
use prost::Message;
use sakiyomi_datafusion::operators::{ExternalSortExec, Operators, SpillingJoinExec, stock_plan};

/// Begins the bytes of our operators: the first byte is not a valid field of a message of Ballista's.
const MARKER: &[u8] = b"sakiyomi-operator-1:";

/// Encodes our operators, and leaves the others to another codec.
#[derive(Debug)]
pub struct OperatorCodec {
    operators: Operators,
    inner: Arc<dyn PhysicalExtensionCodec>,
}

impl OperatorCodec {
    /// Over Ballista's codec. Operators that are read have these options.
    #[must_use]
    pub fn new(operators: &Operators) -> OperatorCodec {
        OperatorCodec::over(operators, Arc::new(BallistaPhysicalExtensionCodec::default()))
    }

    /// Over any codec.
    #[must_use]
    pub fn over(operators: &Operators, inner: Arc<dyn PhysicalExtensionCodec>) -> OperatorCodec {
        OperatorCodec { operators: operators.clone(), inner }
    }

    /// Our operator for DataFusion's, or that itself.
    fn ours(&self, stock: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        if let Some(sort) = stock.downcast_ref::<SortExec>() {
            return match ExternalSortExec::of(sort, false, sort.fetch(), &self.operators) {
                Ok(sort) => Arc::new(sort),
                Err(_) => stock,
            };
        }
        match SpillingJoinExec::of(&stock, &self.operators) {
            Ok(join) => Arc::new(join),
            Err(_) => stock,
        }
    }
}

/// DataFusion's operator for one of ours, with placeholders for its inputs; `None` for others.
fn stock(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(sort) = node.downcast_ref::<ExternalSortExec>() {
        let inputs = node.children()[0].output_partitioning().partition_count();
        if sort.merges() && inputs > 1 {
            // Ballista would give each task some partitions of the input, because it does not know this operator.
            return not_impl_err!(
                "a sort that merges {inputs} partitions cannot be sent to executors of Ballista; use the rule of operators \
                 in executors only"
            );
        }
    } else if !node.is::<SpillingJoinExec>() {
        return Ok(None);
    }
    let placeholder =
        |input: &Arc<dyn ExecutionPlan>| Arc::new(EmptyExec::new(input.schema())) as Arc<dyn ExecutionPlan>;
    let placeholders = node.children().into_iter().map(placeholder).collect();
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    stock_plan(&Arc::clone(node).replace_children(placeholders, options)?).map(Some)
}

impl PhysicalExtensionCodec for OperatorCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(message) = buf.strip_prefix(MARKER) else {
            return self.inner.try_decode(buf, inputs, ctx, converter);
        };
        let node = PhysicalPlanNode::decode(message);
        let node = node.map_err(|error| internal_datafusion_err!("an operator cannot be read: {error}"))?;
        let stock = node.try_into_physical_plan(ctx, self)?;
        let mut rest = inputs.iter();
        let filled = stock.transform_up(|node| {
            if !node.is::<EmptyExec>() {
                return Ok(Transformed::no(node));
            }
            match rest.next() {
                Some(input) => Ok(Transformed::yes(Arc::clone(input))),
                None => internal_err!("an operator has more inputs than were sent"),
            }
        })?;
        Ok(self.ours(filled.data))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(stock) = stock(&node)? else { return self.inner.try_encode(node, buf, converter) };
        buf.extend_from_slice(MARKER);
        let message = PhysicalPlanNode::try_from_physical_plan(stock, self)?;
        message.encode(buf).map_err(|error| DataFusionError::External(Box::new(error)))
    }

    fn try_decode_udf(&self, name: &str, buf: &[u8]) -> Result<Arc<ScalarUDF>> {
        self.inner.try_decode_udf(name, buf)
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode_udf(node, buf)
    }

    fn try_decode_higher_order_function(&self, name: &str, buf: &[u8]) -> Result<Arc<HigherOrderUDF>> {
        self.inner.try_decode_higher_order_function(name, buf)
    }

    fn try_encode_higher_order_function(&self, node: &HigherOrderUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode_higher_order_function(node, buf)
    }

    fn try_decode_expr(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn PhysicalExpr>],
        ctx: &PhysicalExprDecodeCtx<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        self.inner.try_decode_expr(buf, inputs, ctx)
    }

    fn try_encode_expr(
        &self,
        node: &Arc<dyn PhysicalExpr>,
        buf: &mut Vec<u8>,
        ctx: &PhysicalExprEncodeCtx<'_>,
    ) -> Result<()> {
        self.inner.try_encode_expr(node, buf, ctx)
    }

    fn try_decode_udaf(&self, name: &str, buf: &[u8]) -> Result<Arc<AggregateUDF>> {
        self.inner.try_decode_udaf(name, buf)
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode_udaf(node, buf)
    }

    fn try_decode_udwf(&self, name: &str, buf: &[u8]) -> Result<Arc<WindowUDF>> {
        self.inner.try_decode_udwf(name, buf)
    }

    fn try_encode_udwf(&self, node: &WindowUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode_udwf(node, buf)
    }
}
