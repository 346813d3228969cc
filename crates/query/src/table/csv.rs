//! CSV with a header (RFC 4180): comma-separated fields, one record per line. Fields that contain commas or line ends
//! are quoted; a quote within a quoted field is doubled. As in PostgreSQL's CSV, an empty field is null, and `""` is an empty
//! string. An empty line is a null in a table of one column, and is skipped in others.
//!
//! Types come from the first MiB of each file: boolean (`true`, `false`), 64-bit integer, 64-bit float, date
//! (`1998-09-02`), timestamp (`1998-09-02T12:00:00`, or with a space; fractions make it microseconds or nanoseconds),
//! and text for everything else. A mix of integers and floats becomes float, a mix of dates and timestamps becomes
//! timestamp, and any other mix text. Integers with leading zeros, which a number would lose, integers beyond 64
//! bits, numbers that a float would make infinite or zero, and mixes of floats with integers that they do not hold are text. So are columns without any value, and those with an empty string. Behind the first MiB a value of another kind is an error, because its
//! column's type would change it.
//!
//! Record boundaries depend on everything before them, because a line end within quotes does not end a record. So one
//! stream reads the file's blocks in order. A worker scans its block for quotes and line ends, which is fast, then
//! decodes it while others take the following blocks.

mod fields;
mod infer;
mod records;
mod scan;
mod typed;
mod values;

pub(super) use infer::{INFERRED_BYTES, Inferred, infer};
pub(super) use scan::{CsvInput, CsvPlan, CsvScan};
pub(super) use typed::Decoder;

/// Offset after the last complete record of `text`, which starts at a record.
pub(super) fn last_record_end(text: &[u8]) -> Option<usize> {
    records::Scanner::default().last_record_end(text)
}
