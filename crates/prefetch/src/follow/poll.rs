//! Polling of the programs' positions, and the consequences.

use std::sync::Arc;

use sakiyomi_model::Nanos;
use sakiyomi_os::process::Identity;

use super::blocking_job::{BlockingJob, JobReply, JobRequest};
use super::file_predictor::OPEN_AHEAD_MAX;
use super::reading::{PollOutcome, PollRecord};
use super::storage_rate::Candidate;
use super::times::CpuIoTimes;
use super::{Follower, SLEEP_MAX, SLEEP_MIN, nanos};
use crate::cached_file::{FetchOutcome, Found};
use crate::{Action, Event, Idle, ReadingId, State};

/// Files of a sequence that are opened ahead of a program while what it reads is in memory.
const OPEN_IF_RESIDENT: usize = 32;

/// Files left by one of several processes, whose last offsets are remembered.
const LEFT_FILES_MAX: usize = 256;

impl Follower {
    pub(super) fn poll_due(&mut self, now: Nanos) {
        let mut due = Vec::new();
        self.moving.clear();
        for reading in self.readings.values() {
            if reading.due <= now {
                due.push(reading.id);
            }
            if reading.is_moving(now) {
                *self.moving.entry(reading.program).or_default() += 1;
            }
        }
        for id in due {
            self.poll_one(id, now);
        }
    }

    pub(super) fn poll_one(&mut self, id: ReadingId, now: Nanos) -> Option<()> {
        let reading = self.readings.get_mut(&id)?;
        let program = self.programs.get_mut(&reading.program)?;
        let gone = reading.gone;
        let seen = reading.poll(program, now);
        let left_to = std::mem::take(&mut reading.left_to);
        program.moved += reading.gone.saturating_sub(gone);
        // Sampled later than the position: otherwise the program would appear to skip bytes.
        program.sample(now);
        if seen == PollOutcome::There {
            reading.record_read_bytes(program);
        }
        let spent = program.spent();
        let is_resident = self.controller.state(id) == Some(State::Idle(Idle::Resident));
        let files = if is_resident { OPEN_IF_RESIDENT } else { OPEN_AHEAD_MAX };
        reading.grow(program, self.controller.limit(id).unwrap_or(0), files, &self.fetcher);
        // If touches are reported, reads elsewhere in the same file count as well.
        let is_alone = reading.sequence.len() == 1 && reading.stream.is_none();
        let position = reading.position;
        let state = self.controller.state(id);
        let prefetch = self.controller.ahead(id).map_or(position, |ahead| ahead.end);
        let readings = self.moving.get(&reading.program).copied().unwrap_or(1);
        let all_readings = self.moving.values().sum::<u64>().max(1);
        let accounted = PollRecord { at: now, spent, readings, all_readings, prefetch };
        reading.account_for(accounted, state, self.options.watch_only);
        if let Some(size) = reading.grown() {
            self.notify(now, Event::Resized { id, size });
        }
        let CpuIoTimes { cpu_time, io_wait, read, .. } = spent;
        // Positions in a sequence of files include more than their bytes.
        self.notify(now, Event::Times { id, cpu_time, io_wait, read: read.filter(|_| is_alone) });
        self.notify(now, Event::Position { id, at: position });
        self.rescan(left_to, now);
        if seen == PollOutcome::Gone {
            self.end(id, now);
            return None;
        }
        if self.controller.state(id) == Some(State::Watching) {
            self.check_first_read(id, now);
        }
        self.check_long_read(id, now);
        let wake = self.controller.wake(id).unwrap_or(now + SLEEP_MAX);
        self.readings.get_mut(&id)?.due = wake.max(now + SLEEP_MIN);
        self.poll_seeks(id, now);
        Some(())
    }

    /// Examines whether a program sleeps in its first read of a file, in which case it can be helped before its access
    /// pattern is known.
    fn check_first_read(&mut self, id: ReadingId, now: Nanos) -> Option<()> {
        let reading = self.readings.get_mut(&id).filter(|_| !self.options.watch_only)?;
        let program = self.programs.get(&reading.program)?;
        let (wants, beginning) = reading.first_read(program, now)?;
        self.fetcher.start(BlockingJob { id, order: JobRequest::FirstWindow { beginning, wants } });
        Some(())
    }

    /// Examines whether a program sleeps in a long read, all of which it needs.
    fn check_long_read(&mut self, id: ReadingId, now: Nanos) -> Option<()> {
        let reading = self.readings.get_mut(&id).filter(|_| !self.options.watch_only)?;
        let program = self.programs.get(&reading.program)?;
        let wants = reading.long_read(program, now)?;
        let window = reading.account.read_ahead;
        self.notify(now, Event::Blocked { id, wants, window });
        Some(())
    }

