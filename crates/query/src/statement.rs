//! Whole statements: from tables to a file, to a stream of record batches, or to the first rows of a result.
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
//! | `plan.rs` | the plan of the cost model as options of the executor |
//! | `rows.rs` | the input rows of a statement: `--where` and `--select` over a scan |
//! | `shape.rs`, `key.rs`, `explain.rs` | the tables and keys as the cost model sees them; the plan that it chooses |
//! | `sink.rs` | the rows of a result, from several threads, in order |
//! | `spread.rs` | one stream of rows, encoded on several threads |
//! | `stream.rs` | the rows of a result as a stream, which the caller reads |

mod aggregate;
mod explain;
mod join;
mod key;
mod plan;
mod rows;
mod shape;
mod sink;
mod sort;
mod spread;
mod stream;

use crate::cost::{Explanation, Plan};
use crate::preview::Preview;
use crate::table::Table;
use crate::{Error, Job};

use rows::Rows;
use sink::Received;

pub use aggregate::{Aggregate, aggregate, q1};
pub use explain::{Calibrated, explain_aggregate, explain_join, explain_q1, explain_sort};
pub use join::{Join, join};
pub use rows::Input;
pub use sink::Destination;
pub use sort::{Sort, sort};
pub use stream::{BatchSender, Streamed, batch_stream};

/// A statement with its tables.
#[derive(Debug)]
pub enum Statement {
    /// A sort.
    Sort(Input, Sort),
    /// A join of a left and a right table.
    Join(Table, Table, Join),
    /// An aggregation.
    Aggregate(Input, Aggregate),
    /// TPC-H query 1.
    Q1(Table),
}

impl Statement {
    /// Returns the plan that the cost model chooses, with its predicted times.
    ///
    /// # Errors
    /// Returns the errors of [`Statement::run`]; also an error if a calibration lacks a measurement that the plan needs.
    pub fn explain(
        self,
        job: &Job,
        destination: &Destination,
        calibrated: Calibrated<'_>,
    ) -> Result<Explanation, Error> {
        match self {
            Statement::Sort(input, sort) => explain_sort(job, input, &sort, destination, calibrated),
            Statement::Join(left, right, join) => {
                explain_join(job, left, right, &join, destination, calibrated)
            }
            Statement::Aggregate(input, aggregate) => {
                explain_aggregate(job, input, &aggregate, destination, calibrated)
            }
            Statement::Q1(table) => explain_q1(job, table, destination, calibrated),
        }
    }

    /// Runs the statement as a plan says, or as sizes suggest. The job must have the plan's [`Plan::job_options`].
    ///
    /// # Errors
    /// [`Error::Query`] if a column or expression does not fit; errors of reading, spilling and writing.
    pub fn run(self, job: &Job, destination: &Destination, plan: Option<&Plan>) -> Result<Outcome, Error> {
        match self {
            Statement::Sort(input, statement) => sort(job, input, &statement, destination, plan),
            Statement::Join(left, right, statement) => join(job, left, right, &statement, destination, plan),
            // Groups are spilled when they do not fit, whatever the plan expects.
            Statement::Aggregate(input, statement) => aggregate(job, input, &statement, destination),
            Statement::Q1(table) => q1(job, table, destination),
        }
    }
}

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

impl Outcome {
    /// Returns the outcome of a job that has read these inputs, without a plan.
    fn of(job: &Job, inputs: &[&Rows], received: Received) -> Outcome {
        Outcome {
            input_rows: inputs.iter().map(|rows| rows.rows_read()).sum(),
            output_rows: received.rows,
            read_bytes: inputs.iter().map(|rows| rows.bytes()).sum(),
            output_bytes: received.bytes,
            spilled_bytes: job.phases().spilled_bytes(),
            preview: received.preview,
            plan: Vec::new(),
            notes: inputs.iter().flat_map(|rows| rows.notes()).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
