//! Results as an iterator.

use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use super::error::Error;
use super::mapped::Mapped;
use super::report::Report;

/// The results of a blocked read, in the order of the files and of their bytes: an iterator, which ends after the first
/// error. It reads on its own threads, at most as far ahead as the reading is bounded.
///
/// Dropping it ends the reading; its threads end when the calls in progress have returned.
pub struct Results<T> {
    results: Option<Receiver<T>>,
    reading: Option<JoinHandle<Result<Report, Error>>>,
    report: Option<Report>,
}

/// Results that wait for the caller, besides those that wait for their turn: a thread is woken for several at once.
const RESULTS_WAITING: usize = 16;

impl<T: Send + 'static> Mapped<'static, T> {
    fn results(self) -> Results<T> {
        let (give, results) = sync_channel(RESULTS_WAITING);
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        let read = move || self.in_order(|result| give.send(result).map_err(gone));
        let reading = thread::Builder::new().name("sakiyomi-results".into()).spawn(read);
        let reading = reading.expect("a thread for the results of a blocked read can be started");
        Results { results: Some(results), reading: Some(reading), report: None }
    }
}

/// ```
/// use sakiyomi_exec::read::blocked_reader;
/// let read = blocked_reader("text", &b"one two three"[..]).records(b' ').map(<[u8]>::to_ascii_uppercase);
/// let mut upper = Vec::new();
/// for result in read {
///     upper.extend(result?);
/// }
/// assert_eq!(upper, b"ONE TWO THREE");
/// # Ok::<(), sakiyomi_exec::read::Error>(())
/// ```
impl<T: Send + 'static> IntoIterator for Mapped<'static, T> {
    type Item = Result<T, Error>;
    type IntoIter = Results<T>;

    fn into_iter(self) -> Results<T> {
        self.results()
    }
}

impl<T> Results<T> {
    /// Returns the report, once the iterator has returned `None` and there was no error.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }
}

impl<T> Iterator for Results<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Result<T, Error>> {
        if let Some(result) = self.results.as_ref()?.recv().ok() {
            return Some(Ok(result));
        }
        self.results = None;
        match self.reading.take()?.join() {
            Ok(Ok(report)) => {
                self.report = Some(report);
                None
            }
            Ok(Err(error)) => Some(Err(error)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl<T> fmt::Debug for Results<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Results").field("report", &self.report).finish_non_exhaustive()
    }
}
