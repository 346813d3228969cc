//! Whole statements: from tables in files to a file, or to the first rows of a result.
//!
//! ```text
//! Table ─► Rows: scan, count, filter, project ─► operator ─► Sink: group, encode, append in order ─► file
//!          a stream for each thread                          a part for each thread
//! ```
//!
//! A statement is bound to its tables before any work. Missing columns, ill-typed expressions and unwritable files are
//! therefore reported at once.
//!
//! | file | subject |
//! |---|---|
//! | `rows.rs` | the input rows of a statement: `--where` and `--select` over a scan |
//! | `shape.rs`, `explain.rs` | the tables as the cost model sees them; the plan that it chooses |
//! | `sink.rs` | the rows of a result, from several threads, in order |
//! | `spread.rs` | one stream of rows, encoded on several threads |
//! | `workers.rs` | worker threads; the first error ends all |

mod aggregate;
mod explain;
mod join;
mod rows;
mod shape;
mod sink;
mod sort;
mod spread;
mod workers;

use crate::preview::Preview;

pub use aggregate::{Aggregate, aggregate, q1};
pub use explain::{Calibrated, explain_aggregate, explain_join, explain_q1, explain_sort};
pub use join::{Join, join};
pub use rows::Input;
pub use sink::Destination;
pub use sort::{Sort, sort};

/// The outcome of a statement.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Rows read.
    pub input_rows: u64,
    /// Rows of the result.
    pub output_rows: u64,
    /// Bytes of input.
    pub read_bytes: u64,
    /// Bytes of the result's file.
    pub output_bytes: u64,
    /// Bytes written to spill files.
    pub spilled_bytes: u64,
    /// The first rows, if a preview was requested.
    pub preview: Option<Preview>,
    /// The plan, one step per line.
    pub plan: Vec<String>,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
}
