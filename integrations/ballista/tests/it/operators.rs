//! Our sorts and joins on the wire.

use std::sync::Arc;

use ballista::prelude::SessionContextExt;
use ballista_core::execution_plans::{ShuffleWriterExec, execute_physical_plan};
use ballista_core::extension::SessionConfigExt;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use datafusion_proto::physical_plan::{AsExecutionPlan, PhysicalExtensionCodec};
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::TryStreamExt;
use sakiyomi_ballista::cluster::Node;
use sakiyomi_datafusion::operators::{ExternalSortExec, OperatorRule, SpillingJoinExec};
use sakiyomi_testing::Scratch;

use crate::support::{Cluster, TABLES, node, sorted};

/// A plan with our operators, by the rule.
async fn planned(node: &Node, statement: &str, partitions: usize) -> Arc<dyn ExecutionPlan> {
    let config = SessionConfig::new_with_ballista().with_target_partitions(partitions);
    let context = SessionContext::new_with_config(config);
    for table in ["orders", "lineitem"] {
        let path = TABLES.path(&format!("{table}.parquet"));
        context.register_parquet(table, path.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    }
    let preferred = if partitions > 1 { "prefer_hash_join = true" } else { "prefer_hash_join = false" };
    for setting in [
        preferred,
        "hash_join_single_partition_threshold = 0",
        "hash_join_single_partition_threshold_rows = 0",
    ] {
        context.sql(&format!("SET datafusion.optimizer.{setting}")).await.unwrap();
    }
    let plan = context.sql(statement).await.unwrap().create_physical_plan().await.unwrap();
    OperatorRule::new(node.operators()).optimize(plan, context.copied_config().options()).unwrap()
}

fn count<T: ExecutionPlan>(plan: &Arc<dyn ExecutionPlan>) -> usize {
    usize::from(plan.is::<T>()) + plan.children().into_iter().map(count::<T>).sum::<usize>()
}

fn sent(plan: &Arc<dyn ExecutionPlan>, codec: &dyn PhysicalExtensionCodec) -> Arc<dyn ExecutionPlan> {
    let message = PhysicalPlanNode::try_from_physical_plan(Arc::clone(plan), codec).unwrap();
    let mut bytes = Vec::new();
    message.try_encode(&mut bytes).unwrap();
    let message = PhysicalPlanNode::try_decode(&bytes).unwrap();
    message.try_into_physical_plan(&TaskContext::default(), codec).unwrap()
}

const JOIN: &str = "SELECT o_orderkey, o_orderdate, l_linenumber, l_quantity FROM orders LEFT JOIN lineitem ON o_orderkey = l_orderkey";

fn text(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(true).to_string()
}

/// The operators and their expressions, without predictions and what scans are told of the order above them, which are not
/// sent.
fn operators_of(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let lines = text(plan);
    let cut = |line: &str| {
        let known = ["predicted", "not predicted", "sort_order_for_reorder", "stock because"];
        let end = known.iter().filter_map(|word| line.find(word)).min().unwrap_or(line.len());
        line[..end].split(", 0.").next().unwrap_or_default().trim_end_matches([',', ' ']).to_owned()
    };
    lines.lines().map(cut).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_with_our_operators_are_the_same_after_they_were_sent() {
    let scratch = Scratch::new("ballista_codec");
    let node = node(&scratch);
    let codec = node.codec();
    let join = planned(&node, JOIN, 3).await;
    let sort = planned(&node, "SELECT l_orderkey, l_comment_free FROM (SELECT l_orderkey, l_shipmode AS l_comment_free FROM lineitem) ORDER BY l_comment_free DESC NULLS LAST, l_orderkey LIMIT 500", 3).await;
    // The sort below the merge, as a stage of Ballista has it.
    assert_eq!(count::<SpillingJoinExec>(&join), 1, "{}", text(&join));
    let received = sent(&join, codec.as_ref());
    assert_eq!(operators_of(&received), operators_of(&join));
    assert_eq!(count::<SpillingJoinExec>(&received), 1);
    let context = || Arc::new(TaskContext::default());
    let rows = sorted(&collect(Arc::clone(&join), context()).await.unwrap());
    assert_eq!(sorted(&collect(received, context()).await.unwrap()), rows);
    assert!(rows.len() > 50_000);
    // A node of Ballista's around one of ours.
    let writer: Arc<dyn ExecutionPlan> =
        Arc::new(ShuffleWriterExec::try_new("job".into(), 1, join, String::new()).unwrap());
    let received = sent(&writer, codec.as_ref());
    assert!(received.is::<ShuffleWriterExec>() && count::<SpillingJoinExec>(&received) == 1);
    if let Some(merging) =
        first_sort(&sort).filter(|sort| sort.downcast_ref::<ExternalSortExec>().unwrap().merges())
    {
        let refused =
            PhysicalPlanNode::try_from_physical_plan(merging, codec.as_ref()).unwrap_err().to_string();
        assert!(refused.contains("a sort that merges 3 partitions cannot be sent"), "{refused}");
    } else {
        panic!("{}", text(&sort));
    }
}

fn first_sort(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if plan.is::<ExternalSortExec>() {
        return Some(Arc::clone(plan));
    }
    plan.children().into_iter().find_map(first_sort)
}

#[tokio::test(flavor = "multi_thread")]
async fn sorts_of_partitions_are_the_same_after_they_were_sent() {
    let scratch = Scratch::new("ballista_codec_sort");
    let node = node(&scratch);
    let codec = node.codec();
    // One partition.
    let config = SessionConfig::new_with_ballista().with_target_partitions(1);
    let context = SessionContext::new_with_config(config);
    let path = TABLES.path("orders.parquet");
    context.register_parquet("orders", path.to_str().unwrap(), ParquetReadOptions::default()).await.unwrap();
    for limit in ["", " LIMIT 7"] {
        let statement = format!(
            "SELECT o_orderkey, o_orderdate FROM orders ORDER BY o_orderdate DESC, o_orderkey{limit}"
        );
        let plan = context.sql(&statement).await.unwrap().create_physical_plan().await.unwrap();
        let ours =
            OperatorRule::new(node.operators()).optimize(plan, context.copied_config().options()).unwrap();
        assert_eq!(count::<ExternalSortExec>(&ours), 1, "{}", text(&ours));
        let received = sent(&ours, codec.as_ref());
        assert_eq!(operators_of(&received), operators_of(&ours));
        let rows = |plan| async {
            crate::support::rows(&collect(plan, Arc::new(TaskContext::default())).await.unwrap())
        };
        assert_eq!(rows(received).await, rows(ours).await);
    }
}

#[test]
fn a_cluster_runs_plans_that_have_our_operators() {
    let scratch = Scratch::new("ballista_submitted");
    std::fs::create_dir(scratch.path("work")).unwrap();
    let node = node(&scratch);
    let cluster = Cluster::start(&[(&scratch.path("work"), Some(&node))]);
    // One partition of each input: for plans with a `RepartitionExec` that are sent as such, Ballista 55.0 itself returns
    // rows twice or not at all.
    let join = "SELECT o_orderstatus, count(*), sum(l_quantity) FROM orders LEFT JOIN lineitem \
                ON o_orderkey = l_orderkey GROUP BY o_orderstatus";
    let sort = "SELECT l_orderkey, l_shipmode FROM lineitem ORDER BY l_shipmode, l_orderkey";
    for statement in [join, sort] {
        let (submitted, expected) = cluster.run(async {
            let plan = planned(&node, statement, 1).await;
            assert_eq!(
                count::<SpillingJoinExec>(&plan) + count::<ExternalSortExec>(&plan),
                1,
                "{}",
                text(&plan)
            );
            let expected = collect(Arc::clone(&plan), Arc::new(TaskContext::default())).await.unwrap();
            let config = SessionConfig::new_with_ballista();
            let (ballista, codec) = (config.ballista_config(), node.codec());
            let rows = execute_physical_plan::<PhysicalPlanNode>(
                cluster.url("http"),
                &ballista,
                plan,
                codec.as_ref(),
                "a session".to_owned(),
                config.clone(),
            );
            (rows.await.unwrap().try_collect::<Vec<_>>().await.unwrap(), expected)
        });
        assert!(sorted(&submitted) == sorted(&expected), "{statement}");
    }
}

#[test]
fn a_cluster_within_the_process_has_our_codec_and_reads() {
    let scratch = Scratch::new("ballista_standalone");
    let node = node(&scratch);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let ask = |stock: bool| {
        runtime.block_on(async {
            let context = if stock {
                SessionContext::standalone().await.unwrap()
            } else {
                SessionContext::standalone_with_state(node.session(SessionConfig::new())).await.unwrap()
            };
            for table in ["customer", "orders", "lineitem"] {
                let path = TABLES.path(&format!("{table}.parquet"));
                context
                    .register_parquet(table, path.to_str().unwrap(), ParquetReadOptions::default())
                    .await
                    .unwrap();
            }
            let statement = include_str!("../../queries/q3.sql");
            crate::support::rows(&context.sql(statement).await.unwrap().collect().await.unwrap())
        })
    };
    assert_eq!(ask(false), ask(true));
    runtime.shutdown_background();
}

#[test]
fn tasks_have_our_spill_files_and_store_beside_the_memory_pool_that_ballista_gives_them() {
    let scratch = Scratch::new("ballista_runtime");
    let node = node(&scratch);
    let config = SessionConfig::new().with_target_partitions(1);
    let shared = node.runtime_producer()(&config).unwrap();
    // As an executor of Ballista's does for each task.
    let pool = Arc::new(FairSpillPool::new(16 << 20));
    let runtime = RuntimeEnvBuilder::from_runtime_env(&shared).with_memory_pool(pool).build_arc().unwrap();
    let store = runtime.object_store(ObjectStoreUrl::local_filesystem()).unwrap();
    assert!(store.to_string().starts_with("sakiyomi"), "{store}");
    let context = SessionContext::new_with_config_rt(config, runtime);
    let statement = "SELECT value, concat('a text of some length ', value) AS text \
                     FROM generate_series(1, 300000) ORDER BY value % 1000, value";
    let rows = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
        let batches = context.sql(statement).await.unwrap().collect().await.unwrap();
        batches.iter().map(|batch| batch.num_rows()).sum::<usize>()
    });
    assert_eq!(rows, 300_000);
    let stats = node.spills().stats();
    assert!(stats.files_created > 0 && stats.written_bytes > 0, "{stats:?}");
}
