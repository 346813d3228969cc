//! One program on its way through a file, or through several in a row.

mod files;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use sakiyomi_io::page_cache;
use sakiyomi_model::Nanos;
use sakiyomi_os::process::{Descriptor, Identity};

use super::account::{Account, Sight};
use super::coming::Coming;
use super::errand::Piece;
use super::handle::{Handle, Place};
use super::program::Program;
use super::row::Row;
use super::streams::Stream;
use super::times::Spent;
use crate::cached_file::CachedFile;
use crate::{ReadingId, State};

/// Time between two queries of a file's size.
const SIZE_POLL_PERIOD: Nanos = Nanos(100_000_000);

/// Time without an open file of a sequence after which the program counts as done with the sequence.
const SEQUENCE_IDLE_TIMEOUT: Nanos = Nanos(2_000_000_000);

#[derive(Debug)]
pub(super) struct Reading {
    pub(super) id: ReadingId,
    /// The number of the process.
    pub(super) program: u32,
    pub(super) name: String,
    pub(super) row: Row<Member>,
    /// The size last reported to the controller.
    pub(super) told_size: u64,
    /// How often it has been seen how long an access takes.
    pub(super) timed: Arc<AtomicU32>,
    seat: Option<Seat>,
    /// Other descriptors that are the same open file, each by its process and its number; and those that were so until
    /// the program left it, and are to be looked at anew.
    pub(super) sharers: Vec<Sharer>,
    /// Others had or have it open, too, who may not be known at the moment.
    pub(super) is_shared: bool,
    pub(super) left_to: Vec<Sharer>,
    vacant_since: Option<Nanos>,
    pub(super) coming: Option<Coming>,
    /// Which files it has come to, and whether the last of them had been begun before the program opened it.
    pub(super) visited: Vec<Identity>,
    pub(super) was_begun: bool,
    /// Bytes of files that it has gone through.
    pub(super) gone: u64,
    /// Where it is in the row.
    pub(super) position: u64,
    pub(super) first: u64,
    passed: Passed,
    size_at: Nanos,
    pub(super) due: Nanos,
    pub(super) account: Account,
    /// When it last moved, and what its program had read by then.
    moved: (Nanos, Option<u64>),
    /// What its program had read at the last look.
    read: Option<u64>,
    /// The program reads it without moving its position.
    pub(super) is_still: bool,
    /// Pages that its program had waited for, and how long it had waited, when it had not moved for some time. Of the
    /// pages of a mapping, those that are on their way when they are touched do not count.
    faults: Option<(u64, Nanos)>,
    /// The kernel's read-ahead has been looked at.
    is_measured: bool,
    /// So has what it reads first, while the program waited for that.
    has_begun: bool,
    /// Where it is, is known by touches: up to where pages were touched.
    pub(super) stream: Option<u64>,
    /// Touches of the same file are followed instead of its position, which does not move.
    pub(super) is_traced: bool,
}

/// Record of a look.
pub(super) struct Accounted {
    pub(super) at: Nanos,
    /// Time spent by the program.
    pub(super) spent: Spent,
    /// Number of concurrent readings of the program, among which that time is divided, and of all programs.
    pub(super) readings: u64,
    pub(super) all_readings: u64,
    /// Up to where has been asked for.
    pub(super) prefetch: u64,
}

/// A descriptor: a process, and the number of the file there.
pub(super) type Sharer = (u32, u32);

/// A file of the row.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) identity: Identity,
    pub(super) handle: Arc<Handle>,
}

/// Where the program sits: a file that it has open.
#[derive(Debug)]
struct Seat {
    number: u32,
    descriptor: Descriptor,
    index: usize,
}

/// What it has gone through so far.
#[derive(Debug, Default)]
struct Passed {
    /// Bytes of files that it has left.
    bytes: u64,
    files: usize,
    /// One of them it has not read to its end.
    has_left_early: bool,
    /// What the program had got when it was first seen.
    read: Option<u64>,
}

/// What a look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It is there.
    There,
    /// It has none of the files open now.
    Vacant,
    /// It is done.
    Gone,
}

