//! A program as the kernel sees it: it runs, waits, sleeps.

use sakiyomi_model::Nanos;
use sakiyomi_regulate::Owner;

use super::World;
use super::pages::Reader;
use crate::cache::FileId;
use crate::outcome::{Distances, ProcessOutcome};
use crate::program::{Program, Step};
use crate::spec::ProcessSpec;

/// What a program is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nothing until then: it has not begun, or it pauses.
    Sleeping(Nanos),
    /// On a core, or in the queue for one.
    Computing(Nanos),
    /// In a call that reads, up to that position, for a page that is on its way.
    Reading(u64),
    /// In a call that reads past the page cache, up to that position, for so many requests.
    ReadingDirect(u64, u64),
    /// In a call that writes, for room.
    Throttled,
    Done,
}

pub(super) struct Process {
    name: String,
    program: Program,
    start: Nanos,
    has_begun: bool,
    is_direct: bool,
    pub(super) file: FileId,
    pub(super) size: u64,
    output: Option<FileId>,
    /// Where the next file may lie.
    pub(super) files_end: u64,
    reader: Reader,
    /// Where the open file stands: where the present call has begun, or the last one has ended.
    pub(super) at: u64,
    written: u64,
    doing: Doing,
    /// Since when it has been at it.
    since: Nanos,
    end: Nanos,
    /// Bytes of the calls that have ended.
    pub(super) read: u64,
    ran: Nanos,
    queued: Nanos,
    waited_read: Nanos,
    waited_write: Nanos,
    slept: Nanos,
}

impl Process {
    pub(super) fn new(
        name: String,
        spec: &ProcessSpec,
        program: Program,
        file: FileId,
        output: Option<FileId>,
        files_end: u64,
    ) -> Process {
        Process {
            name,
            program,
            start: spec.start,
            has_begun: false,
            is_direct: spec.direct,
            file,
            size: spec.size.0,
            output,
            files_end,
            reader: Reader::new(file, false),
            at: 0,
            written: 0,
            doing: Doing::Sleeping(spec.start),
            since: Nanos::ZERO,
            end: Nanos::ZERO,
            read: 0,
            ran: Nanos::ZERO,
            queued: Nanos::ZERO,
            waited_read: Nanos::ZERO,
            waited_write: Nanos::ZERO,
            slept: Nanos::ZERO,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.doing == Doing::Done
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// When it ended; `now` if it has not.
    pub(super) fn end(&self, now: Nanos) -> Nanos {
        if self.is_done() { self.end } else { now }
    }

    /// When it wakes by itself.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        match self.doing {
            Doing::Sleeping(until) => Some(until),
            _ => None,
        }
    }

    /// How long it has waited for I/O, this moment's wait included.
    pub(super) fn waited(&self, now: Nanos) -> Nanos {
        let waits = matches!(self.doing, Doing::Reading(_) | Doing::ReadingDirect(..) | Doing::Throttled);
        let present = if waits { now - self.since } else { Nanos::ZERO };
        self.waited_read + self.waited_write + present
    }

    /// How much it has asked for in the call that it waits in, in bytes, if it reads through the page cache.
    pub(super) fn wants(&self) -> Option<u64> {
        match self.doing {
            Doing::Reading(end) => Some(end.saturating_sub(self.at)),
            _ => None,
        }
    }

    fn now_at(&mut self, now: Nanos, doing: Doing) {
        (self.doing, self.since) = (doing, now);
    }
}

impl World {
    /// How long a program has been on a core.
    pub(super) fn ran(&mut self, index: usize) -> Nanos {
        let left = self.cpu.left(self.now, index);
        let process = &self.processes[index];
        match process.doing {
            Doing::Computing(burst) => process.ran + burst.saturating_sub(left),
            _ => process.ran,
        }
    }

    /// Its sleep may be over.
    pub(super) fn wake(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let Doing::Sleeping(until) = process.doing else { return };
        if until > self.now {
            return;
        }
        if !process.has_begun {
            process.has_begun = true;
            self.follow(index);
        } else {
            process.slept += self.now - process.since;
        }
        self.advance(index);
    }

    /// Its burst on a core is over.
    pub(super) fn burst_ended(&mut self, index: usize) {
        let process = &mut self.processes[index];
        if let Doing::Computing(burst) = process.doing {
            process.ran += burst;
            process.queued += (self.now - process.since).saturating_sub(burst);
        }
        self.advance(index);
    }

