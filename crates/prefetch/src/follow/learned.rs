//! Learned starts: files and look-ups that a program waited for are recorded, and prefetched at its next start.
//!
//! ```text
//! calls in which threads sleep ─┐
//! newly opened files ───────────┼─► Recorder ──► examine ──► entries of a Profile
//! mapped files ─────────────────┘
//! Profile ──► Replay ──► fetcher: look up, open, list, read ahead
//! ```
//!
//! A look-up or read that waits for slow storage sleeps for milliseconds, so samples of the system calls in which threads
//! sleep see nearly all of them, without tracing and without root; those that are not seen cost little. Files on devices
//! on which nothing was seen to wait are left out.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sakiyomi_io::page_cache;
use sakiyomi_model::Nanos;
use sakiyomi_os::cpu;
use sakiyomi_os::process::{FileCall, entries, open_directory, open_regular};

use super::{Follower, nanos};
use crate::cached_file::CachedFile;
use crate::fetcher::{Fetcher, Job};
use crate::profile::{self, ENTRIES_MAX, Entry, Found, Profile, Replay};

/// Concurrent look-ups and reads; few file systems serve more in parallel.
const FETCHES_MAX: usize = 48;

/// Time between two samples of the calls in which threads sleep.
const SAMPLE_PERIOD: Nanos = Nanos(1_000_000);
/// Time without a new path after which sampling slows down.
const START_TIME: Nanos = Nanos(2_000_000_000);
/// Sampling period after that.
const LATE_SAMPLE_PERIOD: Nanos = Nanos(10_000_000);

/// Bytes of a file from its beginning that are recorded: the rest of a large file is read ahead while it is read.
const FILE_MAX_BYTES: u64 = 32 << 20;
/// Where residency is not reported, files up to this size are recorded as a whole.
const WHOLE_FILE_MAX_BYTES: u64 = 4 << 20;
/// Parts of a file whose residency is queried.
const PART_MIN_BYTES: u64 = 128 << 10;

/// Minimum number of paths with an observed wait for a profile to be saved.
const LEARNED_PATHS_MIN: usize = 16;
/// Minimum I/O wait for a profile to be saved.
const LEARNED_WAIT_MIN: Nanos = Nanos(300_000_000);

/// Longest duration of a look-up that the kernel answers from its cache.
const CACHED_LOOKUP_MAX: Duration = Duration::from_micros(300);
/// Time limit for examining the recorded files, after the program has ended.
const EXAMINATION_TIMEOUT: Duration = Duration::from_secs(2);

/// When to record the start of a program, and to replay what was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Learning {
    /// Record if the program waits for many files.
    #[default]
    Auto,
    /// Always record.
    Always,
    /// Neither recorded nor replayed.
    Never,
}

/// The result of learning: the profile for the next run, and the effect of the previous profile on this run.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// The profile with what this run added; `None` if there is nothing to save.
    pub profile: Option<Profile>,
    /// Entries that were fetched ahead.
    pub replayed_entries: u64,
    /// Bytes that were fetched ahead and were not in memory.
    pub replayed_bytes: u64,
    /// Reduction of the I/O wait against the last run without a replay; `None` if unknown.
    pub hidden: Option<Nanos>,
}

/// Recording and replay of the followed programs.
pub(super) struct Learner {
    learning: Learning,
    profile: Profile,
    replay: Option<Replay>,
    recorder: Recorder,
    fetcher: Fetcher<ReplayFetch>,
    replies: Vec<Replayed>,
    in_flight: usize,
    /// Entries found to be outdated.
    outdated: BTreeSet<usize>,
    /// Paths that were read from storage ahead of the programs.
    fetched: Vec<PathBuf>,
    replayed_entries: u64,
    replayed_bytes: u64,
    sample_at: Nanos,
}

/// Paths in order of first use.
#[derive(Debug, Default)]
struct Recorder {
    paths: Vec<PathBuf>,
    known: HashMap<PathBuf, usize>,
    /// Ranges that were read while a thread slept, by path.
    ranges: HashMap<usize, Vec<Range<u64>>>,
    /// Paths for which a sleeping call was observed.
    io_wait: BTreeSet<usize>,
    last_new: Nanos,
    /// Time of the last sample with a sleeping thread.
    slept_at: Nanos,
}

struct ReplayFetch {
    index: usize,
    entry: Entry,
}

