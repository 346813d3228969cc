//! One program's progress through a file, or through several consecutive files.

mod files;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use sakiyomi_io::page_cache;
use sakiyomi_model::Nanos;
use sakiyomi_os::process::{Descriptor, Identity};

use super::blocking_job::Piece;
use super::file_predictor::FilePredictor;
use super::file_sequence::FileSequence;
use super::handle::{Handle, Place};
use super::program::Program;
use super::seeking::Seeking;
use super::statistics::{Account, ReadingState};
use super::streams::Stream;
use super::times::CpuIoTimes;
use crate::cached_file::CachedFile;
use crate::{ReadingId, State};

/// Time between two queries of a file's size.
const SIZE_POLL_PERIOD: Nanos = Nanos(100_000_000);

/// Time without an open file of a sequence after which the program counts as done with the sequence.
const SEQUENCE_IDLE_TIMEOUT: Nanos = Nanos(2_000_000_000);

#[derive(Debug)]
pub(super) struct Reading {
    pub(super) id: ReadingId,
    /// Process ID.
    pub(super) program: u32,
    pub(super) name: String,
    pub(super) sequence: FileSequence<Member>,
    /// The size last reported to the controller.
    pub(super) told_size: u64,
    /// Number of accesses that have been timed.
    pub(super) timed: Arc<AtomicU32>,
    open_file: Option<OpenFile>,
    /// Other descriptors of the same open file description, each by process ID and number; and those that were so when
    /// the program closed it, which are to be reconsidered.
    pub(super) sharers: Vec<Sharer>,
    /// Whether other processes have or had it open, too, which may be unknown at the moment.
    pub(super) is_shared: bool,
    pub(super) left_to: Vec<Sharer>,
    vacant_since: Option<Nanos>,
    pub(super) predictor: Option<FilePredictor>,
    /// Files visited, and whether the last one was prefetched before the program opened it.
    pub(super) visited: Vec<Identity>,
    pub(super) was_begun: bool,
    /// Total bytes read through.
    pub(super) gone: u64,
    /// Position in the sequence.
    pub(super) position: u64,
    pub(super) first: u64,
    passed: Passed,
    size_at: Nanos,
    pub(super) due: Nanos,
    pub(super) account: Account,
    /// Time of its last move, and the bytes that its program had read by then.
    moved: (Nanos, Option<u64>),
    /// Bytes that its program had read at the last poll.
    read: Option<u64>,
    /// Whether the program reads it without moving its position.
    pub(super) is_still: bool,
    /// Major faults and waiting time of its program when it had not moved for some time. Pages of a mapping that are in
    /// flight when they are touched do not count.
    faults: Option<(u64, Nanos)>,
    /// Whether the kernel's read-ahead has been measured.
    is_measured: bool,
    /// Whether the kernel's first read has been examined while the program waited for it.
    has_begun: bool,
    /// The position at which the program was found to sleep in a read, however long.
    long_read_at: Option<u64>,
    /// End of the touched pages, if its position is derived from touches.
    pub(super) stream: Option<u64>,
    /// The observed positions, if the program seeks.
    pub(super) seeking: Option<Box<Seeking>>,
    /// Whether touches of the same file are followed instead of its position, which does not move.
    pub(super) is_traced: bool,
}

/// Record of a poll.
pub(super) struct PollRecord {
    pub(super) at: Nanos,
    /// Time spent by the program.
    pub(super) spent: CpuIoTimes,
    /// Number of concurrent readings of the program, among which that time is divided, and of all programs.
    pub(super) readings: u64,
    pub(super) all_readings: u64,
    /// End of the requested data.
    pub(super) prefetch: u64,
}

/// A descriptor: process ID and number.
pub(super) type Sharer = (u32, u32);

/// A file of the sequence.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) identity: Identity,
    pub(super) handle: Arc<Handle>,
}

/// The file of the sequence that the program has open.
#[derive(Debug)]
struct OpenFile {
    number: u32,
    descriptor: Descriptor,
    index: usize,
}

/// Totals over the files that it has left.
#[derive(Debug, Default)]
struct Passed {
    /// Bytes of files that it has left.
    bytes: u64,
    files: usize,
    /// Whether it has left one before its end.
    has_left_early: bool,
    /// Bytes that the program had read when the reading began.
    read: Option<u64>,
}

/// Result of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollOutcome {
    /// The program has a file open.
    There,
    /// It has none of the files open at the moment.
    Vacant,
    /// It is done.
    Gone,
}

