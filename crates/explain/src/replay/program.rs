//! From a recording to the operations of a workload.

use std::collections::{BTreeMap, BTreeSet};

use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_scenario::workload::{Action, Caching, FileIndex, FileSetup, Setup, ThreadSetup};

use super::cores::FreeCores;
use super::{Operation, Program, WAIT_MIN};
use crate::recording::{AccessKind, FileAccess, RecordedThread, Recording, Span, ThreadState, Wait};

/// Largest part of consecutive accesses that is replayed at a time, in bytes, so that computing goes on between.
const PART_MAX_BYTES: u64 = 256 << 10;
/// Files from this size on are prefetched by the position of their reader, smaller ones by the order of their names.
const FOLLOWED_MIN_BYTES: u64 = 1 << 20;
/// Small files that a program loads before the order of their names is known.
const SMALL_FILES_MIN: usize = 16;
/// Share of a file that was loaded from which on a prefetcher reads it in order.
const DENSE_USE_RATIO: f64 = 0.5;
/// Page size of the replayed machine in bytes.
const PAGE_BYTES: u64 = 4096;

/// How a recording is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgramOptions {
    /// The file system that is replaced by the simulated storage. Waits for others last as long as they were recorded.
    pub device: u64,
    /// The time of opens, look-ups and listings that waited.
    pub metadata: MetadataCost,
    /// Factor of the recorded waits in writes, and for written data to be on storage.
    pub sync_ratio: f64,
    /// Whether files are prefetched, as by `sakiyomi run`: mappings by their touched pages, files of which a large part is
    /// read by the position of their reader.
    pub prefetches: bool,
    /// The files that are in the page cache before they are used.
    pub is_cached: IsCached,
    /// CPU time of a wait for storage that is part of the recorded computing.
    pub recorded_wait_cpu: Nanos,
    /// CPU time of a wait for the simulated storage.
    pub wait_cpu: Nanos,
    /// Whether waits for cores on which others served a wait for storage are part of that wait.
    pub keeps_served_waits: bool,
}

/// Files that are in the page cache before they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsCached {
    /// Those that were when the program was recorded.
    AsRecorded,
    /// Small ones as well, as where `sakiyomi run` knows their order.
    SmallFiles,
    /// All, as where `sakiyomi run` has learned them and loads them faster than they are used.
    Everything,
}

/// The time of an open, look-up or listing that waited for storage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetadataCost {
    /// As long as it was recorded.
    Recorded,
    /// The same time for each.
    Each(Nanos),
    /// A share of the recorded time.
    Share(f64),
    /// A share of the recorded time, if that was at least `wait_min`: shorter waits are for the server of a file system and
    /// not for its storage, and last as long as they did.
    StorageShare {
        /// The share.
        share: f64,
        /// The shortest wait for storage.
        wait_min: Nanos,
    },
}

impl Program {
    /// Makes a workload of a recording.
    #[must_use]
    pub fn new(recording: &Recording, options: &ProgramOptions) -> Program {
        let files = Files::of(recording, options);
        let splits = wake_times(recording);
        let free_cores = FreeCores::of(recording);
        let mut threads: Vec<Timed> = recording
            .threads
            .iter()
            .zip(&splits)
            .enumerate()
            .map(|(number, (thread, splits))| {
                let opened = files.opened[number].clone();
                let streams = BTreeMap::new();
                let operations = Timed::default();
                let builder = Builder {
                    files: &files,
                    free_cores: &free_cores,
                    options,
                    opened,
                    streams,
                    wait_cpu_left: Nanos::ZERO,
                    operations,
                };
                builder.build(thread, splits)
            })
            .collect();
        resolve(&mut threads);
        let setup = Setup {
            name: recording.program.first().cloned().unwrap_or_default(),
            files: files.setups,
            threads: vec![ThreadSetup::default(); threads.len()],
            rate: None,
            is_background: false,
        };
        let threads = threads.into_iter().map(|timed| timed.operations).collect();
        Program { setup, threads }
    }
}

/// The operations of a thread, with the recorded time at which each was complete.
#[derive(Debug, Default)]
struct Timed {
    operations: Vec<Operation>,
    ended: Vec<Nanos>,
    /// Waits for another thread: index of the operation, the other thread, and the recorded time.
    waits: Vec<(usize, usize, Nanos)>,
}

/// Sets the operations for which threads wait, from the times at which they were woken.
fn resolve(threads: &mut [Timed]) {
    for thread in 0..threads.len() {
        for (index, other, at) in std::mem::take(&mut threads[thread].waits) {
            let operations = threads[other].ended.partition_point(|&ended| ended <= at);
            threads[thread].operations[index] = Operation::Await { thread: other, operations };
        }
    }
}