    /// One of its requests past the page cache has ended.
    pub(super) fn direct_ended(&mut self, index: usize) {
        self.read_ended(self.processes[index].file);
        let process = &mut self.processes[index];
        if let Doing::ReadingDirect(end, outstanding) = process.doing {
            process.doing = Doing::ReadingDirect(end, outstanding - 1);
        }
    }

    /// What it waits for may be there.
    pub(super) fn resume(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let waited = self.now - process.since;
        match process.doing {
            Doing::Reading(end) => {
                let mut reader = process.reader;
                let is_done = self.read(&mut reader);
                self.processes[index].reader = reader;
                if is_done {
                    self.processes[index].waited_read += waited;
                    self.call_ended(index, end);
                    self.advance(index);
                }
            }
            Doing::ReadingDirect(end, 0) => {
                process.waited_read += waited;
                self.call_ended(index, end);
                self.advance(index);
            }
            Doing::Throttled if !self.write_back.is_full() => {
                process.waited_write += waited;
                self.advance(index);
            }
            _ => {}
        }
    }

    fn call_ended(&mut self, index: usize, end: u64) {
        let process = &mut self.processes[index];
        process.at = end;
        process.read = process.program.read();
    }

    /// Goes on with the program until it has to wait, computes, sleeps or ends.
    fn advance(&mut self, index: usize) {
        loop {
            let Some(step) = self.processes[index].program.next() else {
                let process = &mut self.processes[index];
                process.now_at(self.now, Doing::Done);
                process.end = self.now;
                self.unfollow(index);
                self.device.clear_rate(self.now, Owner(index as u32));
                return;
            };
            if !self.carry_out(index, step) {
                return;
            }
        }
    }

    /// Says whether the step is done already.
    fn carry_out(&mut self, index: usize, step: Step) -> bool {
        let now = self.now;
        match step {
            Step::Read { at, length } if self.processes[index].is_direct => {
                let requests = self.read_direct(index, self.processes[index].file, at, length);
                self.processes[index].now_at(now, Doing::ReadingDirect(at + length, requests));
                false
            }
            Step::Read { at, length } => self.begin_read(index, at, length),
            Step::Compute(burst) => {
                self.cpu.run(now, index, burst);
                self.processes[index].now_at(now, Doing::Computing(burst));
                false
            }
            Step::Write { length } => {
                let process = &mut self.processes[index];
                let from = process.written;
                process.written += length;
                if let Some(output) = process.output {
                    self.write(output, from, from + length);
                }
                if self.write_back.is_full() {
                    self.processes[index].now_at(now, Doing::Throttled);
                    return false;
                }
                true
            }
            Step::Pause(length) => {
                self.processes[index].now_at(now, Doing::Sleeping(now + length));
                false
            }
        }
    }

    fn begin_read(&mut self, index: usize, at: u64, length: u64) -> bool {
        let mut reader = self.processes[index].reader;
        reader.call(at, length, self.page_bytes);
        // Whoever reads elsewhere has moved there first.
        self.processes[index].at = at;
        let is_done = self.read(&mut reader);
        self.processes[index].reader = reader;
        if is_done {
            self.call_ended(index, at + length);
        } else {
            self.processes[index].now_at(self.now, Doing::Reading(at + length));
        }
        is_done
    }

    pub(super) fn process_outcome(&self, index: usize) -> ProcessOutcome {
        let process = &self.processes[index];
        let counts = self.cache.counts(process.file);
        let fetcher = self.fetchers[index].as_ref();
        ProcessOutcome {
            name: process.name.clone(),
            elapsed: process.end(self.now).saturating_sub(process.start),
            ran: process.ran,
            queued: process.queued,
            waited_read: process.waited_read,
            waited_write: process.waited_write,
            slept: process.slept,
            reading: self.reading_time(process.file),
            read_bytes: process.read,
            written_bytes: process.written,
            prefetched_bytes: counts.prefetched * self.page_bytes,
            wasted_bytes: counts.wasted * self.page_bytes,
            distances: fetcher.map_or_else(Distances::default, |fetcher| fetcher.distances.clone()),
            state: fetcher.and_then(|fetcher| fetcher.state),
        }
    }
}
