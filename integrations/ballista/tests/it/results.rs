//! Results of a cluster with our executors are those of one with Ballista's.

use ballista_core::config::BALLISTA_SHUFFLE_COMPRESSION_CODEC;
use sakiyomi_ballista::cluster::NodeOptions;
use sakiyomi_ballista::shuffle::ShuffleOptions;
use sakiyomi_testing::Scratch;

use crate::support::{Cluster, node, node_with, rows, sorted, tree};

/// Statements whose rows have an order, which is compared.
const ORDERED: [&str; 5] = [
    include_str!("../../queries/q3.sql"),
    include_str!("../../queries/q5.sql"),
    include_str!("../../queries/q9.sql"),
    include_str!("../../queries/q18.sql"),
    "SELECT l_shipmode, l_orderkey, l_linenumber FROM lineitem ORDER BY l_shipmode, l_orderkey DESC, l_linenumber",
];

/// Statements whose rows may come in any order.
const UNORDERED: [&str; 9] = [
    "SELECT count(*) FROM orders, nation WHERE o_totalprice > 1000",
    "SELECT count(*) FROM (SELECT 1 FROM lineitem WHERE l_quantity > 0 LIMIT 50000)",
    "SELECT c_custkey, o_orderkey FROM customer FULL OUTER JOIN orders ON c_custkey = o_custkey",
    "SELECT c_name FROM customer WHERE NOT EXISTS (SELECT 1 FROM orders WHERE o_custkey = c_custkey)",
    "SELECT l_partkey, l_suppkey, count(*), sum(l_quantity), min(l_shipmode) FROM lineitem GROUP BY l_partkey, l_suppkey",
    "SELECT count(DISTINCT l_suppkey), count(DISTINCT l_comment_free) FROM (SELECT l_suppkey, l_shipinstruct AS \
     l_comment_free FROM lineitem)",
    "SELECT o_orderstatus, avg(o_totalprice) FROM orders WHERE o_orderkey < 0 GROUP BY o_orderstatus",
    "SELECT l_returnflag, sum(l_quantity), sum(l_extendedprice) FROM lineitem GROUP BY l_returnflag",
    "SELECT p_brand, count(*) FROM part LEFT JOIN partsupp ON p_partkey = ps_partkey AND ps_availqty > 9000 GROUP BY p_brand",
];

/// Joins of partitioned inputs, so that rows are shuffled even at this scale.
const NO_BROADCAST: [(&str, &str); 2] = [
    ("ballista.optimizer.broadcast_join_threshold_bytes", "0"),
    ("ballista.optimizer.broadcast_join_threshold_rows", "0"),
];

#[test]
fn rows_are_those_of_ballistas_own_executors() {
    let scratch = Scratch::new("ballista_results");
    let directories = ["stock1", "stock2", "ours1", "ours2"].map(|name| {
        std::fs::create_dir(scratch.path(name)).unwrap();
        scratch.path(name)
    });
    let stock = Cluster::start(&[(&directories[0], None), (&directories[1], None)]);
    // The second has hardly any memory.
    let small =
        ShuffleOptions { memory: 0, write_memory: 4 << 20, block: 64 << 10, ..ShuffleOptions::default() };
    let nodes =
        [node(&scratch), node_with(&scratch, NodeOptions { shuffle: small, ..NodeOptions::default() })];
    let ours = Cluster::start(&[(&directories[2], Some(&nodes[0])), (&directories[3], Some(&nodes[1]))]);
    let few = ("ballista.shuffle.sort_based.batch_size", "100");
    let spilling = ("ballista.shuffle.sort_based.memory_limit_per_task_bytes", "30000");
    for settings in [&[][..], &[NO_BROADCAST[0], NO_BROADCAST[1], few, spilling]] {
        for statement in ORDERED {
            let expected = rows(&stock.query(statement, settings).unwrap());
            assert!(!expected.is_empty(), "{statement}");
            assert_eq!(rows(&ours.query(statement, settings).unwrap()), expected, "{statement} {settings:?}");
        }
        for statement in UNORDERED {
            let expected = sorted(&stock.query(statement, settings).unwrap());
            assert_eq!(
                sorted(&ours.query(statement, settings).unwrap()),
                expected,
                "{statement} {settings:?}"
            );
        }
    }
    for codec in ["none", "zstd"] {
        let settings = [NO_BROADCAST[0], NO_BROADCAST[1], (BALLISTA_SHUFFLE_COMPRESSION_CODEC, codec)];
        let expected = rows(&stock.query(ORDERED[2], &settings).unwrap());
        assert_eq!(rows(&ours.query(ORDERED[2], &settings).unwrap()), expected, "{codec}");
    }
    for node in &nodes {
        let stats = node.shuffle().stats();
        assert!(stats.files > 0 && stats.written_bytes > 0 && stats.read_bytes > 0, "{stats:?}");
        assert!(stats.spills > 0 && stats.spilled_bytes > 0, "{stats:?}");
    }
}

