//! The prefetching thread of a reader: runs the controller in real time, and has its actions carried out.
//!
//! It waits only for its reader: the [`Fetcher`] carries out operations that may block. So it ends at once when it is
//! told to.

use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sakiyomi_model::Nanos;

use super::progress::{Progress, ReaderState};
use crate::budget;
use crate::cached_file::{CachedFile, FetchOutcome, Found};
use crate::fetcher::{Fetcher, Job};
use crate::{Action, Controller, Event, Idle, Limit, ReadingId, State};

/// A reader has a single reading.
const ID: ReadingId = ReadingId(0);
/// Threads that fetch.
const FETCH_THREADS_MAX: usize = 8;
/// Time between two queries of the memory that may be filled.
const MEMORY_POLL_PERIOD: Nanos = Nanos(1_000_000_000);
/// Longest pause between two polls of a reader that does not move. A reader that moves again wakes the thread.
const PAUSE_MAX: Nanos = Nanos(100_000_000);

/// A running thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Ahead {
    thread: Option<JoinHandle<()>>,
    progress: Arc<Progress>,
}

/// Input of the thread.
pub(super) struct Task {
    pub(super) file: Arc<CachedFile>,
    pub(super) progress: Arc<Progress>,
    pub(super) limit: Limit,
    /// Memory budget for data ahead, in bytes; `None` for a quarter of the available memory.
    pub(super) memory: Option<u64>,
    /// Offset and time of the start of the reader's last read.
    pub(super) from: u64,
    pub(super) since: Nanos,
    pub(super) size: u64,
    /// False for a block device, whose size does not change and is not that of its inode.
    pub(super) can_grow: bool,
}

impl Ahead {
    /// Starts the thread; `None` if no thread can be started.
    pub(super) fn start(task: Task) -> Option<Ahead> {
        let progress = Arc::clone(&task.progress);
        let run = move || Watch::new(task).run();
        let thread = thread::Builder::new().name("read ahead".to_owned()).spawn(run).ok()?;
        Some(Ahead { thread: Some(thread), progress })
    }

    /// Makes the thread poll now.
    pub(super) fn call(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.progress.end();
        self.call();
        if let Some(thread) = self.thread.take() {
            // If it has panicked, only prefetching has ended.
            let _ = thread.join();
        }
    }
}

struct Watch {
    task: Task,
    controller: Controller,
    fetcher: Fetcher<BlockingJob>,
    todo: Vec<Action>,
    replies: Vec<JobReply>,
    size: u64,
    last: Option<ReaderState>,
    /// The reader's position when the size was last queried.
    measured_at: u64,
    measuring: bool,
    pause: Nanos,
    memory_at: Nanos,
}

impl Watch {
    fn new(task: Task) -> Watch {
        Watch {
            controller: Controller::new(task.limit),
            fetcher: Fetcher::new(FETCH_THREADS_MAX),
            todo: Vec::new(),
            replies: Vec::new(),
            size: task.size,
            last: None,
            measured_at: task.from,
            measuring: false,
            pause: Nanos::ZERO,
            memory_at: Nanos::ZERO,
            task,
        }
    }

    fn run(mut self) {
        self.begin();
        while !self.task.progress.is_over() {
            let now = self.task.progress.now();
            self.watch_memory(now);
            self.take_answers(now);
            self.poll(now);
            self.carry_out();
            let state = self.controller.state(ID);
            self.task.progress.set_outlook(state, self.controller.ahead(ID).unwrap_or(0..0));
            if state == Some(State::Idle(Idle::Refused)) {
                return;
            }
            self.sleep();
        }
    }

    /// Reports the start. Reading began a while ago, and the reader has got its first bytes: using a prefetching reader
    /// announces sequential reading, which counts as two forward moves.
    fn begin(&mut self) {
        let now = self.task.progress.now();
        self.watch_memory(now);
        let (from, since, size) = (self.task.from, self.task.since, self.size);
        self.notify(since, Event::Opened { id: ID, at: from, size });
        let sight = self.task.progress.see(now);
        if sight.position > from + 1 {
            self.notify(since, Event::Position { id: ID, at: from + 1 });
        }
    }

    fn notify(&mut self, now: Nanos, event: Event) {
        self.controller.on(now, event, &mut self.todo);
    }

    fn watch_memory(&mut self, now: Nanos) {
        if now < self.memory_at {
            return;
        }
        self.memory_at = now + MEMORY_POLL_PERIOD;
        let bytes = self.task.memory.unwrap_or_else(budget::of_this_process);
        self.notify(now, Event::Memory { bytes });
    }

    /// Observes position and times of the reader. Time between two reads counts as computation.
    fn poll(&mut self, now: Nanos) {
        let mut sight = self.task.progress.see(now);
        if let Some(last) = self.last {
            sight.io_wait = sight.io_wait.max(last.io_wait);
        }
        let moved = self.last.is_none_or(|last| last.position != sight.position);
        let pause = if moved { Nanos::ZERO } else { Nanos((self.pause.0 * 2).max(1_000_000)) };
        self.pause = pause.min(PAUSE_MAX);
        self.last = Some(sight);
        let ReaderState { position, read, io_wait } = sight;
        if position > self.size && self.task.can_grow {
            self.resize(now, position);
        }
        if position >= self.size && position != self.measured_at {
            self.measure(position);
        }
        let cpu_time = now.saturating_sub(io_wait);
        self.notify(now, Event::Times { id: ID, cpu_time, io_wait, read: Some(read) });
        self.notify(now, Event::Position { id: ID, at: position });
    }

