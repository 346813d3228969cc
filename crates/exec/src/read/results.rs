//! Results as an iterator, or as an asynchronous stream.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;

use super::error::Error;
use super::mapped::Mapped;
use super::report::{Event, Report, Wanted};
use super::work::panicked;
use crate::executor::Failure;

/// The results of a blocked read, in the order of the files and of their bytes. It reads on its own threads, as far
/// ahead as a read is bounded, and ends after the first error.
///
/// It is an iterator, and with the feature `async` also a `futures_core::Stream`, for any runtime: the threads wake the
/// task that waits.
///
/// Dropping it ends the reading; its threads end when the calls in progress have returned.
pub struct Results<T> {
    queue: Arc<Queue<T>>,
    report: Option<Report>,
}

/// The results that the reading threads have given.
struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    is_left: AtomicBool,
}

struct State<T> {
    results: VecDeque<T>,
    /// The end of the reading, behind all results.
    end: Option<Result<Report, Error>>,
    /// Whether the caller has received the end.
    has_ended: bool,
    waker: Option<Waker>,
}

/// Maximum number of results that wait for the caller, besides those that wait for their turn.
const RESULTS_WAITING_MAX: usize = 16;

impl<T> Queue<T> {
    fn new() -> Queue<T> {
        let state = State { results: VecDeque::new(), end: None, has_ended: false, waker: None };
        Queue { state: Mutex::new(state), changed: Condvar::new(), is_left: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State<T>>) -> MutexGuard<'s, State<T>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes the threads that wait for it.
    fn change(&self, mut state: MutexGuard<'_, State<T>>, change: impl FnOnce(&mut State<T>)) {
        change(&mut state);
        let waker = state.waker.take();
        drop(state);
        self.changed.notify_all();
        waker.into_iter().for_each(Waker::wake);
    }

    /// Adds a result when there is room; an error tells that the caller has left.
    fn give(&self, result: T) -> io::Result<()> {
        let mut state = self.lock();
        while state.results.len() >= RESULTS_WAITING_MAX && !self.is_left.load(Ordering::Relaxed) {
            state = self.wait(state);
        }
        if self.is_left.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.change(state, |state| state.results.push_back(result));
        Ok(())
    }

    fn end(&self, end: Result<Report, Error>) {
        self.change(self.lock(), |state| state.end = Some(end));
    }

    fn leave(&self) {
        let state = self.lock();
        self.is_left.store(true, Ordering::Relaxed);
        self.change(state, |state| state.results.clear());
    }
}

/// The next thing that the caller receives.
enum Next<T> {
    Result(T),
    End(Result<Report, Error>),
    /// It has received the end.
    Nothing,
}

impl<T> State<T> {
    /// Returns what comes next, if it is there.
    fn next(&mut self) -> Option<Next<T>> {
        if let Some(result) = self.results.pop_front() {
            return Some(Next::Result(result));
        }
        if self.has_ended {
            return Some(Next::Nothing);
        }
        let end = self.end.take()?;
        self.has_ended = true;
        Some(Next::End(end))
    }
}

impl<T: Send + 'static> Mapped<'static, T> {
    fn results(self) -> Results<T> {
        let queue = Arc::new(Queue::new());
        let give = Arc::clone(&queue);
        let read = move || {
            let ended = catch_unwind(AssertUnwindSafe(|| self.read_into(&give)));
            give.end(ended.unwrap_or_else(|panic| Err(panicked(&*panic))));
        };
        if let Err(error) = thread::Builder::new().name("sakiyomi-results".into()).spawn(read) {
            queue.end(Err(Error::Task(Failure::no_thread(error))));
        }
        Results { queue, report: None }
    }

    fn read_into(self, queue: &Queue<T>) -> Result<Report, Error> {
        self.run(None, &queue.is_left, |_, event| {
            match event {
                Event::Result(result) => queue.give(result).map_err(Error::Write)?,
                Event::End(end) => _ = end?,
            }
            Ok(Wanted::More)
        })
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

    fn item(&mut self, next: Next<T>) -> Option<Result<T, Error>> {
        // There is room for another one.
        self.queue.changed.notify_all();
        match next {
            Next::Result(result) => Some(Ok(result)),
            Next::End(Err(error)) => Some(Err(error)),
            Next::End(Ok(report)) => {
                self.report = Some(report);
                None
            }
            Next::Nothing => None,
        }
    }
}

impl<T> Iterator for Results<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Result<T, Error>> {
        let mut state = self.queue.lock();
        let next = loop {
            match state.next() {
                Some(next) => break next,
                None => state = self.queue.wait(state),
            }
        };
        drop(state);
        self.item(next)
    }
}

#[cfg(feature = "async")]
impl<T> futures_core::Stream for Results<T> {
    type Item = Result<T, Error>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<T, Error>>> {
        let results = self.get_mut();
        let mut state = results.queue.lock();
        let Some(next) = state.next() else {
            state.waker = Some(context.waker().clone());
            return std::task::Poll::Pending;
        };
        drop(state);
        std::task::Poll::Ready(results.item(next))
    }
}

impl<T> Drop for Results<T> {
    fn drop(&mut self) {
        self.queue.leave();
    }
}

impl<T> fmt::Debug for Results<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Results").field("report", &self.report).finish_non_exhaustive()
    }
}
