//! Whole statements: from tables in files to a file, or to the first rows of a result.
//!
//! ```text
//! Table ─► Rows: scan, count, filter, project ─► operator ─► Sink: group, encode, append in order ─► file
//!          a stream for each thread                          a part for each thread
//! ```
//!
//! A statement is bound to its tables before any work: a column that is not there, an expression that does not fit and a
//! file that cannot be written are told at once.
//!
//! | file | what |
//! |---|---|
//! | `rows.rs` | the rows of a table that a statement takes: `--where` and `--select` over a scan |
//! | `shape.rs`, `explain.rs` | what the cost model knows of the tables; the plan that it chooses |
//! | `sink.rs` | the rows of a result, from several threads, in order |
//! | `spread.rs` | one stream of rows, encoded on several threads |
//! | `workers.rs` | threads whose first error ends all |

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

/// What a statement has done.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Rows that were read.
    pub input_rows: u64,
    /// Rows of the result.
    pub output_rows: u64,
    /// Bytes of input.
    pub read_bytes: u64,
    /// Bytes of the result's file.
    pub output_bytes: u64,
    /// Bytes that were written to spill files.
    pub spilled_bytes: u64,
    /// The first rows, if they were asked for.
    pub preview: Option<Preview>,
    /// How it was done, a step a line.
    pub plan: Vec<String>,
    /// Circumstances that a reader must know, in sentences.
    pub notes: Vec<String>,
}
