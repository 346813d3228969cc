//! Relational operators on Arrow batches, with a memory limit and the CPU time of their I/O accounted (Ueda 2013).
//!
//! ```text
//! Table ─► Scan ─► Transform ─► sort | join | aggregate ─► Output
//! files    decode  filter, project      spill ▲ │           encode, write
//!                                             └─┘
//! ```
//!
//! | subject | module |
//! |---|---|
//! | streams of record batches; a job's engine, threads, memory and spill directories | [`batches`], [`job`] |
//! | files as tables: Parquet, Arrow IPC, CSV; the bytes that a scan reads | [`table`] |
//! | files as results: encoding on many threads, appended in order | [`output`] |
//! | streams of batches filtered and projected by the expressions of `--where` and `--select` | [`transform`] |
//! | `--by`: columns, directions, placement of nulls (pure) | [`order`] |
//! | external sort | [`sort`] |
//! | spill files: compression chosen while spilling, checksums, several directories | [`spill`] |
//! | merge joins, by pairs of partitions or of sorted streams; hash joins | [`join`] |
//! | hash and sorted aggregation | [`aggregate`] |
//! | whole statements: from tables to a file | [`statement`] |
//! | bytes, elapsed time, CPU time and I/O wait of each phase; progress of a job | [`phase`], [`progress`] |
//! | the first rows of a result as values | [`preview`] |
//! | predictions and choices from a calibration (pure) | [`cost`] |
//! | the CPU costs of operators on this machine, measured | [`calibrate`] |
//! | tables as the cost model sees them | [`describe`] |
//! | TPC-H tables (with the feature `generate`) | `generate` |

pub mod aggregate;
pub mod batches;
pub mod calibrate;
pub mod cost;
pub mod describe;
#[cfg(feature = "generate")]
pub mod generate;
pub mod job;
pub mod join;
pub mod order;
pub mod output;
pub mod phase;
pub mod preview;
pub mod progress;
pub mod sort;
pub mod spill;
pub mod statement;
pub mod table;
pub mod transform;

mod batch_bytes;
mod batch_spill;
mod error;
mod workers;

pub use batches::Batches;
pub use error::Error;
pub use job::{Job, JobOptions};
