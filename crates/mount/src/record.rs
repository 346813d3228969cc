//! The trace of a mount, written as it happens: it appears under its name when the mount ends.
//!
//! Who answers an access leaves what is to be told of it in a list of his thread's own; the thread that writes fetches
//! all lists a few hundred times a second. To wake it for each access would cost those who answer more than all else.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sakiyomi_trace::{OutFormat, Record, TraceError, Writer};
use smallvec::SmallVec;

use crate::per_thread::PerThread;

/// Accesses in one list at most; who answers waits while there are more.
const LIST_MAX: usize = 1 << 14;

/// So many accesses may have ended while an older one has not; then it is left behind, out of order.
const HELD_MAX: usize = 1 << 16;

/// How long they gather: at a million a second not a third of a list.
const GATHER: Duration = Duration::from_millis(5);

/// What is told of an access.
#[derive(Debug)]
struct Entry {
    /// In the order in which accesses began, without gaps but for those that are never answered.
    number: u64,
    records: Records,
}

/// The records of a request, one for each piece on the drive: almost always one.
pub(crate) type Records = SmallVec<[Record; 1]>;

/// Takes accesses down in the order in which they began.
#[derive(Clone, Debug)]
pub(crate) struct Recorder(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lists: PerThread<Vec<Entry>>,
    /// The thread that writes has found nothing, and is to be told when something comes.
    sleeps: AtomicBool,
    /// Nothing is taken down any more.
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
    /// The trace is whole.
    Whole,
    /// The mount did not come about.
    Abandoned,
}

/// The thread that writes. Dropped before it is finished, nothing is kept.
#[derive(Debug)]
pub(crate) struct Recording {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<u64, TraceError>>>,
}

/// Why a trace cannot be begun.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Thread(#[from] io::Error),
}

impl Recorder {
    pub(crate) fn record(&self, number: u64, records: Records) {
        let mut entry = Some(Entry { number, records });
        let shared = &self.0;
        while !shared.over.load(Ordering::SeqCst) {
            shared.lists.with(|list| {
                if list.len() < LIST_MAX {
                    list.extend(entry.take());
                }
            });
            shared.wake();
            if entry.is_none() {
                break;
            }
            thread::sleep(GATHER);
        }
    }
}

impl Recording {
    /// Begins a trace at `path`, in the format of its name.
    pub(crate) fn start(path: &Path) -> Result<(Recorder, Recording), StartError> {
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

    /// Why nothing is written any more.
    pub(crate) fn failure(&self) -> Option<String> {
        self.shared.lock().failure.clone()
    }

    /// Puts the trace under its name, and says how many records it has.
    pub(crate) fn finish(mut self) -> Result<u64, TraceError> {
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
        // Nobody is left to tell.
        let _ = self.end(End::Abandoned);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread that writes, if it sleeps until something comes.
    fn wake(&self) {
        if self.sleeps.load(Ordering::SeqCst) && self.sleeps.swap(false, Ordering::SeqCst) {
            // Under the lock, so that it is either before its last look at the lists, or waits already.
            drop(self.lock());
            self.changed.notify_one();
        }
    }

    /// Moves what has come to `held`; says whether there was anything.
    fn fetch(&self, held: &mut Vec<Entry>) -> bool {
        let before = held.len();
        self.lists.each(|list| held.append(list));
        held.len() > before
    }

    /// Fetches what has gathered, or waits until something comes; the end, if it has come before that.
    fn next(&self, held: &mut Vec<Entry>) -> Option<End> {
        let state = self.lock();
        let gathered = self.changed.wait_timeout_while(state, GATHER, |state| state.end.is_none());
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

/// Writes until the end, and gives the writer back; none if the trace is not to be kept.
fn write<W: Write + Send>(mut writer: Writer<W>, shared: &Shared) -> Result<Option<Writer<W>>, TraceError> {
    let (mut held, mut next) = (Vec::new(), 0);
    loop {
        let end = shared.next(&mut held);
        if end == Some(End::Abandoned) {
            return Ok(None);
        }
        // Each list is almost in order, which a merge sort makes use of.
        held.sort_by_key(|entry| entry.number);
        let ready = if end.is_some() { held.len() } else { ready(&held, &mut next) };
        for entry in held.drain(..ready) {
            entry.records.iter().try_for_each(|record| writer.write(record))?;
        }
        if end.is_some() {
            return Ok(Some(writer));
        }
    }
}

/// How many entries can be written: those before which none is missing, and those that are too many to hold.
fn ready(held: &[Entry], next: &mut u64) -> usize {
    let mut ready = 0;
    for (index, entry) in held.iter().enumerate() {
        if entry.number > *next && held.len() - index <= HELD_MAX {
            break;
        }
        *next = (*next).max(entry.number + 1);
        ready = index + 1;
    }
    ready
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_model::{Bytes, Nanos, Op};
    use sakiyomi_testing::ScratchFile;
    use sakiyomi_trace::Packing;

    fn entry(number: u64) -> Entry {
        let record = Record::new(Nanos(number), Op::Read, Bytes(0), Bytes(512));
        Entry { number, records: Records::from_buf([record]) }
    }

    #[test]
    fn accesses_stand_in_the_order_of_their_beginning_and_gaps_are_passed_over() {
        let shared = Arc::<Shared>::default();
        // Number 2 was never answered.
        for number in [1, 0, 4, 3] {
            Recorder(Arc::clone(&shared)).record(number, entry(number).records);
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
        assert_eq!(ready(&[entry(0), entry(1), entry(3)], &mut next), 2);
        assert_eq!(ready(&[entry(2), entry(3), entry(4)], &mut next), 3);
        assert_eq!(ready(&[entry(6)], &mut next), 0);
        let many: Vec<Entry> = (6..HELD_MAX as u64 + 8).map(entry).collect();
        assert_eq!(
            ready(&many, &mut next),
            many.len(),
            "number 5 is left behind, and nothing is missing after it"
        );
        assert_eq!(ready(&[entry(5)], &mut next), 1);
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
                        recorder.record(number, entry(number).records);
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
        recorder.record(0, Records::new());
        drop(recording);
        // Who still answers does not wait for anybody.
        recorder.record(1, Records::new());
        assert!(!scratch.path().exists());
    }
}