    pub(super) fn end(&mut self, id: ReadingId, now: Nanos) {
        let state = self.controller.state(id);
        let mut went = 0;
        if let Some(reading) = self.readings.get_mut(&id)
            && let Some(program) = self.programs.get_mut(&reading.program)
        {
            program.sample(now);
            let gone = reading.gone;
            reading.settle(program);
            reading.pass_by(program, reading.sequence.len());
            went = reading.gone.saturating_sub(gone);
            program.moved += went;
            let (position, spent) = (reading.position, program.spent());
            let prefetch = self.controller.ahead(id).map_or(position, |ahead| ahead.end);
            let readings = self.moving.get(&reading.program).copied().unwrap_or(1);
            let all_readings = self.moving.values().sum::<u64>().max(1);
            let seen = PollRecord { at: now, spent, readings, all_readings, prefetch };
            reading.account_for(seen, state, self.options.watch_only);
            reading.account.end();
            self.notify(now, Event::Position { id, at: position });
        }
        let ahead = self.controller.ahead(id).map_or(0, |ahead| ahead.end - ahead.start);
        self.notify(now, Event::Closed { id });
        self.fetcher.forget(|job| job.id == id);
        if let Some(mut reading) = self.readings.remove(&id) {
            if let Some(program) = self.programs.get(&reading.program) {
                let others = self.readings.values_mut().filter(|other| other.program == reading.program);
                others.for_each(|other| other.exclude_other_files(went, program));
            }
            let sharers = std::mem::take(&mut reading.sharers);
            if reading.is_shared && self.left_at.len() < LEFT_FILES_MAX {
                let Identity { device, inode, .. } = *reading.current();
                self.left_at.insert((device, inode), reading.offset());
            }
            self.rescan(sharers, now);
            let has_fetched_parts = reading.seeking.as_mut().is_some_and(|seeking| {
                seeking.end();
                seeking.prefetched_and_wasted().0 > 0
            });
            if reading.stream.is_none() && (reading.gone > 0 || has_fetched_parts) {
                reading.visited.iter().for_each(|file| self.traced.set_explained(reading.program, file, now));
            }
            let Identity { device, inode, .. } = *reading.current();
            reading.is_traced |= self.mapped.covers(reading.program, device, inode);
            if self.options.watch_only
                && let Some(candidate) = Candidate::of(&reading)
                && self.candidate.as_ref().is_none_or(|best| candidate.is_better_than(best))
            {
                self.candidate = Some(candidate);
            }
            self.tally.end_reading(&reading, state, ahead, self.options.watch_only);
        }
    }

    pub(super) fn take_answers(&mut self, now: Nanos) {
        let mut replies = std::mem::take(&mut self.replies);
        self.fetcher.take(&mut replies);
        for (id, reply) in replies.drain(..) {
            self.take_reply(id, reply, now);
        }
        self.replies = replies;
    }

    fn take_reply(&mut self, id: ReadingId, reply: JobReply, now: Nanos) -> Option<()> {
        let reading = self.readings.get_mut(&id)?;
        match reply {
            JobReply::Fetched { range, outcome, window } => {
                reading.account.add_prefetched(range.clone(), outcome.bytes);
                // Touches arrive some milliseconds late, and the kernel has advanced meanwhile.
                let window = window.filter(|_| reading.stream.is_none());
                reading.account.window_seen = reading.account.window_seen.or(window);
                // One unreadable file of many, or the space between two, is no reason to stop.
                let done = outcome.done || reading.sequence.len() > 1;
                self.notify(now, Event::Fetched { id, range, done });
            }
            JobReply::Found { range, found } => {
                // If residency is not reported, requested data counts as arrived, and other data as missing.
                let whole =
                    if self.controller.state(id) == Some(State::Ahead) { range.end - range.start } else { 0 };
                let Found { cached, evicted } = found.unwrap_or(Found { cached: whole, evicted: 0 });
                // The space between the files of a sequence need not be read.
                let bytes: u64 =
                    reading.sequence.parts(&range).iter().map(|part| part.range.end - part.range.start).sum();
                let cached = cached + (range.end - range.start).saturating_sub(bytes);
                self.notify(now, Event::Residency { id, range, cached, evicted });
            }
            JobReply::FirstWindow { wants, found } => {
                let window = reading.take_first_window(wants, found?)?;
                self.notify(now, Event::Blocked { id, wants, window });
            }
            JobReply::Examined { index, handle, found } => {
                reading.predictor.as_mut()?.reply(index, &handle, found);
                // Opening files that are already cached would soon cost as much as reading them.
                if self.controller.state(id) != Some(State::Idle(Idle::Resident)) {
                    reading.due = now;
                }
            }
            JobReply::FetchedPart { length, outcome, took } => {
                let seeking = reading.seeking.as_mut()?;
                seeking.end_fetch();
                seeking.fetches.fetched(length, outcome, took);
            }
            JobReply::Timed { latency } => reading.account.time(latency.map(nanos)?),
            JobReply::Listed { path, found } => {
                let (opened, listing) = found?;
                reading.predictor.as_mut()?.listed(&path, opened, listing);
            }
        }
        Some(())
    }

    pub(super) fn carry_out(&mut self) {
        let mut todo = std::mem::take(&mut self.todo);
        while !todo.is_empty() {
            for action in todo.drain(..) {
                self.begin(action);
            }
            // Actions that are answered at once, with `watch_only`, may cause further ones.
            std::mem::swap(&mut todo, &mut self.todo);
        }
        self.todo = todo;
    }

    fn begin(&mut self, action: Action) {
        let (Action::Fetch { id, .. } | Action::CheckResidency { id, .. }) = action;
        let Some(reading) = self.readings.get_mut(&id) else { return };
        match action {
            Action::Fetch { range, .. } if self.options.watch_only => {
                let outcome = FetchOutcome { bytes: 0, done: true };
                self.replies.push((id, JobReply::Fetched { range, outcome, window: None }));
            }
            Action::Fetch { range, .. } => {
                let pieces = reading.pieces(&range);
                let window = reading.where_the_kernel_is();
                let timed = Arc::clone(&reading.timed);
                let order = JobRequest::Fetch { range, pieces, window, timed };
                self.fetcher.start(BlockingJob { id, order });
            }
            Action::CheckResidency { range, .. } => {
                let pieces = reading.pieces(&range);
                self.fetcher.start(BlockingJob { id, order: JobRequest::CheckResidency { range, pieces } });
            }
        }
    }
}