impl Reading {
    /// Makes a reading of a program at `position` of a file that is open under `number`.
    pub(super) fn new(
        id: ReadingId,
        program: &Program,
        number: u32,
        descriptor: Descriptor,
        identity: Identity,
        position: u64,
        now: Nanos,
    ) -> Reading {
        let place = Place::Open(Arc::clone(&program.shared), number);
        let member = Member { identity, handle: Arc::new(Handle::new(place, Some(identity))) };
        let name = program.process.name_of(number).unwrap_or_default();
        let read = program.spent().read;
        Reading {
            open_file: Some(OpenFile { number, descriptor, index: 0 }),
            passed: Passed { read, ..Passed::default() },
            moved: (now, read),
            read,
            ..Reading::begun(id, program.number(), name.display().to_string(), member, position, now)
        }
    }

    /// Makes a reading of a program at a place in a file that is derived from touches.
    pub(super) fn of_stream(
        id: ReadingId,
        program: u32,
        name: String,
        member: Member,
        stream: &Stream,
        now: Nanos,
    ) -> Reading {
        let mut reading = Reading {
            // It is past its first read.
            has_begun: true,
            long_read_at: None,
            ..Reading::begun(id, program, name, member, stream.from, now)
        };
        reading.stream_to(stream.at, stream.end, now);
        reading
    }

    /// Makes a reading at `first`, before its access pattern is known.
    fn begun(id: ReadingId, program: u32, name: String, member: Member, first: u64, now: Nanos) -> Reading {
        let Identity { size, .. } = member.identity;
        Reading {
            id,
            program,
            name,
            visited: vec![member.identity],
            sequence: FileSequence::new(member, size),
            told_size: size,
            timed: Arc::default(),
            open_file: None,
            sharers: Vec::new(),
            is_shared: false,
            left_to: Vec::new(),
            vacant_since: None,
            predictor: None,
            was_begun: false,
            gone: 0,
            position: first.min(size),
            first,
            passed: Passed::default(),
            size_at: now + SIZE_POLL_PERIOD,
            due: now,
            account: Account::default(),
            moved: (now, None),
            read: None,
            is_still: false,
            faults: None,
            is_measured: false,
            has_begun: false,
            long_read_at: None,
            stream: None,
            seeking: None,
            is_traced: false,
        }
    }

    /// Updates the position from touches.
    pub(super) fn stream_to(&mut self, at: u64, end: u64, now: Nanos) {
        let before = self.position;
        self.position = at.min(self.sequence.size());
        self.gone += self.position.saturating_sub(before);
        self.stream = Some(end);
        if self.position != before {
            self.moved.0 = now;
        }
    }

    /// Returns whether its position has moved since then. A position that was not at the start of the file when first
    /// observed has moved shortly before: by the time that its file is discovered, a program is past its first reads.
    pub(super) fn has_moved_since(&self, then: Nanos) -> bool {
        (self.gone > 0 || self.first > 0) && self.moved.0 > then
    }

    /// Returns whether the program has none of the files open.
    pub(super) fn is_vacant(&self) -> bool {
        self.open_file.is_none() && self.stream.is_none()
    }

    pub(super) fn has_open(&self, number: u32) -> bool {
        self.open_file.as_ref().is_some_and(|open_file| open_file.number == number)
    }

    /// Returns the descriptor that the program has open.
    pub(super) fn descriptor(&self) -> Option<Sharer> {
        self.open_file.as_ref().map(|open_file| (self.program, open_file.number))
    }

    /// Returns the index of the file that it reads now or has read last.
    fn index(&self) -> usize {
        self.open_file
            .as_ref()
            .map_or_else(|| self.sequence.index_at(self.position), |open_file| open_file.index)
    }

    /// Returns its position in that file.
    pub(super) fn offset(&self) -> u64 {
        self.position - self.sequence.position(self.index(), 0)
    }

    pub(super) fn current(&self) -> &Identity {
        &self.sequence.get(self.index()).identity
    }

    /// Returns the follower's own descriptor of that file, if still open.
    pub(super) fn current_file(&self) -> Option<Arc<CachedFile>> {
        self.sequence.get(self.index()).handle.file()
    }

    /// Polls the program's position.
    pub(super) fn poll(&mut self, program: &mut Program, now: Nanos) -> PollOutcome {
        if self.stream.is_some() {
            return PollOutcome::There;
        }
        let Some(open_file) = &self.open_file else {
            let since = *self.vacant_since.get_or_insert(now);
            let patient = self.predictor.is_some() && now.saturating_sub(since) < SEQUENCE_IDLE_TIMEOUT;
            return if patient { PollOutcome::Vacant } else { PollOutcome::Gone };
        };
        let (number, index) = (open_file.number, open_file.index);
        match open_file.descriptor.query() {
            Ok(open) if open.inode == self.sequence.get(index).identity.inode => {
                if open.position > self.sequence.size_of(index) || now >= self.size_at {
                    self.check_size(program, number, index, now);
                }
                self.move_to(index, open.position, program, now);
                PollOutcome::There
            }
            found => {
                program.sample(now);
                // The progress in the file to which the number refers now does not belong to this one.
                let elsewhere = found.as_ref().map_or(0, |open| open.position);
                self.leave(index, number, elsewhere, program, now);
                // The number may refer to the next file already.
                if found.is_ok() && self.is_next(program, number) {
                    return PollOutcome::There;
                }
                program.hurry(now);
                if self.predictor.is_some() { PollOutcome::Vacant } else { PollOutcome::Gone }
            }
        }
    }

