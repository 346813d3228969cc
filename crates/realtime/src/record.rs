//! The trace of requests, written continuously: it appears under its name at the end.
//!
//! A thread that answers an access adds its record to a list of its own; the writing thread collects all lists a
//! hundred times a second. Waking it for each access would cost the answering threads more than everything else.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sakiyomi_model::{Bytes, Nanos, Op, StreamId};
use sakiyomi_trace::{OutFormat, Record, TraceError, Writer};

use sakiyomi_os::per_thread::PerThread;

/// Capacity of a list; a thread whose list is full delays its reply.
const LIST_MAX: usize = 1 << 15;

/// Completed accesses held back for an older one; if there are more, the older one is recorded out of order.
const OUT_OF_ORDER_MAX: usize = 1 << 16;

/// Time between two collections of the lists: at a million requests a second, a third of a list.
const COLLECT_PERIOD: Duration = Duration::from_millis(10);

/// A request, or one of its parts on the drive. Small, because it is written by the replying thread and read by
/// another.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Number of the request in order of arrival; gaps are requests that are never answered.
    pub number: u64,
    /// Time of arrival.
    pub arrival: Nanos,
    /// Time from the arrival to the reply.
    pub response: Nanos,
    /// First byte on the drive.
    pub offset: Bytes,
    /// `None` for a request without an extent on the drive: nothing is written, but the number is not missing.
    pub length: Option<Bytes>,
    /// Process or connection.
    pub stream: StreamId,
    /// The operation.
    pub op: Op,
}

impl Part {
    fn record(&self) -> Option<Record> {
        let Part { arrival, response, offset, length, stream, op, .. } = *self;
        let record = Record::new(arrival, op, offset, length?);
        Some(Record { stream, response: Some(response), ..record })
    }
}

/// Records accesses in the order in which they began.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lists: PerThread<Vec<Part>>,
    /// The writing thread has found nothing and must be woken.
    sleeps: AtomicBool,
    /// Recording has ended.
    over: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    end: Option<End>,
    failure: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The trace is complete.
    Whole,
    /// The service failed.
    Abandoned,
}

/// The writing thread. If dropped before it is finished, the trace is discarded.
#[derive(Debug)]
pub struct Recording {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<u64, TraceError>>>,
}

/// Reasons why a trace cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The writing thread cannot be started.
    #[error(transparent)]
    Thread(#[from] io::Error),
}

impl Recorder {
    /// Records all parts of a request.
    pub fn record(&self, parts: impl Iterator<Item = Part>) {
        let mut parts = Some(parts);
        let shared = &self.0;
        while !shared.over.load(Ordering::SeqCst) {
            shared.lists.with(|list| {
                if list.len() < LIST_MAX {
                    parts.take().into_iter().for_each(|parts| list.extend(parts));
                }
            });
            shared.wake();
            if parts.is_none() {
                break;
            }
            thread::sleep(COLLECT_PERIOD);
        }
    }
}

