//! Files that a program reads at several places in turn, by seeking: interleaved streams, strides, backwards.
//!
//! A poll sees the position at one place only. [`TouchedFile`] derives frontiers from these places, and data ahead of
//! each frontier is fetched. Random seeks form no frontier, so nothing is fetched.
//!
//! A long read at an explicit offset (`pread`) moves no position, but all that it requests is needed: it is fetched while
//! its thread sleeps.

use std::ops::Range;
use std::sync::Arc;

use sakiyomi_model::Nanos;

use super::blocking_job::{BlockingJob, JobRequest};
use super::fetch_state::FetchState;
use super::handle::Handle;
use super::program::Program;
use super::{FILE_MIN_BYTES, Follower};
use crate::touched::{GRANULE_BYTES, TouchedFile};
use crate::{Idle, ReadingId, State};

/// Fetches of a file at a time.
const FETCHES_MAX: usize = 12;

/// Time between two polls while the position moves.
const POLL_PERIOD: Nanos = Nanos(1_000_000);
/// A position that moved less than this ago counts as moving.
const MOVE_RECENT_TIME: Nanos = Nanos(100_000_000);

/// Time without sleep after which a long read has ended.
const LONG_READ_IDLE_TIMEOUT: Nanos = Nanos(20_000_000);

/// The places of a file at which its program was seen.
#[derive(Debug)]
pub(super) struct Seeking {
    file: TouchedFile,
    pub(super) fetches: FetchState,
    in_flight: usize,
    /// Position at the last poll, and bytes that the program had read by then.
    last: (u64, u64),
    moved_at: Nanos,
    /// Long reads at explicit offsets, each with the time at which a thread last slept in it; the latest first.
    long_reads: Vec<(Range<u64>, Nanos)>,
}

impl Seeking {
    fn new(size: u64, position: u64, program: &Program, now: Nanos) -> Seeking {
        Seeking {
            file: TouchedFile::new(usize::try_from(size.div_ceil(GRANULE_BYTES)).unwrap_or(0)),
            fetches: FetchState::new(program.spent().io_wait),
            in_flight: 0,
            last: (position, program.spent().read.unwrap_or(0)),
            moved_at: now,
            long_reads: Vec::new(),
        }
    }

    /// Records the long reads in which threads sleep. A read in which none has slept for some time has ended: the thread
    /// also runs in between, to copy what has arrived. All that it requested has been read then.
    fn see_long_reads(&mut self, asleep: Vec<Range<u64>>, now: Nanos) {
        if !asleep.is_empty() {
            self.moved_at = now;
            self.long_reads.retain(|(range, _)| !asleep.contains(range));
            self.long_reads.splice(0..0, asleep.into_iter().map(|range| (range, now)));
        }
        let has_ended =
            |(_, slept_at): &mut (_, Nanos)| now.saturating_sub(*slept_at) >= LONG_READ_IDLE_TIMEOUT;
        for (ended, _) in self.long_reads.extract_if(.., has_ended) {
            self.file.begin_poll(false);
            self.file.touch(granules_of(&ended));
            self.file.end_poll();
        }
    }

    /// Records that the reading has ended, and with it its long reads.
    pub(super) fn end(&mut self) {
        for (ended, _) in std::mem::take(&mut self.long_reads) {
            self.file.touch(granules_of(&ended));
        }
    }

    /// Returns the next part of the long reads, in granules.
    fn next_of_long_reads(&mut self, window: usize) -> Option<Range<usize>> {
        self.long_reads.iter().find_map(|(range, _)| self.file.next_requested(granules_of(range), window))
    }

    /// Records the position at a poll; `sleeps` tells whether a thread sleeps in a read there.
    fn see(&mut self, position: u64, sleeps: bool, read: u64, now: Nanos) {
        let granule = |at: u64| usize::try_from(at / GRANULE_BYTES).unwrap_or(usize::MAX);
        let (before, read_before) = std::mem::replace(&mut self.last, (position, read));
        self.file.begin_poll(false);
        let got = read.saturating_sub(read_before);
        if position != before {
            self.moved_at = now;
            // Bytes that the program has received between two places in order were read in order.
            if before < position && position - before <= got {
                self.file.touch(granule(before)..granule(position - 1) + 1);
            } else if position > 0 && !sleeps {
                self.file.reach(granule(position - 1));
            }
        }
        if sleeps {
            self.file.reach(granule(position));
        }
        self.file.end_poll();
    }

