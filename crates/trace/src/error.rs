//! Errors of reading, writing and generating traces, as sentences: what was tried, where, and what to do.

use std::io;

use sakiyomi_model::{Bytes, Nanos};

use crate::format::kind::Format;

/// An error of a trace that cannot be read or written, or of a generator with invalid parameters.
///
/// `path` is the name under which the trace was opened; `line` counts from 1 (Parquet: rows).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("cannot open the trace {path}")]
    Open {
        /// The trace.
        path: String,
        /// Error of the system.
        source: io::Error,
    },
    /// Reading failed in the middle.
    #[error("cannot read {path} after line {line}")]
    Read {
        /// The trace.
        path: String,
        /// Last complete line.
        line: u64,
        /// Error of the system.
        source: io::Error,
    },
    /// A compressed file that ends early.
    #[error(
        "{path}: the {compression} data ends early after line {line} ({records} records read); the file is \
         truncated: fetch or copy it again"
    )]
    Truncated {
        /// The trace.
        path: String,
        /// `gzip` or `zstd`.
        compression: &'static str,
        /// Last complete line.
        line: u64,
        /// Number of records read before.
        records: u64,
    },
    /// A compressed file with corrupt content.
    #[error(
        "{path}: the {compression} data is damaged after line {line} ({records} records read): fetch or copy the \
         file again"
    )]
    Damaged {
        /// The trace.
        path: String,
        /// `gzip` or `zstd`.
        compression: &'static str,
        /// Last complete line.
        line: u64,
        /// Number of records read before.
        records: u64,
        /// Error of the decoder.
        source: io::Error,
    },
    /// A line that is not a record of the format.
    #[error("{path}:{line}: {problem}")]
    Line {
        /// The trace.
        path: String,
        /// The line.
        line: u64,
        /// Problem, and the accepted syntax.
        problem: String,
    },
    /// No format fits.
    #[error(
        "{path} is not in a known trace format: {problem}; `sakiyomi trace formats` lists them, and --format names one"
    )]
    Unrecognized {
        /// The trace.
        path: String,
        /// First line or other evidence.
        problem: String,
    },
    /// Several formats fit.
    #[error(
        "{path} fits more than one trace format: {}; say which it is with --format",
        describe(.candidates)
    )]
    Ambiguous {
        /// The trace.
        path: String,
        /// Matching formats.
        candidates: Vec<Format>,
    },
    /// A record beyond the end of the drive that it should run on.
    #[error(
        "{path}:{line}: the record ends at byte {}, but the drive holds {} bytes; choose a larger drive, \
         or wrap addresses around with --wrap",
        .end.0, .capacity.0
    )]
    BeyondDrive {
        /// The trace.
        path: String,
        /// Line of the record.
        line: u64,
        /// End of its extent.
        end: Bytes,
        /// Capacity of the drive.
        capacity: Bytes,
    },
    /// A record further back in time than the re-ordering window.
    #[error(
        "{path}:{line}: the record lies {back} before one already read, and records are put in order within \
         {window} only; raise --sort-window to {back} or more, or sort the file by time"
    )]
    OutOfOrder {
        /// The trace.
        path: String,
        /// Line of the late record.
        line: u64,
        /// Distance from the latest time before it.
        back: Nanos,
        /// Re-ordering window.
        window: Nanos,
    },
    /// More records in the re-ordering window than are kept in memory.
    #[error(
        "{path}:{line}: the record is late by more than the {records} records that can be held for putting them \
         in order; sort the file by time"
    )]
    OrderFull {
        /// The trace.
        path: String,
        /// Line of the late record.
        line: u64,
        /// Maximum number of records kept.
        records: usize,
    },
    /// A trace of several devices where one is expected.
    #[error(
        "{path}:{line}: device {second} appears beside device {first}, and a drive is one device; take one of \
         them with --device {first}, or put all on one address space with --map concat"
    )]
    SecondDevice {
        /// The trace.
        path: String,
        /// Line with the second device.
        line: u64,
        /// Device of the first record.
        first: String,
        /// Second device.
        second: String,
    },
    /// The requested device does not occur.
    #[error("{path} has no record of device {device}; it has records of {present}")]
    NoSuchDevice {
        /// The trace.
        path: String,
        /// Requested device.
        device: String,
        /// Devices that occur, as a list.
        present: String,
    },
    /// Devices whose extents do not fit one address space.
    #[error("{path}: the devices' extents together pass 2^63 bytes; take one of them with --device N")]
    ConcatTooLarge {
        /// The trace.
        path: String,
    },
    /// A feature that needs a file was requested for a stream.
    #[error("{path} is a stream, and {what} needs a file that can be read twice; save it to a file first")]
    NeedsFile {
        /// The trace.
        path: String,
        /// The feature.
        what: &'static str,
    },
    /// A Parquet file that cannot be read.
    #[error("cannot read {path} as a Parquet trace")]
    Parquet {
        /// The trace.
        path: String,
        /// Error of the Parquet library.
        source: parquet::errors::ParquetError,
    },
    /// An option or parameter outside its range.
    #[error("{name} is {value}, but must be {wanted}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// Value given.
        value: String,
        /// Accepted values.
        wanted: String,
    },
    /// The output cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The output.
        path: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A record that the output format cannot represent.
    #[error(
        "cannot write record {record} to {path}: the format {format} {problem}; choose another, such as sakiyomi"
    )]
    Unsupported {
        /// The output.
        path: String,
        /// Name of the output format.
        format: &'static str,
        /// Number of the record, from 1.
        record: u64,
        /// The value that the format cannot represent.
        problem: String,
    },
}

fn describe(candidates: &[Format]) -> String {
    let each: Vec<String> =
        candidates.iter().map(|format| format!("{} ({})", format.name(), format.description())).collect();
    each.join(" and ")
}
