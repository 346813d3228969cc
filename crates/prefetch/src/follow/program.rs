//! A process that is followed: what it spends its time on, and which files it has open.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use sakiyomi_model::Nanos;
use sakiyomi_os::process::{Identity, Kind, Process};

use super::directories::{Directories, Directory};
use super::got::Got;
use super::named::Named;
use super::signs::Signs;
use super::times::{Spent, Timed};

/// Threads of a process whose times are sampled. The remaining threads' times are left out.
const TIMED_THREADS_MAX: usize = 16;

/// Polling period of a program that has just begun or whose open files have changed.
const POLL_PERIOD_MIN: Nanos = Nanos(1_000_000);
/// Time after its start for which a program is polled at the shortest period.
const STARTUP_TIME: Nanos = Nanos(50_000_000);
/// Polling period of a program whose open files do not change; the period grows by half with each poll.
const POLL_PERIOD_MAX: Nanos = Nanos(50_000_000);

/// A process that is followed.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) process: Process,
    /// Who has started it, if that is followed as well.
    pub(super) parent: Option<u32>,
    /// For those who reopen its files.
    pub(super) shared: Arc<Process>,
    threads: BTreeMap<u32, Timed>,
    /// Of threads that have ended.
    past: Spent,
    spent: Spent,
    /// How long the thread was on a core that was so for longest.
    busiest: Nanos,
    got: Got,
    /// When it was seen to begin as the program that it is.
    pub(super) begun: Nanos,
    incarnation: u64,
    /// All open files as they were found last.
    files: BTreeMap<u32, Identity>,
    /// Which files it writes to, or has: they are not read ahead because of a name.
    written: Vec<Identity>,
    pub(super) directories: Directories,
    pub(super) named: Named,
    pub(super) discover_at: Nanos,
    pause: Nanos,
    pub(super) sampled: Nanos,
    /// How far it has moved positions in all, in bytes; how many pages of mappings it had to have
    /// mapped; and what that looks like.
    pub(super) moved: u64,
    pub(super) faults: u64,
    pub(super) signs: Signs,
    /// Whether it reads without moving a position, for the case that this cannot be followed.
    pub(super) unseen: Unseen,
}

/// Whether a program reads without moving a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unseen {
    /// It does not seem to.
    No,
    /// The program waits and has data mapped, but may wait for other things. `mapped` is the number of file bytes
    /// mapped when that was observed.
    Perhaps { mapped: u64 },
    /// It does.
    Yes,
}

/// What was found in a look at a program's files.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Regular files and block devices that are newly open, each under its number.
    pub(super) files: Vec<(u32, Identity)>,
    pub(super) children: Vec<u32>,
    /// Its files may not be looked at.
    pub(super) refused: bool,
    /// It has become another program.
    pub(super) is_new: bool,
}

impl Program {
    pub(super) fn open(number: u32, now: Nanos) -> io::Result<Program> {
        let process = Process::open(number)?;
        let shared = Arc::new(Process::open(number)?);
        Ok(Program {
            process,
            parent: None,
            shared,
            threads: BTreeMap::new(),
            past: Spent::default(),
            busiest: Nanos::ZERO,
            spent: Spent::default(),
            got: Got::default(),
            begun: now,
            incarnation: 0,
            files: BTreeMap::new(),
            written: Vec::new(),
            directories: Directories::default(),
            named: Named::default(),
            discover_at: now,
            pause: POLL_PERIOD_MIN,
            sampled: Nanos::ZERO,
            moved: 0,
            faults: 0,
            signs: Signs::default(),
            unseen: Unseen::No,
        })
    }

    pub(super) fn number(&self) -> u32 {
        self.process.number()
    }

    pub(super) fn spent(&self) -> Spent {
        self.spent
    }

    /// CPU time of its busiest thread; a lower bound of the program's elapsed time.
    pub(super) fn busiest(&self) -> Nanos {
        self.busiest
    }

    /// Whether it has just begun.
    pub(super) fn is_young(&self, now: Nanos) -> bool {
        now.saturating_sub(self.begun) < STARTUP_TIME
    }

    /// Takes its times. What has ended keeps those that it had.
    pub(super) fn sample(&mut self, now: Nanos) {
        if self.sampled == now {
            return;
        }
        self.sampled = now;
        let (past, busiest) = (&mut self.past, &mut self.busiest);
        self.threads.retain(|_, timed| {
            let is_there = timed.sample(now).is_ok();
            *busiest = timed.ran().max(*busiest);
            if !is_there {
                past.add(timed);
            }
            is_there
        });
        let mut spent = self.past;
        self.threads.values().for_each(|timed| spent.add(timed));
        spent.read = self.bytes_got().or(self.spent.read);
        self.spent = spent;
    }

