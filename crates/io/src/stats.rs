//! Counters of a stream, and CPU time of an engine.

use std::time::Duration;

/// Counters of a stream's reads or writes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStats {
    /// Bytes transferred, including gaps between ranges.
    pub bytes: u64,
    /// Completed system calls.
    pub calls: u64,
    /// Service time: the sum of the durations of those calls, which exceeds the elapsed time if they were concurrent.
    pub service: Duration,
    /// Time for which the caller has waited for operations or for memory.
    pub waiting: Duration,
}

impl IoStats {
    /// Returns the counters of the phase that began when they were `earlier`.
    #[must_use]
    pub fn since(self, earlier: IoStats) -> IoStats {
        IoStats {
            bytes: self.bytes - earlier.bytes,
            calls: self.calls - earlier.calls,
            service: self.service.saturating_sub(earlier.service),
            waiting: self.waiting.saturating_sub(earlier.waiting),
        }
    }
}

/// CPU time of an engine's own threads; `None` if it has none, or if the system does not report it.
///
/// A call that a waiting caller makes itself counts as the caller's time. For engines without threads (`aio`,
/// `uring`, `mmap`, `null`) that is every call except those of the thread that submits queued operations. Kernel
/// workers that serve many processes (block layer, loop device, io-wq) cannot be attributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCpu {
    /// Threads of this process: those of `read`, `pread`, `populate`, and the one that submits queued operations.
    pub threads: Option<Duration>,
    /// Kernel threads that serve this engine alone (`uring-sqpoll`).
    pub kernel_threads: Option<Duration>,
}

impl EngineCpu {
    /// Returns the CPU time of the phase that began when it was `earlier`.
    #[must_use]
    pub fn since(self, earlier: EngineCpu) -> EngineCpu {
        let since = |now: Option<Duration>, then: Option<Duration>| Some(now?.saturating_sub(then?));
        EngineCpu {
            threads: since(self.threads, earlier.threads),
            kernel_threads: since(self.kernel_threads, earlier.kernel_threads),
        }
    }
}
