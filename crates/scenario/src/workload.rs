//! The interface between the event loop and the users of the simulated machine: a program, a job of tasks, a query
//! plan, a pipeline of operators.
//!
//! A [`Workload`] is pure: it receives times and completions, and returns [`Action`]s. It has threads, each of which
//! executes one action at a time, and files, which the event loop places on the device before the run begins.
//!
//! | call | time | result |
//! |---|---|---|
//! | [`next_event`](Workload::next_event) | after every other call | the time of the next `step`; `None` until a thread completes an action |
//! | [`step`](Workload::step) | at that time, and again until it returns `None` | an action for an idle thread |
//! | [`completed`](Workload::completed) | when a thread's action has completed | the thread's next action; `None` leaves it idle |
//!
//! `step` is never called before the requested time. Every action completes exactly once, except [`Action::Done`],
//! which ends the workload. At one instant, workloads are served in the order in which they were added, and their
//! threads in order.

use std::fmt::Debug;

use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_regulate::Requested;

use crate::cache::{FileId, PageCache};
use crate::file::File;

/// A user of the simulated machine. See the [module](self) for the order of calls.
pub trait Workload: Debug {
    /// Returns when [`step`](Workload::step) should be called; `None` if the workload only waits for its threads.
    fn next_event(&self) -> Option<Nanos>;

    /// Returns an action for an idle thread. After it has returned `None`, `next_event` must be later than `now`.
    fn step(&mut self, now: Nanos, view: &View<'_>) -> Option<(ThreadIndex, Action)>;

    /// Handles the completion of a thread's action. Returns the thread's next action; `None` leaves the thread idle.
    fn completed(
        &mut self,
        now: Nanos,
        view: &View<'_>,
        thread: ThreadIndex,
        completed: Completed,
    ) -> Option<Action>;
}

impl<W: Workload + ?Sized> Workload for &mut W {
    fn next_event(&self) -> Option<Nanos> {
        (**self).next_event()
    }

    fn step(&mut self, now: Nanos, view: &View<'_>) -> Option<(ThreadIndex, Action)> {
        (**self).step(now, view)
    }

    fn completed(
        &mut self,
        now: Nanos,
        view: &View<'_>,
        thread: ThreadIndex,
        completed: Completed,
    ) -> Option<Action> {
        (**self).completed(now, view, thread, completed)
    }
}

/// Index of a thread of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadIndex(pub usize);

/// Index of a file of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileIndex(pub usize);

/// An action of a thread. Positions and lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Opens a file: resets its read-ahead state, and the prefetcher follows it if the file requires that. Takes no
    /// time.
    Open {
        /// The file.
        file: FileIndex,
    },
    /// Reads through the page cache.
    Read {
        /// The file.
        file: FileIndex,
        /// Start position.
        at: u64,
        /// Length: at least one byte, within the file.
        length: u64,
        /// Whether it completes as soon as the next part has arrived, at most as long as the maximum request, so that
        /// the thread can copy it; [`Action::ReadOn`] then continues the call.
        is_partial: bool,
    },
    /// Continues the partial read that the thread completed last.
    ReadOn,
    /// Reads, bypassing the page cache.
    ReadDirect {
        /// The file.
        file: FileIndex,
        /// Start position.
        at: u64,
        /// Length: at least one byte, within the file.
        length: u64,
    },
    /// Touches a mapped file, up to 16 pages at a time. Completes with the length that is cached from `at` on.
    Touch {
        /// The file.
        file: FileIndex,
        /// Start position.
        at: u64,
        /// End position: greater than `at`, within the file.
        end: u64,
    },
    /// Writes through the page cache. The thread is throttled while too much data is dirty.
    Write {
        /// The file.
        file: FileIndex,
        /// Start position.
        at: u64,
        /// Length, within the file.
        length: u64,
    },
    /// Computes on a core.
    Compute {
        /// Time on a core of its own, without hops.
        time: Nanos,
        /// Core; `None` for any. Ignored on a machine with shared cores.
        core: Option<u32>,
        /// Thread that handed over the data. If it ran on another core, this thread is charged for the hop.
        from: Option<ThreadIndex>,
    },
    /// Sleeps.
    Pause {
        /// Duration.
        length: Nanos,
    },
    /// Takes memory from the page cache, as for a buffer. Takes no time.
    Reserve {
        /// Amount, rounded up to pages.
        bytes: u64,
    },
    /// Returns all memory that the workload has reserved. Takes no time.
    Release,
    /// Ends the workload. All of its other threads must be idle.
    Done,
}