#[test]
fn stock_executors_and_ours_in_one_cluster_read_each_others_files() {
    let scratch = Scratch::new("ballista_mixed");
    let directories = ["stock", "ours"].map(|name| {
        std::fs::create_dir(scratch.path(name)).unwrap();
        scratch.path(name)
    });
    let ours = node(&scratch);
    let cluster = Cluster::start(&[(&directories[0], None), (&directories[1], Some(&ours))]);
    let expected = rows(&cluster.query(ORDERED[2], &[]).unwrap());
    let settings = [NO_BROADCAST[0], NO_BROADCAST[1], ("datafusion.execution.target_partitions", "8")];
    for forced in ["false", "true"] {
        let settings = [&settings[..], &[("ballista.shuffle.force_remote_read", forced)]].concat();
        for _ in 0..3 {
            assert_eq!(rows(&cluster.query(ORDERED[2], &settings).unwrap()), expected);
        }
    }
    // Both have done some of it.
    assert!(tree(&directories[0]).iter().any(|path| path.ends_with("data.arrow")));
    assert!(ours.shuffle().stats().files > 0, "{:?}", ours.shuffle().stats());
    assert!(ours.shuffle().stats().read_bytes > 0, "{:?}", ours.shuffle().stats());
}

#[test]
fn rows_without_columns_are_counted() {
    let scratch = Scratch::new("ballista_counts");
    let ours = node(&scratch);
    std::fs::create_dir(scratch.path("work")).unwrap();
    let cluster = Cluster::start(&[(&scratch.path("work"), Some(&ours))]);
    // Several tasks read a table, so that their rows pass through files.
    let several = ("datafusion.optimizer.repartition_file_min_size", "1");
    for settings in [&[several][..], &[several, NO_BROADCAST[0], NO_BROADCAST[1]]] {
        for (statement, expected) in [
            // The numbers of rows of the files do not answer these.
            (
                "SELECT count(*) FROM (SELECT 1 FROM orders WHERE o_totalprice > 0 LIMIT 12345) WHERE random() >= 0",
                12_345,
            ),
            (
                "SELECT count(*) FROM (SELECT 1 FROM orders WHERE o_totalprice > 0 LIMIT 99999), region WHERE random() >= 0",
                75_000,
            ),
            ("SELECT sum(1) FROM (SELECT 1 FROM orders WHERE o_totalprice > 0 LIMIT 12345)", 12_345),
        ] {
            let before = ours.shuffle().stats().read_bytes;
            let counted = rows(&cluster.query(statement, settings).unwrap());
            assert_eq!(counted, [format!("| {expected} |")], "{statement}");
            let after = ours.shuffle().stats();
            assert!(after.read_bytes > before, "{statement}, {settings:?}: {after:?}");
        }
    }
}
