//! Measures which engine is fastest and cheapest on a device, for reads and for writes, and whether the storage or
//! the CPU is the limit (Ueda 2013, sections 2 and 3).
//!
//! | subject | module |
//! |---|---|
//! | targets to read or write: a file, a test file, memory, a loop device over memory | [`target`] |
//! | one way to read or write a target | [`setting`] |
//! | the measured settings, including control runs, and their order | [`plan`] |
//! | all runs on one target, interleaved | [`campaign`] |
//! | one run of a setting; its operations in flight, and their offsets | [`measure`]; `load`, `sequence`, [`latency`] |
//! | many runs combined into one case | [`case`] |
//! | the limit of a case, from figures alone | [`verdict`] |
//! | costs of messages between cores | [`cores`] |
//! | data of a cost model, saved and loaded | [`calibration`] |
//!
//! Runs of all settings are interleaved, so that a slow phase of the machine affects all of them, and gains are
//! medians of ratios of adjacent runs.

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
