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
//! | `simulate.rs` | the simulation in virtual time, with logs and progress |
//! | `result.rs` | its outcome as the result document |
//! | `request.rs` | a simulation whose options are text |
//! | `drive_file.rs` | drives by name and from files, and the list of the built-in ones |
//! | `chunking.rs` | the length of a chunk as text |
//! | `error.rs` | errors |

mod chunking;
mod drive_file;
mod error;
mod request;
mod result;
mod simulate;
mod workload;

pub use chunking::parse_chunking;
pub use drive_file::{DriveSummary, FromDisksim, NamedDrive, drives, read_text};
pub use error::Error;
pub use request::{Outcome, Request};
pub use result::{disk_time, sim_result};
pub use simulate::{Log, Simulated, simulate};
pub use workload::{HOST_QUEUE_DEFAULT, Replaying, Workload, describe_reading};
