//! The threads of workloads as the kernel sees them: they compute, wait, sleep, or have nothing to do.

use sakiyomi_model::Nanos;

use super::World;
use super::pages::Reader;
use crate::cache::FileId;
use crate::workload::Completed;

/// The progress of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Nothing,
    /// Until then.
    Sleeping(Nanos),
    /// On a core, or in the queue for one, for so long and for hops besides.
    Computing {
        time: Nanos,
        hops: Nanos,
    },
    /// In a call that reads, for a page that is on its way.
    Reading,
    /// In a call that reads past the page cache, for so many requests.
    ReadingDirect {
        file: FileId,
        at: u64,
        length: u64,
        requests: u64,
    },
    /// For a page of a mapping that is on its way.
    Touching {
        file: FileId,
        at: u64,
        end: u64,
    },
    /// In a call that writes, for room.
    Throttled {
        length: u64,
    },
}

impl Doing {
    fn waits_for_io(self) -> bool {
        matches!(
            self,
            Doing::Reading | Doing::ReadingDirect { .. } | Doing::Touching { .. } | Doing::Throttled { .. }
        )
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Thread {
    pub(super) workload: usize,
    pub(super) is_urgent: bool,
    pub(super) doing: Doing,
    /// Since when it has been at it.
    since: Nanos,
    /// Its call that reads, or the last one.
    pub(super) reader: Reader,
    pub(super) call: Call,
    /// Where its time went.
    pub(super) ran: Nanos,
    pub(super) hops: Nanos,
    pub(super) queued: Nanos,
    pub(super) waited_read: Nanos,
    pub(super) waited_write: Nanos,
    pub(super) slept: Nanos,
    pub(super) written_bytes: u64,
}

/// A call that reads: how far it has come, and where it ends, in bytes.
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
            doing: Doing::Nothing,
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

    /// When it wakes by itself.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        match self.doing {
            Doing::Sleeping(until) => Some(until),
            _ => None,
        }
    }

    /// How long it has waited for I/O, this moment's wait included.
    pub(super) fn waited(&self, now: Nanos) -> Nanos {
        let present = if self.doing.waits_for_io() { now - self.since } else { Nanos::ZERO };
        self.waited_read + self.waited_write + present
    }

    /// How much of a file it has asked for in the call that it waits in, in bytes.
    pub(super) fn wants(&self, file: FileId) -> Option<u64> {
        let is_waiting = self.doing == Doing::Reading && self.reader.file == file;
        is_waiting.then(|| self.call.end.saturating_sub(self.call.at))
    }

    pub(super) fn now_at(&mut self, now: Nanos, doing: Doing) {
        (self.doing, self.since) = (doing, now);
    }

    /// Its action has completed: where its time went is put down.
    pub(super) fn account(&mut self, now: Nanos) -> Completed {
        let mut completed = Completed::default();
        // It has completed at once, as most have.
        if self.doing == Doing::Nothing {
            return completed;
        }
        let took = now - self.since;
        match self.doing {
            Doing::Nothing => {}
            Doing::Sleeping(_) => {
                self.slept += took;
                completed.slept = took;
            }
            Doing::Computing { time, hops } => {
                (completed.computed, completed.hops) = (time, hops);
                completed.queued = took.saturating_sub(time + hops);
                self.ran += time + hops;
                self.hops += hops;
                self.queued += completed.queued;
            }
            Doing::Reading | Doing::ReadingDirect { .. } | Doing::Touching { .. } => {
                self.waited_read += took;
                completed.waited = took;
            }
            Doing::Throttled { .. } => {
                self.waited_write += took;
                completed.waited = took;
            }
        }
        self.now_at(now, Doing::Nothing);
        completed
    }
}

impl World<'_> {
    /// How long a thread has been on a core.
    pub(super) fn ran(&mut self, index: usize) -> Nanos {
        let left = self.cores.left(self.now, index);
        let thread = &self.threads[index];
        match thread.doing {
            Doing::Computing { time, hops } => thread.ran + (time + hops).saturating_sub(left),
            _ => thread.ran,
        }
    }
}
