//! Operations of a reading that may block, carried out by the threads of the [`fetcher`](crate::fetcher): fetching
//! ranges, opening files, querying residency.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sakiyomi_os::process::{Identity, entries, open_directory};

use super::directories::Directory;
use super::handle::Handle;
use super::listing::Listing;
use crate::ReadingId;
use crate::cached_file::{FetchOutcome, Found};
use crate::fetcher::Job;

/// Threads that fetch for all programs together.
pub(super) const THREADS_MAX: usize = 12;

/// Threads that read a range side by side where the kernel does not read ahead.
const READERS_PER_RANGE: u64 = 4;

/// Accesses of a stream whose duration is measured.
const TIMED_ACCESSES: u32 = 3;

/// A part of a file.
pub(super) type Piece = (Arc<Handle>, Range<u64>);

/// An operation that may block, and its reading.
pub(super) struct BlockingJob {
    pub(super) id: ReadingId,
    pub(super) order: JobRequest,
}

/// Operations that may block.
pub(super) enum JobRequest {
    /// Load parts of files into the page cache.
    Fetch {
        range: Range<u64>,
        pieces: Vec<Piece>,
        /// Data that the kernel may have prefetched itself, to be examined first.
        window: Option<Piece>,
        /// Number of accesses of this reading that have been timed.
        timed: Arc<AtomicU32>,
    },
    /// Wait until this byte, requested at that time, has arrived.
    Time { handle: Arc<Handle>, at: u64, since: Instant },
    /// Load a part of a file into the page cache and wait for it.
    FetchPart { handle: Arc<Handle>, range: Range<u64> },
    /// Query the residency of parts of files.
    CheckResidency { range: Range<u64>, pieces: Vec<Piece> },
    /// Determine the kernel's first read of a file, for a program that waits for it in a call of `wants` bytes.
    FirstWindow { beginning: Piece, wants: u64 },
    /// Open a file that will be needed, and determine its identity.
    Examine { index: usize, handle: Arc<Handle> },
    /// List a directory, which may have to be opened first.
    List { directory: Directory },
}

/// Results of operations.
pub(super) enum JobReply {
    Fetched {
        range: Range<u64>,
        outcome: FetchOutcome,
        /// Cached bytes of the window that was to be examined; `None` if not reported.
        window: Option<u64>,
    },
    /// A part, and how long it took.
    FetchedPart {
        length: u64,
        outcome: FetchOutcome,
        took: Duration,
    },
    /// Duration of an access; `None` if it failed.
    Timed {
        latency: Option<Duration>,
    },
    /// `None` if residency is not reported.
    Found {
        range: Range<u64>,
        found: Option<Found>,
    },
    /// In bytes; `None` if residency is not reported.
    FirstWindow {
        wants: u64,
        found: Option<u64>,
    },
    Examined {
        index: usize,
        handle: Arc<Handle>,
        found: Option<Identity>,
    },
    /// `None` if the directory can no longer be opened.
    Listed {
        path: PathBuf,
        found: Option<(Arc<OwnedFd>, Box<Listing>)>,
    },
}

impl Job for BlockingJob {
    type Reply = (ReadingId, JobReply);

    /// Fetches of a reading run one after the other, so that the nearest data arrives first.
    fn turn(&self) -> Option<u32> {
        matches!(self.order, JobRequest::Fetch { .. }).then_some(self.id.0)
    }

    fn is_urgent(&self) -> bool {
        !matches!(self.order, JobRequest::Fetch { .. } | JobRequest::Time { .. })
    }