impl Reading {
    /// A program is at `position` of a file that it has open under `number`.
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
            seat: Some(Seat { number, descriptor, index: 0 }),
            passed: Passed { read, ..Passed::default() },
            moved: (now, read),
            read,
            ..Reading::begun(id, program.number(), name.display().to_string(), member, position, now)
        }
    }

    /// A program reads at a place of a file that is known by touches.
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
            ..Reading::begun(id, program, name, member, stream.from, now)
        };
        reading.stream_to(stream.at, stream.end, now);
        reading
    }

    /// At `first`, with nothing known yet of how it goes on, or of where that is seen.
    fn begun(id: ReadingId, program: u32, name: String, member: Member, first: u64, now: Nanos) -> Reading {
        let Identity { size, .. } = member.identity;
        Reading {
            id,
            program,
            name,
            visited: vec![member.identity],
            row: Row::new(member, size),
            told_size: size,
            timed: Arc::default(),
            seat: None,
            sharers: Vec::new(),
            is_shared: false,
            left_to: Vec::new(),
            vacant_since: None,
            coming: None,
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
            stream: None,
            is_traced: false,
        }
    }

    /// Touches have shown where the program is.
    pub(super) fn stream_to(&mut self, at: u64, end: u64, now: Nanos) {
        let before = self.position;
        self.position = at.min(self.row.size());
        self.gone += self.position.saturating_sub(before);
        self.stream = Some(end);
        if self.position != before {
            self.moved.0 = now;
        }
    }

    /// Whether its position has moved since then. A position that was not at the start of the file when it was first seen
    /// has moved shortly before: a program that reads is past its first calls by the time that its file is found.
    pub(super) fn has_moved_since(&self, then: Nanos) -> bool {
        (self.gone > 0 || self.first > 0) && self.moved.0 > then
    }

    /// Whether the program has one of the files open.
    pub(super) fn is_vacant(&self) -> bool {
        self.seat.is_none() && self.stream.is_none()
    }

    pub(super) fn has_open(&self, number: u32) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.number == number)
    }

    /// Where the program has the file open.
    pub(super) fn descriptor(&self) -> Option<Sharer> {
        self.seat.as_ref().map(|seat| (self.program, seat.number))
    }

    /// The file that it reads now or has read last.
    fn index(&self) -> usize {
        self.seat.as_ref().map_or_else(|| self.row.index_at(self.position), |seat| seat.index)
    }

    /// Where it is in that.
    pub(super) fn offset(&self) -> u64 {
        self.position - self.row.position(self.index(), 0)
    }

    pub(super) fn current(&self) -> &Identity {
        &self.row.get(self.index()).identity
    }

    /// Our own descriptor of that; none if there is none any more.
    pub(super) fn current_file(&self) -> Option<Arc<CachedFile>> {
        self.row.get(self.index()).handle.file()
    }

    /// Looks where the program is.
    pub(super) fn look(&mut self, program: &mut Program, now: Nanos) -> Seen {
        if self.stream.is_some() {
            return Seen::There;
        }
        let Some(seat) = &self.seat else {
            let since = *self.vacant_since.get_or_insert(now);
            let patient = self.coming.is_some() && now.saturating_sub(since) < SEQUENCE_IDLE_TIMEOUT;
            return if patient { Seen::Vacant } else { Seen::Gone };
        };
        let (number, index) = (seat.number, seat.index);
        match seat.descriptor.look() {
            Ok(open) if open.inode == self.row.get(index).identity.inode => {
                if open.position > self.row.size_of(index) || now >= self.size_at {
                    self.look_at_size(program, number, index, now);
                }
                self.move_to(index, open.position, program, now);
                Seen::There
            }
            found => {
                program.sample(now);
                // What it has come through of the file that the number means now, it did not get of this one.
                let elsewhere = found.as_ref().map_or(0, |open| open.position);
                self.leave(index, number, elsewhere, program, now);
                // The number may mean the next file already.
                if found.is_ok() && self.is_next(program, number) {
                    return Seen::There;
                }
                program.hurry(now);
                if self.coming.is_some() { Seen::Vacant } else { Seen::Gone }
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
        self.position = self.row.position(index, offset);
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
            let (faults, waited) = (program.process.major_faults().unwrap_or(0), program.spent().waited);
            let (had, from) = *self.faults.get_or_insert((faults, waited));
            let by_faults = faults > had && waited.saturating_sub(from) > FAULT_WAIT_MIN_TIME;
            let reads = read.saturating_sub(then) > UNEXPLAINED_MIN_BYTES || by_faults;
            // A program at the end of a file may be reading the next one, which has not been seen yet.
            self.is_still |= reads && offset < self.row.size_of(index);
        }
        self.unlock(index, offset, program);
    }

    /// The size of the row, if it is to be reported to the controller and has not been yet. A file that the program
    /// opened after others counts only if it has read those to their ends, or if upcoming files are begun anyway.
    pub(super) fn grown(&mut self) -> Option<u64> {
        let is_unlocked = self.coming.as_ref().is_none_or(|coming| coming.unlocked);
        let size = self.row.size();
        let may_be_told = size < self.told_size || is_unlocked || !self.passed.has_left_early;
        if size == self.told_size || !may_be_told {
            return None;
        }
        self.told_size = size;
        Some(size)
    }

    /// Files that come are begun when one was read through: its bytes were really got.
    fn unlock(&mut self, index: usize, offset: u64, program: &Program) {
        /// A file that was read to its end shows that the files after it will be read, if at least this much of it was
        /// read.
        const READ_THROUGH_MIN_BYTES: u64 = 64 << 10;
        /// Of smaller files, this many show it.
        const READ_THROUGH_MIN_FILES: usize = 2;
        let passed = self.passed.bytes + offset.saturating_sub(if index == 0 { self.first } else { 0 });
        let Some(coming) = self.coming.as_mut().filter(|coming| !coming.unlocked) else { return };
        let (Some(read), Some(before)) = (program.spent().read, self.passed.read) else { return };
        let at_end = offset >= self.row.size_of(index) && passed >= READ_THROUGH_MIN_BYTES;
        let really = read.saturating_sub(before) >= passed - passed / 10;
        coming.unlocked = really && passed > 0 && (at_end || self.passed.files >= READ_THROUGH_MIN_FILES);
    }

    /// Its program has got so much by now, when it is where it was just seen.
    pub(super) fn note_got(&mut self, program: &Program) {
        self.read = program.spent().read;
    }

    /// The program is done with it, after it may have read some more since the last look: of what it has got since then,
    /// all but so many bytes `elsewhere`.
    pub(super) fn settle(&mut self, program: &Program, elsewhere: u64) {
        if let Some(end) = self.stream {
            self.stream_to(end, end, self.moved.0);
        }
        // What its program got, it got where touches show.
        if self.is_traced {
            return;
        }
        if let (Some(before), Some(read)) = (self.read, program.spent().read) {
            let end = self.row.position(self.index(), u64::MAX);
            let got = read.saturating_sub(before);
            let elsewhere = elsewhere.min(got);
            let went = end.saturating_sub(self.position).min(got - elsewhere);
            (self.position, self.gone) = (self.position + went, self.gone + went);
            self.read = Some(before + elsewhere + went);
        }
    }

    fn look_at_size(&mut self, program: &Program, number: u32, index: usize, now: Nanos) {
        self.size_at = now + SIZE_POLL_PERIOD;
        if index + 1 == self.row.len()
            && let Ok(identity) = program.process.identity(number)
            && identity.is_same(&self.row.get(index).identity)
            && identity.size != self.row.size_of(index)
        {
            self.row.get_mut(index).identity = identity;
            self.row.resize_last(identity.size);
        }
    }

    /// The parts of files that a range of the row covers, each with our descriptor of it.
    pub(super) fn pieces(&self, range: &Range<u64>) -> Vec<Piece> {
        let parts = self.row.parts(range).into_iter();
        parts.map(|part| (Arc::clone(&self.row.get(part.index).handle), part.range)).collect()
    }

    /// Takes down what was seen.
    pub(super) fn account_for(&mut self, seen: Accounted, state: Option<State>, watch_only: bool) {
        let Accounted { at, spent, readings, all_readings, prefetch } = seen;
        let (position, gone, was_begun) = (self.position, self.gone, self.was_begun);
        let files = self.visited.len() as u64;
        let sight = Sight { at, position, prefetch, gone, files, was_begun, spent, readings, all_readings };
        self.account.see(sight, state, watch_only);
    }

    /// Whether the program has come on shortly before.
    pub(super) fn is_moving(&self, now: Nanos) -> bool {
        /// Age of the last move below which a stream counts as moving.
        const MOVE_RECENT_TIME: Nanos = Nanos(100_000_000);
        now.saturating_sub(self.moved.0) < MOVE_RECENT_TIME
    }

    /// Before anything is fetched: where the kernel's own windows are to be looked for.
    pub(super) fn where_the_kernel_is(&mut self) -> Option<Piece> {
        /// Windows of the kernel, from the position on, among which the ones in flight are found.
        const MEASURED_WINDOWS: u64 = 4;
        if std::mem::replace(&mut self.is_measured, true) {
            return None;
        }
        let index = self.index();
        let member = self.row.get(index);
        self.account.read_ahead = page_cache::read_ahead(member.identity.device).unwrap_or(0);
        let from = self.offset();
        let to = self.row.size_of(index).min(from + MEASURED_WINDOWS * self.account.read_ahead);
        (from < to).then(|| (Arc::clone(&member.handle), from..to))
    }

    /// How much the program wants in its first read of the file, if it sleeps in that, and where what the kernel reads
    /// for that is to be looked for; told once.
    pub(super) fn first_read(&mut self, program: &Program, now: Nanos) -> Option<(u64, Piece)> {
        /// Time after its opening within which the first read of a file is expected.
        const FIRST_READ_TIMEOUT: Nanos = Nanos(100_000_000);
        let is_at_beginning = self.position == 0 && self.visited.len() == 1 && !self.has_begun;
        if !is_at_beginning || now.saturating_sub(self.moved.0) > FIRST_READ_TIMEOUT {
            return None;
        }
        let wants = program.reads_from(self.seat.as_ref()?.number)?;
        self.has_begun = true;
        let member = self.row.get(0);
        self.account.read_ahead = page_cache::read_ahead(member.identity.device).unwrap_or(0);
        let windows = 0..self.row.size_of(0).min(4 * self.account.read_ahead);
        (!windows.is_empty()).then(|| (wants, (Arc::clone(&member.handle), windows)))
    }

    /// So much did the kernel read first: how long its windows will be, if that tells, and nothing has moved meanwhile.
    /// What would show it otherwise is not seen once reading ahead has begun.
    pub(super) fn take_first_window(&mut self, wants: u64, found: u64) -> Option<u64> {
        let window = self.account.window_by_first(wants, found).filter(|_| self.position == 0)?;
        self.is_measured = true;
        Some(window)
    }
}
