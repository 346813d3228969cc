//! Threads of workloads, with their states and time accounting: computing, waiting, sleeping, or idle.

use sakiyomi_model::Nanos;

use super::World;
use super::pages::Reader;
use crate::cache::FileId;
use crate::workload::Completed;

/// State of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadState {
    Nothing,
    /// Sleeping until the given time.
    Sleeping(Nanos),
    /// On a core, or ready to run, for `time` and additional `hops`.
    Computing {
        time: Nanos,
        hops: Nanos,
    },
    /// In a read call, waiting for a page that is loading.
    Reading,
    /// In a read call that bypasses the page cache, waiting for `requests` requests.
    ReadingDirect {
        file: FileId,
        at: u64,
        length: u64,
        requests: u64,
    },
    /// Waiting for a page of a mapping that is loading.
    Touching {
        file: FileId,
        at: u64,
        end: u64,
    },
    /// In a write call, throttled.
    Throttled {
        length: u64,
    },
}

impl ThreadState {
    fn waits_for_io(self) -> bool {
        matches!(
            self,
            ThreadState::Reading
                | ThreadState::ReadingDirect { .. }
                | ThreadState::Touching { .. }
                | ThreadState::Throttled { .. }
        )
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Thread {
    pub(super) workload: usize,
    pub(super) is_urgent: bool,
    pub(super) doing: ThreadState,
    /// Time since which it has been in this state.
    since: Nanos,
    /// Its current or last read call.
    pub(super) reader: Reader,
    pub(super) call: Call,
    /// Time breakdown.
    pub(super) ran: Nanos,
    pub(super) hops: Nanos,
    pub(super) queued: Nanos,
    pub(super) waited_read: Nanos,
    pub(super) waited_write: Nanos,
    pub(super) slept: Nanos,
    pub(super) written_bytes: u64,
}

/// A read call: current position and end, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Call {
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) is_partial: bool,
}

impl Thread {
    pub(super) fn new(workload: usize, is_urgent: bool) -> Thread {
        Thread {
            workload,
            is_urgent,
            doing: ThreadState::Nothing,
            since: Nanos::ZERO,
            reader: Reader::new(FileId(0), false),
            call: Call::default(),
            ran: Nanos::ZERO,
            hops: Nanos::ZERO,
            queued: Nanos::ZERO,
            waited_read: Nanos::ZERO,
            waited_write: Nanos::ZERO,
            slept: Nanos::ZERO,
            written_bytes: 0,
        }
    }

    /// Returns when its sleep ends.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        match self.doing {
            ThreadState::Sleeping(until) => Some(until),
            _ => None,
        }
    }

    /// Returns its total time of waiting for I/O, the current wait included.
    pub(super) fn waited(&self, now: Nanos) -> Nanos {
        let present = if self.doing.waits_for_io() { now - self.since } else { Nanos::ZERO };
        self.waited_read + self.waited_write + present
    }

    /// Returns how many bytes of a file are left in the call in which it waits.
    pub(super) fn wants(&self, file: FileId) -> Option<u64> {
        let is_waiting = self.doing == ThreadState::Reading && self.reader.file == file;
        is_waiting.then(|| self.call.end.saturating_sub(self.call.at))
    }

    pub(super) fn now_at(&mut self, now: Nanos, doing: ThreadState) {
        (self.doing, self.since) = (doing, now);
    }

    /// Accounts for the time of a completed action.
    pub(super) fn account(&mut self, now: Nanos) -> Completed {
        let mut completed = Completed::default();
        // Most actions complete at once.
        if self.doing == ThreadState::Nothing {
            return completed;
        }
        let took = now - self.since;
        match self.doing {
            ThreadState::Nothing => {}
            ThreadState::Sleeping(_) => {
                self.slept += took;
                completed.slept = took;
            }
            ThreadState::Computing { time, hops } => {
                (completed.computed, completed.hops) = (time, hops);
                completed.queued = took.saturating_sub(time + hops);
                self.ran += time + hops;
                self.hops += hops;
                self.queued += completed.queued;
            }
            ThreadState::Reading | ThreadState::ReadingDirect { .. } | ThreadState::Touching { .. } => {
                self.waited_read += took;
                completed.waited = took;
            }
            ThreadState::Throttled { .. } => {
                self.waited_write += took;
                completed.waited = took;
            }
        }
        self.now_at(now, ThreadState::Nothing);
        completed
    }
}

impl World<'_> {
    /// Returns a thread's CPU time.
    pub(super) fn ran(&mut self, index: usize) -> Nanos {
        let left = self.cores.left(self.now, index);
        let thread = &self.threads[index];
        match thread.doing {
            ThreadState::Computing { time, hops } => thread.ran + (time + hops).saturating_sub(left),
            _ => thread.ran,
        }
    }
}