impl Recording {
    /// Starts a trace at `path`, in the format given by its name.
    ///
    /// # Errors
    /// If the file cannot be created, or the thread cannot be started.
    pub fn start(path: &Path) -> Result<(Recorder, Recording), StartError> {
        let writer = Writer::create(path, OutFormat::of_path(path))?;
        let shared = Arc::<Shared>::default();
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            let written = write(writer, &for_thread);
            for_thread.over.store(true, Ordering::SeqCst);
            if let Err(error) = &written {
                for_thread.lock().failure = Some(error.to_string());
            }
            written?.map_or(Ok(0), Writer::finish)
        })?;
        Ok((Recorder(Arc::clone(&shared)), Recording { shared, thread: Some(thread) }))
    }

    /// Returns the error that has stopped the trace, if any.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.shared.lock().failure.clone()
    }

    /// Moves the trace to its name, and returns its number of records.
    ///
    /// # Errors
    /// If a record could not be written, or the file cannot get its name.
    pub fn finish(mut self) -> Result<u64, TraceError> {
        self.end(End::Whole).unwrap_or(Ok(0))
    }

    fn end(&mut self, end: End) -> Option<Result<u64, TraceError>> {
        let thread = self.thread.take()?;
        self.shared.lock().end = Some(end);
        self.shared.changed.notify_one();
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // `drop` cannot report an error.
        let _ = self.end(End::Abandoned);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No operation under this lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the writing thread if it sleeps without timeout.
    fn wake(&self) {
        if self.sleeps.load(Ordering::SeqCst) && self.sleeps.swap(false, Ordering::SeqCst) {
            // Under the lock, so that it either has not checked the lists for the last time, or is waiting already.
            drop(self.lock());
            self.changed.notify_one();
        }
    }

    /// Moves all new entries to `held`; returns whether there were any.
    fn fetch(&self, held: &mut Vec<Part>) -> bool {
        let before = held.len();
        self.lists.each(|list| held.append(list));
        held.len() > before
    }

    /// Fetches the collected entries, or waits for some; returns the end, if that comes first.
    fn next(&self, held: &mut Vec<Part>) -> Option<End> {
        let state = self.lock();
        let gathered = self.changed.wait_timeout_while(state, COLLECT_PERIOD, |state| state.end.is_none());
        let mut state = gathered.unwrap_or_else(PoisonError::into_inner).0;
        while !self.fetch(held) && state.end.is_none() {
            self.sleeps.store(true, Ordering::SeqCst);
            if self.fetch(held) {
                break;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleeps.store(false, Ordering::SeqCst);
        state.end
    }
}

/// Writes until the end and returns the writer; `None` if the trace is to be discarded.
fn write<W: Write + Send>(mut writer: Writer<W>, shared: &Shared) -> Result<Option<Writer<W>>, TraceError> {
    let (mut held, mut next) = (Vec::new(), 0);
    loop {
        let end = shared.next(&mut held);
        if end == Some(End::Abandoned) {
            return Ok(None);
        }
        // Each list is almost in order, of which a merge sort takes advantage.
        held.sort_by_key(|part| part.number);
        let ready = if end.is_some() { held.len() } else { ready(&held, &mut next) };
        held.drain(..ready).filter_map(|part| part.record()).try_for_each(|record| writer.write(&record))?;
        if end.is_some() {
            return Ok(Some(writer));
        }
    }
}

/// Returns how many entries can be written: those without a missing one before them, and those in excess of the limit.
fn ready(held: &[Part], next: &mut u64) -> usize {
    let mut ready = 0;
    for (index, part) in held.iter().enumerate() {
        if part.number > *next && held.len() - index <= OUT_OF_ORDER_MAX {
            break;
        }
        *next = (*next).max(part.number + 1);
        ready = index + 1;
    }
    ready
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_testing::ScratchFile;
    use sakiyomi_trace::Packing;

    fn part(number: u64) -> Part {
        let (length, stream) = (Some(Bytes(512)), StreamId(0));
        Part {
            number,
            arrival: Nanos(number),
            response: Nanos(1),
            offset: Bytes(0),
            length,
            stream,
            op: Op::Read,
        }
    }

    #[test]
    fn accesses_stand_in_the_order_of_their_beginning_and_gaps_are_passed_over() {
        let shared = Arc::<Shared>::default();
        // Number 2 was never answered.
        for number in [1, 0, 4, 3] {
            Recorder(Arc::clone(&shared)).record([part(number)].into_iter());
        }
        shared.lock().end = Some(End::Whole);
        let writer = Writer::new(Vec::new(), "memory", OutFormat::Sakiyomi, Packing::Plain).unwrap();
        let text = String::from_utf8(write(writer, &shared).unwrap().unwrap().into_inner().unwrap()).unwrap();
        let times: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
        assert_eq!(times, ["0", "1", "3", "4"]);
    }

    #[test]
    fn who_began_earlier_is_waited_for_but_not_for_ever() {
        let mut next = 0;
        assert_eq!(ready(&[part(0), part(1), part(3)], &mut next), 2);
        assert_eq!(ready(&[part(2), part(3), part(4)], &mut next), 3);
        assert_eq!(ready(&[part(6)], &mut next), 0);
        let many: Vec<Part> = (6..OUT_OF_ORDER_MAX as u64 + 8).map(part).collect();
        assert_eq!(
            ready(&many, &mut next),
            many.len(),
            "number 5 is left behind, and nothing is missing after it"
        );
        assert_eq!(ready(&[part(5)], &mut next), 1);
    }

    #[test]
    fn what_several_threads_have_answered_is_all_written() {
        let scratch = ScratchFile::absent("threads.csv");
        let (recorder, recording) = Recording::start(scratch.path()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let recorder = &recorder;
                scope.spawn(move || {
                    for number in (thread..60_000).step_by(4) {
                        recorder.record([part(number)].into_iter());
                    }
                });
            }
        });
        assert_eq!(recording.finish().unwrap(), 60_000);
        let text = std::fs::read_to_string(scratch.path()).unwrap();
        let times = text.lines().skip(1).filter_map(|line| line.split(',').next()?.parse::<u64>().ok());
        assert!(times.eq(0..60_000), "all, in order");
    }

    #[test]
    fn a_trace_that_never_ends_is_not_kept() {
        let scratch = ScratchFile::absent("unended.csv");
        let (recorder, recording) = Recording::start(scratch.path()).unwrap();
        recorder.record([part(0)].into_iter());
        drop(recording);
        // Recording after the end does not block.
        recorder.record([part(1)].into_iter());
        assert!(!scratch.path().exists());
    }
}
