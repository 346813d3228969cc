//! A file of a workload: where it lies, whose it is, and what the kernel remembers of it while it is open.

use sakiyomi_model::{Nanos, StreamId};

use crate::layout::Layout;
use crate::readahead::ReadAhead;
use crate::readahead::xnu::Clusters;

#[derive(Debug)]
pub(crate) struct File {
    pub(crate) layout: Layout,
    /// The workload that it belongs to.
    pub(crate) owner: StreamId,
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) is_followed: bool,
    /// Where the open file stands, in bytes: where the present call has begun, or the last one has ended.
    pub(crate) position: u64,
    /// Bytes of the calls that have ended.
    pub(crate) read_bytes: u64,
    /// Read-ahead state of Linux while it is open, shared by all threads.
    pub(crate) read_ahead: ReadAhead,
    /// Pages of a mapping that were missing, less those that were there (`mmap_miss`).
    pub(crate) misses: u32,
    /// Read-ahead state of Mac OS X.
    pub(crate) clusters: Clusters,
    pub(crate) reads: Outstanding,
}

impl File {
    pub(crate) fn new(layout: Layout, owner: StreamId, size: u64, is_followed: bool) -> File {
        File {
            layout,
            owner,
            size,
            is_followed,
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

    /// A call has brought so many bytes, up to `end`.
    pub(crate) fn call_ended(&mut self, end: u64, bytes: u64) {
        self.position = end;
        self.read_bytes += bytes;
    }
}

/// Requests to read a file that the device has or waits for, and for how long there were any.
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

    /// For how long there were any so far.
    pub(crate) fn total(&self, now: Nanos) -> Nanos {
        if self.requests > 0 { self.total + (now - self.since) } else { self.total }
    }
}
