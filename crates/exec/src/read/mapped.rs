//! The mapping of blocks, and the delivery of results.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::builder::{BlockedRead, IoThread};
use super::error::Error;
use super::gather::Sink;
use super::look_ahead::Input;
use super::report::{Event, Report, Wanted};
use super::schedule;
use super::stream::Stream;
use super::work::{SMALL_FILE_MAX, Work};

impl BlockedRead {
    /// Reads whole records only, each with the byte that ends it; the last one may lack it.
    pub fn records(self, end: u8) -> Records {
        Records { read: self, end }
    }

    /// Maps blocks that are cut anywhere.
    pub fn map<T>(self, map: impl Fn(&[u8]) -> T) -> Mapped<impl Fn(usize, &[u8]) -> T> {
        self.map_of_each(move |_, block| map(block))
    }

    /// Maps as [`BlockedRead::map`] does; the function also receives the number of the file, from 0.
    pub fn map_of_each<T, F: Fn(usize, &[u8]) -> T>(self, map: F) -> Mapped<F> {
        Mapped { read: self, end: None, map }
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
    /// Maps whole records: as many at a time as fit into a block, but at least one.
    pub fn map<T>(self, map: impl Fn(&[u8]) -> T) -> Mapped<impl Fn(usize, &[u8]) -> T> {
        self.map_of_each(move |_, records| map(records))
    }

    /// Maps as [`Records::map`] does; the function also receives the number of the file, from 0.
    pub fn map_of_each<T, F: Fn(usize, &[u8]) -> T>(self, map: F) -> Mapped<F> {
        Mapped { end: Some(self.end), read: self.read, map }
    }
}

/// Files to be read, and the function that maps their blocks.
#[must_use = "nothing is read until it is reduced or written"]
pub struct Mapped<F> {
    read: BlockedRead,
    end: Option<u8>,
    map: F,
}

type PutTogether<'g, T> = &'g (dyn Fn(T, T) -> T + Sync);

impl<T: Send, F: Fn(usize, &[u8]) -> T + Sync> Mapped<F> {
    /// Reduces the results with an associative function, in the order of the files and of their bytes; `nothing` is the
    /// result for no bytes. An error of any file fails the whole call.
    ///
    /// # Errors
    /// If a file cannot be read, or a record is too long.
    pub fn reduce(self, nothing: T, put_together: impl Fn(T, T) -> T + Sync) -> Result<(T, Report), Error> {
        self.reduce_all(None, nothing, &put_together)
    }

    /// Reduces as [`Mapped::reduce`] does, for an input without offsets: a pipe, a terminal.
    ///
    /// # Errors
    /// If it cannot be read, or a record is too long.
    pub fn reduce_stream(
        self,
        from: impl io::Read + Send,
        nothing: T,
        put_together: impl Fn(T, T) -> T + Sync,
    ) -> Result<(T, Report), Error> {
        self.reduce_all(Some(Stream::of(from)), nothing, &put_together)
    }

    /// Reduces as [`Mapped::reduce`] does, but each file separately: `each` receives a file's number, from 0, and its
    /// result or error, in the order of files, as soon as it is available. An error of `each` ends the reading.
    ///
    /// # Errors
    /// Returns the errors of `each`, or an error if `map` panics; not those of files.
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
        from: Option<Stream<'_>>,
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
    /// Delivers the results in the order of the files and of their bytes, each as soon as those before it have been
    /// delivered. An error ends the reading.
    ///
    /// # Errors
    /// If a file cannot be read, a record is too long, or `take` returns an error.
    pub fn in_order(self, take: impl FnMut(T) -> io::Result<()> + Send) -> Result<Report, Error> {
        self.all_in_order(None, take)
    }

    /// Delivers as [`Mapped::in_order`] does, for an input without offsets.
    ///
    /// # Errors
    /// If it cannot be read, a record is too long, or `take` returns an error.
    pub fn in_order_stream(
        self,
        from: impl io::Read + Send,
        take: impl FnMut(T) -> io::Result<()> + Send,
    ) -> Result<Report, Error> {
        self.all_in_order(Some(Stream::of(from)), take)
    }

    /// Delivers as [`Mapped::in_order_stream`] does, for an open file such as stdin. Before it waits for more input, it
    /// delivers the results of everything received so far.
    ///
    /// # Errors
    /// If it cannot be read, a record is too long, or `take` returns an error.
    pub fn in_order_file(
        self,
        from: File,
        take: impl FnMut(T) -> io::Result<()> + Send,
    ) -> Result<Report, Error> {
        self.all_in_order(Some(Stream::of_file(from, true)), take)
    }

    /// Delivers as [`Mapped::in_order`] does, with the number of the file, from 0, and its end. The error of one file
    /// does not affect the others, and the rest of a file may be skipped; an error of `take` ends the reading.
    ///
    /// # Errors
    /// Returns the errors of `take`, or an error if `map` panics; not those of files.
    pub fn each_in_order(
        self,
        mut take: impl FnMut(usize, Event<T>) -> io::Result<Wanted> + Send,
    ) -> Result<Report, Error> {
        self.run(None, None, |file, event| take(file, event).map_err(Error::Write))
    }

    /// Writes results in order, each as soon as those before it have been written.
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
        from: Option<Stream<'_>>,
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
    /// Reads and maps all inputs; `take` receives results and ends.
    fn run(
        &self,
        from: Option<Stream<'_>>,
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

    /// Reads the files of the paths; returns whether the I/O thread got its priority, if there was one.
    fn of_paths(&self, work: Work<'_, T>) -> Result<Option<bool>, Error> {
        if let [path] = &self.read.paths[..] {
            let is_small = std::fs::metadata(path).is_ok_and(|metadata| schedule::is_small(&metadata));
            if work.takes_small() && is_small {
                let opened = File::open(path);
                let mut file = opened.map_err(|source| Error::Open { path: path.clone(), source })?;
                return work.alone(path, &mut file).map(|()| None);
            }
        }
        let inputs = self.read.paths.iter().map(|path| Input::Path(path)).collect();
        let urgent = schedule::all(work, inputs)?;
        Ok((self.read.io == IoThread::Dedicated).then_some(urgent))
    }

    fn of_stream(&self, work: Work<'_, T>, mut from: Stream<'_>) -> Result<Option<bool>, Error> {
        let path = self.read.paths.first().map_or(Path::new("-"), PathBuf::as_path);
        let mut first = vec![0; SMALL_FILE_MAX];
        let (filled, outcome) = from.fill(&mut first);
        first.truncate(filled);
        match outcome {
            Ok(is_waiting) if is_waiting || filled == SMALL_FILE_MAX => {
                schedule::all(work, vec![Input::Stream(path, from.behind(first))]).map(Some)
            }
            ended => work.alone(path, &mut io::Cursor::new(first).chain(Failed(ended.err()))).map(|()| None),
        }
    }
}

/// The end of a stream, with its error if it has one.
struct Failed(Option<io::Error>);

impl io::Read for Failed {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
