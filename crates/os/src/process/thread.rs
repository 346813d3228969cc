//! A thread of a process: time running, time waiting for a core, time asleep; and the reason of its sleep.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, openat};

use super::{CWD, STAT_LINE_MAX_BYTES, Stat, reread};

/// A thread of a process. Its times count from the moment when it was opened.
#[derive(Debug)]
pub struct Thread {
    schedstat: OwnedFd,
    stat: OwnedFd,
    /// `wchan`: some threads wait for I/O in a state that looks like waiting for a pipe.
    place: Option<OwnedFd>,
    begun: Instant,
    first: (Duration, Duration, u64),
}

/// Times of a thread since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Time on a core.
    pub ran: Duration,
    /// Time ready to run without a free core.
    pub queued: Duration,
    /// Time asleep: the remainder.
    pub slept: Duration,
    /// Number of times that it was scheduled.
    pub turns: u64,
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleeps {
    /// It runs, or is ready to run.
    Not,
    /// It waits for I/O.
    ForIo,
    /// It waits for something else: a pipe, a lock, a child, a terminal; or it is stopped.
    Otherwise,
}

/// Kernel function that waits for a FUSE server's answer, in a state in which signals can wake it.
const FUSE: &str = "request_wait_answer";

impl Thread {
    /// Opens the calling thread. Other threads may query its times as well.
    ///
    /// # Errors
    /// If `/proc` is not mounted, or the kernel does not account for waiting (`schedstat`).
    pub fn current() -> io::Result<Thread> {
        Thread::open_in(CWD, "/proc/thread-self")
    }

    pub(super) fn open(process: BorrowedFd<'_>, number: u32) -> io::Result<Thread> {
        Thread::open_in(process, &format!("task/{number}"))
    }

    fn open_in(parent: BorrowedFd<'_>, directory: &str) -> io::Result<Thread> {
        let open = |name: &str| {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            openat(parent, format!("{directory}/{name}"), flags, Mode::empty())
        };
        let (schedstat, stat) = (open("schedstat")?, open("stat")?);
        let first = self::schedstat(&schedstat)?;
        Ok(Thread { schedstat, stat, place: open("wchan").ok(), begun: Instant::now(), first })
    }

    /// Returns the times so far. The kernel accounts time on a core at a clock tick or when the thread leaves the
    /// core, so that the time of a running thread lags by some milliseconds, and the difference appears as `slept`.
    ///
    /// # Errors
    /// If it has ended.
    pub fn times(&self) -> io::Result<Times> {
        let (ran, queued, turns) = schedstat(&self.schedstat)?;
        let (ran, queued) = (ran.saturating_sub(self.first.0), queued.saturating_sub(self.first.1));
        let slept = self.begun.elapsed().saturating_sub(ran + queued);
        Ok(Times { ran, queued, slept, turns: turns.saturating_sub(self.first.2) })
    }

    /// Returns its current state.
    ///
    /// # Errors
    /// If it has ended.
    pub fn sleeps(&self) -> io::Result<Sleeps> {
        sleeps(self.stat.as_fd(), || self.place.as_ref().map(OwnedFd::as_fd))
    }
}

/// Returns the current state of a thread that is looked at once.
///
/// # Errors
/// If it has ended.
pub(super) fn sleeps_of(process: BorrowedFd<'_>, number: u32) -> io::Result<Sleeps> {
    let open = |name: &str| {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        openat(process, format!("task/{number}/{name}"), flags, Mode::empty())
    };
    let stat = open("stat")?;
    let mut place = None;
    sleeps(stat.as_fd(), || {
        place = open("wchan").ok();
        place.as_ref().map(OwnedFd::as_fd)
    })
}

/// Returns the state of a thread, from its `stat` and, if needed, its `wchan`.
fn sleeps<'a>(stat: BorrowedFd<'_>, place: impl FnOnce() -> Option<BorrowedFd<'a>>) -> io::Result<Sleeps> {
    let mut buffer = [0; STAT_LINE_MAX_BYTES];
    let stat = Stat(reread(stat, &mut buffer)?);
    let is_in = |function: &str| {
        let mut buffer = [0; 64];
        place().and_then(|file| reread(file, &mut buffer).ok().map(|at| at == function)).unwrap_or(false)
    };
    Ok(match stat.after_name().next() {
        Some("R") => Sleeps::Not,
        Some("D") => Sleeps::ForIo,
        Some("S") if is_in(FUSE) => Sleeps::ForIo,
        Some("Z" | "X") | None => return Err(rustix::io::Errno::SRCH.into()),
        Some(_) => Sleeps::Otherwise,
    })
}

/// Returns the time on a core, the time waiting for one, and the number of turns.
fn schedstat(file: &OwnedFd) -> io::Result<(Duration, Duration, u64)> {
    let mut buffer = [0; 96];
    let mut numbers =
        reread(file.as_fd(), &mut buffer)?.split_ascii_whitespace().map_while(|text| text.parse().ok());
    let mut next = || numbers.next().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData));
    Ok((Duration::from_nanos(next()?), Duration::from_nanos(next()?), next()?))
}
