//! Predicts the cost of a job phase by phase, and chooses the cheapest plan (pure).
//!
//! ```text
//! probe's calibration ─► Storage ─┐                    ┌─► Prediction: phases, bounds, the storage-only model
//! query calibrate ─► OperatorCosts┼─► Model ─ choose ──┼─► Plan
//! Task, Limits ───────────────────┘                    └─► rejected plans with their times
//! ```
//!
//! The models of query optimizers count storage accesses. Ueda (2013, section 2) measured that the read-only phases of
//! a sort-merge join are CPU-bound, and concludes that the CPU time of I/O belongs in the model. This model includes it
//! per engine, depth, block, use of the page cache and memory, as measured by `probe`. The CPU time of operators is
//! measured by `query calibrate`. A job is a sequence of stages ([`stage`]). The device, the cores and the longest
//! serial part each give a lower bound of a stage's time; how far device and cores overlap follows from the number of
//! units in flight (`network`).
//!
//! | file | subject |
//! |---|---|
//! | [`operators`], [`curve`] | CPU costs of operators; costs that depend on a size |
//! | [`shape`] | tables, keys, results, the task |
//! | `transfer`, `streams`, `flow` | device time and CPU time of bytes between memory and files |
//! | [`stage`], [`step`], `network` | the time of a stage |
//! | [`correction`] | corrections fitted to jobs that were predicted and run |
//! | `work`, `sort`, `join`, `aggregate`, `algorithms` | the stages of each algorithm |
//! | [`plan`], [`model`], `options`, [`search`], `rejected` | plans, their prediction and choice |
//! | [`prediction`], [`explain`], `tree` | results |

pub mod correction;
pub mod curve;
pub mod error;
pub mod explain;
pub mod model;
pub mod operators;
pub mod plan;
pub mod prediction;
pub mod search;
pub mod shape;
pub mod stage;
pub mod step;
pub mod streams;

mod aggregate;
pub(crate) mod algorithms;
mod flow;
mod join;
mod network;
mod options;
mod records;
mod rejected;
mod row;
mod sort;
mod transfer;
mod tree;
mod work;

pub use correction::Corrections;
pub use error::CostError;
pub use explain::{Analysis, Explanation, Measured};
pub use model::{Limits, Model};
pub use operators::OperatorCosts;
pub use plan::Plan;
pub use prediction::Prediction;
pub use rejected::Rejected;
pub use search::Choice;
pub use shape::{ColumnShape, GroupKeyShape, GroupSize, KeyShape, Operator, StateShape, TableShape, Task};
pub use streams::Storage;
pub use tree::Node;

#[cfg(test)]
pub(crate) mod tests;
