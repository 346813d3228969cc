//! CSV with a header (RFC 4180): comma-separated fields, one record per line. Fields that contain commas or line ends
//! are quoted; a quote within a quoted field is doubled. An empty field is null.
//!
//! Types come from the first MiB of each file: boolean (`true`, `false`), 64-bit integer, 64-bit float, date
//! (`1998-09-02`), timestamp (`1998-09-02T12:00:00`, or with a space; fractions make it microseconds or nanoseconds),
//! and text for everything else. A mix of integers and floats becomes float, a mix of dates and timestamps becomes
//! timestamp, and any other mix text. Integers with leading zeros, which a number would lose, and integers beyond 64
//! bits are text. So is a column without any value. Behind the first MiB a value of another kind is an error, because its
//! column's type would change it.
//!
//! Record boundaries depend on everything before them, because a line end within quotes does not end a record. So one
//! stream reads the file's blocks in order. A worker scans its block for quotes and line ends, which is fast, then
//! decodes it while others take the following blocks.

mod infer;
mod records;
mod scan;
mod typed;

pub(super) use infer::{INFERRED_BYTES, Inferred, infer};
pub(super) use scan::{CsvInput, CsvPlan, CsvScan};

/// Whether records are UTF-8, as the decoder assumes of each value.
pub(super) fn is_utf8(text: &[u8]) -> bool {
    records::not_utf8(&[], text).is_none()
}

/// Offset after the last complete record of `text`, which starts at a record.
pub(super) fn last_record_end(text: &[u8]) -> Option<usize> {
    records::Scanner::default().last_record_end(text)
}
