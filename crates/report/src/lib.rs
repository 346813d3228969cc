//! Output formats of results: JSON, terminal text, HTML pages with charts, and Markdown.
//!
//! This crate does not depend on the source of results. It takes plain data ([`Document`], of a type in [`result`])
//! and returns strings; it reads no clock and touches no file.
//!
//! A result's type is its JSON, and implements [`Present`], which describes the report once, in [`section`]s. The
//! renderers draw any [`Report`] and depend on no result.
//!
//! | subject | module |
//! |---|---|
//! | results: their JSON, and their reports | [`result`] |
//! | figures, tables and notes of a report | [`section`], [`value`] |
//! | two results side by side | [`Comparison`] |
//! | text for the terminal | [`text`] |
//! | one self-contained page | [`html`] |
//! | a page for an issue or a wiki | [`markdown`] |
//! | one SVG per chart | [`chart`] |
//! | numbers with scaled units | [`number`] |
//! | metrics for a monitoring system | [`prometheus`] |
//!
//! # From a result to a report
//!
//! ```text
//! library ──► cli/command/*/result.rs ──► result type ──► Present ──► Report ──► text      terminal
//!                                             │             │            ├─────► html      one page ◄─┐
//!                                             │             │            └─────► markdown  issue, wiki◄┤
//!                                             │             └──► chart ──► plot ──► SVG, wide, narrow ─┘
//!                                             └──► serde ──► JSON
//! ```
//!
//! A result's type is its JSON. It implements `Present`: a title, a verdict in sentences, settings, sections (groups
//! of figures, tables, notes) and charts. Values are typed (`value.rs`), so that each renderer formats, aligns, sorts
//! and compares them by itself. Renderers and results do not depend on each other (`tests/it/tidy.rs`).
//!
//! | file of `report` | contents |
//! |---|---|
//! | `result/NAME.rs` | a result: its fields, which are its JSON keys, and how each is shown; `result/NAME/` has its sentences and groupings |
//! | `section.rs`, `value.rs` | elements of a report: findings, facts, tables, notes; figures with their units |
//! | `comparison.rs` | two simulations side by side: it compares all figures in their sections |
//! | `text.rs`, `text/` | the terminal; `text/live.rs` fits the table of `iorate top` into its window |
//! | `html/page.rs` | the order of every page: verdict, first chart, settings, figures and tables, other charts |
//! | `rows.rs` | builder of tables: each column is named together with its figure |
//! | `html/table.rs`, `script.js` | one kind of table and one script for all pages; without the script a page is complete |
//! | `markdown.rs` | the same order, with links to the pictures in the directory of `--out` |
//! | `chart/plot.rs` | drawing primitives: each line, bar and point has a text that describes it |
//! | `chart/layout.rs`, `frame.rs` | the two widths of every chart; title, legend, grid and labels in either |
//! | `chart/lines.rs`, `bars.rs`, `over_time.rs` | kinds of charts that several results share; `over_time/columns.rs` joins spans too narrow to draw |
//!
//! `report` may use only `model`, so the conversion from a library's type is in the command that uses both, or in `simulation`. **A new
//! figure is added in two places: the result type and its conversion.** The time that a mount spent flushing, for
//! example, is
//!
//! - in `report/src/result/mount.rs` a field, `pub flushing_ns: u64`, and in `Present::settings` a line,
//!   `Fact::time("Flushing", self.flushing_ns)`;
//! - in `cli/src/command/mount/result.rs` its value.
//!
//! The JSON, the terminal, the page and the Markdown then contain it, and a figure of a simulation also appears in
//! every comparison. A chart or a sentence of the verdict that needs it is added separately.
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
    IorateResult, MountResult, ProbeResult, QueryResult, ReproduceResult, RunResult, ScenarioResult,
    ServeResult, SimResult, StreamPlanResult, StreamRunResult, StreamSimResult, StreamTopologyResult,
    SweepResult, TopResult, ValidateResult, WaitsResult,
};
pub use section::{Present, Report, Reported};
