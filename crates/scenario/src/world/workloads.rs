//! The workloads of the world: requests actions from them, and delivers completions. Independent of the kind of
//! workload.

use sakiyomi_model::Nanos;
use sakiyomi_regulate::Owner;

use super::World;
use super::thread::{Thread, ThreadState};
use crate::cache::FileId;
use crate::outcome::WorkloadOutcome;
use crate::workload::{Action, Completed, Setup, ThreadIndex, View, Workload};

/// A workload in the world.
#[derive(Debug)]
pub(super) struct WorkloadState<'a> {
    pub(super) setup: Setup,
    workload: Box<dyn Workload + 'a>,
    /// Global numbers of its first thread and file, and of those after its last.
    pub(super) threads: (usize, usize),
    pub(super) files: (usize, usize),
    /// Time at which it requested `step`, as last returned.
    next: Option<Nanos>,
    /// Earliest end of its threads' sleeps.
    wakes: Option<Nanos>,
    start: Nanos,
    end: Option<Nanos>,
    /// Pages that its buffers take from the page cache.
    pub(super) reserved: usize,
}

impl<'a> WorkloadState<'a> {
    pub(super) fn new(
        setup: Setup,
        workload: Box<dyn Workload + 'a>,
        threads: (usize, usize),
        files: (usize, usize),
    ) -> WorkloadState<'a> {
        let next = workload.next_event();
        let start = next.unwrap_or_else(|| panic!("workload {} names no time to begin at", setup.name));
        WorkloadState { setup, workload, threads, files, next, wakes: None, start, end: None, reserved: 0 }
    }

    pub(super) fn is_done(&self) -> bool {
        self.end.is_some()
    }

    /// Returns when it requests `step`, or one of its threads wakes up.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        match (self.next, self.wakes) {
            (Some(next), Some(wakes)) => Some(next.min(wakes)),
            (next, wakes) => next.or(wakes),
        }
    }

    /// Records that one of its threads sleeps until `until`.
    pub(super) fn sleeps(&mut self, until: Nanos) {
        self.wakes = Some(self.wakes.map_or(until, |wakes| wakes.min(until)));
    }

    fn is_due(&self, now: Nanos) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    /// Returns when it ended; `now` if it has not.
    pub(super) fn end(&self, now: Nanos) -> Nanos {
        self.end.unwrap_or(now)
    }
}

