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
//! Of many files ([`blocked_reads`]) the next is read while the last is worked on, and those that come next are opened
//! and fetched ahead. They are one text ([`Mapped::reduce`], [`Mapped::write_ordered`]), or each has its own result or
//! error ([`Mapped::reduce_each`], [`Mapped::each_in_order`]):
//!
//! ```no_run
//! use sakiyomi_task::read::blocked_reads;
//! # fn main() -> Result<(), sakiyomi_task::read::Error> {
//! let paths = ["a.log", "b.log"];
//! let count = |lines: &[u8]| lines.iter().filter(|&&byte| byte == b'\n').count();
//! blocked_reads(paths).map(count).reduce_each(|| 0, |first, next| first + next, |file, counted| {
//!     match counted {
//!         Ok((lines, _)) => println!("{lines} {}", paths[file]),
//!         Err(error) => eprintln!("{error}"),
//!     }
//!     Ok(())
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! Memory is the pool of buffers and no more, as long as results are small; a record longer than the pool is an error.

mod feed;
mod gather;
mod plan;
mod records;
mod stream;
#[cfg(test)]
mod tests;
mod window;
mod work;

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sakiyomi_linux::{Access, MethodSpec};

use crate::manager::Failure;
use feed::Input;
use gather::Sink;
use work::{SMALL, Work};

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
    /// What was named cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// What was named.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] sakiyomi_linux::Error),
    /// What is small, or has no offsets, as a pipe, cannot be read.
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

/// What comes of a file, as it comes.
#[derive(Debug)]
pub enum Event<T> {
    /// The next result.
    Result(T),
    /// There are no more: what was done, or why not.
    End(Result<Report, Error>),
}

/// Whether more of a file is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The next result.
    More,
    /// Nothing more of this file.
    NextFile,
}

/// Files to be read by blocks, one or many.
#[derive(Clone, Debug)]
#[must_use = "nothing is read until it is reduced or written"]
pub struct BlockedRead {
    paths: Vec<PathBuf>,
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
    blocked_reads([path])
}

