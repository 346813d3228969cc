//! Threads that carry out what takes time: bringing ranges into memory, opening files, looking at what came of it.
//!
//! Read-ahead blocks when a device's queue is full, and so do opens on a slow file system; whoever watches programs must
//! not wait for that. Threads are started as they are needed and are never waited for: one that hangs on a dead server
//! hangs alone.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use sakiyomi_linux::process::{Entry, Identity, entries};

use super::handle::Handle;
use crate::ReadingId;
use crate::cached_file::{Brought, Found};

/// Threads at most.
const THREADS: usize = 12;

/// How many of them read one range side by side where the kernel does not read ahead.
const READERS: u64 = 4;

/// A part of a file.
pub(super) type Piece = (Arc<Handle>, Range<u64>);

/// What takes time.
pub(super) enum Job {
    /// Bring parts of files into memory, after a look at what the kernel has of another one by itself, if that is given.
    Fetch { range: Range<u64>, pieces: Vec<Piece>, window: Option<Piece> },
    /// See how much of them is there.
    Look { range: Range<u64>, pieces: Vec<Piece> },
    /// Open a file that will be needed, and find out what it is.
    Examine { index: usize, handle: Arc<Handle> },
    /// List a directory.
    List { directory: Arc<OwnedFd> },
}

/// What came of a job.
pub(super) enum Answer {
    Fetched {
        range: Range<u64>,
        brought: Brought,
        /// Bytes that were there of the one that was to be looked at; none where that is not told.
        window: Option<u64>,
    },
    /// None where the system does not tell.
    Found {
        range: Range<u64>,
        found: Option<Found>,
    },
    Examined {
        index: usize,
        handle: Arc<Handle>,
        found: Option<Identity>,
    },
    Listed {
        entries: Vec<Entry>,
    },
    /// An access takes this long.
    Timed {
        latency: Duration,
    },
}

/// The threads and what waits for them.
pub(super) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    /// Whoever watches, to be woken by answers that it needs soon.
    watcher: Thread,
}

#[derive(Default)]
struct State {
    todo: VecDeque<(ReadingId, Job)>,
    /// Readings whose range is being fetched: the next one comes after it, so that the nearest arrives first.
    busy: BTreeSet<ReadingId>,
    /// Readings of which it was seen how long an access takes.
    timed: BTreeSet<ReadingId>,
    answers: Vec<(ReadingId, Answer)>,
    threads: usize,
    idle: usize,
    stopping: bool,
}

impl Pool {
    pub(super) fn new() -> Pool {
        let (state, work) = (Mutex::default(), Condvar::new());
        Pool { shared: Arc::new(Shared { state, work, watcher: thread::current() }) }
    }

    /// Takes on a job for a reading.
    pub(super) fn start(&self, id: ReadingId, job: Job) {
        let mut state = self.shared.lock();
        state.todo.push_back((id, job));
        if state.idle == 0 && state.threads < THREADS {
            let shared = Arc::clone(&self.shared);
            let started = thread::Builder::new().name("prefetch".to_owned()).spawn(move || serve(&shared));
            state.threads += usize::from(started.is_ok());
        }
        drop(state);
        self.shared.work.notify_one();
    }

    /// Forgets what has not been begun for a reading that has ended.
    pub(super) fn forget(&self, id: ReadingId) {
        self.shared.lock().todo.retain(|(of, _)| *of != id);
    }

    /// Moves all answers that have come to `answers`.
    pub(super) fn take(&self, answers: &mut Vec<(ReadingId, Answer)>) {
        answers.append(&mut self.shared.lock().answers);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        state.todo.clear();
        drop(state);
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The next job that may be begun.
    fn next(&mut self) -> Option<(ReadingId, Job)> {
        let busy = &self.busy;
        let is_free = |(id, job): &(ReadingId, Job)| !matches!(job, Job::Fetch { .. }) || !busy.contains(id);
        let (id, job) = self.todo.remove(self.todo.iter().position(is_free)?)?;
        if matches!(job, Job::Fetch { .. }) {
            self.busy.insert(id);
        }
        Some((id, job))
    }
}

/// The life of a thread.
fn serve(shared: &Shared) {
    let mut state = shared.lock();
    while !state.stopping {
        let Some((id, job)) = state.next() else {
            state.idle += 1;
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            continue;
        };
        let timed = state.timed.contains(&id);
        drop(state);
        let was_fetch = matches!(job, Job::Fetch { .. });
        let begun = Instant::now();
        let last = last_of(&job).filter(|_| !timed);
        let answer = carry_out(job);
        let arrives =
            last.filter(|_| matches!(&answer, Answer::Fetched { brought, .. } if brought.bytes > 0));
        state = shared.lock();
        if was_fetch {
            state.busy.remove(&id);
        } else {
            shared.watcher.unpark();
        }
        state.answers.push((id, answer));
        // The next range need not wait for that.
        if let Some((handle, range)) = arrives
            && state.timed.insert(id)
        {
            drop(state);
            let arrived = handle.await_byte(range.end - 1);
            state = shared.lock();
            if arrived {
                state.answers.push((id, Answer::Timed { latency: begun.elapsed() }));
            }
        }
    }
}

/// What arrives last of what is brought first for a reading: how long that takes is told.
fn last_of(job: &Job) -> Option<Piece> {
    match job {
        Job::Fetch { pieces, .. } => pieces.last().filter(|(_, range)| !range.is_empty()).cloned(),
        _ => None,
    }
}

fn carry_out(job: Job) -> Answer {
    match job {
        Job::Fetch { range, pieces, window } => {
            let window = window.and_then(|(handle, range)| Some(handle.find(&range)?.cached));
            Answer::Fetched { range, brought: fetch(&pieces), window }
        }
        Job::Look { range, pieces } => Answer::Found { range, found: look(&pieces) },
        Job::Examine { index, handle } => Answer::Examined { index, found: handle.examine(), handle },
        Job::List { directory } => Answer::Listed { entries: entries(&directory).unwrap_or_default() },
    }
}

/// One file that cannot be read does not stop the others.
fn fetch(pieces: &[Piece]) -> Brought {
    let mut sum = Brought::default();
    for (handle, range) in pieces {
        let brought =
            if handle.is_read_instead() { read_side_by_side(handle, range) } else { handle.bring(range) };
        sum.bytes += brought.bytes;
        sum.done |= brought.done;
    }
    sum
}

/// One read at a time would leave a device idle that serves several.
fn read_side_by_side(handle: &Handle, range: &Range<u64>) -> Brought {
    let step = (range.end - range.start).div_ceil(READERS).next_multiple_of(4096).max(4096);
    let parts = (range.start..range.end).step_by(step as usize).map(|at| at..range.end.min(at + step));
    let brought: Vec<Brought> = thread::scope(|scope| {
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || handle.bring(&part))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    Brought {
        bytes: brought.iter().map(|brought| brought.bytes).sum(),
        done: brought.iter().all(|brought| brought.done),
    }
}

/// What is not told of one is not told of all.
fn look(pieces: &[Piece]) -> Option<Found> {
    let mut sum = Found { cached: 0, evicted: 0 };
    for (handle, range) in pieces.iter().filter(|(_, range)| !range.is_empty()) {
        let found = handle.find(range)?;
        sum = Found { cached: sum.cached + found.cached, evicted: sum.evicted + found.evicted };
    }
    Some(sum)
}
