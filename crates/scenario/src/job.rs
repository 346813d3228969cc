//! A job of tasks: threads that read, copy and compute in the order given by the task manager; run once or several
//! times.

mod manager;

use std::mem;

use sakiyomi_model::{Bytes, Nanos};

use crate::outcome::{JobOutcome, JobRun};
use crate::spec::{Buffer, JobSpec, Order, ReadMethod};
use crate::workload::{
    Action, Caching, Completed, FileIndex, FileSetup, Setup, ThreadIndex, ThreadSetup, View, Workload,
};

use manager::{Active, Manager, Task, Worker};

const FILE: FileIndex = FileIndex(0);
/// The thread that begins and ends a run.
const FIRST: ThreadIndex = ThreadIndex(0);

/// State of a running job.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    spec: JobSpec,
    stage: Stage,
    threads: Vec<Thread>,
    /// Time at which idle threads can receive tasks, or the next stage can begin; `None` while it waits for its
    /// threads.
    due: Option<Nanos>,
    /// Thread at which the search for the next idle thread begins; 0 once there are no tasks.
    round: usize,
    /// Number of idle compute threads, and of idle I/O threads.
    idle: [usize; 2],
    /// Current run, and its start.
    run: JobRun,
    since: Nanos,
    /// Reading time and fetched bytes of the file at the start of the run.
    before: (Nanos, u64),
    runs: Vec<JobRun>,
}

/// Stage of a run.
#[derive(Clone, Debug)]
enum Stage {
    Waiting,
    Opening,
    /// Allocating the buffer.
    Reserving,
    Running(Manager),
    /// Releasing the buffer.
    Releasing,
    Done,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    doing: ThreadActivity,
    idle_since: Nanos,
    /// Thread that made its task ready, until the hop has been charged.
    from: Option<ThreadIndex>,
}

/// Activity of a thread. `at` is the position that its task will have reached, in bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadActivity {
    Nothing,
    /// In a read call.
    Reading {
        task: Task,
        at: u64,
    },
    /// Allocating memory for the data read.
    Filling {
        task: Task,
        at: u64,
        length: u64,
    },
    /// Touching the mapping.
    Touching {
        task: Task,
        at: u64,
    },
    /// Copying or computing.
    Working {
        task: Task,
        at: u64,
    },
}

impl Task {
    fn start(self) -> u64 {
        let (Task::Read { at, .. } | Task::Compute { at, .. }) = self;
        at
    }

    fn end(self) -> u64 {
        let (Task::Read { at, length, .. } | Task::Compute { at, length, .. }) = self;
        at + length
    }
}

impl Job {
    pub(crate) fn new(spec: &JobSpec) -> Job {
        let thread = Thread { doing: ThreadActivity::Nothing, idle_since: Nanos::ZERO, from: None };
        Job {
            spec: spec.clone(),
            stage: Stage::Waiting,
            threads: vec![thread; threads(spec)],
            due: Some(spec.start),
            round: 0,
            idle: idle(spec),
            run: JobRun::default(),
            since: Nanos::ZERO,
            before: (Nanos::ZERO, 0),
            runs: Vec::new(),
        }
    }

    pub(crate) fn setup(spec: &JobSpec) -> Setup {
        let caching = if spec.cached { Caching::Resident } else { Caching::Cold };
        let file = FileSetup { size: spec.size, place: spec.place, caching, ..FileSetup::default() };
        let is_urgent = |thread| is_for_io(spec, thread) && spec.io_urgent;
        let threads = (0..threads(spec)).map(|thread| ThreadSetup { is_urgent: is_urgent(thread) });
        Setup {
            name: spec.name.clone(),
            files: vec![file],
            threads: threads.collect(),
            rate: None,
            is_background: false,
        }
    }

    pub(crate) fn outcome(&self) -> JobOutcome {
        let JobSpec { name, method, threads, .. } = &self.spec;
        JobOutcome { name: name.clone(), method: *method, threads: *threads, runs: self.runs.clone() }
    }

    fn begin_run(&mut self) -> (ThreadIndex, Action) {
        self.stage = Stage::Opening;
        (FIRST, Action::Open { file: FILE })
    }

    /// Continues after the file was opened: allocates a buffer of fixed size, or begins the tasks.
    fn opened(&mut self, now: Nanos, view: &View<'_>) -> Option<Action> {
        if self.spec.method == ReadMethod::Mmap || fills(&self.spec) {
            self.plan(now, view);
            return None;
        }
        self.stage = Stage::Reserving;
        Some(Action::Reserve { bytes: self.spec.buffer_bytes() })
    }

