//! Blocked reads: a file's blocks are read while those before them are worked on, written as shortly as a loop.
//!
//! ```no_run
//! use sakiyomi_task::read::blocked_read;
//! # fn main() -> Result<(), sakiyomi_task::read::Error> {
//! let (longest, _) = blocked_read("log.txt")
//!     .block(128 << 10)
//!     .records(b'\n')
//!     .map(|lines| lines.split(|&byte| byte == b'\n').map(<[u8]>::len).max().unwrap_or(0))
//!     .reduce(0, |longest, other| longest.max(other))?;
//! # Ok(())
//! # }
//! ```
//!
//! What is mapped is a block: as it is, cut anywhere ([`BlockedRead::map`], for functions that hand over head and tail
//! as the paper's word count does), or with whole records only ([`BlockedRead::records`]); a record that a boundary
//! cuts is put together and mapped by itself.
//!
//! Results are put together by an associative function, neighbours as they meet, or written in the file's order. So
//! blocks may be read in any order, and **what is cached goes first**: blocks that are in memory are worked on by the
//! threads that compute, from a mapping, while the I/O thread brings those that are not; and if the file has been too
//! large for the memory, before it does, since what it brings would push them out.
//!
//! Memory is the pool of buffers and no more, as long as results are small; a record longer than the pool is an error.

mod gather;
mod plan;
mod records;
mod stream;
#[cfg(test)]
mod tests;
mod window;
mod work;

use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sakiyomi_linux::{Access, MethodSpec};

use crate::manager::Failure;
use gather::{Gather, Ordered, Runs};
use work::Work;

/// Who reads what is not in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoThread {
    /// A thread that does nothing else, with a raised priority where that is allowed: the paper's `IO_0`.
    #[default]
    Dedicated,
    /// Every thread that computes reads its own blocks: the paper's `SPE_ANY`.
    Shared,
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] sakiyomi_linux::Error),
    /// What has no offsets, as a pipe, cannot be read.
    #[error("cannot read {}", path.display())]
    Stream {
        /// What was named.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A record has no end within what the buffers hold.
    #[error(
        "a record of {} is longer than {most} bytes, which is all that is read ahead; use larger blocks", path.display()
    )]
    LongRecord {
        /// The file.
        path: PathBuf,
        /// What there is room for, in bytes.
        most: u64,
    },
    /// The function that maps has failed.
    #[error(transparent)]
    Task(#[from] Failure),
    /// The result cannot be written.
    #[error("cannot write the result")]
    Write(#[source] io::Error),
}

/// What a blocked read did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Bytes read.
    pub bytes: u64,
    /// Bytes of them that were in memory, and so were not waited for.
    pub resident_bytes: u64,
    /// How those that were not were read; none if all were.
    pub method: Option<MethodSpec>,
    /// From start to end.
    pub elapsed: Duration,
    /// Time in the function that maps, of all threads.
    pub computing: Duration,
    /// Whether the I/O thread has the priority that it asked for; none if there was none.
    pub io_is_urgent: Option<bool>,
}

/// A file to be read by blocks.
#[derive(Clone, Debug)]
#[must_use = "nothing is read until it is reduced or written"]
pub struct BlockedRead {
    path: PathBuf,
    range: Range<u64>,
    block: usize,
    threads: usize,
    method: Option<MethodSpec>,
    access: Access,
    io: IoThread,
}

/// A part for a thread: small enough to stay in its cache, large enough that starting on it costs nothing beside.
const BLOCK: usize = 128 << 10;
/// What is read ahead, in bytes, and in blocks.
const AHEAD: usize = 16 << 20;
const AHEAD_BLOCKS: Range<usize> = 4..256;

/// A file, to be read by blocks of 128 KiB on as many threads as there are cores.
pub fn blocked_read(path: impl AsRef<Path>) -> BlockedRead {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (method, access, io) = (None, Access::Buffered, IoThread::Dedicated);
    BlockedRead {
        path: path.as_ref().to_owned(),
        range: 0..u64::MAX,
        block: BLOCK,
        threads,
        method,
        access,
        io,
    }
}

impl BlockedRead {
    /// Bytes of a block.
    ///
    /// # Panics
    /// If they are none.
    pub fn block(mut self, bytes: usize) -> BlockedRead {
        assert!(bytes > 0, "a block of no bytes");
        self.block = bytes;
        self
    }

    /// Only these bytes of the file.
    pub fn range(mut self, range: Range<u64>) -> BlockedRead {
        self.range = range;
        self
    }

    /// Threads that compute.
    pub fn threads(mut self, threads: usize) -> BlockedRead {
        self.threads = threads.max(1);
        self
    }

    /// How all of it is read; otherwise what is in memory is mapped, and the rest read by the I/O thread.
    pub fn method(mut self, method: MethodSpec) -> BlockedRead {
        self.method = Some(method);
        self
    }

