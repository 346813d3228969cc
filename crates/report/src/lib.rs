//! Results as people and programs read them: the JSON schema, terminal text, charts, and the HTML page.
//!
//! This crate never knows where results come from. It takes plain data ([`Document`], of its own [`schema`]) and gives
//! strings back; it reads no clock and touches no file.
//!
//! | what | where |
//! |---|---|
//! | the JSON of `--json` | [`schema`] |
//! | what the terminal shows | [`text`] |
//! | one SVG per chart | [`chart`] |
//! | one self-contained page | [`html`] |
//! | numbers with scaled units | [`number`] |
//! | what a monitoring system collects | [`prometheus`] |
//!
//! The words at the top of a page and of the terminal text come from one place (`verdict`), and so do the rows of the
//! table of totals (`totals`), the cases of a probe (`probe`) and the points of an experiment (`points`, `scenario`,
//! `regulation`, `job`): what is said is the same wherever it is read.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod chart;
pub mod html;
pub mod number;
pub mod prometheus;
pub mod schema;
pub mod text;

mod job;
mod label;
mod pareto;
mod points;
mod probe;
mod regulation;
mod scenario;
mod totals;
mod verdict;

#[cfg(test)]
mod sample;

pub use schema::{
    Document, IorateResult, Machine, MountResult, ProbeResult, Run, RunResult, ScenarioResult, SimResult,
    SweepResult, TopResult, ValidateResult,
};