struct Replayed {
    index: usize,
    bytes: u64,
    is_outdated: bool,
}

impl Job for ReplayFetch {
    type Reply = Replayed;

    fn turn(&self) -> Option<u32> {
        None
    }

    fn carry_out(self) -> (Replayed, Option<ReplayFetch>) {
        let index = self.index;
        let (bytes, is_outdated) = fetch(&self.entry).unwrap_or((0, true));
        (Replayed { index, bytes, is_outdated }, None)
    }
}

/// Fetches an entry; returns the bytes that were not in memory, and whether the entry is outdated.
fn fetch(entry: &Entry) -> io::Result<(u64, bool)> {
    match &entry.found {
        Found::Missing => Ok((0, std::fs::symlink_metadata(&entry.path).is_ok())),
        Found::Directory => {
            let directory = open_directory(&entry.path)?;
            entries(&directory)?;
            Ok((0, false))
        }
        Found::File { ranges, .. } if ranges.is_empty() => {
            std::fs::metadata(&entry.path)?;
            Ok((0, false))
        }
        Found::File { inode, size_bytes, modified_ns, ranges } => {
            let (file, about) = open_regular(&entry.path)?;
            if (about.ino(), about.len(), modified(&about)) != (*inode, *size_bytes, *modified_ns) {
                return Ok((0, true));
            }
            let file = CachedFile::new(file);
            let bytes = ranges.iter().map(|range| file.load_and_wait(range).bytes).sum();
            Ok((bytes, false))
        }
    }
}

fn modified(about: &std::fs::Metadata) -> i64 {
    about.mtime().saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec())
}

impl Recorder {
    /// Records the use of a path; returns its number.
    fn note(&mut self, path: PathBuf, now: Nanos) -> Option<usize> {
        if let Some(&number) = self.known.get(&path) {
            return Some(number);
        }
        let is_system = ["/proc", "/sys", "/dev"].iter().any(|system| path.starts_with(system));
        if is_system || !path.is_absolute() || path.to_str().is_none() || self.paths.len() >= ENTRIES_MAX {
            return None;
        }
        let number = self.paths.len();
        self.known.insert(path.clone(), number);
        self.paths.push(path);
        self.last_new = now;
        Some(number)
    }

    fn note_range(&mut self, number: usize, range: Range<u64>) {
        /// Ranges of a file that are remembered.
        const RANGES_MAX: usize = 4096;
        let ranges = self.ranges.entry(number).or_default();
        if ranges.last() != Some(&range) && ranges.len() < RANGES_MAX {
            ranges.push(range);
        }
    }

    /// Examines what was recorded, with several threads within a time limit. Of paths in `known`, only those are examined
    /// again in which a thread slept: the other cached data may have been fetched by the replay.
    fn examine(&self, known: &HashSet<&Path>) -> Vec<Entry> {
        let begun = Instant::now();
        let next = AtomicUsize::new(0);
        let examined: Vec<Vec<(usize, Examined)>> = thread::scope(|scope| {
            let work = || {
                let mut found = Vec::new();
                while begun.elapsed() < EXAMINATION_TIMEOUT {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(path) = self.paths.get(number) else { break };
                    if known.contains(path.as_path()) && !self.io_wait.contains(&number) {
                        continue;
                    }
                    let ranges = self.ranges.get(&number).cloned().unwrap_or_default();
                    found.extend(examine(path, ranges).map(|examined| (number, examined)));
                }
                found
            };
            let threads: Vec<_> = (0..FETCHES_MAX.min(self.paths.len())).map(|_| scope.spawn(work)).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let examined: BTreeMap<usize, Examined> = examined.into_iter().flatten().collect();
        let slow: BTreeSet<u64> =
            self.io_wait.iter().filter_map(|number| examined.get(number)?.device).collect();
        examined
            .into_iter()
            .filter(|(_, examined)| examined.device.is_none_or(|device| slow.contains(&device)))
            .map(|(number, examined)| Entry::new(self.paths[number].clone(), examined.found))
            .collect()
    }
}

/// A path that was examined.
struct Examined {
    /// Its device, if it exists.
    device: Option<u64>,
    found: Found,
}

/// Examines a path of which these ranges were read; `None` if a replay would be of no use.
fn examine(path: &Path, seen: Vec<Range<u64>>) -> Option<Examined> {
    let about = match std::fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Without its directory, the whole tree is gone, as after an unmount.
            std::fs::metadata(path.parent()?).ok()?;
            let since = Instant::now();
            let is_missing = std::fs::metadata(path).is_err();
            let is_cached = since.elapsed() < CACHED_LOOKUP_MAX;
            return (is_missing && is_cached).then_some(Examined { device: None, found: Found::Missing });
        }
        Err(_) => return None,
    };
    let found = match () {
        () if about.is_dir() => Found::Directory,
        () if about.is_file() => Found::File {
            inode: about.ino(),
            size_bytes: about.len(),
            modified_ns: modified(&about),
            ranges: read_ranges(path, about.len(), seen),
        },
        () => return None,
    };
    Some(Examined { device: Some(about.dev()), found })
}

