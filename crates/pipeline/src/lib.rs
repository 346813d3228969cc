//! Streams of records described by a TOML file: checked against their columns, planned, and run.
//!
//! ```text
//! TOML ─► spec ─► plan ─┬─► build ─► stream::Stream, and the threads of inputs and outputs
//!         keys    names │
//!                 types └─► planner: placement::Pipeline
//!
//! input thread ─► queue ─► source: parse ─► steps ─► sink: encode ─► buffer ─► output thread
//! ```
//!
//! | file | what |
//! |---|---|
//! | `document.rs`, `spec.rs`, `spec/` | keys of TOML with their lines; sources, steps and sinks as the file says them |
//! | `plan.rs`, `plan/` | the graph, expressions bound to columns, the used columns, the figures of the planner |
//! | `row.rs`, `row/` | rows whose texts are ranges of shared blocks |
//! | `parse.rs`, `parse/` | records to rows: lines, fields, patterns, web server logs, CSV, JSON (pure) |
//! | `input.rs`, `input/` | threads that read files, standard input and sockets; tails of files; Arrow IPC |
//! | `source.rs`, `source/` | sources of the stream; event times and watermarks; a generator |
//! | `step.rs`, `step/`, `lookup.rs` | operators; tables for look-ups |
//! | `output.rs`, `output/` | rows to bytes, and the threads that write them |
//! | `snapshot.rs`, `snapshot/` | snapshots in a file that is replaced while the pipeline runs |
//! | `export.rs`, `export/` | the plan and its state for an interpreter in another engine (pure) |
//! | `build.rs`, `control.rs` | the stream of a plan; stop, failure, back-pressure |
//!
//! ```no_run
//! use sakiyomi_pipeline::{Pipeline, Standard};
//! use sakiyomi_stream::Settings;
//!
//! # fn main() -> Result<(), sakiyomi_pipeline::Error> {
//! let text = r#"
//!     [source.log]
//!     from = "stdin"
//!     format = "combined"
//!     [[step]]
//!     op = "filter"
//!     where = "status >= 500"
//!     [sink.out]
//!     to = "stdout"
//!     format = "json"
//! "#;
//! let pipeline = Pipeline::parse(text, "errors.toml")?;
//! let standard = Standard { input: Some(Box::new(std::io::stdin())), output: Some(Box::new(std::io::stdout())) };
//! let (stream, run) = pipeline.build(standard)?;
//! let running = stream.start(Settings::unpinned(1), &vec![0; pipeline.operators().count()])?;
//! let report = running.finish()?;
//! let outcome = run.finish()?;
//! # let _ = (report, outcome);
//! # Ok(())
//! # }
//! ```

mod build;
mod control;
mod document;
mod error;
mod export;
mod input;
mod lookup;
mod output;
mod parse;
mod pipeline;
mod plan;
mod row;
mod snapshot;
mod source;
mod spec;
mod step;

pub use document::parse_rate;
pub use error::Error;
pub use export::Export;
pub use output::Standard;
pub use pipeline::{Dropped, Outcome, Pipeline, Run, Unused};
pub use row::Row;
pub use snapshot::{SnapshotFigures, Snapshots};
pub use source::SourceCounts;
pub use step::StepCounts;