/// Returns for each thread the times at which it woke or started another.
fn wake_times(recording: &Recording) -> Vec<BTreeSet<Nanos>> {
    let mut times = vec![BTreeSet::new(); recording.threads.len()];
    for thread in &recording.threads {
        if let Some(parent) = thread.parent {
            times[parent.0].insert(thread.begun_ns);
        }
        for span in &thread.spans {
            if let ThreadState::Waiting { woken_by: Some(by), .. } = span.state {
                times[by.0].insert(span.ended_ns);
            }
        }
    }
    times
}

/// The files of the simulated storage.
pub(super) struct Files {
    pub(super) setups: Vec<FileSetup>,
    /// For each thread, the files that it uses first.
    opened: Vec<BTreeSet<FileIndex>>,
    pub(super) index: BTreeMap<usize, FileIndex>,
    /// Files of which a large part is used.
    dense: BTreeSet<FileIndex>,
    /// Written data of which the file is not known.
    scratch: FileIndex,
    scratch_bytes: u64,
}

impl Files {
    pub(super) fn of(recording: &Recording, options: &ProgramOptions) -> Files {
        #[derive(Default)]
        struct Use {
            end: u64,
            used: u64,
            loaded: u64,
            written: u64,
        }
        let mut uses: BTreeMap<usize, Use> = BTreeMap::new();
        let mut unknown = 0;
        for access in recording.threads.iter().flat_map(|thread| &thread.accesses) {
            let Some(file) = access.file else {
                unknown += access.length;
                continue;
            };
            let entry = uses.entry(file.0).or_default();
            let end = access.offset.saturating_add(access.length);
            if access.kind == AccessKind::Write {
                entry.written = entry.written.max(end);
                continue;
            }
            // A read may ask for more than the file has.
            let size = recording.files.get(file.0).and_then(|file| file.size_bytes);
            let end = size.map_or(end, |size| end.min(size));
            entry.end = entry.end.max(end);
            entry.used += end.saturating_sub(access.offset);
            entry.loaded += access.loaded_bytes;
        }
        let small_files = uses.values().filter(|of| of.loaded > 0 && of.end < FOLLOWED_MIN_BYTES).count();
        let mut files = Files {
            setups: Vec::new(),
            opened: vec![BTreeSet::new(); recording.threads.len()],
            index: BTreeMap::new(),
            dense: BTreeSet::new(),
            scratch: FileIndex(0),
            scratch_bytes: 0,
        };
        for (file, Use { end, used, loaded, written }) in uses {
            if recording.files.get(file).is_none_or(|file| file.device != options.device) {
                continue;
            }
            let size = recording.files[file].size_bytes.unwrap_or(end).max(end).max(written).max(1);
            // Read-ahead may load more than is used, and what is in the cache at the begin is not loaded.
            let is_cold = loaded * 2 >= used.min(size);
            let is_small = size < FOLLOWED_MIN_BYTES;
            let is_prefetched = match options.is_cached {
                IsCached::AsRecorded => false,
                IsCached::SmallFiles => is_small && small_files >= SMALL_FILES_MIN,
                IsCached::Everything => true,
            };
            if loaded as f64 >= DENSE_USE_RATIO * size as f64 {
                files.dense.insert(FileIndex(files.setups.len()));
            }
            files.index.insert(file, FileIndex(files.setups.len()));
            files.setups.push(FileSetup {
                size: Bytes(size.next_multiple_of(PAGE_BYTES)),
                place: None,
                pieces: None,
                caching: if is_cold && !is_prefetched { Caching::Cold } else { Caching::Resident },
                is_followed: used >= FOLLOWED_MIN_BYTES,
                is_sequential: recording.files[file].is_sequential,
            });
        }
        let mut first: BTreeMap<FileIndex, (Nanos, usize)> = BTreeMap::new();
        for (number, thread) in recording.threads.iter().enumerate() {
            let opens = |access: &&FileAccess| {
                access.kind == AccessKind::Read || options.prefetches && access.kind == AccessKind::Mapping
            };
            for access in thread.accesses.iter().filter(opens) {
                let Some(&file) = access.file.and_then(|file| files.index.get(&file.0)) else { continue };
                let begun = (access.begun_ns, number);
                first.entry(file).and_modify(|first| *first = begun.min(*first)).or_insert(begun);
            }
        }
        for (file, (_, thread)) in first {
            files.opened[thread].insert(file);
        }
        files.scratch = FileIndex(files.setups.len());
        files.scratch_bytes = unknown.max(1).next_multiple_of(PAGE_BYTES);
        files.setups.push(FileSetup { size: Bytes(files.scratch_bytes), ..FileSetup::default() });
        files
    }

