//! A file of a workload: layout, owner, and the kernel's state while it is open.

use sakiyomi_model::{Nanos, StreamId};

use crate::layout::Layout;
use crate::readahead::ReadAhead;
use crate::readahead::xnu::Clusters;

#[derive(Debug)]
pub(crate) struct File {
    pub(crate) layout: Layout,
    /// Workload that owns it.
    pub(crate) owner: StreamId,
    /// Size in bytes.
    pub(crate) size: u64,
    pub(crate) is_followed: bool,
    /// Factor of the maximum read-ahead window.
    pub(crate) window_factor: u64,
    /// File position in bytes: start of the current call, or end of the last one.
    pub(crate) position: u64,
    /// Bytes read by finished calls.
    pub(crate) read_bytes: u64,
    /// Linux's read-ahead state of the open file, shared by all threads.
    pub(crate) read_ahead: ReadAhead,
    /// Faults in a mapping minus hits (`mmap_miss`).
    pub(crate) misses: u32,
    /// Mac OS X's read-ahead state.
    pub(crate) clusters: Clusters,
    pub(crate) reads: Outstanding,
}

impl File {
    /// A file whose maximum read-ahead window is `window_factor` times that of the machine.
    pub(crate) fn new(
        layout: Layout,
        owner: StreamId,
        size: u64,
        is_followed: bool,
        window_factor: u64,
    ) -> File {
        File {
            layout,
            owner,
            size,
            is_followed,
            window_factor,
            position: 0,
            read_bytes: 0,
            read_ahead: ReadAhead::default(),
            misses: 0,
            clusters: Clusters::default(),
            reads: Outstanding::default(),
        }
    }

    pub(crate) fn open(&mut self) {
        (self.position, self.read_ahead, self.misses) = (0, ReadAhead::default(), 0);
    }

    /// Records the end of a call that read `bytes` bytes, up to `end`.
    pub(crate) fn call_ended(&mut self, end: u64, bytes: u64) {
        self.position = end;
        self.read_bytes += bytes;
    }
}

/// Counts a file's outstanding reads, and measures the time with at least one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outstanding {
    requests: u64,
    since: Nanos,
    total: Nanos,
}

impl Outstanding {
    pub(crate) fn begin(&mut self, now: Nanos) {
        if self.requests == 0 {
            self.since = now;
        }
        self.requests += 1;
    }

    pub(crate) fn end(&mut self, now: Nanos) {
        self.requests -= 1;
        if self.requests == 0 {
            self.total += now - self.since;
        }
    }

    /// Returns the total time with an outstanding read so far.
    pub(crate) fn total(&self, now: Nanos) -> Nanos {
        if self.requests > 0 { self.total + (now - self.since) } else { self.total }
    }
}
