//! Names of the phases that operators record ([`crate::phase::Phases`]), grouped by part of a job.
//!
//! Recorded phases overlap: one thread sorts a partition while another writes. The phases of one part are therefore
//! compared with its prediction together.

/// Reading a table and partitioning its rows, spilled or not.
pub(crate) const DIVIDING: &[&str] = &["read", "write runs"];
/// Reading a table and sorting runs.
pub(crate) const MAKING_RUNS: &[&str] = &["read", "write runs", "sort"];
/// Sorting partitions and emitting them.
pub(crate) const GIVING_PARTITIONS: &[&str] = &["load", "sort", "gather", "join", "encode", "write"];
/// Merging runs and emitting rows.
pub(crate) const GIVING_MERGED: &[&str] = &["merge", "load", "gather", "join", "encode", "write"];
/// Reading a table and grouping its rows.
pub(crate) const GROUPING: &[&str] = &["read", "group", "write runs"];
/// Emitting groups.
pub(crate) const GIVING_GROUPS: &[&str] = &["merge groups", "encode", "write"];
/// A pipelined job, whose parts are not recorded separately.
pub(crate) const STREAMING: &[&str] =
    &["read", "build", "join", "write runs", "load", "sort", "merge", "gather", "group", "encode", "write"];
