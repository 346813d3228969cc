//! Measures which engine is fastest and cheapest here, for reads and for writes, and whether the storage or the CPU
//! is the limit (Ueda 2013, sections 2 and 3).
//!
//! | what | where |
//! |---|---|
//! | targets to read or write: a file, a test file, memory, a loop device over memory | [`target`] |
//! | one way to read or write it | [`setting`] |
//! | which settings are measured, with those that a verdict needs, and in which order | [`plan`] |
//! | all runs on one target, interleaved | [`campaign`] |
//! | one setting, for a while; the operations in flight meanwhile, and their places | [`measure`]; `load`, `sequence`, [`latency`] |
//! | from many runs to one case | [`case`] |
//! | what limits a case, from figures alone | [`verdict`] |
//! | costs of messages between cores | [`cores`] |
//! | data of a cost model, saved and loaded | [`calibration`] |
//!
//! Runs of all settings are interleaved, so that a slow moment of the machine meets them alike, and gains are medians
//! of ratios of runs that stood side by side.

pub mod calibration;
pub mod campaign;
pub mod case;
pub mod cores;
pub mod latency;
mod load;
pub mod measure;
pub mod plan;
mod sequence;
pub mod setting;
pub mod target;
pub mod verdict;

mod error;

pub use error::Error;
