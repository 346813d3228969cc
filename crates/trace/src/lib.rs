//! Block I/O traces: readers for common formats, writers, statistics, and generators.
//!
//! A [`Trace`] is an iterator over [`Record`]s that keeps a bounded part of its file in memory, so that traces of any
//! size can be read. [`Format::ALL`] lists the input formats; [`Writer`] writes formats of other tools. [`stats`]
//! computes statistics, [`generate`] creates traces.
//!
//! ```
//! use sakiyomi_trace::{Format, ReadOptions, Trace};
//!
//! let text = "R Miss 564347 2 14095.370 13876.270\nR Hit 564349 2 1414.270 18746.770\n";
//! let trace = Trace::from_reader(text.as_bytes(), "two lines", &ReadOptions::default())?;
//! assert_eq!(trace.format(), Format::DisksimValidation);
//! assert!(trace.is_closed_loop());
//! assert_eq!(trace.map(|record| record.map(|record| record.length.0)).sum::<Result<u64, _>>()?, 2048);
//! # Ok::<(), sakiyomi_trace::TraceError>(())
//! ```
//!
//! The crate reads and writes files, but has no clock and no threads: the same file and options give the same records,
//! and the same seed gives the same trace.

pub mod block;
pub mod generate;
pub mod stats;
pub mod table;

#[doc(hidden)]
pub mod fuzz;

mod columns;
mod devices;
mod error;
mod field;
mod fit;
mod format;
mod input;
mod lines;
mod options;
mod order;
mod pack;
mod record;
mod source;
mod trace;
mod writer;

pub use columns::{ColumnValues, column_names, records_of_columns};
pub use error::TraceError;
pub use fit::Fit;
pub use format::Format;
pub use options::{DeviceChoice, DeviceMap, ReadOptions};
pub use pack::Packing;
pub use record::{HitLabel, LENGTH_MAX, OFFSET_MAX, Record, op_name};
pub use trace::Trace;
pub use writer::{OutFormat, Writer};
