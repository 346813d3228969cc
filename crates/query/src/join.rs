//! Joins of two tables on equal columns.
//!
//! A merge join reads two sorted streams once and keeps one batch of each, so its memory does not grow with its inputs.
//! Only groups of equal keys on *both* sides are buffered, and spilled if they are large. Keys that fit are compared as
//! 64-bit or 128-bit integers. Consecutive rows are sliced, not copied: in a join of a foreign key with its primary
//! key, the columns of the foreign-key side are slices of the input.
//!
//! | file | contents |
//! |---|---|
//! | `kind.rs` | inner, left, right, full, semi, anti |
//! | `condition.rs`, `coercion.rs` | `--on`: pairs of columns and their comparison types |
//! | `layout.rs` | the columns of the result |
//! | `keys.rs`, `keys/normal.rs` | normalized keys: integers or bytes in the order of the columns |
//! | `cursor.rs` | one side of a merge join: its batches, with a check of their order |
//! | `scan.rs` | the inner loop of the merge join, over slices of keys |
//! | `group.rs` | groups that span batches: a block nested-loop join, in memory or from a spill file |
//! | `pairs.rs`, `assemble.rs`, `result.rs` | pairs of rows, and the result batches gathered from them |
//! | `merge.rs` | the merge join |
//! | `bounds.rs`, `partitioned.rs` | both sides divided by the same keys; pairs of partitions merged by many threads |
//! | `hash.rs`, `hash/` | the hash join: hash table, probes on many threads, partitions |
//! | `operator.rs`, `ahead.rs` | the whole join: sides divided, sorted or read by separate threads |
//! | `joined.rs` | the result: parts that threads take in turn |
//!
//! # Semantics
//!
//! A null key matches no key; outer joins and anti joins still return its row. NaN equals NaN and -0 equals 0, as in
//! DuckDB. The result has the left columns, then the right ones. A key column with the same name and type on both sides
//! appears once; any other right column whose name is taken gets the suffix [`COLLISION_SUFFIX`]. Semi and anti joins
//! return the left columns only.

mod ahead;
mod assemble;
mod bounds;
mod coercion;
mod condition;
mod cursor;
mod group;
pub(crate) mod hash;
mod input;
mod joined;
mod keys;
mod kind;
mod layout;
mod merge;
mod operator;
mod pairs;
mod partitioned;
mod result;
mod scan;

pub use condition::{Condition, KeyPair};
pub use hash::{HashJoin, JoinSide};
pub use input::{JoinInput, OpenStreams};
pub use joined::{Joined, JoinedBatches, NextPart};
pub use kind::{JOIN_KINDS, JoinKind};
pub use layout::COLLISION_SUFFIX;
pub use merge::MergeJoin;
pub use operator::{JoinMethod, join, schema};
pub(crate) use operator::{schema_with_types, sort_memory, sources};

#[cfg(test)]
mod tests;