    fn carry_out(self) -> ((ReadingId, JobReply), Option<BlockingJob>) {
        let id = self.id;
        let mut next = None;
        let reply = match self.order {
            JobRequest::Fetch { range, pieces, window, timed } => {
                let window = window.and_then(|(handle, range)| Some(handle.find(&range)?.cached));
                let is_wanted = timed.load(Ordering::Relaxed) < TIMED_ACCESSES;
                let missing = if is_wanted { first_missing(&pieces) } else { None };
                let since = Instant::now();
                let outcome = fetch(&pieces);
                // The next range need not wait for that.
                if let Some((handle, at)) = missing.filter(|_| outcome.bytes > 0) {
                    timed.fetch_add(1, Ordering::Relaxed);
                    next = Some(BlockingJob { id, order: JobRequest::Time { handle, at, since } });
                }
                JobReply::Fetched { range, outcome, window }
            }
            JobRequest::Time { handle, at, since } => {
                let arrived = handle.await_byte(at);
                JobReply::Timed { latency: arrived.then(|| since.elapsed()) }
            }
            JobRequest::FetchPart { handle, range } => {
                let since = Instant::now();
                let outcome = handle.load_and_wait(&range);
                JobReply::FetchedPart { length: range.end - range.start, outcome, took: since.elapsed() }
            }
            JobRequest::CheckResidency { range, pieces } => {
                JobReply::Found { range, found: residency(&pieces) }
            }
            JobRequest::FirstWindow { beginning: (handle, range), wants } => {
                JobReply::FirstWindow { wants, found: handle.find(&range).map(|found| found.cached) }
            }
            JobRequest::Examine { index, handle } => {
                JobReply::Examined { index, found: handle.examine(), handle }
            }
            JobRequest::List { directory: Directory { path, held } } => {
                let opened = held.or_else(|| Some(Arc::new(open_directory(&path).ok()?)));
                let found = opened.map(|opened| {
                    let listing = Listing::new(entries(&opened).unwrap_or_default());
                    (opened, Box::new(listing))
                });
                JobReply::Listed { path, found }
            }
        };
        ((id, reply), next)
    }
}

/// Returns the last byte of the first part of the pieces with pages neither cached nor in flight; a part is as long as
/// a window of the kernel. Timing its arrival measures a single access, not the requests before or after it.
fn first_missing(pieces: &[Piece]) -> Option<(Arc<Handle>, u64)> {
    /// The kernel's default read-ahead window.
    const PART_BYTES: u64 = 128 << 10;
    pieces.iter().find_map(|(handle, range)| {
        let parts = range.clone().step_by(PART_BYTES as usize).map(|at| at..range.end.min(at + PART_BYTES));
        // If residency is not reported, everything counts as missing.
        let is_missing =
            |part: &Range<u64>| handle.find(part).is_none_or(|found| found.cached < part.end - part.start);
        parts.into_iter().find(is_missing).map(|part| (Arc::clone(handle), part.end - 1))
    })
}

/// Fetches pieces; a file that cannot be read does not stop the others.
fn fetch(pieces: &[Piece]) -> FetchOutcome {
    let mut sum = FetchOutcome::default();
    for (handle, range) in pieces {
        let outcome =
            if handle.is_read_instead() { read_side_by_side(handle, range) } else { handle.load(range) };
        sum.bytes += outcome.bytes;
        sum.done |= outcome.done;
    }
    sum
}

/// Reads a range with several threads, because a single read at a time would leave a parallel device idle.
fn read_side_by_side(handle: &Handle, range: &Range<u64>) -> FetchOutcome {
    let step = (range.end - range.start).div_ceil(READERS_PER_RANGE).next_multiple_of(4096).max(4096);
    let parts = (range.start..range.end).step_by(step as usize).map(|at| at..range.end.min(at + step));
    let outcome: Vec<FetchOutcome> = thread::scope(|scope| {
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || handle.load(&part))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    FetchOutcome {
        bytes: outcome.iter().map(|outcome| outcome.bytes).sum(),
        done: outcome.iter().all(|outcome| outcome.done),
    }
}

/// Returns the residency of pieces; `None` if it is not reported for any one of them.
fn residency(pieces: &[Piece]) -> Option<Found> {
    let mut sum = Found { cached: 0, evicted: 0 };
    for (handle, range) in pieces.iter().filter(|(_, range)| !range.is_empty()) {
        let found = handle.find(range)?;
        sum = Found { cached: sum.cached + found.cached, evicted: sum.evicted + found.evicted };
    }
    Some(sum)
}
