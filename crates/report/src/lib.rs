//! Results as people and programs read them: JSON, terminal text, HTML pages with charts, and Markdown.
//!
//! This crate never knows where results come from. It takes plain data ([`Document`], of a type in [`result`]) and gives
//! strings back; it reads no clock and touches no file.
//!
//! A result's type is its JSON, and implements [`Present`]: it says once, in [`section`]s, what readers see of it. The
//! renderers draw any [`Report`] and know no result.
//!
//! | what | where |
//! |---|---|
//! | results: their JSON, and what they show | [`result`] |
//! | figures, tables and notes, as results say them | [`section`], [`value`] |
//! | two results side by side | [`Comparison`] |
//! | what the terminal shows | [`text`] |
//! | one self-contained page | [`html`] |
//! | a page for an issue or a wiki | [`markdown`] |
//! | one SVG per chart | [`chart`] |
//! | numbers with scaled units | [`number`] |
//! | what a monitoring system collects | [`prometheus`] |
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod chart;
pub mod html;
pub mod markdown;
pub mod number;
pub mod prometheus;
pub mod result;
pub mod section;
pub mod text;
pub mod value;

mod comparison;
mod document;
mod glossary;
mod label;
mod rows;
mod words;

pub use comparison::Comparison;
pub use document::{Document, Machine, Run};
pub use result::{
    IorateResult, MountResult, ProbeResult, RunResult, ScenarioResult, SimResult, SweepResult, TopResult,
    ValidateResult,
};
pub use section::{Present, Report, Reported};
