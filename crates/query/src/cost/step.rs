//! Steps: kinds of stages, by the work that they do.

use serde::{Deserialize, Serialize};

/// The work of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Samples keys for splitters.
    Sample,
    /// Reads a table and passes its rows on.
    #[default]
    Scan,
    /// Reads a table and divides its rows into partitions of their key.
    Divide,
    /// Reads a table and makes sorted runs.
    MakeRuns,
    /// Reads a table and keeps its first rows in an order.
    KeepFirst,
    /// Merges runs into longer ones.
    MergeAgain,
    /// Sorts partitions and emits their rows.
    EmitPartitions,
    /// Merges runs and emits their rows.
    EmitMerged,
    /// Joins two sorted tables.
    MergeJoin,
    /// Builds the table of a hash join.
    Build,
    /// Reads a table and divides its rows into partitions of their hash.
    Partition,
    /// Divides partitions again.
    PartitionAgain,
    /// Looks rows up in the table of a hash join.
    HashJoin,
    /// Reads a table and groups its rows.
    Group,
    /// Merges and emits groups.
    EmitGroups,
}

impl Step {
    /// Returns its name: `divide`, `emit merged`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Step::Sample => "sample",
            Step::Scan => "scan",
            Step::Divide => "divide",
            Step::MakeRuns => "make runs",
            Step::KeepFirst => "keep first rows",
            Step::MergeAgain => "merge again",
            Step::EmitPartitions => "emit partitions",
            Step::EmitMerged => "emit merged runs",
            Step::MergeJoin => "merge join",
            Step::Build => "build",
            Step::Partition => "partition",
            Step::PartitionAgain => "partition again",
            Step::HashJoin => "hash join",
            Step::Group => "group",
            Step::EmitGroups => "emit groups",
        }
    }

    /// Returns the name of its phase: `read`, `write`.
    #[must_use]
    pub fn phase_name(self) -> &'static str {
        match self {
            Step::Sample => "sample",
            Step::Scan | Step::Divide | Step::MakeRuns | Step::KeepFirst | Step::Group => "read",
            Step::MergeAgain => "merge",
            Step::EmitPartitions | Step::EmitMerged | Step::EmitGroups => "write",
            Step::MergeJoin | Step::HashJoin => "join",
            Step::Build => "build",
            Step::Partition => "partition",
            Step::PartitionAgain => "partition again",
        }
    }
}

/// Kind of phases whose predictions have the same errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PhaseKind {
    /// Its work.
    pub step: Step,
    /// Whether it writes or reads spilled rows.
    pub is_spilled: bool,
}
