//! Plans: all choices of a job.

use sakiyomi_io::EngineSpec;
use serde::{Serialize, Serializer};

use super::operators::Codec;
use super::shape::Side;

/// Use of the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum PageCache {
    /// Bypassed (`O_DIRECT`).
    #[serde(rename = "direct")]
    Bypassed,
    /// Buffered I/O.
    #[serde(rename = "buffered")]
    Used,
}

impl PageCache {
    /// Returns `direct` or `buffered`.
    #[must_use]
    pub fn name(self) -> &'static str {
        if self == PageCache::Bypassed { "direct" } else { "buffered" }
    }
}

/// Transfers of the files of one role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct StreamPlan {
    /// Bytes per operation.
    pub block_bytes: u64,
    /// Use of the page cache.
    pub page_cache: PageCache,
}

/// Spilling of rows that do not fit into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SpillPlan {
    /// Transfers of the spill files. A block is the chunk of a partition, or the read-ahead of a run.
    #[serde(flatten)]
    pub stream: StreamPlan,
    /// The compression of which the job will make most use: it chooses the level of each chunk while it spills, by the
    /// time that the device takes ([`crate::spill`]).
    pub codec: Codec,
}

/// Method of a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "method", rename_all = "kebab-case")]
pub enum SortMethod {
    /// In memory, in partitions distributed over threads.
    InMemory {
        /// Number of partitions.
        partitions: u64,
        /// Bytes of rows that may stay in memory.
        resident_bytes: u64,
        /// Bytes of buffers that the sort may use.
        memory_bytes: u64,
    },
    /// Partitioning by key ranges into spill files; each partition is sorted in memory.
    RangePartition {
        /// Number of partitions.
        partitions: u64,
        /// Bytes of rows that stay in memory while others are spilled.
        resident_bytes: u64,
        /// Bytes of buffers that the sort may use.
        memory_bytes: u64,
    },
    /// Sorted runs in spill files, merged with a loser tree.
    RunsAndMerge {
        /// Bytes of a run.
        run_bytes: u64,
        /// Number of runs merged at a time.
        fan_in: u64,
        /// Times that rows are spilled; 0 if all runs stay in memory.
        passes: u64,
        /// Bytes of buffers that the sort may use.
        memory_bytes: u64,
    },
    /// The first rows only, kept in a heap.
    TopN,
    /// The rows are in order already.
    AlreadySorted,
}

impl SortMethod {
    /// Returns the name for display.
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

/// Algorithm of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "algorithm", rename_all = "kebab-case")]
pub enum Algorithm {
    /// A sort.
    Sort {
        /// Sort method.
        sort: SortMethod,
    },
    /// A merge join of sorted tables.
    MergeJoin {
        /// Sort method of the left table.
        left: SortMethod,
        /// Sort method of the right table.
        right: SortMethod,
    },
    /// A hash join.
    HashJoin {
        /// The build side.
        build: Side,
        /// Partitions that both tables are spilled in, over all passes; 1 if the table fits into memory.
        partitions: u64,
    },
    /// Aggregation in a hash table.
    HashAggregate {
        /// Partitions that groups are spilled in; 1 if they fit into memory.
        partitions: u64,
    },
}

impl Algorithm {
    /// Returns a description, such as `sort by range partitioning` or `hash join built from the left`.
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
            Algorithm::HashAggregate { .. } => "hash aggregation, groups spilled in partitions".to_owned(),
        }
    }
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Plan {
    /// Algorithm of the operator.
    #[serde(flatten)]
    pub algorithm: Algorithm,
    /// Number of compute threads.
    pub threads: usize,
    /// The engine of all streams.
    #[serde(serialize_with = "engine_by_name")]
    pub engine: EngineSpec,
    /// Transfers of the tables.
    pub input: StreamPlan,
    /// Spilling of rows; `None` if nothing is spilled.
    pub spill: Option<SpillPlan>,
    /// Transfers of the result; `None` if it is not written.
    pub output: Option<StreamPlan>,
}

fn engine_by_name<S: Serializer>(engine: &EngineSpec, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(engine)
}