    fn plan(&mut self, now: Nanos, view: &View<'_>) {
        self.stage = Stage::Running(Manager::new(&self.spec, self.order(view)));
        self.since = now;
        self.before = (view.reading_time(FILE), view.fetched_bytes(FILE));
        self.threads.iter_mut().for_each(|thread| thread.idle_since = now);
        self.due = Some(now);
    }

    /// Returns the blocks in processing order. With cached blocks first, a partly cached block is not among these: its
    /// missing pages would evict the beginning of the next one, and so on.
    fn order(&self, view: &View<'_>) -> Vec<u64> {
        let blocks = 0..Manager::blocks(&self.spec);
        if self.spec.order == Order::File {
            return blocks.collect();
        }
        let length = self.spec.part.0 * u64::from(self.spec.block);
        let (cached, rest): (Vec<u64>, Vec<u64>) =
            blocks.partition(|block| view.is_resident(FILE, block * length, length));
        [cached, rest].concat()
    }

    /// Assigns a task to the next idle thread for which there is one, round-robin; `None` if there is none.
    fn give(&mut self, now: Nanos) -> Option<(ThreadIndex, Action)> {
        let Stage::Running(manager) = &mut self.stage else { return None };
        let [any, io] = self.idle;
        if (any == 0 || !manager.has_task(Worker::Any)) && (io == 0 || !manager.has_task(Worker::Io)) {
            self.round = 0;
            return None;
        }
        let threads = self.threads.len();
        for thread in (self.round..threads).chain(0..self.round) {
            if self.threads[thread].doing == ThreadActivity::Nothing
                && let Some(active) = manager.next(worker(&self.spec, thread))
            {
                self.round = thread + 1;
                return Some((ThreadIndex(thread), self.begin(now, thread, active)));
            }
        }
        None
    }

    /// Starts a task on a thread. Its first burst pays for the hop from the thread that made the task ready.
    fn begin(&mut self, now: Nanos, thread: usize, Active { task, from }: Active) -> Action {
        self.ends_idling(now, thread);
        self.idle[worker(&self.spec, thread) as usize] -= 1;
        self.threads[thread].from = from;
        self.next_action(thread, task, task.start())
    }

    fn ends_idling(&mut self, now: Nanos, thread: usize) {
        if !is_for_io(&self.spec, thread) {
            self.run.idle += now - self.threads[thread].idle_since;
        }
    }

    fn run_ended(&mut self, now: Nanos, view: &View<'_>) {
        (0..self.threads.len()).for_each(|thread| self.ends_idling(now, thread));
        self.run.elapsed = now - self.since;
        self.run.reading = view.reading_time(FILE) - self.before.0;
        self.run.fetched_bytes = view.fetched_bytes(FILE) - self.before.1;
        debug_assert_eq!(self.run.computed_bytes, self.spec.size.0, "every part is computed on once");
        self.runs.push(mem::take(&mut self.run));
    }

    /// Continues a task at position `at`. Returns the next action; `None` at its end.
    fn go_on(&mut self, now: Nanos, thread: usize, task: Task, at: u64) -> Option<Action> {
        if at == task.end() {
            self.threads[thread] = Thread { doing: ThreadActivity::Nothing, idle_since: now, from: None };
            self.idle[worker(&self.spec, thread) as usize] += 1;
            if let Stage::Running(manager) = &mut self.stage {
                manager.ended(task, ThreadIndex(thread));
            }
            self.due = Some(now);
            return None;
        }
        Some(self.next_action(thread, task, at))
    }

    /// Returns the next action of a thread whose task has reached `at`.
    fn next_action(&mut self, thread: usize, task: Task, at: u64) -> Action {
        let is_mapped = self.spec.method == ReadMethod::Mmap;
        let (doing, action) = match task {
            Task::Read { .. } if at == task.start() => {
                let length = task.end() - at;
                (
                    ThreadActivity::Reading { task, at },
                    Action::Read { file: FILE, at, length, is_partial: true },
                )
            }
            Task::Read { .. } => (ThreadActivity::Reading { task, at }, Action::ReadOn),
            Task::Compute { .. } if is_mapped => {
                (ThreadActivity::Touching { task, at }, Action::Touch { file: FILE, at, end: task.end() })
            }
            Task::Compute { .. } => return self.work(thread, task, at, task.end() - at),
        };
        self.threads[thread].doing = doing;
        action
    }

