//! CSV with a header as a part of a table (RFC 4180): fields between commas, records between line ends, quotes around
//! fields that have either; a quote within quotes is doubled. An empty field is null.
//!
//! Types come from the first MiB of the first file: boolean (`true`, `false`), 64-bit integer, 64-bit float, date
//! (`1998-09-02`), timestamp (`1998-09-02T12:00:00`, or with a space; fractions make it microseconds or nanoseconds),
//! and text for all else. A column that has integers and floats is of floats, one of dates and timestamps is of
//! timestamps, any other mixture is text. Integers with leading zeros are text, because they would lose them, as are
//! integers beyond 64 bits. A column without any value is text.
//!
//! A file is cut between records, which only one who has read it from its beginning can see: a line end within quotes is
//! none. So one stream reads the file's blocks in order; the worker that takes the next blocks looks for quotes and line
//! ends in them, which is fast, and decodes them while others take the blocks after.

mod infer;
mod records;
mod scan;

pub(super) use infer::{INFERRED_BYTES, Inferred, infer};
pub(super) use scan::{CsvInput, CsvPlan, CsvScan};

/// Where the last record of a text ends that begins with one.
pub(super) fn last_record_end(text: &[u8]) -> Option<usize> {
    records::Scanner::default().last_record_end(text)
}
