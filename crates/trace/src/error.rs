//! Everything that can go wrong with a trace, as sentences: what was tried, where, and what to do.

use std::io;

use sakiyomi_model::{Bytes, Nanos};

use crate::format::kind::Format;

/// A trace that cannot be read or written, or a generator that cannot be set up.
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
        /// What the system said.
        source: io::Error,
    },
    /// Reading failed half way.
    #[error("cannot read {path} after line {line}")]
    Read {
        /// The trace.
        path: String,
        /// The last line that was read whole.
        line: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A compressed file that stops before its end.
    #[error(
        "{path}: the {compression} data ends early after line {line} ({records} records read); the file is \
         truncated: fetch or copy it again"
    )]
    Truncated {
        /// The trace.
        path: String,
        /// `gzip` or `zstd`.
        compression: &'static str,
        /// The last line that was read whole.
        line: u64,
        /// How many records were read before.
        records: u64,
    },
    /// A compressed file whose content contradicts itself.
    #[error(
        "{path}: the {compression} data is damaged after line {line} ({records} records read): fetch or copy the \
         file again"
    )]
    Damaged {
        /// The trace.
        path: String,
        /// `gzip` or `zstd`.
        compression: &'static str,
        /// The last line that was read whole.
        line: u64,
        /// How many records were read before.
        records: u64,
        /// What the decoder said.
        source: io::Error,
    },
    /// A line that is not a record of the format.
    #[error("{path}:{line}: {problem}")]
    Line {
        /// The trace.
        path: String,
        /// The line.
        line: u64,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// No format fits.
    #[error("{path} is in no known trace format: {problem}; name the format with --format if you know it")]
    Unrecognised {
        /// The trace.
        path: String,
        /// What was seen.
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
        /// The formats that fit.
        candidates: Vec<Format>,
    },
    /// A record beyond the end of the drive that it is to run on.
    #[error(
        "{path}:{line}: the record ends at byte {}, but the drive holds {} bytes; take a larger drive, or map addresses \
         onto it with --wrap",
        .end.0, .capacity.0
    )]
    BeyondDrive {
        /// The trace.
        path: String,
        /// The record's line.
        line: u64,
        /// Where it ends.
        end: Bytes,
        /// The drive's size.
        capacity: Bytes,
    },
    /// A record that lies further back in time than re-ordering reaches.
    #[error(
        "{path}:{line}: the record lies {back} before one already read, and records are put in order within \
         {window} only; raise --sort-window to {back} or more, or sort the file by time"
    )]
    OutOfOrder {
        /// The trace.
        path: String,
        /// The late record's line.
        line: u64,
        /// How far back it lies.
        back: Nanos,
        /// How far back it may.
        window: Nanos,
    },
    /// More records inside the re-ordering window than are held in memory.
    #[error(
        "{path}:{line}: the record is late by more than the {records} records that can be held for putting them \
         in order; sort the file by time"
    )]
    OrderFull {
        /// The trace.
        path: String,
        /// The late record's line.
        line: u64,
        /// How many are held.
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
        /// Where the second device appears.
        line: u64,
        /// The first record's device.
        first: u32,
        /// The other.
        second: u32,
    },
    /// The chosen device does not occur.
    #[error("{path} has no record of device {device}; it has records of {present}")]
    NoSuchDevice {
        /// The trace.
        path: String,
        /// The device asked for.
        device: u32,
        /// Those that occur, as a list.
        present: String,
    },
    /// Devices whose extents do not fit one address space.
    #[error("{path}: the devices' extents together pass 2^63 bytes; take one of them with --device N")]
    ConcatTooLarge {
        /// The trace.
        path: String,
    },
    /// Something that needs a file was asked of a stream.
    #[error("{path} is a stream, and {what} needs a file that can be read twice; save it to a file first")]
    NeedsFile {
        /// The trace.
        path: String,
        /// What needs it.
        what: &'static str,
    },
    /// A Parquet file that cannot be read.
    #[error("cannot read {path} as a Parquet trace")]
    Parquet {
        /// The trace.
        path: String,
        /// What the Parquet library said.
        source: parquet::errors::ParquetError,
    },
    /// An option or parameter outside its range.
    #[error("{name} is {value}, but must be {wanted}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        wanted: String,
    },
    /// The output cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The output.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A record that the output format has no place for.
    #[error(
        "cannot write record {record} to {path}: the format {format} {problem}; choose another, such as sakiyomi"
    )]
    Unsupported {
        /// The output.
        path: String,
        /// The output format's name.
        format: &'static str,
        /// The record's number, from 1.
        record: u64,
        /// What the format cannot hold.
        problem: String,
    },
}

fn describe(candidates: &[Format]) -> String {
    let each: Vec<String> =
        candidates.iter().map(|format| format!("{} ({})", format.name(), format.description())).collect();
    each.join(" and ")
}
