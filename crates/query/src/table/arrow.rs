//! Arrow IPC in tables: files with a footer, streams stored in files, and streams read once.
//!
//! Opening a file reads the headers of its messages, which give its rows and the byte range of each column. A scan
//! reads only the projected columns, each into one buffer, which the arrays then share.

mod column;
mod dictionaries;
mod index;
mod layout;
mod message;
mod rows;
mod scan;
mod stream;
mod whole;

pub(super) use dictionaries::Loaded;
pub(super) use index::ArrowFile;
pub(super) use scan::{ArrowPlan, ArrowScan};
pub(super) use stream::{ArrowStream, StreamScan};
pub(super) use whole::batch_memory;
