//! Predictions and choices: what a job takes, phase by phase, and which plan takes least (pure).
//!
//! ```text
//! probe's calibration ─► Storage ─┐                    ┌─► Prediction: phases, bounds, the storage-only model
//! query calibrate ─► OperatorCosts┼─► Model ─ choose ──┼─► Plan
//! Task, Limits ───────────────────┘                    └─► rejected plans with their times
//! ```
//!
//! Models of query optimizers count accesses to the storage. The report (Ueda 2013, section 2) measures that the
//! phases of a sort-merge join that only read are bound by the CPU, and concludes that the CPU time of I/O belongs
//! into the model. This one has it, per engine, depth, block, use of the page cache and memory, as `probe` measured
//! them, beside the CPU time of operators as `query calibrate` measured it. A job is a row of stages ([`stage`]); in
//! each, the device, the cores and the longest serial part bound the time from below, and the largest of them is the
//! time.
//!
//! | file | subject |
//! |---|---|
//! | [`operators`], [`curve`] | CPU costs of operators; costs that depend on a size |
//! | [`shape`] | tables, keys, results, the task |
//! | `transfer`, `streams`, `flow` | bytes between memory and files: device time and CPU time |
//! | [`stage`] | the time of a stage |
//! | `work`, `sort`, `join`, `aggregate`, `algorithms` | the stages of each algorithm |
//! | [`plan`], [`model`], `options`, [`search`], `rejected` | plans, the prediction of one, the choice |
//! | [`prediction`], [`explain`], `tree` | results |

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
pub mod streams;

mod aggregate;
mod algorithms;
mod flow;
mod join;
mod options;
mod records;
mod rejected;
mod sort;
mod transfer;
mod tree;
mod work;

pub use error::CostError;
pub use explain::{Analysis, Explanation, Measured};
pub use model::{Limits, Model};
pub use operators::OperatorCosts;
pub use plan::Plan;
pub use prediction::Prediction;
pub use rejected::Rejected;
pub use search::Choice;
pub use shape::{ColumnShape, KeyShape, Operator, TableShape, Task};
pub use streams::Storage;
pub use tree::Node;

#[cfg(test)]
mod tests;
