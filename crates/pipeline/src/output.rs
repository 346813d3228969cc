//! Outputs: rows become bytes on the worker of their sink, and a thread writes them, so that no worker waits for a file or
//! a socket.
//!
//! ```text
//! sink ─► encode into a buffer ─► thread: take the buffer, write it
//! ```
//!
//! The thread takes what is there as soon as there is something, and then lets more gather for a millisecond: a single
//! row is written at once, and many rows cost few calls and few wake-ups. An output that holds too much pauses the
//! sources, so that memory is bounded by what is in the rings and the windows.
//!
//! Each file is claimed before it is opened: no other process writes it until it has appeared.
//!
//! A snapshot has the length of each file, and a checksum of what was written of it. An output that continues from it cuts its file off there, so that no row is
//! missing from the file and none is in it twice. A file that is to appear at the end lies under the name of
//! `sakiyomi_io::partial_path` until then.

mod arrow;
mod claims;
mod encode;
mod number;
mod saved;
mod sink;
mod target;
mod tracked;
mod writer;

use arrow_schema::DataType;

pub(crate) use claims::{Claims, same_file};
pub(crate) use saved::{Continuity, SavedOutput};
pub(crate) use sink::RowSink;
pub use target::Standard;
pub(crate) use writer::{Output, Unpublished, Writer};

/// Returns the type of the values that rows have for a type: of a dictionary what its keys stand for.
fn flat(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => flat(values),
        other => other,
    }
}
