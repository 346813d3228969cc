//! A followed process: its times, and its open files.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use sakiyomi_model::Nanos;
use sakiyomi_os::process::{FileCall, Identity, Kind, Process, ReadCall};

use super::argv_files::ArgvFiles;
use super::directories::{Directories, Directory};
use super::own_bytes::OwnBytes;
use super::positionless::PositionlessDetector;
use super::sampled::SampledReads;
use super::times::{CpuIoTimes, Timed};
use crate::controller::LONG_READ_MIN_BYTES;

/// Threads of a process whose times are sampled. The remaining threads' times are left out.
const TIMED_THREADS_MAX: usize = 16;

/// Polling period of a program that has just begun or whose open files have changed.
const POLL_PERIOD_MIN: Nanos = Nanos(1_000_000);
/// Time after its start for which a program is polled at the shortest period.
const STARTUP_TIME: Nanos = Nanos(50_000_000);
/// Polling period of a program whose open files do not change; the period grows by half with each poll.
const POLL_PERIOD_MAX: Nanos = Nanos(50_000_000);

/// A followed process.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) process: Process,
    /// The parent, if that is followed as well.
    pub(super) parent: Option<u32>,
    /// For reopening its files.
    pub(super) shared: Arc<Process>,
    threads: BTreeMap<u32, Timed>,
    /// Times of threads that have ended.
    past: CpuIoTimes,
    spent: CpuIoTimes,
    /// CPU time of its busiest thread.
    busiest: Nanos,
    got: OwnBytes,
    /// Start of its current program.
    pub(super) begun: Nanos,
    incarnation: u64,
    /// All open files as of the last poll.
    files: BTreeMap<u32, Identity>,
    /// Files that it writes to, or has written to: they are not prefetched because of a name.
    written: Vec<Identity>,
    pub(super) directories: Directories,
    pub(super) argv_files: ArgvFiles,
    pub(super) discover_at: Nanos,
    pause: Nanos,
    pub(super) sampled: Nanos,
    /// Total bytes by which it has moved positions; page faults; and the signs derived from them.
    pub(super) moved: u64,
    pub(super) faults: u64,
    pub(super) signs: PositionlessDetector,
    /// Whether it reads without moving a position, in case this cannot be followed.
    pub(super) unseen: Unseen,
    /// Time of the next check of whether it may be followed.
    pub(super) scope_at: Nanos,
    /// Its reads at explicit offsets, if it seems to make any.
    pub(super) sampled_reads: Option<SampledReads>,
    /// The long reads at explicit offsets in which threads slept at some time, each with its descriptor.
    long_reads: (Nanos, Vec<(u32, Range<u64>)>),
}

/// Whether a program reads without moving a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unseen {
    /// No sign of it.
    No,
    /// The program waits and has data mapped, but may wait for other things. `mapped` is the number of file bytes
    /// mapped when that was observed.
    Perhaps { mapped: u64 },
    /// Certainly.
    Yes,
}

