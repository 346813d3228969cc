//! Names of the phases that operators record ([`crate::phase::Phases`]), grouped by part of a job. A join appends the
//! side of a phase to its name.
//!
//! Recorded phases overlap: one thread sorts a partition while another writes. The phases of one part are therefore
//! compared with its prediction together.

use super::shape::Side;

/// Sampling the keys of a table.
pub(crate) const SAMPLING: &[&str] = &["sample"];
const SAMPLING_SIDES: [&[&str]; 2] = [&["sample left"], &["sample right"]];
/// Reading a table and partitioning its rows, spilled or not.
pub(crate) const PARTITIONING: &[&str] = &["read", "write runs"];
const PARTITIONING_SIDES: [&[&str]; 2] =
    [&["read left", "write runs left"], &["read right", "write runs right"]];
/// Reading a table and sorting runs.
pub(crate) const MAKING_RUNS: &[&str] = &["read", "write runs", "sort"];
const MAKING_RUNS_SIDES: [&[&str]; 2] =
    [&["read left", "write runs left", "sort left"], &["read right", "write runs right", "sort right"]];

/// Lists names, and the same ones of both sides of a join; then names that both sides share.
macro_rules! of_both_sides {
    ($($name:literal),*; $($shared:literal),*) => {
        &[$($name, concat!($name, " left"), concat!($name, " right"),)* $($shared),*]
    };
}

/// Sorting partitions and emitting them.
pub(crate) const EMITTING_PARTITIONS: &[&str] =
    of_both_sides!["read runs", "sort", "gather", "merge"; "join", "encode", "write"];
/// Merging runs and emitting rows.
pub(crate) const EMITTING_MERGED: &[&str] =
    of_both_sides!["merge", "read runs", "gather"; "join", "encode", "write"];
/// Reading a table and grouping its rows.
pub(crate) const GROUPING: &[&str] = &["read", "group", "write groups"];
/// Emitting groups.
pub(crate) const EMITTING_GROUPS: &[&str] = &["merge", "read groups", "encode", "write"];
/// A pipelined job, whose parts are not recorded separately.
pub(crate) const STREAMING: &[&str] = of_both_sides![
    "read", "build", "partition", "write runs", "read runs", "sort", "merge", "gather"; "join", "group", "encode", "write"
];

/// Returns the names of a part of a job for one side of a join, if the sides record them separately.
pub(crate) fn of_side(records: &'static [&'static str], side: Side) -> &'static [&'static str] {
    match records {
        SAMPLING => SAMPLING_SIDES[side.index()],
        PARTITIONING => PARTITIONING_SIDES[side.index()],
        MAKING_RUNS => MAKING_RUNS_SIDES[side.index()],
        other => other,
    }
}