    /// Copies or computes on `length` bytes from `at` on.
    fn work(&mut self, thread: usize, task: Task, at: u64, length: u64) -> Action {
        let (rate, bytes) = match task {
            Task::Read { .. } => (self.spec.copy, &mut self.run.read_bytes),
            Task::Compute { .. } => (self.spec.compute, &mut self.run.computed_bytes),
        };
        *bytes += length;
        let time = time(length, rate);
        let Thread { doing, from, .. } = &mut self.threads[thread];
        *doing = ThreadActivity::Working { task, at: at + length };
        Action::Compute { time, core: None, from: from.take() }
    }

    /// Adds the time breakdown of a task to the run.
    fn account(&mut self, task: Task, completed: Completed) {
        *match task {
            Task::Read { .. } => &mut self.run.copied,
            Task::Compute { .. } => &mut self.run.computed,
        } += completed.computed;
        self.run.hops += completed.hops;
        self.run.queued += completed.queued;
        self.run.waited += completed.waited;
    }
}

impl Workload for Job {
    fn next_event(&self) -> Option<Nanos> {
        self.due
    }

    fn step(&mut self, now: Nanos, view: &View<'_>) -> Option<(ThreadIndex, Action)> {
        let given = match &self.stage {
            Stage::Waiting => Some(self.begin_run()),
            Stage::Running(_) => self.give(now),
            Stage::Opening | Stage::Reserving | Stage::Releasing | Stage::Done => None,
        };
        if given.is_some() {
            return given;
        }
        self.due = None;
        if self.idle != idle(&self.spec) || !matches!(self.stage, Stage::Running(_)) {
            return None;
        }
        self.run_ended(now, view);
        self.stage = Stage::Releasing;
        Some((FIRST, Action::Release))
    }

    fn completed(
        &mut self,
        now: Nanos,
        view: &View<'_>,
        ThreadIndex(thread): ThreadIndex,
        completed: Completed,
    ) -> Option<Action> {
        match self.stage {
            Stage::Running(_) => {}
            Stage::Opening => return self.opened(now, view),
            Stage::Reserving => {
                self.plan(now, view);
                return None;
            }
            _ if (self.runs.len() as u64) < u64::from(self.spec.runs) => return Some(self.begin_run().1),
            _ => {
                self.stage = Stage::Done;
                return Some(Action::Done);
            }
        }
        match self.threads[thread].doing {
            ThreadActivity::Nothing => None,
            ThreadActivity::Reading { task, at } => {
                self.account(task, completed);
                if !fills(&self.spec) {
                    return Some(self.work(thread, task, at, completed.bytes));
                }
                self.threads[thread].doing = ThreadActivity::Filling { task, at, length: completed.bytes };
                Some(Action::Reserve { bytes: completed.bytes })
            }
            ThreadActivity::Filling { task, at, length } => Some(self.work(thread, task, at, length)),
            ThreadActivity::Touching { task, at } => {
                self.account(task, completed);
                Some(self.work(thread, task, at, completed.bytes))
            }
            ThreadActivity::Working { task, at } => {
                self.account(task, completed);
                self.go_on(now, thread, task, at)
            }
        }
    }
}

/// Returns the number of threads: those that compute, and the one for I/O.
fn threads(spec: &JobSpec) -> usize {
    idle(spec).iter().sum()
}

/// Returns the number of threads of each kind, all of which are idle before and after a run.
fn idle(spec: &JobSpec) -> [usize; 2] {
    [spec.threads as usize, usize::from(spec.method == ReadMethod::BlockedIo)]
}

fn worker(spec: &JobSpec, thread: usize) -> Worker {
    if is_for_io(spec, thread) { Worker::Io } else { Worker::Any }
}

/// Returns whether a thread is the I/O thread, which follows the compute threads.
fn is_for_io(spec: &JobSpec, thread: usize) -> bool {
    thread >= spec.threads as usize
}

/// Returns whether memory is allocated as the buffer fills.
fn fills(spec: &JobSpec) -> bool {
    spec.method == ReadMethod::Read || spec.buffer == Buffer::File
}

/// Returns the time for `bytes` at a rate in bytes per second.
fn time(bytes: u64, rate: Option<Bytes>) -> Nanos {
    let rate = rate.map_or(u64::MAX, |rate| rate.0);
    Nanos((u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64)
}
