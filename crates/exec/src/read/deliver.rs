//! The delivery of results: reduced, or in order.

use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use sakiyomi_io::AtomicFile;

use super::error::Error;
use super::mapped::Mapped;
use super::report::{Event, Report, Wanted};
use super::stream::Stream;

impl<'f, T: Send> Mapped<'f, T> {
    /// Reduces the results with an associative function, in the order of the files and of their bytes; `nothing` is the
    /// result for no bytes. An error of any file fails the whole call.
    ///
    /// # Errors
    /// If a file cannot be read, a record is too long, or a function of the caller's fails or panics.
    pub fn reduce(self, nothing: T, put_together: impl Fn(T, T) -> T + Sync) -> Result<(T, Report), Error> {
        let mut all = None;
        let report = self.run(Some(&put_together), &AtomicBool::new(false), |_, event| {
            match event {
                Event::Result(next) => {
                    all = Some(match all.take() {
                        None => next,
                        Some(before) => put_together(before, next),
                    });
                }
                Event::End(end) => drop(end?),
            }
            Ok(Wanted::More)
        })?;
        Ok((all.unwrap_or(nothing), report))
    }

    /// Reduces as [`Mapped::reduce`] does, and ends the reading at the first [`ControlFlow::Break`], whose value it
    /// returns; if several threads break, the value of any.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use sakiyomi_exec::read::blocked_reader;
    /// let zeros = vec![0; 1000];
    /// let (sum, report) = blocked_reader("zeros", &zeros[..])
    ///     .block(10)
    ///     .map(<[u8]>::len)
    ///     .try_reduce(0, |first, next| match first + next {
    ///         sum if sum >= 100 => ControlFlow::Break("at least 100"),
    ///         sum => ControlFlow::Continue(sum),
    ///     })?;
    /// assert_eq!(sum, ControlFlow::Break("at least 100"));
    /// # Ok::<(), sakiyomi_exec::read::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Mapped::reduce`], if nothing broke.
    pub fn try_reduce<B: Send>(
        self,
        nothing: T,
        put_together: impl Fn(T, T) -> ControlFlow<B, T> + Sync,
    ) -> Result<(ControlFlow<B, T>, Report), Error>
    where
        T: 'f,
    {
        let (broken, enough) = (Mutex::new(None), AtomicBool::new(false));
        let join = |first: Option<T>, next: Option<T>| match put_together(first?, next?) {
            ControlFlow::Continue(both) => Some(both),
            ControlFlow::Break(value) => {
                broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(value);
                enough.store(true, Ordering::Relaxed);
                None
            }
        };
        let mut all = Some(nothing);
        let mut is_first = true;
        let ended = self.then(|result| Ok(Some(result))).run(Some(&join), &enough, |_, event| {
            match event {
                Event::Result(next) => {
                    all = if std::mem::take(&mut is_first) { next } else { join(all.take(), next) }
                }
                Event::End(end) => drop(end?),
            }
            Ok(Wanted::More)
        });
        match broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(value) => Ok((ControlFlow::Break(value), ended.unwrap_or_default())),
            None => {
                let report = ended?;
                Ok((ControlFlow::Continue(all.expect("nothing broke")), report))
            }
        }
    }

    /// Reduces as [`Mapped::reduce`] does, for an input without offsets: a pipe, a terminal.
    ///
    /// # Errors
    /// If it cannot be read, or a record is too long.
    pub fn reduce_stream(
        mut self,
        from: impl io::Read + Send + 'f,
        nothing: T,
        put_together: impl Fn(T, T) -> T + Sync,
    ) -> Result<(T, Report), Error> {
        self.inputs = self.inputs.stream(Stream::of(from));
        self.reduce(nothing, put_together)
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
        self.run(Some(&put_together), &AtomicBool::new(false), move |file, event| {
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
}

impl<'f, T: Send> Mapped<'f, T> {
    /// Delivers the results in the order of the files and of their bytes, each as soon as those before it have been
    /// delivered. An error ends the reading.
    ///
    /// # Errors
    /// If a file cannot be read, a record is too long, a function of the caller's fails or panics, or `take` returns an
    /// error.
    pub fn in_order(self, mut take: impl FnMut(T) -> io::Result<()> + Send) -> Result<Report, Error> {
        self.run(None, &AtomicBool::new(false), |_, event| {
            match event {
                Event::Result(result) => take(result).map_err(Error::Write)?,
                Event::End(end) => drop(end?),
            }
            Ok(Wanted::More)
        })
    }

    /// Delivers as [`Mapped::in_order`] does, for an input without offsets.
    ///
    /// # Errors
    /// If it cannot be read, a record is too long, or `take` returns an error.
    pub fn in_order_stream(
        mut self,
        from: impl io::Read + Send + 'f,
        take: impl FnMut(T) -> io::Result<()> + Send,
    ) -> Result<Report, Error> {
        self.inputs = self.inputs.stream(Stream::of(from));
        self.in_order(take)
    }

    /// Delivers as [`Mapped::in_order_stream`] does, for an open file such as stdin. Before it waits for more input, it
    /// delivers the results of everything received so far: of whole blocks, if their size was set, or whole records.
    ///
    /// # Errors
    /// If it cannot be read, a record is too long, or `take` returns an error.
    pub fn in_order_file(
        mut self,
        from: File,
        take: impl FnMut(T) -> io::Result<()> + Send,
    ) -> Result<Report, Error> {
        self.inputs = self.inputs.file(from);
        self.in_order(take)
    }

    /// Delivers as [`Mapped::in_order`] does, with the number of the file, from 0, and its end. The error of one file
    /// does not affect the others, and the rest of a file, or of all, may be skipped; an error of `take` ends the
    /// reading.
    ///
    /// # Errors
    /// Returns the errors of `take`, or an error if `map` panics; not those of files.
    pub fn each_in_order(
        self,
        mut take: impl FnMut(usize, Event<T>) -> io::Result<Wanted> + Send,
    ) -> Result<Report, Error> {
        self.run(None, &AtomicBool::new(false), |file, event| take(file, event).map_err(Error::Write))
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

    /// Writes results in order to a file that appears when it is whole and durable: after an error, `target` is as it
    /// was before.
    ///
    /// # Errors
    /// Those of [`Mapped::write_ordered`], or if the file cannot be created.
    pub fn write_file(self, target: impl AsRef<Path>) -> Result<Report, Error>
    where
        T: AsRef<[u8]>,
    {
        let target = target.as_ref();
        let failed = |source| Error::WriteFile { path: target.to_owned(), source };
        let mut file = AtomicFile::create(target).map_err(failed)?;
        let written = {
            let mut out = io::BufWriter::with_capacity(WRITE_BUFFER_BYTES, &mut file);
            let report = self.in_order(|result| out.write_all(result.as_ref()));
            report.and_then(|report| out.flush().map(|()| report).map_err(Error::Write))
        };
        let report = written.map_err(|error| match error {
            Error::Write(source) => failed(source),
            error => error,
        })?;
        file.commit().map_err(failed)?;
        Ok(report)
    }
}

/// Bytes written in one call: results of small blocks are gathered, and those of large ones are written at once.
const WRITE_BUFFER_BYTES: usize = 256 << 10;
