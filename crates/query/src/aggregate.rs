//! Hash and sorted aggregation.
//!
//! ```text
//! streams ─► Worker (one a thread) ─► merge by partitions of hashes ─► batches
//!            condition, keys, values       ▲
//!            groups, states ──── spill ────┘
//! ```
//!
//! | subject | file |
//! |---|---|
//! | keys, aggregates, types of results | `plan` |
//! | which states they need | `layout` |
//! | the groups of one thread | `worker`, `groups` |
//! | rows to group numbers: a table of byte codes, words, bytes of rows | `direct`, `keys`, `index` |
//! | sums, counts, extremes | `state`, `fused` |
//! | groups that do not fit into memory | `overflow` |
//! | all workers' groups as one result | `merge`, `run` |
//! | a stream that is sorted by the keys | `sorted` |
//! | TPC-H query 1 | [`q1`] |
//!
//! - *Nulls*: aggregates leave them out; as keys they are equal. Without values, sum, avg, min and max are null. Without
//!   keys there is one group, even of no rows.
//! - *Sums* of integers are computed on 128 bits and are `Int64` (`UInt64` of `UInt64`); those of decimals are exact and
//!   have ten digits more, 38 at most (76 of `Decimal256`). A sum that does not fit is an error.
//! - *Averages* of decimals are decimals with four places more, rounded half away from zero; others are `Float64`.
//! - *Floats* are summed with what rounding loses (Neumaier), so that the order of rows shows in the last digit at most,
//!   and mostly not at all. NaN equals NaN, and -0 equals 0.
//! - *Order*: up to 65,536 groups are sorted by their keys, nulls last; more come in no order.
//! - *Memory*: groups take what the job leaves. More are spilled by partitions of their hashes and merged partition by
//!   partition, recursively; one group must fit.

mod direct;
mod fused;
mod groups;
mod index;
mod keys;
mod layout;
mod merge;
mod overflow;
mod plan;
pub mod q1;
mod run;
mod sorted;
mod state;
mod types;
mod worker;

#[cfg(test)]
mod tests;

pub use plan::{Aggregate, Aggregation, Function};
pub use run::{Aggregated, aggregate};
pub use sorted::SortedAggregate;
