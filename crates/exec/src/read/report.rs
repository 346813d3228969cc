//! The report of a blocked read, and its events.

use std::time::Duration;

use sakiyomi_io::EngineSpec;

use super::error::Error;

/// Counters and times of a blocked read.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Bytes read.
    pub bytes: u64,
    /// Bytes of these that were resident.
    pub resident_bytes: u64,
    /// Bytes that were processed in place in the page cache; the others were copied.
    pub mapped_bytes: u64,
    /// The engine that read the others; `None` if all were resident.
    pub method: Option<EngineSpec>,
    /// Time from start to end.
    pub elapsed: Duration,
    /// Total time in the mapping function, over all threads, with the reduction of adjacent blocks.
    pub computing: Duration,
    /// Whether the I/O thread got the priority that it requested; `None` without an I/O thread.
    pub io_is_urgent: Option<bool>,
}

impl Report {
    /// Adds the counters and times of `more`.
    pub fn add(&mut self, more: &Report) {
        self.bytes += more.bytes;
        self.resident_bytes += more.resident_bytes;
        self.mapped_bytes += more.mapped_bytes;
        self.computing += more.computing;
        self.elapsed += more.elapsed;
        self.method = self.method.or(more.method);
        self.io_is_urgent = self.io_is_urgent.or(more.io_is_urgent);
    }
}

/// An event of a file, in the order of its bytes.
#[derive(Debug)]
pub enum Event<T> {
    /// The next result.
    Result(T),
    /// The end of the file: its report, or its error.
    End(Result<Report, Error>),
}

/// Whether more of a file is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The next result.
    More,
    /// Nothing more of this file.
    NextFile,
    /// Nothing more of any file: the read ends, without an error.
    Nothing,
}