    fn bytes_got(&mut self) -> Option<u64> {
        let all = self.process.bytes_read().ok()?;
        Some(self.got.see(all, self.process.bytes_read_by_first_thread().ok()))
    }

    /// Looks for files that are newly open, and for children; and says when to look again.
    pub(super) fn discover(&mut self, now: Nanos) -> io::Result<Found> {
        let threads = self.process.threads()?;
        self.got.count_threads(threads.len());
        self.time_threads(&threads);
        let mut found = Found::default();
        self.process.children(&threads, &mut found.children);
        let incarnation = self.process.incarnation()?;
        if incarnation != self.incarnation {
            self.incarnation = incarnation;
            self.begun = now;
            self.named = Named::of(&self.process);
            found.is_new = true;
        }
        match self.process.open_files() {
            Ok(numbers) => self.compare(&numbers, &mut found),
            Err(_) => found.refused = true,
        }
        let changed = !found.files.is_empty();
        self.pause = if self.is_young(now) || changed {
            POLL_PERIOD_MIN
        } else {
            Nanos(self.pause.0 + self.pause.0 / 2).min(POLL_PERIOD_MAX)
        };
        self.discover_at = now + self.pause;
        Ok(found)
    }

    /// Has it looked into soon: what it has open has changed.
    pub(super) fn hurry(&mut self, now: Nanos) {
        self.pause = POLL_PERIOD_MIN;
        self.discover_at = self.discover_at.min(now + POLL_PERIOD_MIN);
    }

    fn time_threads(&mut self, numbers: &[u32]) {
        for &number in numbers.iter().take(TIMED_THREADS_MAX) {
            if !self.threads.contains_key(&number)
                && let Ok(thread) = self.process.thread(number)
            {
                self.threads.insert(number, Timed::new(thread));
            }
        }
    }

    /// A number that is known may mean another file meanwhile, so each is looked at.
    fn compare(&mut self, numbers: &[u32], found: &mut Found) {
        self.files.retain(|number, _| numbers.contains(number));
        let files = &self.files;
        self.directories.keep(|number| files.get(&number).is_some_and(|file| file.kind == Kind::Directory));
        for &number in numbers {
            let Ok(identity) = self.process.identity(number) else { continue };
            let before = self.files.insert(number, identity);
            if before.is_some_and(|before| before.is_same(&identity)) {
                continue;
            }
            match identity.kind {
                Kind::Regular | Kind::BlockDevice => found.files.push((number, identity)),
                Kind::Directory => {
                    if let (Ok(path), Ok(place)) =
                        (self.process.name_of(number), self.process.reopen_directory(number))
                    {
                        self.directories.hold(number, Directory { path, held: Some(Arc::new(place)) });
                    }
                }
                Kind::Other => {}
            }
        }
    }

    /// How much it has asked for of an open file, in bytes, if it sleeps in a read of that.
    pub(super) fn reads_from(&self, file: u32) -> Option<u64> {
        let asleep = self.threads.iter().filter(|(_, timed)| timed.waits());
        let mut calls = asleep.filter_map(|(&thread, _)| self.process.read_call(thread));
        calls.find(|call| call.file == file).map(|call| call.bytes)
    }

    /// Notes that it has a file open for writing.
    pub(super) fn note_written(&mut self, file: Identity) {
        /// Files open for writing that are remembered; the oldest is dropped first.
        const WRITTEN_FILES_MAX: usize = 64;
        if self.written.len() == WRITTEN_FILES_MAX {
            self.written.remove(0);
        }
        self.written.push(file);
    }

    pub(super) fn writes(&self, file: &Identity) -> bool {
        self.written.iter().any(|written| written.is_same(file))
    }

    /// Under which number it has a file open.
    pub(super) fn open_as(&self, device: u64, inode: u64) -> Option<(u32, Identity)> {
        let is_it = |identity: &Identity| (identity.device, identity.inode) == (device, inode);
        let found = self.files.iter().find(|(_, identity)| is_it(identity))?;
        self.process.identity(*found.0).ok().filter(is_it).map(|identity| (*found.0, identity))
    }

    /// Forgets that a file is open under this number, so that it is found again.
    pub(super) fn forget_file(&mut self, number: u32) {
        self.files.remove(&number);
    }
}
