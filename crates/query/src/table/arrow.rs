//! Arrow IPC as a part of a table: files with a footer, files that are streams, and streams that come once.
//!
//! When a file is opened, the headers of its messages are read: so its rows are counted, and the bytes of each column of
//! each record batch are known. A scan reads the columns that it needs, each in one piece of memory, which becomes the
//! memory of its arrays.

mod column;
mod index;
mod layout;
mod message;
mod rows;
mod scan;
mod stream;

pub(super) use index::ArrowFile;
pub(super) use scan::{ArrowPlan, ArrowScan};
pub(super) use stream::{ArrowStream, StreamScan};
