//! The interface between the event loop and whatever uses the simulated machine: a program, a job of tasks, a query plan,
//! a pipeline of operators.
//!
//! A [`Workload`] is pure: it is given times and completions, and returns [`Action`]s. It has threads, each of which is
//! busy with one action at a time, and files, which the event loop places on the device before the run begins.
//!
//! | call | when | what it returns |
//! |---|---|---|
//! | [`next_event`](Workload::next_event) | after every other call | when it wants `step`; none until a thread completes an action |
//! | [`step`](Workload::step) | at that time, and again until it returns none | an action for an idle thread |
//! | [`completed`](Workload::completed) | when a thread's action has completed | the thread's next action; none leaves it idle |
//!
//! `step` is never called before the time that the workload asked for. Every action completes exactly once, except
//! [`Action::Done`], which ends the workload. At one instant, workloads are served in the order in which they were added,
//! and threads in theirs.

use std::fmt::Debug;

use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_regulate::Rate;

use crate::cache::{FileId, PageCache};
use crate::file::File;

/// A user of the simulated machine. See the [module](self) for the order of calls.
pub trait Workload: Debug {
    /// When it wants [`step`](Workload::step) to be called; none if it waits for its threads only.
    fn next_event(&self) -> Option<Nanos>;

    /// An action for an idle thread. Once it returns none, `next_event` must be later than `now`.
    fn step(&mut self, now: Nanos, view: &View<'_>) -> Option<(ThreadIndex, Action)>;

    /// An action of a thread has completed. Returns the thread's next action; none leaves the thread idle.
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

/// A thread of a workload, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadIndex(pub usize);

/// A file of a workload, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileIndex(pub usize);

/// An action of a thread. Positions and lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Opens a file: its read-ahead state begins anew, and the prefetcher follows it if the file says so. Takes no time.
    Open {
        /// The file.
        file: FileIndex,
    },
    /// A call that reads through the page cache.
    Read {
        /// The file.
        file: FileIndex,
        /// Where it begins.
        at: u64,
        /// How much it asks for: at least one byte, within the file.
        length: u64,
        /// Whether it completes as soon as the next part has come, at most as long as the longest request, so that the
        /// thread can copy it; [`Action::ReadOn`] then goes on with the call.
        is_partial: bool,
    },
    /// Goes on with the partial read that the thread completed last.
    ReadOn,
    /// A call that reads past the page cache.
    ReadDirect {
        /// The file.
        file: FileIndex,
        /// Where it begins.
        at: u64,
        /// How much it asks for: at least one byte, within the file.
        length: u64,
    },
    /// Touches a mapped file, up to 16 pages at a time. Completes with what is in memory from `at` on.
    Touch {
        /// The file.
        file: FileIndex,
        /// Where it begins.
        at: u64,
        /// Where it ends at most: later than `at`, within the file.
        end: u64,
    },
    /// Writes through the page cache. The thread waits while too much is dirty.
    Write {
        /// The file.
        file: FileIndex,
        /// Where it begins.
        at: u64,
        /// How much it writes, within the file.
        length: u64,
    },
    /// Computes on a core.
    Compute {
        /// How long it takes on a core of its own, without hops.
        time: Nanos,
        /// On which core; none for any. Ignored on a machine whose cores are shared.
        core: Option<u32>,
        /// The thread that handed over what is computed on. If it ran on another core, this thread pays the hop.
        from: Option<ThreadIndex>,
    },
    /// Sleeps.
    Pause {
        /// How long.
        length: Nanos,
    },
    /// Takes memory away from the page cache, as a buffer does. Takes no time.
    Reserve {
        /// How much; whole pages are taken.
        bytes: u64,
    },
    /// Gives back all that the workload has reserved. Takes no time.
    Release,
    /// The workload has ended. All of its other threads must be idle.
    Done,
}

/// The result of an action: bytes, and a breakdown of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Bytes that were read, touched or written.
    pub bytes: u64,
    /// Time on a core, as long as the action said.
    pub computed: Nanos,
    /// Time on a core besides: hops between cores, and waking one up.
    pub hops: Nanos,
    /// Time in which it wanted a core and shared it.
    pub queued: Nanos,
    /// Time in which it waited for I/O.
    pub waited: Nanos,
    /// Time in which it slept.
    pub slept: Nanos,
}

/// Requirements of a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// Its name.
    pub name: String,
    /// Its files, in the order of their places on the device.
    pub files: Vec<FileSetup>,
    /// Its threads.
    pub threads: Vec<ThreadSetup>,
    /// The I/O performance that it asks for; without it is not regulated.
    pub rate: Option<Rate>,
    /// Whether the run neither waits for its end nor ends with it.
    pub is_background: bool,
}

/// A file of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FileSetup {
    /// Its size.
    pub size: Bytes,
    /// Where it begins, as a share of the device; none for after the last file.
    pub place: Option<f64>,
    /// It lies in pieces of this size; none for one piece.
    pub pieces: Option<Bytes>,
    /// How much of it is in memory.
    pub caching: Caching,
    /// Whether the prefetcher follows the threads that read it.
    pub is_followed: bool,
}

/// How much of a file is in memory at the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caching {
    /// Nothing.
    #[default]
    Cold,
    /// All of it, as far as it fits.
    Resident,
    /// Nothing, and the workload only uses [`Action::ReadDirect`] on it.
    Bypassed,
}

/// A thread of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadSetup {
    /// Whether it goes before all threads that are not urgent on the cores.
    pub is_urgent: bool,
}

/// The state of the machine that a workload can see.
#[derive(Debug)]
pub struct View<'a> {
    pub(crate) now: Nanos,
    pub(crate) page_bytes: u64,
    pub(crate) cache: &'a PageCache,
    pub(crate) files: &'a [File],
    /// The workload's first file.
    pub(crate) first_file: usize,
}

impl View<'_> {
    /// Whether all pages of a range of a file are in memory or on their way, as far as the file goes.
    #[must_use]
    pub fn is_resident(&self, file: FileIndex, at: u64, length: u64) -> bool {
        let file = self.id(file);
        let end = (at + length).div_ceil(self.page_bytes).min(self.cache.pages(file));
        (at / self.page_bytes..end).all(|page| self.cache.state(file, page).is_some())
    }

    /// For how long reads of a file have been outstanding so far, whatever asked for them.
    #[must_use]
    pub fn reading_time(&self, file: FileIndex) -> Nanos {
        self.files[self.id(file).0].reads.total(self.now)
    }

    /// How much of a file has been asked of the device so far, in bytes.
    #[must_use]
    pub fn fetched_bytes(&self, file: FileIndex) -> u64 {
        self.cache.counts(self.id(file)).loaded * self.page_bytes
    }

    fn id(&self, file: FileIndex) -> FileId {
        FileId(self.first_file + file.0)
    }
}
