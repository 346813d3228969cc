//! What takes time for a reading, carried out by the threads of the [`fetcher`](crate::fetcher): bringing ranges into
//! memory, opening files, looking at what came of it.

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
use crate::cached_file::{Brought, Found};
use crate::fetcher::Job;

/// Threads that fetch for all programs together.
pub(super) const THREADS_MAX: usize = 12;

/// Threads that read a range side by side where the kernel does not read ahead.
const READERS_PER_RANGE: u64 = 4;

/// Accesses of a stream whose duration is measured.
const TIMED_ACCESSES: u32 = 3;

/// A part of a file.
pub(super) type Piece = (Arc<Handle>, Range<u64>);

/// Something that takes time, and for whom.
pub(super) struct Errand {
    pub(super) id: ReadingId,
    pub(super) order: Order,
}

/// What takes time.
pub(super) enum Order {
    /// Bring parts of files into memory.
    Fetch {
        range: Range<u64>,
        pieces: Vec<Piece>,
        /// What the kernel may have brought by itself, to be looked at before.
        window: Option<Piece>,
        /// How often it has been seen for this reading how long an access takes.
        timed: Arc<AtomicU32>,
    },
    /// Wait until this byte, which was asked for then, has arrived.
    Time { handle: Arc<Handle>, at: u64, since: Instant },
    /// See how much of parts of files is there.
    Look { range: Range<u64>, pieces: Vec<Piece> },
    /// See what the kernel reads of a file first, for a program that waits for it and wants so many bytes.
    FirstWindow { beginning: Piece, wants: u64 },
    /// Open a file that will be needed, and find out what it is.
    Examine { index: usize, handle: Arc<Handle> },
    /// List a directory, which may have to be opened for that.
    List { directory: Directory },
}

/// What came of it.
pub(super) enum Answer {
    Fetched {
        range: Range<u64>,
        brought: Brought,
        /// Bytes that were there of the one that was to be looked at; none where that is not told.
        window: Option<u64>,
    },
    /// How long an access takes; none if it failed.
    Timed {
        latency: Option<Duration>,
    },
    /// None where the system does not tell.
    Found {
        range: Range<u64>,
        found: Option<Found>,
    },
    /// Bytes; none where the system does not tell.
    FirstWindow {
        wants: u64,
        found: Option<u64>,
    },
    Examined {
        index: usize,
        handle: Arc<Handle>,
        found: Option<Identity>,
    },
    /// None if it cannot be opened any more.
    Listed {
        path: PathBuf,
        found: Option<(Arc<OwnedFd>, Box<Listing>)>,
    },
}

impl Job for Errand {
    type Answer = (ReadingId, Answer);

    /// The next range comes after the one before, so that the nearest arrives first.
    fn turn(&self) -> Option<u32> {
        matches!(self.order, Order::Fetch { .. }).then_some(self.id.0)
    }

    fn is_urgent(&self) -> bool {
        !matches!(self.order, Order::Fetch { .. } | Order::Time { .. })
    }

    fn carry_out(self) -> ((ReadingId, Answer), Option<Errand>) {
        let id = self.id;
        let mut next = None;
        let answer = match self.order {
            Order::Fetch { range, pieces, window, timed } => {
                let window = window.and_then(|(handle, range)| Some(handle.find(&range)?.cached));
                let is_wanted = timed.load(Ordering::Relaxed) < TIMED_ACCESSES;
                let missing = if is_wanted { first_missing(&pieces) } else { None };
                let since = Instant::now();
                let brought = fetch(&pieces);
                // The next range need not wait for that.
                if let Some((handle, at)) = missing.filter(|_| brought.bytes > 0) {
                    timed.fetch_add(1, Ordering::Relaxed);
                    next = Some(Errand { id, order: Order::Time { handle, at, since } });
                }
                Answer::Fetched { range, brought, window }
            }
            Order::Time { handle, at, since } => {
                let arrived = handle.await_byte(at);
                Answer::Timed { latency: arrived.then(|| since.elapsed()) }
            }
            Order::Look { range, pieces } => Answer::Found { range, found: look(&pieces) },
            Order::FirstWindow { beginning: (handle, range), wants } => {
                Answer::FirstWindow { wants, found: handle.find(&range).map(|found| found.cached) }
            }
            Order::Examine { index, handle } => Answer::Examined { index, found: handle.examine(), handle },
            Order::List { directory: Directory { path, held } } => {
                let opened = held.or_else(|| Some(Arc::new(open_directory(&path).ok()?)));
                let found = opened.map(|opened| {
                    let listing = Listing::new(entries(&opened).unwrap_or_default());
                    (opened, Box::new(listing))
                });
                Answer::Listed { path, found }
            }
        };
        ((id, answer), next)
    }
}

/// The last byte of the first part of the pieces with pages neither in memory nor in flight; a part is as long as a
/// window of the kernel. Timing its arrival measures a single access, not the requests before or after it.
fn first_missing(pieces: &[Piece]) -> Option<(Arc<Handle>, u64)> {
    /// The kernel's default read-ahead window.
    const PART_BYTES: u64 = 128 << 10;
    pieces.iter().find_map(|(handle, range)| {
        let parts = range.clone().step_by(PART_BYTES as usize).map(|at| at..range.end.min(at + PART_BYTES));
        // Where the system does not tell, all is taken to be missing.
        let is_missing =
            |part: &Range<u64>| handle.find(part).is_none_or(|found| found.cached < part.end - part.start);
        parts.into_iter().find(is_missing).map(|part| (Arc::clone(handle), part.end - 1))
    })
}

/// One file that cannot be read does not stop the others.
fn fetch(pieces: &[Piece]) -> Brought {
    let mut sum = Brought::default();
    for (handle, range) in pieces {
        let brought =
            if handle.is_read_instead() { read_side_by_side(handle, range) } else { handle.bring(range) };
        sum.bytes += brought.bytes;
        sum.done |= brought.done;
    }
    sum
}

/// One read at a time would leave a device idle that serves several.
fn read_side_by_side(handle: &Handle, range: &Range<u64>) -> Brought {
    let step = (range.end - range.start).div_ceil(READERS_PER_RANGE).next_multiple_of(4096).max(4096);
    let parts = (range.start..range.end).step_by(step as usize).map(|at| at..range.end.min(at + step));
    let brought: Vec<Brought> = thread::scope(|scope| {
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || handle.bring(&part))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    Brought {
        bytes: brought.iter().map(|brought| brought.bytes).sum(),
        done: brought.iter().all(|brought| brought.done),
    }
}

/// What is not told of one is not told of all.
fn look(pieces: &[Piece]) -> Option<Found> {
    let mut sum = Found { cached: 0, evicted: 0 };
    for (handle, range) in pieces.iter().filter(|(_, range)| !range.is_empty()) {
        let found = handle.find(range)?;
        sum = Found { cached: sum.cached + found.cached, evicted: sum.evicted + found.evicted };
    }
    Some(sum)
}