    /// Returns the bytes at which the program was seen.
    pub(super) fn touched_bytes(&self) -> u64 {
        self.file.counts().touched as u64 * GRANULE_BYTES
    }

    /// Returns the bytes fetched, and those among them that were not reached.
    pub(super) fn prefetched_and_wasted(&self) -> (u64, u64) {
        let ahead = self.file.counts().ahead() as u64 * GRANULE_BYTES;
        (self.fetches.prefetched_bytes, ahead.min(self.fetches.prefetched_bytes))
    }

    /// Returns the time that the program would have waited for what was fetched and used, with one wait per
    /// `window` bytes of the kernel's read-ahead and one per place.
    pub(super) fn hidden(&self, window: u64) -> Option<Nanos> {
        let used = (self.file.counts().used as u64 * GRANULE_BYTES).min(self.fetches.prefetched_bytes);
        let waits = self.file.used_runs() as u64 + used / (2 * window.max(GRANULE_BYTES));
        (used > 0).then_some(self.fetches.latency? * waits)
    }
}

/// Returns the granules that a range of bytes covers.
fn granules_of(range: &Range<u64>) -> Range<usize> {
    let granule = |at: u64| usize::try_from(at / GRANULE_BYTES).unwrap_or(usize::MAX);
    granule(range.start)..granule(range.end.saturating_add(GRANULE_BYTES - 1))
}

impl Follower {
    /// Follows the seeks of a reading whose accesses are not sequential, and its long reads at explicit offsets.
    pub(super) fn poll_seeks(&mut self, id: ReadingId, now: Nanos) -> Option<()> {
        let reading = self.readings.get_mut(&id)?;
        let size = reading.sequence.size();
        if self.options.watch_only
            || reading.sequence.len() != 1
            || reading.stream.is_some()
            || size < FILE_MIN_BYTES
        {
            return None;
        }
        let is_scattered = self.controller.state(id) == Some(State::Idle(Idle::NotSequential));
        let program = self.programs.get_mut(&reading.program)?;
        let descriptor = reading.descriptor();
        let long_reads = descriptor.map_or(Vec::new(), |(_, file)| program.long_reads_of(file, now));
        if reading.seeking.is_none() && !is_scattered && long_reads.is_empty() {
            return None;
        }
        let sleeps = is_scattered && descriptor.is_some_and(|(_, file)| program.reads_from(file).is_some());
        let (position, spent) = (reading.position, program.spent());
        let seeking =
            reading.seeking.get_or_insert_with(|| Box::new(Seeking::new(size, position, program, now)));
        seeking.see(position, sleeps, spent.read.unwrap_or(0), now);
        seeking.see_long_reads(long_reads, now);
        if seeking.fetches.may_fetch(spent.io_wait) {
            let window = usize::try_from(self.controller.memory_left() / GRANULE_BYTES).unwrap_or(usize::MAX);
            let handle: Arc<Handle> = Arc::clone(&reading.sequence.get(0).handle);
            while seeking.in_flight < FETCHES_MAX {
                let next = seeking.next_of_long_reads(window);
                let next = next.or_else(|| if is_scattered { seeking.file.next_fetch(window) } else { None });
                let Some(part) = next else { break };
                let byte = |granule: usize| (granule as u64 * GRANULE_BYTES).min(size);
                let range = byte(part.start)..byte(part.end);
                let order = JobRequest::FetchPart { handle: Arc::clone(&handle), range };
                seeking.in_flight += usize::from(self.fetcher.start(BlockingJob { id, order }));
            }
        }
        let is_moving = now.saturating_sub(seeking.moved_at) < MOVE_RECENT_TIME;
        if is_moving && (is_scattered || !seeking.long_reads.is_empty()) {
            reading.due = reading.due.min(now + POLL_PERIOD);
        }
        Some(())
    }
}

impl Seeking {
    /// Records that a fetch has ended.
    pub(super) fn end_fetch(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }
}