    /// Through the page cache or around it.
    pub fn access(mut self, access: Access) -> BlockedRead {
        self.access = access;
        self
    }

    /// Who reads.
    pub fn io_thread(mut self, io: IoThread) -> BlockedRead {
        self.io = io;
        self
    }

    /// Whole records only, each with the byte that ends it; the last one may be without.
    pub fn records(self, end: u8) -> Records {
        Records { read: self, end }
    }

    /// Maps blocks that are cut anywhere.
    pub fn map<T, F: Fn(&[u8]) -> T>(self, map: F) -> Mapped<F> {
        Mapped { read: self, end: None, map }
    }

    fn window(&self) -> usize {
        (AHEAD / self.block).clamp(AHEAD_BLOCKS.start, AHEAD_BLOCKS.end).max(2 * self.threads)
    }
}

/// A file to be read by blocks of whole records.
#[derive(Clone, Debug)]
#[must_use = "nothing is read until it is reduced or written"]
pub struct Records {
    read: BlockedRead,
    end: u8,
}

impl Records {
    /// Maps whole records, as many at a time as a block has, but at least one.
    pub fn map<T, F: Fn(&[u8]) -> T>(self, map: F) -> Mapped<F> {
        Mapped { end: Some(self.end), read: self.read, map }
    }
}

/// A file to be read, and what is done with its blocks.
#[must_use = "nothing is read until it is reduced or written"]
pub struct Mapped<F> {
    read: BlockedRead,
    end: Option<u8>,
    map: F,
}

impl<T: Send, F: Fn(&[u8]) -> T + Sync> Mapped<F> {
    /// Puts results together with an associative function, in the file's order; `nothing` is for a file of no bytes.
    ///
    /// # Errors
    /// If the file cannot be read, or a record is too long.
    pub fn reduce(self, nothing: T, put_together: impl Fn(T, T) -> T + Sync) -> Result<(T, Report), Error> {
        let runs = Runs::new(&put_together);
        let report = self.run(&runs, false, None)?;
        Ok((runs.into_result().unwrap_or(nothing), report))
    }

    /// As [`Mapped::reduce`], of what has no offsets: a pipe, a terminal.
    ///
    /// # Errors
    /// If it cannot be read, or a record is too long.
    pub fn reduce_stream(
        self,
        from: impl io::Read + Send,
        nothing: T,
        put_together: impl Fn(T, T) -> T + Sync,
    ) -> Result<(T, Report), Error> {
        let runs = Runs::new(&put_together);
        let report = self.run(&runs, false, Some(Box::new(from)))?;
        Ok((runs.into_result().unwrap_or(nothing), report))
    }
}

impl<T: Send, F: Fn(&[u8]) -> T + Sync> Mapped<F> {
    /// Hands over results in the file's order, each as soon as those before it were. An error ends the reading.
    ///
    /// # Errors
    /// If the file cannot be read, a record is too long, or `take` says so.
    pub fn in_order(self, take: impl FnMut(T) -> io::Result<()> + Send) -> Result<Report, Error> {
        self.run(&Ordered::new(self.read.range.start, take), true, None)
    }

    /// As [`Mapped::in_order`], of what has no offsets.
    ///
    /// # Errors
    /// If it cannot be read, a record is too long, or `take` says so.
    pub fn in_order_stream(
        self,
        from: impl io::Read + Send,
        take: impl FnMut(T) -> io::Result<()> + Send,
    ) -> Result<Report, Error> {
        self.run(&Ordered::new(0, take), true, Some(Box::new(from)))
    }

    /// Writes results in the file's order, each as soon as those before it are written.
    ///
    /// # Errors
    /// If the file cannot be read, a record is too long, or the results cannot be written.
    pub fn write_ordered(self, mut out: impl Write + Send) -> Result<Report, Error>
    where
        T: AsRef<[u8]>,
    {
        let report = self.in_order(|result| out.write_all(result.as_ref()))?;
        out.flush().map_err(Error::Write)?;
        Ok(report)
    }
}

impl<T: Send, F: Fn(&[u8]) -> T + Sync> Mapped<F> {
    /// Has everything read and mapped, with each result given to `gather`.
    fn run<G: Gather<T>>(
        &self,
        gather: &G,
        in_order: bool,
        from: Option<Box<dyn io::Read + Send + '_>>,
    ) -> Result<Report, Error> {
        let begun = Instant::now();
        let start = if from.is_some() { 0 } else { self.read.range.start };
        let work = Work::new(&self.read, &self.map, gather, self.end, start);
        let mut report = match from {
            Some(from) => work.of_stream(from)?,
            None => work.of_path(in_order)?,
        };
        work.last_records().map_err(|stop| work.error(stop))?;
        report.bytes = work.bytes.load(Ordering::Relaxed);
        report.computing = Duration::from_nanos(work.computing_ns.load(Ordering::Relaxed));
        report.elapsed = begun.elapsed();
        Ok(report)
    }
}