    pub(super) fn size(&self, file: FileIndex) -> u64 {
        self.setups[file.0].size.0
    }
}

struct Builder<'a> {
    files: &'a Files,
    free_cores: &'a FreeCores,
    options: &'a ProgramOptions,
    /// Files that are not open yet.
    opened: BTreeSet<FileIndex>,
    /// Of each file that is prefetched by the position of its reader.
    streams: BTreeMap<FileIndex, Streams>,
    /// CPU time of the last wait, which is still to be taken from the recorded computing.
    wait_cpu_left: Nanos,
    operations: Timed,
}

impl MetadataCost {
    /// Returns the time of one that was recorded with this time.
    fn of(self, recorded: Nanos) -> Nanos {
        match self {
            MetadataCost::Recorded => recorded,
            MetadataCost::Each(time) => time,
            MetadataCost::StorageShare { wait_min, .. } if recorded < wait_min => recorded,
            MetadataCost::Share(share) | MetadataCost::StorageShare { share, .. } => {
                Nanos((recorded.0 as f64 * share) as u64)
            }
        }
    }
}

/// Returns the wait for storage that other programs served on the core for which a thread waited in this span, such as the
/// server of a file system in user space; `None` if they computed for themselves.
fn served_wait(spans: &[Span], index: usize) -> Option<Wait> {
    /// The longest wait for a core that a server of storage causes. Programs that compute have their cores for longer.
    const SERVICE_MAX: Nanos = Nanos(1_000_000);
    /// The longest computing between a wait for storage and one for a core that belongs to it: the rest of the call.
    const CALL_MAX: Nanos = Nanos(100_000);
    /// Parts in which such a call computes and waits for a core.
    const CALL_SPANS_MAX: usize = 16;
    let length = |span: &Span| span.ended_ns.saturating_sub(span.begun_ns);
    if length(&spans[index]) > SERVICE_MAX {
        return None;
    }
    let is_rest = |span: &&Span| match span.state {
        ThreadState::Computing => length(span) <= CALL_MAX,
        ThreadState::AwaitingCore => true,
        ThreadState::Waiting { .. } => false,
    };
    let wait_of = |span: Option<&Span>| match span?.state {
        ThreadState::Waiting { wait, .. } if wait.is_for_storage() => Some(wait),
        _ => None,
    };
    let before = spans[..index].iter().rev().take(CALL_SPANS_MAX).find(|span| !is_rest(span));
    let after = spans[index + 1..].iter().take(CALL_SPANS_MAX).find(|span| !is_rest(span));
    wait_of(before).or_else(|| wait_of(after))
}

/// The places of a file, which is prefetched, where a thread reads on from access to access.
#[derive(Debug, Default)]
struct Streams {
    /// The last used one first.
    streams: Vec<Stream>,
}

/// A part of a file that is read from its first byte on, in bytes.
#[derive(Clone, Copy, Debug)]
struct Stream {
    begun: u64,
    /// End of what was read.
    read: u64,
    /// End of what was loaded for it.
    loaded: u64,
}

/// An access of a stream, in bytes.
#[derive(Clone, Copy, Debug)]
struct Advance {
    start: u64,
    length: u64,
    /// Whether the prefetcher stays where another stream is.
    is_stray: bool,
}

impl Streams {
    /// Streams of a file at a time.
    const STREAMS_MAX: usize = 8;
    /// Bytes that a place must advance until a prefetcher follows it beside the first one, as in `sakiyomi run`.
    const FOLLOWED_MIN_BYTES: u64 = 128 << 10;

    /// Goes on to an access for which `loaded` bytes were loaded; returns what is read, or `None` if all of it was read
    /// before. An access to a mapping is recorded only where its page was not loaded, so that pages before it that were
    /// loaded were read as well.
    fn advance(&mut self, start: u64, length: u64, loaded: u64) -> Option<Advance> {
        let end = start + length;
        let known = self.streams.iter().position(|stream| (stream.begun..=stream.loaded).contains(&start));
        let mut stream = match known {
            Some(known) => self.streams.remove(known),
            None => Stream { begun: start, read: start, loaded: start },
        };
        let from = stream.read;
        stream.read = stream.read.max(end);
        let is_stray = !self.streams.is_empty() && stream.read - stream.begun < Self::FOLLOWED_MIN_BYTES;
        stream.loaded = stream.loaded.max(stream.read) + loaded;
        self.streams.truncate(Self::STREAMS_MAX - 1);
        self.streams.insert(0, stream);
        (end > from).then(|| Advance { start: from, length: end - from, is_stray })
    }
}

