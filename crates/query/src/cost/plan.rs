//! Plans: all choices that a job can make.

use sakiyomi_io::EngineSpec;
use serde::{Serialize, Serializer};

use super::operators::Codec;
use super::shape::Side;

/// Use of the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum PageCache {
    /// Not at all (`O_DIRECT`).
    #[serde(rename = "direct")]
    Bypassed,
    /// As usual.
    #[serde(rename = "buffered")]
    Used,
}

impl PageCache {
    /// `direct` or `buffered`.
    #[must_use]
    pub fn name(self) -> &'static str {
        if self == PageCache::Bypassed { "direct" } else { "buffered" }
    }
}

/// How the files of one role are transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct StreamPlan {
    /// Bytes of an operation.
    pub block_bytes: u64,
    /// Use of the page cache.
    pub page_cache: PageCache,
}

/// How rows that do not fit into memory are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SpillPlan {
    /// How they are transferred. A block is the chunk of a partition, or the read-ahead of a run.
    #[serde(flatten)]
    pub stream: StreamPlan,
    /// Their compression.
    pub codec: Codec,
}

/// How rows are put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "method", rename_all = "kebab-case")]
pub enum SortMethod {
    /// In memory, in partitions that threads share.
    InMemory {
        /// Number of partitions.
        partitions: u64,
    },
    /// Partitions by ranges of the key, spilled, and each sorted in memory.
    RangePartition {
        /// Number of partitions of a pass.
        partitions: u64,
        /// Times that rows are spilled.
        passes: u64,
        /// Bytes of rows that stay in memory while others are spilled.
        resident_bytes: u64,
    },
    /// Sorted runs, spilled, and merged by a loser tree.
    RunsAndMerge {
        /// Bytes of a run.
        run_bytes: u64,
        /// Runs that are merged at a time.
        fan_in: u64,
        /// Times that rows are spilled.
        passes: u64,
    },
    /// The first rows only, kept in a heap.
    TopN,
    /// The rows are in order already.
    AlreadySorted,
}

impl SortMethod {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SortMethod::InMemory { .. } => "in memory",
            SortMethod::RangePartition { .. } => "range partitioning",
            SortMethod::RunsAndMerge { .. } => "runs and merge",
            SortMethod::TopN => "top N",
            SortMethod::AlreadySorted => "already sorted",
        }
    }
}

/// How the operator works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "algorithm", rename_all = "kebab-case")]
pub enum Algorithm {
    /// A sort.
    Sort {
        /// How rows are put in order.
        sort: SortMethod,
    },
    /// A join of sorted tables.
    MergeJoin {
        /// How the left table is sorted.
        left: SortMethod,
        /// How the right table is sorted.
        right: SortMethod,
    },
    /// A join by a table of one side's rows.
    HashJoin {
        /// The side that is in the table.
        build: Side,
        /// Partitions that both tables are spilled in; 1 if the table fits into memory.
        partitions: u64,
    },
    /// Groups in a table.
    HashAggregate {
        /// Partitions that rows are spilled in; 1 if the table fits into memory.
        partitions: u64,
    },
    /// Groups of sorted rows.
    SortedAggregate {
        /// How rows are put in order.
        sort: SortMethod,
    },
}

impl Algorithm {
    /// In words: `sort by range partitioning`, `hash join`.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Algorithm::Sort { sort } => format!("sort by {}", sort.name()),
            Algorithm::MergeJoin { left, right } if left.name() == right.name() => {
                format!("merge join, both sorted by {}", left.name())
            }
            Algorithm::MergeJoin { left, right } => {
                format!("merge join, left {}, right {}", left.name(), right.name())
            }
            Algorithm::HashJoin { build, partitions } => {
                let side = if build == Side::Left { "left" } else { "right" };
                let spilled = if partitions > 1 { ", partitioned" } else { "" };
                format!("hash join built from the {side}{spilled}")
            }
            Algorithm::HashAggregate { partitions: 1 } => "hash aggregation".to_owned(),
            Algorithm::HashAggregate { .. } => "hash aggregation, partitioned".to_owned(),
            Algorithm::SortedAggregate { sort } => format!("sorted aggregation, {}", sort.name()),
        }
    }
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Plan {
    /// How the operator works.
    #[serde(flatten)]
    pub algorithm: Algorithm,
    /// Threads that compute.
    pub threads: usize,
    /// The engine of all streams.
    #[serde(serialize_with = "engine_by_name")]
    pub engine: EngineSpec,
    /// How tables are read.
    pub input: StreamPlan,
    /// How rows are spilled, if they are.
    pub spill: Option<SpillPlan>,
    /// How the result is written, if it is.
    pub output: Option<StreamPlan>,
}

fn engine_by_name<S: Serializer>(engine: &EngineSpec, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(engine)
}
