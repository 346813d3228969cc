//! DataFusion on sakiyomi's I/O and operators: spill files, reads of local files, sorts and joins that spill.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use datafusion::execution::disk_manager::DiskManagerBuilder;
//! use datafusion::execution::runtime_env::RuntimeEnvBuilder;
//! use sakiyomi_datafusion::spill::{SpillFactory, SpillOptions};
//! let factory = SpillFactory::new(&SpillOptions::default())?;
//! let runtime = RuntimeEnvBuilder::new()
//!     .with_disk_manager_builder(DiskManagerBuilder::default().with_temp_file_factory(factory))
//!     .build_arc()?;
//! # Ok(())
//! # }
//! ```
//!
//! | subject | module |
//! |---|---|
//! | spill files of all operators that spill: overlapped, direct, compressed while that pays, within a limit | [`spill`] |
//! | our external sort and joins in DataFusion's plans, chosen by cost | [`operators`] |
//! | files in blocks that are read ahead, without a thread that waits | [`blocks`] |
//! | local files as an object store, whose ranges are read as one batch | [`store`] |
//! | statements on files by their path, results as a table or a file | [`sql`] |

pub mod blocks;
pub mod operators;
pub mod spill;
pub mod sql;
pub mod store;

mod memory;