    fn resize(&mut self, now: Nanos, size: u64) {
        if size != self.size {
            self.size = size;
            self.notify(now, Event::Resized { id: ID, size });
        }
    }

    /// Queries the file's size, since the reader has reached its previous end.
    fn measure(&mut self, position: u64) {
        if self.task.can_grow && !self.measuring {
            self.measured_at = position;
            self.measuring = self.send(JobRequest::Measure);
        }
    }

    fn send(&self, order: JobRequest) -> bool {
        let Task { file, progress, can_grow, .. } = &self.task;
        let (file, progress, can_grow) = (Arc::clone(file), Arc::clone(progress), *can_grow);
        self.fetcher.start(BlockingJob { file, progress, can_grow, order })
    }

    /// Queues the controller's actions. If no thread can run them, they count as refused.
    fn carry_out(&mut self) {
        let mut todo = std::mem::take(&mut self.todo);
        for action in todo.drain(..) {
            let order = match action {
                Action::Fetch { range, .. } => {
                    self.last.into_iter().for_each(|sight| self.task.progress.is_helped(sight));
                    JobRequest::Fetch(range)
                }
                Action::CheckResidency { range, .. } => JobRequest::Look(range),
            };
            let refused = match &order {
                JobRequest::Fetch(range) => Event::Fetched { id: ID, range: range.clone(), done: false },
                JobRequest::Look(range) => {
                    Event::Residency { id: ID, range: range.clone(), cached: 0, evicted: 0 }
                }
                JobRequest::Measure => continue,
            };
            if !self.send(order) {
                let now = self.task.progress.now();
                self.notify(now, refused);
            }
        }
    }

    fn take_answers(&mut self, now: Nanos) {
        let mut replies = std::mem::take(&mut self.replies);
        self.fetcher.take(&mut replies);
        for JobReply { size, came } in replies.drain(..) {
            if let Some(size) = size {
                self.resize(now, size);
            }
            match came {
                JobResult::Fetched(range, FetchOutcome { bytes, done }) => {
                    self.task.progress.has_prefetched(bytes);
                    self.notify(now, Event::Fetched { id: ID, range, done });
                }
                JobResult::Found(range, found) => {
                    let Found { cached, evicted } = found.unwrap_or_else(|| self.taken_for(&range));
                    self.notify(now, Event::Residency { id: ID, range, cached, evicted });
                }
                JobResult::Measured => self.measuring = false,
            }
        }
        self.replies = replies;
    }

    /// Returns the assumed residency if the kernel does not report it: requested data is cached, other data is not.
    fn taken_for(&self, range: &Range<u64>) -> Found {
        let state = self.controller.state(ID);
        let asked_for = matches!(state, Some(State::Ahead | State::Probation | State::Idle(Idle::Done)));
        Found { cached: if asked_for { range.end - range.start } else { 0 }, evicted: 0 }
    }

    /// Sleeps until the next poll, or until the reader or an reply wakes the thread.
    fn sleep(&self) {
        let ahead = self.controller.ahead(ID).unwrap_or(0..0);
        let (call_at, at_least) = match self.controller.state(ID) {
            Some(State::Ahead) => (ahead.start + (ahead.end - ahead.start) / 8, self.pause),
            // The file may have grown when the reader arrives there.
            Some(State::Idle(Idle::Done)) => (self.size, PAUSE_MAX),
            _ => (u64::MAX, Nanos::ZERO),
        };
        self.task.progress.call_at(call_at.max(ahead.start + 1));
        let wake = self.controller.wake(ID).unwrap_or(Nanos::ZERO);
        let pause = wake.saturating_sub(self.task.progress.now()).max(at_least);
        thread::park_timeout(Duration::from_nanos(pause.0));
    }
}

/// An operation on the file.
struct BlockingJob {
    file: Arc<CachedFile>,
    progress: Arc<Progress>,
    can_grow: bool,
    order: JobRequest,
}

impl BlockingJob {
    /// Fetches in parts, so that it ends soon after its reader.
    fn load(&self, range: &Range<u64>) -> FetchOutcome {
        /// Bytes fetched between two checks whether the reader has ended.
        const PART_BYTES: u64 = 1 << 20;
        let mut sum = FetchOutcome { bytes: 0, done: true };
        let mut at = range.start;
        while at < range.end && sum.done && !self.progress.is_over() {
            let end = range.end.min(at + PART_BYTES);
            let FetchOutcome { bytes, done } = self.file.load(&(at..end));
            sum = FetchOutcome { bytes: sum.bytes + bytes, done };
            at = end;
        }
        sum
    }
}

enum JobRequest {
    Fetch(Range<u64>),
    Look(Range<u64>),
    Measure,
}

struct JobReply {
    /// The file's size now, if known.
    size: Option<u64>,
    came: JobResult,
}

enum JobResult {
    Fetched(Range<u64>, FetchOutcome),
    Found(Range<u64>, Option<Found>),
    Measured,
}

impl Job for BlockingJob {
    type Reply = JobReply;

    fn turn(&self) -> Option<u32> {
        (matches!(self.order, JobRequest::Fetch(_)) && !self.file.is_read_instead()).then_some(ID.0)
    }

    fn carry_out(self) -> (JobReply, Option<BlockingJob>) {
        let came = match &self.order {
            JobRequest::Fetch(range) => JobResult::Fetched(range.clone(), self.load(range)),
            JobRequest::Look(range) => JobResult::Found(range.clone(), self.file.find(range)),
            JobRequest::Measure => JobResult::Measured,
        };
        let metadata = self.can_grow.then(|| self.file.file().metadata().ok()).flatten();
        (JobReply { size: metadata.map(|metadata| metadata.len()), came }, None)
    }
}