/// Result of a poll of a program's files.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Newly opened regular files and block devices, each with its descriptor number.
    pub(super) files: Vec<(u32, Identity)>,
    pub(super) children: Vec<u32>,
    /// Whether access to its files was denied.
    pub(super) refused: bool,
    /// Whether the process has executed another program.
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
            past: CpuIoTimes::default(),
            busiest: Nanos::ZERO,
            spent: CpuIoTimes::default(),
            got: OwnBytes::default(),
            begun: now,
            scope_at: now,
            incarnation: 0,
            files: BTreeMap::new(),
            written: Vec::new(),
            directories: Directories::default(),
            argv_files: ArgvFiles::default(),
            discover_at: now,
            pause: POLL_PERIOD_MIN,
            sampled: Nanos::ZERO,
            moved: 0,
            faults: 0,
            signs: PositionlessDetector::default(),
            unseen: Unseen::No,
            sampled_reads: None,
            long_reads: (Nanos::ZERO, Vec::new()),
        })
    }

    pub(super) fn number(&self) -> u32 {
        self.process.number()
    }

    pub(super) fn spent(&self) -> CpuIoTimes {
        self.spent
    }

    /// CPU time of its busiest thread; a lower bound of the program's elapsed time.
    pub(super) fn busiest(&self) -> Nanos {
        self.busiest
    }

    /// Returns whether it has just started.
    pub(super) fn is_young(&self, now: Nanos) -> bool {
        now.saturating_sub(self.begun) < STARTUP_TIME
    }

    /// Samples its times. Threads that have ended keep their last ones.
    pub(super) fn sample(&mut self, now: Nanos) {
        if self.sampled == now {
            return;
        }
        self.sampled = now;
        let (past, busiest) = (&mut self.past, &mut self.busiest);
        self.threads.retain(|_, timed| {
            let is_there = timed.sample(now).is_ok();
            *busiest = timed.cpu_time().max(*busiest);
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

    /// Finds newly opened files and children, and determines the time of the next poll.
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
            self.argv_files = ArgvFiles::of(&self.process);
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

    /// Schedules the next poll soon, because its open files have changed.
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

    /// Compares all descriptors, because a known number may refer to another file by now.
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

    /// Returns the requested bytes of an open file, if a thread sleeps in a read of it at its offset.
    pub(super) fn reads_from(&self, file: u32) -> Option<u64> {
        self.sleeping_reads().find(|call| call.file == file && call.offset.is_none()).map(|call| call.bytes)
    }

    /// Returns the ranges of an open file that threads request by long reads at explicit offsets in which they sleep.
    pub(super) fn long_reads_of(&mut self, file: u32, now: Nanos) -> Vec<Range<u64>> {
        /// Age up to which the calls need not be read again for another file.
        const CALLS_MAX_AGE: Nanos = Nanos(2_000_000);
        if now.saturating_sub(self.long_reads.0) >= CALLS_MAX_AGE {
            let calls = self.sleeping_reads().filter(|call| call.bytes >= LONG_READ_MIN_BYTES);
            let ranges = calls.filter_map(|call| {
                let offset = call.offset?;
                Some((call.file, offset..offset.saturating_add(call.bytes)))
            });
            self.long_reads = (now, ranges.collect());
        }
        let of_it = self.long_reads.1.iter().filter(|(number, _)| *number == file);
        of_it.map(|(_, range)| range.clone()).collect()
    }

    /// Returns the reads in which threads sleep.
    fn sleeping_reads(&self) -> impl Iterator<Item = ReadCall> {
        let asleep = self.threads.iter().filter(|(_, timed)| timed.waits());
        asleep.filter_map(|(&thread, _)| self.process.read_call(thread))
    }

    /// Returns the calls about files in which threads sleep.
    pub(super) fn sleeping_calls(&self) -> Vec<FileCall> {
        let asleep = self.threads.iter().filter(|(_, timed)| timed.waits());
        asleep.filter_map(|(&thread, _)| self.process.file_call(thread)).collect()
    }

    /// Samples the reads at explicit offsets in which its threads sleep. Returns the ranges that it has read, with their
    /// files as device and inode number.
    pub(super) fn sample_reads(&mut self) -> Vec<((u64, u64), Range<u64>)> {
        let received = self.spent.read.unwrap_or(0);
        let mut calls: Vec<(ReadCall, u64)> =
            self.sleeping_reads().filter_map(|call| Some((call, call.offset?))).collect();
        calls.sort_by_key(|&(_, offset)| offset);
        let Some(reads) = &mut self.sampled_reads else { return Vec::new() };
        let mut found = Vec::new();
        for &(call, offset) in &calls {
            let Some(identity) = self.files.get(&call.file) else { continue };
            let file = (identity.device, identity.inode);
            let ranges = reads.sleeps(file, offset, call.bytes, received);
            found.extend(ranges.into_iter().map(|range| (file, range)));
        }
        if calls.is_empty()
            && let Some((file, ranges)) = reads.runs(received)
        {
            found.extend(ranges.into_iter().map(|range| (file, range)));
        }
        if reads.is_sequential() {
            self.unseen = Unseen::No;
        }
        found
    }

    /// Records that it has a file open for writing.
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

    /// Returns the descriptor number under which it has a file open.
    pub(super) fn open_as(&self, device: u64, inode: u64) -> Option<(u32, Identity)> {
        let is_it = |identity: &Identity| (identity.device, identity.inode) == (device, inode);
        let found = self.files.iter().find(|(_, identity)| is_it(identity))?;
        self.process.identity(*found.0).ok().filter(is_it).map(|identity| (*found.0, identity))
    }

    /// Forgets the file open under this number, so that it is discovered again.
    pub(super) fn forget_file(&mut self, number: u32) {
        self.files.remove(&number);
    }
}