/// The result of an action: bytes, and a breakdown of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Bytes read, touched or written.
    pub bytes: u64,
    /// CPU time, as specified by the action.
    pub computed: Nanos,
    /// Additional CPU time of hops between cores and wake-ups.
    pub hops: Nanos,
    /// Time in which it was ready to run but shared its core.
    pub queued: Nanos,
    /// Time in which it waited for I/O.
    pub waited: Nanos,
    /// Time in which it slept.
    pub slept: Nanos,
}

/// Requirements of a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// Name.
    pub name: String,
    /// Files, in the order of their placement on the device.
    pub files: Vec<FileSetup>,
    /// Threads.
    pub threads: Vec<ThreadSetup>,
    /// Requested I/O rate; not regulated if `None`.
    pub rate: Option<Requested>,
    /// Whether the run neither waits for its end nor ends with it.
    pub is_background: bool,
}

/// A file of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FileSetup {
    /// Size.
    pub size: Bytes,
    /// Start, as a share of the device; after the last file if `None`.
    pub place: Option<f64>,
    /// Size of fragments; contiguous if `None`.
    pub pieces: Option<Bytes>,
    /// Initial caching.
    pub caching: Caching,
    /// Whether the prefetcher follows the threads that read it.
    pub is_followed: bool,
    /// Whether its reader has announced sequential reads (`POSIX_FADV_SEQUENTIAL`), which doubles Linux's read-ahead.
    pub is_sequential: bool,
}

/// Part of a file that is cached at the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caching {
    /// None of it.
    #[default]
    Cold,
    /// All of it, as far as it fits.
    Resident,
    /// None of it, and the workload only uses [`Action::ReadDirect`] on it.
    Bypassed,
}

/// A thread of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadSetup {
    /// Whether it takes precedence over all threads that are not urgent on the cores.
    pub is_urgent: bool,
}

/// State of the machine that is visible to a workload.
#[derive(Debug)]
pub struct View<'a> {
    pub(crate) now: Nanos,
    pub(crate) page_bytes: u64,
    pub(crate) cache: &'a PageCache,
    pub(crate) files: &'a [File],
    /// Index of the workload's first file.
    pub(crate) first_file: usize,
}

impl View<'_> {
    /// Returns whether all pages of a range, up to the end of the file, are cached or loading.
    #[must_use]
    pub fn is_resident(&self, file: FileIndex, at: u64, length: u64) -> bool {
        let file = self.id(file);
        let end = (at + length).div_ceil(self.page_bytes).min(self.cache.pages(file));
        (at / self.page_bytes..end).all(|page| self.cache.state(file, page).is_some())
    }

    /// Returns the total time in which reads of a file were outstanding, for any purpose.
    #[must_use]
    pub fn reading_time(&self, file: FileIndex) -> Nanos {
        self.files[self.id(file).0].reads.total(self.now)
    }

    /// Returns the number of bytes of a file requested from the device so far.
    #[must_use]
    pub fn fetched_bytes(&self, file: FileIndex) -> u64 {
        self.cache.counts(self.id(file)).loaded * self.page_bytes
    }

    fn id(&self, file: FileIndex) -> FileId {
        FileId(self.first_file + file.0)
    }
}
