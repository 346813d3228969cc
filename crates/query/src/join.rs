//! Joins of two tables on equal columns.
//!
//! A merge join reads two sorted streams once and keeps a batch of each: its memory does not grow with its inputs, only
//! groups of equal keys on *both* sides are buffered, and spilled if they are large. It compares keys as integers of 64
//! or 128 bits where the columns fit, and copies no consecutive rows: in a join of a foreign key with its primary key
//! the columns of the many rows are slices of their input.
//!
//! | file | what |
//! |---|---|
//! | `kind.rs` | inner, left, right, full, semi, anti |
//! | `condition.rs`, `coercion.rs` | `--on`: pairs of columns and the type in which they are compared |
//! | `layout.rs` | the columns of the result |
//! | `keys.rs`, `keys/normal.rs` | keys as integers or bytes that compare as the columns do |
//! | `cursor.rs` | a side of a merge join: its batches, checked to be in order |
//! | `scan.rs` | the inner loop of the merge join, over slices of keys |
//! | `group.rs` | groups over several batches: a block nested loop, in memory or from a spill |
//! | `pairs.rs`, `assemble.rs`, `result.rs` | pairs of rows, and the batches that are gathered from them |
//! | `merge.rs` | the merge join |
//! | `operator.rs`, `ahead.rs` | the whole join: sides that are sorted or hashed on threads of their own |
//! | `hash.rs`, `hash/` | the hash join: tables, probes, partitions |
//!
//! # Semantics
//!
//! A null key joins nothing; outer joins and anti joins still give its row. NaN equals NaN and -0 equals 0, as in
//! DuckDB. The result has the columns of the left, then those of the right; a key column of the same name and type on
//! both sides appears once, any other column whose name is taken gets the suffix [`COLLISION_SUFFIX`]. Semi and anti
//! joins give the columns of the left only.

mod ahead;
mod assemble;
mod coercion;
mod condition;
mod cursor;
mod group;
mod hash;
mod keys;
mod kind;
mod layout;
mod merge;
mod operator;
mod pairs;
mod result;
mod scan;

pub use condition::{Condition, KeyPair};
pub use hash::{HashJoin, JoinSide};
pub use kind::{JOIN_KINDS, JoinKind};
pub use layout::COLLISION_SUFFIX;
pub use merge::MergeJoin;
pub use operator::{JoinInput, JoinMethod, join};

#[cfg(test)]
mod tests;
