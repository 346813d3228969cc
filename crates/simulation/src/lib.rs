//! A simulation as its users state it: the file of a trace, the name or file of a drive, and options; and the result
//! document. The command line, the Python package and the C interface are its front ends.
//!
//! ```no_run
//! use sakiyomi_drive::observe::Chunking;
//! use sakiyomi_model::Nanos;
//! use sakiyomi_simulation::{NamedDrive, Workload, sim_result, simulate};
//! let drive = NamedDrive::open("deskstar-7k250")?.spec;
//! let workload = Workload::new("trace.csv.gz");
//! let chunks = Chunking::Time(Nanos::SECOND);
//! let simulated = simulate(&workload, &drive, chunks, None, &mut |_, _| true)?;
//! let result = sim_result(&simulated, &drive.title(), &[], workload.warm_up, chunks);
//! println!("{} ns", result.response_ns.p99);
//! # Ok::<(), sakiyomi_simulation::Error>(())
//! ```
//!
//! | file | content |
//! |---|---|
//! | `workload.rs` | a trace, how it is read and how it is replayed |
//! | `simulate.rs`, `result.rs` | the simulation in virtual time, with logs and progress; its outcome as the result document |
//! | `compare.rs`, `check.rs` | two results side by side, and checks of their difference |
//! | `vary.rs`, `sweep.rs`, `sweep/` | combinations of settings; a trace on the drives of all of them, also as a table |
//! | `measurement.rs`, `step.rs` | a trace with measured times; the steps of work on it |
//! | `validate.rs`, `validate/` | a simulated drive compared with a measured one |
//! | `fit.rs` | a drive identified from a measured trace |
//! | `experiment.rs`, `experiment/` | experiments of the whole stack, with varied keys |
//! | `request.rs` | a simulation whose options are text |
//! | `drive_file.rs` | drives by name and from files, and the list of the built-in ones |
//! | `chunking.rs` | the length of a chunk as text |
//! | `error.rs` | errors |

mod check;
mod chunking;
mod compare;
mod drive_file;
mod error;
mod experiment;
mod fit;
mod measurement;
mod request;
mod result;
mod simulate;
mod step;
mod sweep;
mod validate;
mod vary;
mod workload;

pub use check::Check;
pub use chunking::parse_chunking;
pub use compare::{COMPARE_SCHEMA, failed_checks, load_result, parse_result};
pub use drive_file::{DriveSummary, FromDisksim, NamedDrive, drives, read_text};
pub use error::Error;
pub use experiment::{Experiment, ExperimentRun};
pub use fit::{
    FIT_SCHEMA, FitChange, FitErrors, FitParameter, FitPart, FitPolicy, FitResult, FitTrace, FitTrial,
    step_name,
};
pub use measurement::MeasuredTrace;
pub use request::{Outcome, Request};
pub use result::{disk_time, sim_result};
pub use simulate::{Log, Simulated, simulate};
pub use step::{Step, Steps};
pub use sweep::table::PointsTable;
pub use sweep::{SimulatedPoint, Sweep, sweep_point};
pub use validate::{Judged, Validated, validate};
pub use vary::{Varied, parse_varied};
pub use workload::{HOST_QUEUE_DEFAULT, Replaying, TraceSource, Workload, describe_reading};