    fn move_to(&mut self, index: usize, offset: u64, program: &mut Program, now: Nanos) {
        /// Time without a move after which it is examined whether the program reads elsewhere.
        const UNMOVED_MIN_TIME: Nanos = Nanos(100_000_000);
        /// Bytes read since the last move that show that it does.
        const UNEXPLAINED_MIN_BYTES: u64 = 2 << 20;
        /// Waiting time, with major faults, that shows that it reads a mapping.
        const FAULT_WAIT_MIN_TIME: Nanos = Nanos(200_000_000);
        let before = self.position;
        self.position = self.sequence.position(index, offset);
        self.gone += self.position.saturating_sub(before);
        let read = program.spent().read;
        self.read = read;
        if self.position != before {
            self.moved = (now, read);
            self.is_still = false;
            self.faults = None;
        } else if now.saturating_sub(self.moved.0) > UNMOVED_MIN_TIME
            && let (Some(then), Some(read)) = (self.moved.1, read)
        {
            // Reading a mapping adds no bytes to the count, but waits for pages.
            let (faults, io_wait) = (program.process.major_faults().unwrap_or(0), program.spent().io_wait);
            let (had, from) = *self.faults.get_or_insert((faults, io_wait));
            let by_faults = faults > had && io_wait.saturating_sub(from) > FAULT_WAIT_MIN_TIME;
            let reads = read.saturating_sub(then) > UNEXPLAINED_MIN_BYTES || by_faults;
            // A program at the end of a file may be reading the next one, which has not been discovered yet.
            self.is_still |= reads && offset < self.sequence.size_of(index);
        }
        self.unlock(index, offset, program);
    }

    /// Returns the size of the sequence, if it is to be reported to the controller and has not been yet. A file that
    /// the program opened after others counts only if it has read those to their ends, or if upcoming files are begun
    /// anyway.
    pub(super) fn grown(&mut self) -> Option<u64> {
        let is_unlocked = self.predictor.as_ref().is_none_or(|predictor| predictor.unlocked);
        let size = self.sequence.size();
        let may_be_told = size < self.told_size || is_unlocked || !self.passed.has_left_early;
        if size == self.told_size || !may_be_told {
            return None;
        }
        self.told_size = size;
        Some(size)
    }

    /// Allows prefetching of predicted files once a file was read through, with its bytes actually read.
    fn unlock(&mut self, index: usize, offset: u64, program: &Program) {
        /// A file that was read to its end shows that the files after it will be read, if at least this much of it was
        /// read.
        const READ_THROUGH_MIN_BYTES: u64 = 64 << 10;
        /// Number of smaller files that show it.
        const READ_THROUGH_MIN_FILES: usize = 2;
        let passed = self.passed.bytes + offset.saturating_sub(if index == 0 { self.first } else { 0 });
        let Some(predictor) = self.predictor.as_mut().filter(|predictor| !predictor.unlocked) else { return };
        let (Some(read), Some(before)) = (program.spent().read, self.passed.read) else { return };
        let at_end = offset >= self.sequence.size_of(index) && passed >= READ_THROUGH_MIN_BYTES;
        let really = read.saturating_sub(before) >= passed - passed / 10;
        predictor.unlocked = really && passed > 0 && (at_end || self.passed.files >= READ_THROUGH_MIN_FILES);
    }

    /// Records the bytes that its program has read at the position just observed.
    pub(super) fn record_read_bytes(&mut self, program: &Program) {
        self.read = program.spent().read;
    }

    /// Excludes bytes that its program has read from another file since the last poll.
    pub(super) fn exclude_other_files(&mut self, bytes: u64, program: &Program) {
        let read = program.spent().read;
        self.read = self.read.map(|before| (before + bytes).min(read.unwrap_or(before)).max(before));
    }

    /// Completes the position when the program has left the file, which it may have read further since the last poll:
    /// all bytes read since then are attributed to it.
    pub(super) fn settle(&mut self, program: &Program) {
        if let Some(end) = self.stream {
            self.stream_to(end, end, self.moved.0);
        }
        // Bytes of the program are attributed to the places that touches show.
        if self.is_traced {
            return;
        }
        if let (Some(before), Some(read)) = (self.read, program.spent().read) {
            let end = self.sequence.position(self.index(), u64::MAX);
            let went = end.saturating_sub(self.position).min(read.saturating_sub(before));
            (self.position, self.gone) = (self.position + went, self.gone + went);
            self.read = Some(before + went);
        }
    }

