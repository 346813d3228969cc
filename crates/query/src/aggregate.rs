//! Hash and sorted aggregation.
//!
//! ```text
//! streams ─► Worker (one a thread) ─► merge by hash partition ─► batches
//!            condition, keys, values     ▲
//!            groups, states ─── spill ───┘
//! ```
//!
//! | subject | file |
//! |---|---|
//! | keys, aggregates, result types | `plan` |
//! | states of the aggregates | `layout` |
//! | the groups of one thread | `worker`, `groups` |
//! | rows to group numbers, by byte codes, words or row bytes | `direct`, `keys`, `index` |
//! | sums, counts, minima and maxima | `state`, `fused` |
//! | groups that do not fit into memory | `overflow` |
//! | merging the groups of all workers | `queue`, `merge`, `run` |
//! | aggregation of a sorted stream | `sorted` |
//! | TPC-H query 1 | [`q1`] |
//!
//! - *Nulls*: aggregates ignore nulls; in keys, nulls are equal. Without values, sum, avg, min and max are null.
//!   Without keys there is exactly one group, even for an empty input.
//! - *Sums* of integers are computed on 128 bits; the result is `Int64` (`UInt64` for `UInt64`). Sums of decimals are
//!   exact and have ten more digits, up to 38 (76 for `Decimal256`). Overflow is an error.
//! - *Averages* of decimals are decimals with four more places, rounded half away from zero; others are `Float64`.
//! - *Floats* are summed with compensation (Neumaier), so that the order of rows rarely changes the result, and then in
//!   the last digit. NaN equals NaN, and -0 equals 0.
//! - *Order*: up to 65,536 groups that were not spilled are sorted by key, nulls last. Other results are unordered.
//! - *Memory*: groups take up to three quarters of the job's free memory. More are spilled by hash partition and merged
//!   recursively, one partition at a time on each thread, while the next run is read ahead. A single group must fit.

pub(crate) mod direct;
pub(crate) mod fused;
pub(crate) mod groups;
pub(crate) mod index;
mod keys;
mod layout;
pub(crate) mod merge;
pub(crate) mod overflow;
mod plan;
pub mod q1;
pub(crate) mod queue;
pub(crate) mod run;
mod sorted;
mod state;
mod types;
pub(crate) mod worker;

#[cfg(test)]
mod tests;

pub use plan::{Aggregate, Aggregation, Function};
pub use run::{Aggregated, aggregate};
pub use sorted::SortedAggregate;
pub(crate) use worker::{group_bytes, state_counts};