/// Returns the ranges of a file that the program read: the cached ranges or, if residency is not reported, the ranges of
/// sampled reads.
fn read_ranges(path: &Path, size: u64, seen: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let limit = size.min(FILE_MAX_BYTES);
    let Ok((file, _)) = open_regular(path) else { return Vec::new() };
    /// Queries of the residency of a file.
    const PARTS_MAX: u64 = 256;
    let part = (limit / PARTS_MAX).next_multiple_of(4096).max(PART_MIN_BYTES);
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < limit {
        let range = at..limit.min(at + part);
        match page_cache::residency(&file, range.clone()) {
            Ok(found) if 2 * found.cached >= found.pages => ranges.push(range),
            Ok(_) => {}
            Err(_) if size <= WHOLE_FILE_MAX_BYTES => {
                ranges = std::iter::once(0..size).collect();
                break;
            }
            Err(_) => {
                ranges = seen.into_iter().map(|range| range.start.min(limit)..range.end.min(limit)).collect();
                break;
            }
        }
        at += part;
    }
    profile::joined(ranges)
}

impl Learner {
    pub(super) fn new(learning: Learning, profile: Profile) -> Learner {
        let is_replayed = learning != Learning::Never && !profile.entries.is_empty();
        Learner {
            learning,
            replay: is_replayed.then(|| Replay::new(&profile)),
            profile,
            recorder: Recorder::default(),
            fetcher: Fetcher::new(FETCHES_MAX),
            replies: Vec::new(),
            in_flight: 0,
            outdated: BTreeSet::new(),
            fetched: Vec::new(),
            replayed_entries: 0,
            replayed_bytes: 0,
            sample_at: Nanos::ZERO,
        }
    }

    /// Returns whether there is a reply for which the polling thread was woken.
    pub(super) fn has_replies(&self) -> bool {
        self.fetcher.has_urgent()
    }

    /// Returns when the next sample is due; `None` if nothing is recorded.
    pub(super) fn due(&self) -> Option<Nanos> {
        (self.learning != Learning::Never).then_some(self.sample_at)
    }

    /// Returns whether a start is being recorded: paths are new, and threads sleep.
    pub(super) fn is_recording(&self, now: Nanos) -> bool {
        /// Time after which a sleep does not count as recent.
        const SLEEP_RECENT_TIME: Nanos = Nanos(50_000_000);
        self.learning != Learning::Never
            && now.saturating_sub(self.recorder.last_new) < START_TIME
            && now.saturating_sub(self.recorder.slept_at) < SLEEP_RECENT_TIME
    }

    /// Sets the time of the next sample, if one was due and took `took`.
    fn rest(&mut self, now: Nanos, took: Nanos) {
        /// Ratios of rest to sampling time: while a start is recorded, and otherwise.
        const SAMPLE_REST_FACTORS: (u64, u64) = (10, 60);
        if now < self.sample_at {
            return;
        }
        let is_early = now.saturating_sub(self.recorder.last_new) < START_TIME;
        let period = if is_early { SAMPLE_PERIOD } else { LATE_SAMPLE_PERIOD };
        let factor = if self.is_recording(now) { SAMPLE_REST_FACTORS.0 } else { SAMPLE_REST_FACTORS.1 };
        self.sample_at = now + period.max(took * factor);
    }

    /// Records that a program has a file open or mapped.
    pub(super) fn note(&mut self, path: PathBuf, now: Nanos) {
        if self.learning == Learning::Never {
            return;
        }
        if let Some(replay) = &mut self.replay {
            replay.reach(&path);
        }
        self.recorder.note(path, now);
    }

