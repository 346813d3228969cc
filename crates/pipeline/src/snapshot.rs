//! Snapshots of pipelines in a file, and the file that is replaced while a pipeline runs.
//!
//! ```text
//! Snapshots::begin ─► barriers pass ─► outputs on the disk ─► file replaced     one at a time; in a thread from the second ─► on
//! ```
//!
//! The outputs are made durable first, so that a snapshot never covers rows that a power failure could destroy.

mod file;
mod series;

pub use series::{SnapshotFigures, Snapshots};

pub(crate) use file::{read, write};
