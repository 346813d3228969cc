//! CPU time that can be attributed to an engine, because threads belong to it.

use std::fs;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::thread::gettid;

use crate::stats::EngineCpu;

/// The threads of an engine, by thread ID.
#[derive(Clone, Debug, Default)]
pub struct EngineThreads {
    /// Threads of this process that were started for the engine.
    own: Arc<Mutex<Vec<i32>>>,
    /// Whether the engine starts threads.
    is_threaded: bool,
    /// The kernel thread that polls for a ring.
    kernel: Option<i32>,
}

impl EngineThreads {
    /// Creates a list for an engine whose threads each call [`EngineThreads::enlist`].
    pub(super) fn listed() -> EngineThreads {
        EngineThreads { is_threaded: true, ..EngineThreads::default() }
    }

    /// Adds the calling thread.
    pub(crate) fn enlist(&self) {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.push(gettid().as_raw_nonzero().get());
    }

    /// Creates the list of a ring with a polling kernel thread (`IORING_SETUP_SQPOLL`).
    pub(super) fn of_ring(descriptor: RawFd) -> EngineThreads {
        let about = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).unwrap_or_default();
        let thread = about.lines().find_map(|line| line.strip_prefix("SqThread:"));
        let kernel = thread.and_then(|thread| thread.trim().parse().ok()).filter(|&thread| thread > 0);
        EngineThreads { kernel, ..EngineThreads::default() }
    }

    /// Returns the CPU time of the threads so far.
    pub(crate) fn cpu(&self) -> EngineCpu {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let has_own = self.is_threaded || !own.is_empty();
        let threads = has_own.then(|| own.iter().map(|&thread| cpu_of(thread)).sum()).flatten();
        EngineCpu { threads, kernel_threads: self.kernel.and_then(cpu_of) }
    }
}

/// Returns the time on a core, the first field of `/proc/.../schedstat`.
fn cpu_of(thread: i32) -> Option<Duration> {
    let times = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    times.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