    fn note_waiting(&mut self, path: PathBuf, range: Option<Range<u64>>, now: Nanos) {
        if let Some(replay) = &mut self.replay {
            replay.reach(&path);
        }
        self.recorder.slept_at = now;
        let Some(number) = self.recorder.note(path, now) else { return };
        self.recorder.io_wait.insert(number);
        if let Some(range) = range {
            self.recorder.note_range(number, range);
        }
    }

    /// Fetches ahead of the program, at most `budget` bytes.
    fn fetch(&mut self, budget: u64) {
        let mut replies = std::mem::take(&mut self.replies);
        self.fetcher.take(&mut replies);
        for Replayed { index, bytes, is_outdated } in replies.drain(..) {
            self.in_flight = self.in_flight.saturating_sub(1);
            self.replayed_entries += 1;
            self.replayed_bytes += bytes;
            if bytes > 0 {
                self.fetched.extend(self.profile.entries.get(index).map(|entry| entry.path.clone()));
            }
            if is_outdated {
                self.outdated.insert(index);
            }
        }
        self.replies = replies;
        let Some(replay) = &mut self.replay else { return };
        while self.in_flight < FETCHES_MAX {
            let Some((index, entry)) = replay.next_fetch(budget) else { break };
            self.in_flight += usize::from(self.fetcher.start(ReplayFetch { index, entry }));
        }
    }

    /// Ends recording; returns what was learned. `io_wait` is the time that the programs waited for I/O, `is_whole`
    /// whether they have ended.
    pub(super) fn finish(mut self, io_wait: Nanos, is_whole: bool) -> Learned {
        self.fetch(0);
        let mut learned = Learned {
            profile: None,
            replayed_entries: self.replayed_entries,
            replayed_bytes: self.replayed_bytes,
            hidden: None,
        };
        if self.replayed_bytes > 0 && self.profile.io_wait_ns > 0 {
            learned.hidden = Some(Nanos(self.profile.io_wait_ns).saturating_sub(io_wait));
        }
        let is_worth_it = self.recorder.io_wait.len() >= LEARNED_PATHS_MIN && io_wait >= LEARNED_WAIT_MIN;
        let is_recorded = match self.learning {
            Learning::Never => false,
            Learning::Always => !self.recorder.io_wait.is_empty(),
            Learning::Auto => is_worth_it,
        };
        let outdated: Vec<usize> = self.outdated.iter().copied().collect();
        self.profile.remove(&outdated);
        let seen = self.recorder.paths.iter().map(PathBuf::as_path);
        let fetched = self.fetched.iter().map(PathBuf::as_path).collect();
        let has_changed = is_whole && self.profile.note_use(&fetched, seen);
        if !is_recorded && outdated.is_empty() && !has_changed {
            return learned;
        }
        if self.replayed_entries == 0 {
            self.profile.io_wait_ns = io_wait.0;
        }
        if is_recorded {
            let known = self.profile.entries.iter().map(|entry| entry.path.as_path()).collect();
            let run = self.recorder.examine(&known);
            self.profile.merge(run);
        }
        learned.profile = Some(self.profile);
        learned
    }
}

impl Follower {
    /// Samples the calls in which threads sleep, and fetches ahead by the profile.
    pub(super) fn learn(&mut self, now: Nanos) {
        if self.learner.learning == Learning::Never {
            return;
        }
        let begun = cpu::of_this_thread();
        if now >= self.learner.sample_at {
            for program in self.programs.values_mut() {
                program.sample(now);
                for call in program.sleeping_calls() {
                    let (path, range) = match &call {
                        FileCall::Path { .. } => (call.path(), None),
                        FileCall::List(directory) => (program.process.name_of(*directory).ok(), None),
                        FileCall::Read(read) => {
                            let range = read.offset.map(|offset| offset..offset.saturating_add(read.bytes));
                            (program.process.name_of(read.file).ok(), range)
                        }
                    };
                    if let Some(path) = path {
                        self.learner.note_waiting(path, range, now);
                    }
                }
            }
        }
        if !self.options.watch_only {
            self.learner.fetch(self.controller.memory_left());
        }
        let took = cpu::of_this_thread().saturating_sub(begun);
        self.apart += took;
        self.learner.rest(now, nanos(took));
    }
}