/// Share of a limited wait for another thread that the thread may compute after it, if it only looks whether to wait again.
const POLL_WORK_RATIO: f64 = 0.1;

/// Returns for each span whether it is a limited wait that the thread repeated until another thread woke it.
fn polls(spans: &[Span]) -> Vec<bool> {
    let mut polls = vec![false; spans.len()];
    let (mut is_woken_next, mut computed) = (false, Nanos::ZERO);
    for (span, is_poll) in spans.iter().zip(&mut polls).rev() {
        let length = span.ended_ns.saturating_sub(span.begun_ns);
        match span.state {
            ThreadState::Computing => computed += length,
            ThreadState::AwaitingCore => {}
            ThreadState::Waiting { wait: Wait::Timeout, .. } => {
                *is_poll = is_woken_next && computed.0 as f64 <= POLL_WORK_RATIO * length.0 as f64;
                (is_woken_next, computed) = (*is_poll, Nanos::ZERO);
            }
            ThreadState::Waiting { wait, woken_by } => {
                (is_woken_next, computed) = (wait.is_for_others() && woken_by.is_some(), Nanos::ZERO);
            }
        }
    }
    polls
}

impl Builder<'_> {
    fn build(mut self, thread: &RecordedThread, wakes: &BTreeSet<Nanos>) -> Timed {
        if let Some(parent) = thread.parent {
            self.wait_for(parent.0, thread.begun_ns);
        }
        let mut accesses = thread.accesses.iter().peekable();
        for (index, (span, is_poll)) in thread.spans.iter().zip(polls(&thread.spans)).enumerate() {
            let is_computing = span.state == ThreadState::Computing;
            let mut at = span.begun_ns;
            // The accesses that begin in it: computing goes on after each.
            while let Some(access) = accesses.next_if(|access| access.begun_ns < span.ended_ns) {
                if is_computing {
                    self.compute(at, access.begun_ns, wakes);
                }
                at = at.max(access.begun_ns);
                let ended = access.ended_ns.min(span.ended_ns).max(at);
                let computing = if is_computing { ended.saturating_sub(at) } else { Nanos::ZERO };
                self.access(access, computing, at);
                at = ended;
            }
            match span.state {
                ThreadState::Computing => self.compute(at, span.ended_ns, wakes),
                // The replay makes threads wait for each other; what other programs used stays used.
                ThreadState::AwaitingCore => {
                    let used_by_others = self.free_cores.between(span.begun_ns, span.ended_ns);
                    self.await_core(used_by_others, served_wait(&thread.spans, index), span.ended_ns);
                }
                // It lasts until the thread for which it waits is as far.
                ThreadState::Waiting { .. } if is_poll => {}
                ThreadState::Waiting { wait, woken_by } => {
                    self.wait(span, wait, woken_by.map(|thread| thread.0));
                }
            }
        }
        accesses.for_each(|access| self.access(access, Nanos::ZERO, access.begun_ns));
        self.operations
    }

    fn push(&mut self, action: Action, ended: Nanos) {
        self.push_operation(Operation::Act(action), ended);
    }

    fn push_operation(&mut self, operation: Operation, ended: Nanos) {
        self.operations.operations.push(operation);
        let before = self.operations.ended.last().copied().unwrap_or_default();
        self.operations.ended.push(ended.max(before));
    }

    fn compute(&mut self, from: Nanos, to: Nanos, wakes: &BTreeSet<Nanos>) {
        let mut from = from;
        if from >= to {
            return;
        }
        for &wake in wakes.range(from..to).chain([&to]) {
            self.compute_for(wake.saturating_sub(from), wake);
            from = wake;
        }
    }

    /// Computes as long as it was recorded, less what belongs to the wait before.
    fn compute_for(&mut self, time: Nanos, ended: Nanos) {
        let of_wait = self.wait_cpu_left.min(time);
        self.wait_cpu_left -= of_wait;
        let time = time - of_wait;
        if !time.is_zero() {
            self.push(compute(time), ended);
        }
    }

    fn pause(&mut self, length: Nanos, ended: Nanos) {
        if !length.is_zero() {
            self.push(Action::Pause { length }, ended);
        }
    }

    /// Waits for a core that other programs use: to serve a wait for storage that came before or after, or for themselves.
    fn await_core(&mut self, length: Nanos, served: Option<Wait>, ended: Nanos) {
        match served {
            _ if length.is_zero() => {}
            Some(Wait::Metadata) => self.pause(self.options.metadata.of(length).min(length), ended),
            Some(_) if self.options.keeps_served_waits => {
                self.push_operation(Operation::IfWaited(Action::Pause { length }), ended);
            }
            Some(_) => {}
            None => self.pause(length, ended),
        }
    }

    fn wait_for(&mut self, thread: usize, at: Nanos) {
        let Timed { operations, ended, waits } = &mut self.operations;
        waits.push((operations.len(), thread, at));
        operations.push(Operation::Await { thread, operations: 0 });
        ended.push(at.max(ended.last().copied().unwrap_or_default()));
    }

    fn wait(&mut self, span: &Span, wait: Wait, woken_by: Option<usize>) {
        let length = span.ended_ns.saturating_sub(span.begun_ns);
        let is_replaced = |file: crate::recording::FileIndex| self.files.index.contains_key(&file.0);
        match (wait, woken_by) {
            (wait, Some(thread)) if wait.is_for_others() => self.wait_for(thread, span.ended_ns),
            // The simulated storage decides.
            (Wait::Read { file, .. } | Wait::Mapping { file }, _) if is_replaced(file) => {
                self.wait_cpu_left = self.options.recorded_wait_cpu;
            }
            (Wait::WriteBack, _) => {}
            (Wait::Metadata, _) => {
                let length = self.options.metadata.of(length);
                self.pause(length, span.ended_ns);
                self.wait_cpu_left = self.options.recorded_wait_cpu;
                if length >= WAIT_MIN {
                    self.push(compute(self.options.wait_cpu), span.ended_ns);
                }
            }
            // Simulated writes wait only for write-back. A file system may write through, as those of FUSE do.
            (Wait::Sync { .. } | Wait::Write { .. }, _) => {
                self.pause(Nanos((length.0 as f64 * self.options.sync_ratio) as u64), span.ended_ns);
            }
            _ => self.pause(length, span.ended_ns),
        }
    }

    /// Adds an access in which the thread computed for `computing` between its calls.
    fn access(&mut self, access: &FileAccess, computing: Nanos, at: Nanos) {
        let known = access.file.map(|file| self.files.index.get(&file.0).copied());
        let (file, size) = match known {
            Some(Some(file)) if access.kind.has_data() => (file, self.files.size(file)),
            None if access.kind == AccessKind::Write => (self.files.scratch, self.files.scratch_bytes),
            // On other storage, or without data: the waits are recorded.
            _ => return self.compute_for(computing, at),
        };
        let mut start = access.offset.min(size - 1);
        let mut length = access.length.min(size - start);
        if length == 0 {
            return self.compute_for(computing, at);
        }
        // A prefetcher follows the reader: data behind it is in the page cache, and a mapping is followed like reads.
        let is_followed =
            self.options.prefetches && self.files.dense.contains(&file) && access.kind != AccessKind::Write;
        let mut kind = access.kind;
        if is_followed {
            let streams = self.streams.entry(file).or_default();
            let Some(advance) = streams.advance(start, length, access.loaded_bytes) else {
                return self.compute_for(computing, at);
            };
            (start, length) = (advance.start, advance.length);
            // Accesses to a mapping leave the position alone.
            kind = if advance.is_stray { AccessKind::Mapping } else { AccessKind::Read };
        }
        if kind == AccessKind::Read && self.opened.remove(&file) {
            self.push(Action::Open { file }, at);
        }
        let parts = access.calls.min(length.div_ceil(PART_MAX_BYTES)).max(1);
        let part = length.div_ceil(parts).next_multiple_of(PAGE_BYTES);
        let mut from = start;
        while from < start + length {
            let to = (from + part).min(start + length);
            self.push(action_of(kind, file, from, to), at);
            if kind != AccessKind::Write {
                self.push_operation(Operation::IfWaited(compute(self.options.wait_cpu)), at);
            }
            let share = computing.0 as u128 * u128::from(to - from) / u128::from(length);
            self.compute_for(Nanos(share as u64), at);
            from = to;
        }
    }
}

/// Returns the action of computing for a time.
fn compute(time: Nanos) -> Action {
    Action::Compute { time, core: None, from: None }
}

/// Returns the action of an access to the bytes `from` to `to`.
fn action_of(kind: AccessKind, file: FileIndex, from: u64, to: u64) -> Action {
    match kind {
        AccessKind::Mapping => Action::Touch { file, at: from, end: to },
        AccessKind::Write => Action::Write { file, at: from, length: to - from },
        _ => Action::Read { file, at: from, length: to - from, is_partial: false },
    }
}