/// Files, in their order, to be read as [`blocked_read`] reads one.
pub fn blocked_reads(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> BlockedRead {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (method, access, io) = (None, Access::Buffered, IoThread::Dedicated);
    BlockedRead {
        paths: paths.into_iter().map(|path| path.as_ref().to_owned()).collect(),
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

    /// Only these bytes of each file.
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
    pub fn map<T>(self, map: impl Fn(&[u8]) -> T) -> Mapped<impl Fn(usize, &[u8]) -> T> {
        self.map_of_each(move |_, block| map(block))
    }

    /// As [`BlockedRead::map`]; the function is also given the number of the file, from 0.
    pub fn map_of_each<T, F: Fn(usize, &[u8]) -> T>(self, map: F) -> Mapped<F> {
        Mapped { read: self, end: None, map }
    }

    fn window(&self) -> usize {
        (AHEAD / self.block).clamp(AHEAD_BLOCKS.start, AHEAD_BLOCKS.end).max(2 * self.threads)
    }
}

/// Files to be read by blocks of whole records.
#[derive(Clone, Debug)]
#[must_use = "nothing is read until it is reduced or written"]
pub struct Records {
    read: BlockedRead,
    end: u8,
}

impl Records {
    /// Maps whole records, as many at a time as a block has, but at least one.
    pub fn map<T>(self, map: impl Fn(&[u8]) -> T) -> Mapped<impl Fn(usize, &[u8]) -> T> {
        self.map_of_each(move |_, records| map(records))
    }

    /// As [`Records::map`]; the function is also given the number of the file, from 0.
    pub fn map_of_each<T, F: Fn(usize, &[u8]) -> T>(self, map: F) -> Mapped<F> {
        Mapped { end: Some(self.end), read: self.read, map }
    }
}

/// Files to be read, and what is done with their blocks.
#[must_use = "nothing is read until it is reduced or written"]
pub struct Mapped<F> {
    read: BlockedRead,
    end: Option<u8>,
    map: F,
}

type Stream<'f> = Option<Box<dyn io::Read + Send + 'f>>;
type PutTogether<'g, T> = &'g (dyn Fn(T, T) -> T + Sync);

impl<T: Send, F: Fn(usize, &[u8]) -> T + Sync> Mapped<F> {
    /// Puts results together with an associative function, in the order of the files and of what is in them; `nothing`
    /// is for no bytes at all. An error of one file is that of all.
    ///
    /// # Errors
    /// If a file cannot be read, or a record is too long.
    pub fn reduce(self, nothing: T, put_together: impl Fn(T, T) -> T + Sync) -> Result<(T, Report), Error> {
        self.reduce_all(None, nothing, &put_together)
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
        self.reduce_all(Some(Box::new(from)), nothing, &put_together)
    }

    /// As [`Mapped::reduce`], but each file by itself: `each` is given a file's number, from 0, and its result, or why
    /// there is none; file after file, as soon as it is there. An error of its own ends the reading.
    ///
    /// # Errors
    /// What `each` says, or if `map` panics; not those of files.
    pub fn reduce_each(
        self,
        nothing: impl Fn() -> T + Send,
        put_together: impl Fn(T, T) -> T + Sync,
        mut each: impl FnMut(usize, Result<(T, Report), Error>) -> io::Result<()> + Send,
    ) -> Result<Report, Error> {
        let mut result = None;
        self.run(None, Some(&put_together), move |file, event| {
            match event {
                Event::Result(whole) => result = Some(whole),
                Event::End(end) => {
                    let whole = result.take().unwrap_or_else(&nothing);
                    each(file, end.map(|report| (whole, report))).map_err(Error::Write)?;
                }
            }
            Ok(Wanted::More)
        })
    }

    fn reduce_all(
        self,
        from: Stream<'_>,
        nothing: T,
        put_together: PutTogether<'_, T>,
    ) -> Result<(T, Report), Error> {
        let mut all = None;
        let report = self.run(from, Some(put_together), |_, event| {
            match event {
                Event::Result(next) => {
                    all = Some(match all.take() {
                        None => next,
                        Some(before) => put_together(before, next),
                    });
                }
                Event::End(end) => {
                    end?;
                }
            }
            Ok(Wanted::More)
        })?;
        Ok((all.unwrap_or(nothing), report))
    }
}

impl<T: Send, F: Fn(usize, &[u8]) -> T + Sync> Mapped<F> {
    /// Hands over results in the order of the files and of what is in them, each as soon as those before it were. An
    /// error ends the reading.
    ///
    /// # Errors
    /// If a file cannot be read, a record is too long, or `take` says so.
    pub fn in_order(self, take: impl FnMut(T) -> io::Result<()> + Send) -> Result<Report, Error> {
        self.all_in_order(None, take)
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
        self.all_in_order(Some(Box::new(from)), take)
    }

    /// As [`Mapped::in_order`], but with the number of the file, from 0, and its end. The error of one does not end the
    /// others, and the rest of a file may be left out; an error of `take` ends the reading.
    ///
    /// # Errors
    /// What `take` says, or if `map` panics; not those of files.
    pub fn each_in_order(
        self,
        mut take: impl FnMut(usize, Event<T>) -> io::Result<Wanted> + Send,
    ) -> Result<Report, Error> {
        self.run(None, None, |file, event| take(file, event).map_err(Error::Write))
    }

    /// Writes results in order, each as soon as those before it are written.
    ///
    /// # Errors
    /// If a file cannot be read, a record is too long, or the results cannot be written.
    pub fn write_ordered(self, mut out: impl Write + Send) -> Result<Report, Error>
    where
        T: AsRef<[u8]>,
    {
        let report = self.in_order(|result| out.write_all(result.as_ref()))?;
        out.flush().map_err(Error::Write)?;
        Ok(report)
    }

    fn all_in_order(
        self,
        from: Stream<'_>,
        mut take: impl FnMut(T) -> io::Result<()> + Send,
    ) -> Result<Report, Error> {
        self.run(from, None, |_, event| {
            match event {
                Event::Result(result) => take(result).map_err(Error::Write)?,
                Event::End(end) => {
                    end?;
                }
            }
            Ok(Wanted::More)
        })
    }
}

impl<T: Send, F: Fn(usize, &[u8]) -> T + Sync> Mapped<F> {
    /// Has everything read and mapped, with results and ends given to `take`.
    fn run(
        &self,
        from: Stream<'_>,
        put_together: Option<PutTogether<'_, T>>,
        mut take: impl FnMut(usize, Event<T>) -> Result<Wanted, Error> + Send,
    ) -> Result<Report, Error> {
        let begun = Instant::now();
        let mut all = Report::default();
        let start = if from.is_some() { 0 } else { self.read.range.start };
        let take = Box::new(|file, event| {
            if let Event::End(Ok(report)) = &event {
                all.add(report);
            }
            take(file, event)
        });
        let sink = Sink::new(put_together, start, take);
        let work = Work::new(&self.read, &self.map, self.end, put_together.is_none(), sink);
        let urgent = match from {
            Some(from) => self.of_stream(work, from)?,
            None => self.of_paths(work)?,
        };
        all.io_is_urgent = urgent;
        all.elapsed = begun.elapsed();
        Ok(all)
    }

    /// Reads what the paths name; says whether the I/O thread was urgent, if there was one.
    fn of_paths(&self, work: Work<'_, T>) -> Result<Option<bool>, Error> {
        if let [path] = &self.read.paths[..] {
            let metadata = std::fs::metadata(path);
            let is_small = |metadata: &Metadata| metadata.is_file() && metadata.len() < SMALL as u64;
            if work.takes_small() && metadata.is_ok_and(|metadata| is_small(&metadata)) {
                let opened = File::open(path);
                let mut file = opened.map_err(|source| Error::Open { path: path.clone(), source })?;
                return work.alone(path, &mut file).map(|()| None);
            }
        }
        let inputs = self.read.paths.iter().map(|path| Input::Path(path)).collect();
        let urgent = work.of_inputs(inputs)?;
        Ok((self.read.io == IoThread::Dedicated).then_some(urgent))
    }

    fn of_stream(
        &self,
        work: Work<'_, T>,
        mut from: Box<dyn io::Read + Send + '_>,
    ) -> Result<Option<bool>, Error> {
        let path = self.read.paths.first().map_or(Path::new("-"), PathBuf::as_path);
        let mut first = Vec::new();
        let read = from.by_ref().take(SMALL as u64).read_to_end(&mut first);
        read.map_err(|source| Error::Stream { path: path.to_owned(), source })?;
        if first.len() < SMALL {
            return work.alone(path, &mut &first[..]).map(|()| None);
        }
        let whole = Box::new(io::Cursor::new(first).chain(from));
        work.of_inputs(vec![Input::Stream(path, whole)]).map(Some)
    }
}

impl Report {
    /// What was done besides.
    pub fn add(&mut self, more: &Report) {
        self.bytes += more.bytes;
        self.resident_bytes += more.resident_bytes;
        self.computing += more.computing;
        self.elapsed += more.elapsed;
        self.method = self.method.or(more.method);
        self.io_is_urgent = self.io_is_urgent.or(more.io_is_urgent);
    }
}