impl World<'_> {
    /// Wakes up threads and requests actions from a workload, if due, until it returns none.
    pub(super) fn wake(&mut self, index: usize) {
        if self.workloads[index].is_due(self.now) {
            self.settle(index);
        }
        let WorkloadState { threads: (first, end), wakes, .. } = self.workloads[index];
        if wakes.is_none_or(|wakes| wakes > self.now) {
            return;
        }
        for thread in first..end {
            if self.threads[thread].next_event().is_some_and(|until| until <= self.now) {
                self.completed(thread, 0);
                self.settle(index);
            }
        }
        self.workloads[index].wakes = self.threads[first..end].iter().filter_map(Thread::next_event).min();
    }

    /// Completes actions of a workload's threads whose waits have ended.
    pub(super) fn resume(&mut self, index: usize) {
        let (first, end) = self.workloads[index].threads;
        let mut has_gone_on = false;
        for thread in first..end {
            if let Some(bytes) = self.resumed(thread) {
                self.completed(thread, bytes);
                has_gone_on = true;
            }
        }
        if has_gone_on {
            self.settle(index);
        }
    }

    /// Handles the end of a thread's burst on a core.
    pub(super) fn burst_ended(&mut self, thread: usize) {
        self.completed(thread, 0);
        self.settle(self.threads[thread].workload);
    }

    /// Requests actions from a workload while it is due. Checks that it then has something to wait for.
    fn settle(&mut self, index: usize) {
        loop {
            let state = &mut self.workloads[index];
            if !state.is_due(self.now) {
                break;
            }
            let view = View {
                now: self.now,
                page_bytes: self.page_bytes,
                cache: &self.cache,
                files: &self.files,
                first_file: state.files.0,
            };
            let issued = state.workload.step(self.now, &view);
            state.next = state.workload.next_event();
            let Some((ThreadIndex(thread), action)) = issued else {
                assert!(
                    state.next.is_none_or(|next| next > self.now),
                    "workload {} has no action and wants to be asked for one again at once",
                    state.setup.name
                );
                break;
            };
            let thread = state.threads.0 + thread;
            assert!(
                thread < state.threads.1 && self.threads[thread].doing == ThreadState::Nothing,
                "workload {} gave an action to a thread that is busy or not its own",
                state.setup.name
            );
            self.carry_on(thread, Some(action));
        }
        let state = &self.workloads[index];
        let (first, end) = state.threads;
        let is_stuck = || self.threads[first..end].iter().all(|thread| thread.doing == ThreadState::Nothing);
        assert!(
            state.is_done() || state.next.is_some() || !is_stuck(),
            "workload {} has not ended and waits for nothing",
            state.setup.name
        );
    }

    /// Handles the completion of a thread's action, and continues the thread.
    fn completed(&mut self, thread: usize, bytes: u64) {
        let action = self.deliver(thread, bytes);
        self.carry_on(thread, action);
    }

    /// Delivers the completion to a thread's workload. Returns the thread's next action.
    fn deliver(&mut self, thread: usize, bytes: u64) -> Option<Action> {
        let completed = Completed { bytes, ..self.threads[thread].account(self.now) };
        let state = &mut self.workloads[self.threads[thread].workload];
        let view = View {
            now: self.now,
            page_bytes: self.page_bytes,
            cache: &self.cache,
            files: &self.files,
            first_file: state.files.0,
        };
        let local = ThreadIndex(thread - state.threads.0);
        state.workload.completed(self.now, &view, local, completed)
    }

    /// Carries out a thread's actions until it waits, computes, sleeps, or is idle; records when its workload requests
    /// the next `step`.
    fn carry_on(&mut self, thread: usize, mut action: Option<Action>) {
        while let Some(next) = action {
            let Some(bytes) = self.carry_out(thread, next) else { break };
            action = self.deliver(thread, bytes);
        }
        let state = &mut self.workloads[self.threads[thread].workload];
        state.next = if state.is_done() { None } else { state.workload.next_event() };
    }

    /// Ends a workload.
    pub(super) fn end(&mut self, index: usize) {
        let state = &mut self.workloads[index];
        let (first, end) = state.threads;
        let is_idle = |thread: &Thread| thread.doing == ThreadState::Nothing;
        assert!(self.threads[first..end].iter().all(is_idle), "a workload ended with a thread still busy");
        state.end = Some(self.now);
        let (first, end) = state.files;
        (first..end).for_each(|file| self.unfollow(FileId(file)));
        self.device.clear_rate(self.now, Owner(index as u32));
    }

    /// Returns the result of a workload so far.
    pub(super) fn workload_outcome(&self, index: usize) -> WorkloadOutcome {
        let state = &self.workloads[index];
        let threads = &self.threads[state.threads.0..state.threads.1];
        let sum = |of: &dyn Fn(&Thread) -> Nanos| threads.iter().map(of).sum::<Nanos>();
        let files = &self.files[state.files.0..state.files.1];
        WorkloadOutcome {
            name: state.setup.name.clone(),
            elapsed: state.end(self.now).saturating_sub(state.start),
            ran: sum(&|thread| thread.ran),
            hops: sum(&|thread| thread.hops),
            queued: sum(&|thread| thread.queued),
            waited_read: sum(&|thread| thread.waited_read),
            waited_write: sum(&|thread| thread.waited_write),
            slept: sum(&|thread| thread.slept),
            read_bytes: files.iter().map(|file| file.read_bytes).sum(),
            written_bytes: threads.iter().map(|thread| thread.written_bytes).sum(),
        }
    }
}
