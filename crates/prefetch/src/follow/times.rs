//! The times of a program: CPU time of its threads, and time waiting for I/O.

use std::io;
use std::time::Duration;

use sakiyomi_model::Nanos;
use sakiyomi_os::process::{Sleeps, Thread, Times};

/// Totals of a program since it is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuIoTimes {
    /// Time on a CPU.
    pub(crate) cpu_time: Nanos,
    /// Time waiting for I/O.
    pub(crate) io_wait: Nanos,
    /// Time waiting for a core.
    pub(crate) queued: Nanos,
    /// Number of times that it was scheduled on a core.
    pub(super) turns: u64,
    /// Bytes that it has read itself.
    pub(super) read: Option<u64>,
}

/// A thread whose times are sampled.
#[derive(Debug)]
pub(crate) struct Timed {
    thread: Thread,
    /// The times when sleep was last counted.
    last: Times,
    cpu_time: Duration,
    queued: Duration,
    turns: u64,
    /// Whether it slept then.
    slept: bool,
    /// The reason of its last observed sleep, the time of that observation, and the number of samples since then.
    sleeps: Option<Sleeps>,
    since: (Nanos, u32),
    /// In nanoseconds. May decrease: a running thread appears to sleep until the kernel has updated its times.
    io_wait: i64,
    most_waited: i64,
}

impl CpuIoTimes {
    /// Adds the times of a thread.
    pub(crate) fn add(&mut self, timed: &Timed) {
        let nanos = |time: Duration| Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.cpu_time += nanos(timed.cpu_time);
        self.queued += nanos(timed.queued);
        self.io_wait += Nanos(timed.most_waited.unsigned_abs());
        self.turns += timed.turns;
    }
}

impl Timed {
    /// Returns its CPU time.
    pub(super) fn cpu_time(&self) -> Nanos {
        Nanos(u64::try_from(self.cpu_time.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The reason of a thread's last sleep is forgotten after this time without a sleep, if it was sampled often enough.
const SLEEP_MAX_AGE: Nanos = Nanos(100_000_000);
/// Samples without a sleep after which its reason may be forgotten.
const SLEEP_MAX_AGE_SAMPLES: u32 = 20;

impl Timed {
    pub(crate) fn new(thread: Thread) -> Timed {
        Timed {
            thread,
            last: Times::default(),
            cpu_time: Duration::ZERO,
            queued: Duration::ZERO,
            turns: 0,
            slept: false,
            sleeps: None,
            since: (Nanos::ZERO, 0),
            io_wait: 0,
            most_waited: 0,
        }
    }

    /// Samples the thread. Time asleep counts as waiting for I/O if that was the reason of its last observed sleep.
    ///
    /// Time that is neither CPU time nor queueing for a core need not be sleep: a hypervisor and interrupts take time,
    /// too. A running thread that has not been scheduled again has not slept, whatever the difference.
    pub(crate) fn sample(&mut self, now: Nanos) -> io::Result<()> {
        // The CPU time of an ended thread stays available until it is reaped.
        let times = self.thread.times()?;
        (self.cpu_time, self.queued, self.turns) = (times.ran, times.queued, times.turns);
        let sleeps = self.thread.sleeps()?;
        self.since.1 += 1;
        if sleeps != Sleeps::Not {
            (self.sleeps, self.since) = (Some(sleeps), (now, 0));
        } else if !self.slept && times.turns == self.last.turns {
            return Ok(());
        } else if now.saturating_sub(self.since.0) > SLEEP_MAX_AGE && self.since.1 > SLEEP_MAX_AGE_SAMPLES {
            self.sleeps = None;
        }
        if self.sleeps == Some(Sleeps::ForIo) {
            let signed = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
            self.io_wait += signed(times.slept) - signed(self.last.slept);
            self.most_waited = self.most_waited.max(self.io_wait);
        }
        self.slept = sleeps != Sleeps::Not;
        self.last = times;
        Ok(())
    }

    /// Returns the time for which it has waited for I/O.
    pub(crate) fn io_wait(&self) -> Nanos {
        Nanos(self.most_waited.unsigned_abs())
    }

    /// Returns whether it slept, waiting for I/O, when last sampled.
    pub(crate) fn waits(&self) -> bool {
        self.slept && self.sleeps == Some(Sleeps::ForIo)
    }
}
