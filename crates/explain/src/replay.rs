//! A recorded program as a workload of a simulated machine.
//!
//! Each thread computes as long, and uses files in the same order and sizes, as it was recorded. It waits for another
//! thread where that thread woke it, until the other has done as much as it had then; waits for other programs and for
//! timers last as long as they did. Only what storage, page cache and cores make of it can change, so that a program
//! whose threads race for work is replayed with the division of work that was recorded.

mod cores;
mod loading;
mod program;

use std::collections::VecDeque;

use sakiyomi_model::Nanos;
use sakiyomi_scenario::Workload;
use sakiyomi_scenario::workload::{Action, Completed, Setup, ThreadIndex, View};

pub use program::{IsCached, MetadataCost, ProgramOptions};

/// A program that is replayed.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its files and threads.
    pub setup: Setup,
    threads: Vec<Vec<Operation>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Act(Action),
    /// Happens only if the access before it waited for storage: the CPU time of a wait, and a wait for the core on which
    /// other programs served it.
    IfWaited(Action),
    /// Waits until a thread has completed this many operations.
    Await {
        thread: usize,
        operations: usize,
    },
}

/// Time of an access from which on it has waited for storage, and not only copied data.
const WAIT_MIN: Nanos = Nanos(20_000);

/// A running replay.
#[derive(Debug)]
pub struct Replay<'a> {
    program: &'a Program,
    /// Operations that each thread has completed.
    completed: Vec<usize>,
    /// When each thread began its action.
    begun: Vec<Nanos>,
    /// Whether the last access of each thread waited for storage.
    has_waited: Vec<bool>,
    /// Threads that can go on.
    ready: VecDeque<usize>,
    /// Threads that wait for another one: it, its operations, and the thread that waits.
    waiting: Vec<(usize, usize, usize)>,
    running: usize,
    ended: usize,
    now: Nanos,
}

impl<'a> Replay<'a> {
    /// Begins a replay.
    #[must_use]
    pub fn new(program: &'a Program) -> Replay<'a> {
        let threads = program.threads.len();
        Replay {
            program,
            completed: vec![0; threads],
            begun: vec![Nanos::ZERO; threads],
            has_waited: vec![false; threads],
            ready: (0..threads).collect(),
            waiting: Vec::new(),
            running: 0,
            ended: 0,
            now: Nanos::ZERO,
        }
    }

    /// Returns the next action of a thread; `None` if it waits for another thread or has ended.
    fn next(&mut self, thread: usize) -> Option<Action> {
        loop {
            match self.program.threads[thread].get(self.completed[thread]) {
                None => {
                    self.ended += 1;
                    return None;
                }
                Some(&Operation::Act(action)) => return Some(self.begin(thread, action)),
                Some(&Operation::IfWaited(action)) if self.has_waited[thread] => {
                    return Some(self.begin(thread, action));
                }
                Some(&Operation::IfWaited(_)) => self.complete(thread),
                Some(&Operation::Await { thread: other, operations }) => {
                    if self.completed[other] < operations {
                        self.waiting.push((other, operations, thread));
                        return None;
                    }
                    self.complete(thread);
                }
            }
        }
    }

    fn begin(&mut self, thread: usize, action: Action) -> Action {
        self.running += 1;
        self.begun[thread] = self.now;
        action
    }

    /// Counts an operation of a thread, and lets those go on that waited for it.
    fn complete(&mut self, thread: usize) {
        self.completed[thread] += 1;
        let done = self.completed[thread];
        let ready = &mut self.ready;
        self.waiting.retain(|&(other, operations, waiter)| {
            let waits = other != thread || operations > done;
            if !waits {
                ready.push_back(waiter);
            }
            waits
        });
    }

    /// Returns whether the current operation of a thread uses a file.
    fn is_access(&self, thread: usize) -> bool {
        let operation = self.program.threads[thread].get(self.completed[thread]);
        matches!(
            operation,
            Some(Operation::Act(Action::Read { .. } | Action::Touch { .. } | Action::Write { .. }))
        )
    }

    /// Returns the end of the workload if nothing is left to do.
    fn done(&self) -> Option<Action> {
        // A thread whose waker is not in the recording cannot go on, nor can those that wait for it.
        let is_over = self.running == 0 && self.ready.is_empty();
        is_over.then_some(Action::Done)
    }
}

impl Workload for Replay<'_> {
    fn next_event(&self) -> Option<Nanos> {
        (!self.ready.is_empty()).then_some(self.now)
    }

    fn step(&mut self, now: Nanos, _: &View<'_>) -> Option<(ThreadIndex, Action)> {
        self.now = now;
        while let Some(thread) = self.ready.pop_front() {
            // Its last wait is over.
            if let Some(action) = self.next(thread) {
                return Some((ThreadIndex(thread), action));
            }
            if let Some(done) = self.done() {
                return Some((ThreadIndex(thread), done));
            }
        }
        None
    }

    fn completed(
        &mut self,
        now: Nanos,
        _: &View<'_>,
        ThreadIndex(thread): ThreadIndex,
        _: Completed,
    ) -> Option<Action> {
        self.now = now;
        self.running -= 1;
        if self.is_access(thread) {
            self.has_waited[thread] = now.saturating_sub(self.begun[thread]) >= WAIT_MIN;
        }
        self.complete(thread);
        self.next(thread).or_else(|| self.done())
    }
}