    fn check_size(&mut self, program: &Program, number: u32, index: usize, now: Nanos) {
        self.size_at = now + SIZE_POLL_PERIOD;
        if index + 1 == self.sequence.len()
            && let Ok(identity) = program.process.identity(number)
            && identity.is_same(&self.sequence.get(index).identity)
            && identity.size != self.sequence.size_of(index)
        {
            self.sequence.get_mut(index).identity = identity;
            self.sequence.resize_last(identity.size);
        }
    }

    /// Returns the parts of files that a range of the sequence covers, each with the follower's descriptor.
    pub(super) fn pieces(&self, range: &Range<u64>) -> Vec<Piece> {
        let parts = self.sequence.parts(range).into_iter();
        parts.map(|part| (Arc::clone(&self.sequence.get(part.index).handle), part.range)).collect()
    }

    /// Records an observation.
    pub(super) fn account_for(&mut self, seen: PollRecord, state: Option<State>, watch_only: bool) {
        let PollRecord { at, spent, readings, all_readings, prefetch } = seen;
        let (position, gone, was_begun) = (self.position, self.gone, self.was_begun);
        let files = self.visited.len() as u64;
        let sight =
            ReadingState { at, position, prefetch, gone, files, was_begun, spent, readings, all_readings };
        self.account.see(sight, state, watch_only);
    }

    /// Returns when the program has last moved.
    pub(super) fn moved_at(&self) -> Nanos {
        self.moved.0
    }

    /// Returns whether the program has moved recently.
    pub(super) fn is_moving(&self, now: Nanos) -> bool {
        /// Age of the last move below which a stream counts as moving.
        const MOVE_RECENT_TIME: Nanos = Nanos(100_000_000);
        now.saturating_sub(self.moved.0) < MOVE_RECENT_TIME
    }

    /// Returns where the kernel's own windows are to be measured; only once, before anything is fetched.
    pub(super) fn where_the_kernel_is(&mut self) -> Option<Piece> {
        /// Windows of the kernel, from the position on, among which the ones in flight are found.
        const MEASURED_WINDOWS: u64 = 4;
        if std::mem::replace(&mut self.is_measured, true) {
            return None;
        }
        let index = self.index();
        let member = self.sequence.get(index);
        self.account.read_ahead = page_cache::read_ahead(member.identity.device).unwrap_or(0);
        let from = self.offset();
        let to = self.sequence.size_of(index).min(from + MEASURED_WINDOWS * self.account.read_ahead);
        (from < to).then(|| (Arc::clone(&member.handle), from..to))
    }

    /// Returns the requested bytes of the first read of the file, if the program sleeps in it, and where the kernel's
    /// first window is to be looked for; only once.
    pub(super) fn first_read(&mut self, program: &Program, now: Nanos) -> Option<(u64, Piece)> {
        /// Time after its opening within which the first read of a file is expected.
        const FIRST_READ_TIMEOUT: Nanos = Nanos(100_000_000);
        let is_at_beginning = self.position == 0 && self.visited.len() == 1 && !self.has_begun;
        if !is_at_beginning || now.saturating_sub(self.moved.0) > FIRST_READ_TIMEOUT {
            return None;
        }
        let wants = program.reads_from(self.open_file.as_ref()?.number)?;
        self.has_begun = true;
        let member = self.sequence.get(0);
        self.account.read_ahead = page_cache::read_ahead(member.identity.device).unwrap_or(0);
        let windows = 0..self.sequence.size_of(0).min(4 * self.account.read_ahead);
        (!windows.is_empty()).then(|| (wants, (Arc::clone(&member.handle), windows)))
    }

    /// Returns the requested bytes of the file, if the program has slept in a read of it for some time; once per position.
    pub(super) fn long_read(&mut self, program: &Program, now: Nanos) -> Option<u64> {
        /// Time in the same place from which a program is asked for its read: longer than a short read takes.
        const LONG_READ_MIN_TIME: Nanos = Nanos(2_000_000);
        if self.stream.is_some()
            || self.long_read_at == Some(self.position)
            || now.saturating_sub(self.moved.0) < LONG_READ_MIN_TIME
        {
            return None;
        }
        let bytes = program.reads_from(self.open_file.as_ref()?.number)?;
        self.long_read_at = Some(self.position);
        Some(bytes.min(self.sequence.size_of(self.index()).saturating_sub(self.offset())))
    }

    /// Derives the kernel's windows from its first read, if that is conclusive and the program has not moved meanwhile.
    /// Once reading ahead has begun, they can no longer be observed.
    pub(super) fn take_first_window(&mut self, wants: u64, found: u64) -> Option<u64> {
        let window = self.account.window_by_first(wants, found).filter(|_| self.position == 0)?;
        self.is_measured = true;
        Some(window)
    }
}
