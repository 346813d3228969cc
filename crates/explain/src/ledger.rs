//! The ledger: elapsed time divided without remainder, by what the critical path was spent on.

use std::collections::BTreeMap;

use sakiyomi_model::Nanos;

use crate::critical_path::{Step, critical_path};
use crate::recording::{FileIndex, Pattern, Recording, ThreadState, Wait};

/// Something on which elapsed time is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Term {
    /// Computing.
    Computing,
    /// Waiting for a core.
    AwaitingCore,
    /// Waiting for reads of a file.
    Read(FileIndex, Pattern),
    /// Waiting for pages of a mapped file.
    Mapping(FileIndex),
    /// Waiting for opens, look-ups, listings and changes of names.
    Metadata,
    /// Waiting for written data to be on storage.
    Sync(Option<FileIndex>),
    /// Waiting in writes to a file.
    Write(Option<FileIndex>),
    /// Slowed down by the kernel because too much written data is not yet on storage.
    WriteBack,
    /// Waiting for asynchronous I/O.
    AsynchronousIo,
    /// Waiting for a time that the program asked for.
    Timer,
    /// Waiting for other programs: pipes, sockets, locks, signals.
    OtherPrograms,
    /// Not known.
    NotAttributed,
}

/// The elapsed time of a recording by term and program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The elapsed time, which is the sum of all entries.
    pub elapsed: Nanos,
    /// In descending order of time.
    pub entries: Vec<LedgerEntry>,
}

/// Elapsed time that was spent on one thing by one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The name of the thread (`comm`); empty if no thread explains the time.
    pub program: String,
    /// The activity or wait.
    pub term: Term,
    /// The time.
    pub time: Nanos,
    /// Number of separate waits or bursts.
    pub count: u64,
}

impl Ledger {
    /// Divides the elapsed time of a recording.
    #[must_use]
    pub fn of(recording: &Recording) -> Ledger {
        let mut sums: BTreeMap<(&str, Term), (Nanos, u64)> = BTreeMap::new();
        for step in critical_path(recording) {
            let program = step.thread.and_then(|thread| recording.threads.get(thread.0));
            let sum = sums.entry((program.map_or("", |thread| &thread.name), Term::of(&step))).or_default();
            sum.0 += step.ended.saturating_sub(step.begun);
            sum.1 += 1;
        }
        let entry = |((program, term), (time, count)): ((&str, Term), (Nanos, u64))| LedgerEntry {
            program: program.to_owned(),
            term,
            time,
            count,
        };
        let mut entries: Vec<LedgerEntry> = sums.into_iter().map(entry).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.time));
        Ledger { elapsed: recording.elapsed_ns, entries }
    }

    /// Returns the sum of the entries with a term that `is_counted`.
    #[must_use]
    pub fn sum(&self, is_counted: impl Fn(&Term) -> bool) -> Nanos {
        let counted = self.entries.iter().filter(|entry| is_counted(&entry.term));
        counted.fold(Nanos::ZERO, |sum, entry| sum + entry.time)
    }
}

impl Term {
    pub(crate) fn of(step: &Step) -> Term {
        match step.state {
            None => Term::NotAttributed,
            Some(ThreadState::Computing) => Term::Computing,
            Some(ThreadState::AwaitingCore) => Term::AwaitingCore,
            Some(ThreadState::Waiting { wait, .. }) => match wait {
                Wait::Read { file, pattern } => Term::Read(file, pattern),
                Wait::Mapping { file } => Term::Mapping(file),
                Wait::Metadata => Term::Metadata,
                Wait::Sync { file } => Term::Sync(file),
                Wait::Write { file } => Term::Write(file),
                Wait::WriteBack => Term::WriteBack,
                Wait::AsynchronousIo => Term::AsynchronousIo,
                Wait::Timer | Wait::Timeout => Term::Timer,
                Wait::Others | Wait::Socket => Term::OtherPrograms,
                Wait::Unknown => Term::NotAttributed,
            },
        }
    }

    /// Returns the file that it concerns, if it is known.
    #[must_use]
    pub fn file(self) -> Option<FileIndex> {
        match self {
            Term::Read(file, _) | Term::Mapping(file) => Some(file),
            Term::Sync(file) | Term::Write(file) => file,
            _ => None,
        }
    }

    /// Returns whether it is a wait for storage.
    #[must_use]
    pub fn is_storage(self) -> bool {
        matches!(
            self,
            Term::Read(..)
                | Term::Mapping(_)
                | Term::Metadata
                | Term::Sync(_)
                | Term::Write(_)
                | Term::WriteBack
                | Term::AsynchronousIo
        )
    }
}
