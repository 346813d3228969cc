//! Names under which operators record their phases ([`crate::phase::Phases`]), by the part of a job that they belong
//! to.
//!
//! Phases of operators overlap: a thread sorts one partition while another one writes. Those of one part of a job are
//! compared with its prediction together.

/// Reading a table and dividing its rows, spilled or not.
pub(crate) const DIVIDING: &[&str] = &["read", "write runs"];
/// Reading a table and sorting runs.
pub(crate) const MAKING_RUNS: &[&str] = &["read", "write runs", "sort"];
/// Sorting what was divided, and giving it out.
pub(crate) const GIVING_PARTITIONS: &[&str] = &["load", "sort", "gather", "join", "encode", "write"];
/// Merging runs, and giving them out.
pub(crate) const GIVING_MERGED: &[&str] = &["merge", "load", "gather", "join", "encode", "write"];
/// Reading a table and grouping its rows.
pub(crate) const GROUPING: &[&str] = &["read", "group", "write runs"];
/// Giving out groups.
pub(crate) const GIVING_GROUPS: &[&str] = &["merge groups", "encode", "write"];
/// A whole job whose parts are not recorded apart: rows go from tables to the result without being held.
pub(crate) const STREAMING: &[&str] =
    &["read", "build", "join", "write runs", "load", "sort", "merge", "gather", "group", "encode", "write"];
