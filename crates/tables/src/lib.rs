//! A statement on tables as its users state it: options by their names, the plan that the calibrations of this machine
//! suggest, and the result document. The command line and the Python package are its front ends.
//!
//! ```no_run
//! use std::path::{Path, PathBuf};
//! use sakiyomi_query::{Job, statement::{Destination, Sort}, output::Target, table::{OpenOptions, Table}};
//! use sakiyomi_tables::{Figures, Measurement, Operation, Outputs, Request, Resources, RowOptions, inputs, plan};
//! let (files, path) = (vec![PathBuf::from("a.parquet")], PathBuf::from("b.parquet"));
//! let options = Outputs::default().options(&path)?;
//! let destination = Destination::File { target: Target::File(path), options };
//! let sort = Sort { by: "k".to_owned(), limit: None, stable: false };
//! let request = Request {
//!     operation: Operation::Sort(RowOptions::default(), sort),
//!     tables: vec![files.clone()],
//!     format: None,
//!     resources: Resources::default(),
//! };
//! let begun = Measurement::begin();
//! let planned = plan(&request, &destination)?;
//! let job = request.resources.job(planned.plan.as_ref())?;
//! let table = Table::open(&files, &request.open_options(&planned))?;
//! let inputs = inputs(&files, &table);
//! let outcome = request.operation.clone().statement(vec![table]).run(&job, &destination, planned.plan.as_ref())?;
//! let figures = Figures::of(&request, inputs, planned, &destination, &outcome);
//! println!("{} ns", begun.result(figures, &job, &outcome).elapsed_ns);
//! # Ok::<(), sakiyomi_tables::Error>(())
//! ```
//!
//! | file | content |
//! |---|---|
//! | `operation.rs` | a sort, a join or an aggregation, and its description |
//! | `resources.rs` | memory, threads, engine and directories of a job, checked |
//! | `outputs.rs` | format and compression of a result |
//! | `names.rs` | the values of options by their names |
//! | `calibrations.rs` | the costs of storage and operators that were saved on this machine |
//! | `plan.rs` | the plan that the cost model chooses, and its lines in a result |
//! | `result.rs`, `rows.rs` | the result document |
//! | `error.rs` | errors |

mod calibrations;
mod error;
mod names;
mod operation;
mod outputs;
mod plan;
mod resources;
mod result;
mod rows;

pub use calibrations::{Calibrations, DeviceCalibrations};
pub use error::Error;
pub use names::{compression, format, format_name, spill_compression};
pub use operation::{AggregateLists, Operation, RowOptions};
pub use outputs::{GROUP_ROWS_DEFAULT, GROUP_ROWS_MAX, Outputs};
pub use plan::{Planned, Request, describe, explain, plan};
pub use resources::Resources;
pub use result::{Figures, Measurement, batches_input, file, inputs};
