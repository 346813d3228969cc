//! What a program spends its time on: how long its threads were on a core, and how long they waited for I/O.

use std::io;
use std::time::Duration;

use sakiyomi_model::Nanos;
use sakiyomi_os::process::{Sleeps, Thread, Times};

/// What a program has done since it is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) ran: Nanos,
    /// In which it waited for I/O.
    pub(super) waited: Nanos,
    /// In which it waited for a core.
    pub(super) queued: Nanos,
    /// How often it was given a core.
    pub(super) turns: u64,
    /// Bytes that it has got by itself.
    pub(super) read: Option<u64>,
}

/// A thread whose times are taken.
#[derive(Debug)]
pub(super) struct Timed {
    thread: Thread,
    /// As they were when time asleep was last counted.
    last: Times,
    ran: Duration,
    queued: Duration,
    turns: u64,
    /// Whether it slept then.
    slept: bool,
    /// What it was last seen to sleep in, and how often and how long it has been looked at since.
    sleeps: Option<Sleeps>,
    since: (Nanos, u32),
    /// In nanoseconds. Can fall: a thread that runs seems to sleep, until the kernel has counted.
    waited: i64,
    most_waited: i64,
}

impl Spent {
    /// And what a thread has done.
    pub(super) fn add(&mut self, timed: &Timed) {
        let nanos = |time: Duration| Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.ran += nanos(timed.ran);
        self.queued += nanos(timed.queued);
        self.waited += Nanos(timed.most_waited.unsigned_abs());
        self.turns += timed.turns;
    }
}

impl Timed {
    /// How long it was on a core.
    pub(super) fn ran(&self) -> Nanos {
        Nanos(u64::try_from(self.ran.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The reason of a thread's last sleep is forgotten after this time without a sleep, if it was sampled often enough.
const SLEEP_MAX_AGE: Nanos = Nanos(100_000_000);
/// Samples without a sleep after which its reason may be forgotten.
const SLEEP_MAX_AGE_SAMPLES: u32 = 20;

impl Timed {
    pub(super) fn new(thread: Thread) -> Timed {
        Timed {
            thread,
            last: Times::default(),
            ran: Duration::ZERO,
            queued: Duration::ZERO,
            turns: 0,
            slept: false,
            sleeps: None,
            since: (Nanos::ZERO, 0),
            waited: 0,
            most_waited: 0,
        }
    }

    /// Time that it slept counts as waiting for I/O if that is what it was last seen to sleep in.
    ///
    /// What is neither time on a core nor in a queue for one need not be sleep: a host takes time from a virtual
    /// machine, and interrupts do. A thread that has had no other turn and runs has not slept, whatever the sum says.
    pub(super) fn sample(&mut self, now: Nanos) -> io::Result<()> {
        // The CPU time of an ended thread stays available until it is reaped.
        let times = self.thread.times()?;
        (self.ran, self.queued, self.turns) = (times.ran, times.queued, times.turns);
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
            self.waited += signed(times.slept) - signed(self.last.slept);
            self.most_waited = self.most_waited.max(self.waited);
        }
        self.slept = sleeps != Sleeps::Not;
        self.last = times;
        Ok(())
    }

    /// Whether it was asleep, waiting for I/O, when it was last looked at.
    pub(super) fn waits(&self) -> bool {
        self.slept && self.sleeps == Some(Sleeps::ForIo)
    }
}
