//! Choice of the mechanism's next access, at every end of an access and when work arrives while the arm is idle.
//!
//! In order of precedence: cleaning of shingled bands, if a write would find no room; overdue dirty data, at every other choice; dirty data that a flush waits for; then, by the
//! queue's policy, the waiting commands together with dirty data if the cache is above the high watermark or a write
//! waits for space; last, after the idle delay, the remaining dirty data.
//!
//! Age, a flush, or lack of space decide *that* dirty data is written. *Which* range is always chosen by positioning
//! time among the oldest `cache.write.window` ranges: in a permanently full cache all data is overdue, and writing in
//! order of arrival would be as slow as a queue of depth 1.

use sakiyomi_model::{Lba, Nanos, Op};

use super::{Drive, Media};
use crate::cache::DestageCandidate;
use crate::queue::{Candidates, Ticket, View, Waiting, Work};

impl Drive {
    /// Returns whether work other than read-ahead is ready for the mechanism.
    pub(super) fn work_waits(&mut self) -> bool {
        self.waiting.any_ready(self.now) || self.must_destage() || self.writes.is_draining()
    }

    /// Handles new work: joins it to the current read or cuts that short, or starts an idle mechanism.
    pub(super) fn work_arrived(&mut self) {
        match self.media {
            Media::Read(_) => {
                self.note_progress();
                self.join_waiting();
                self.retarget();
            }
            Media::Idle => self.start_next(),
            Media::Write(_) | Media::Clean(_) => {}
        }
    }

    /// Starts the next access if the mechanism is idle.
    pub(super) fn start_next(&mut self) {
        while matches!(self.media, Media::Idle) {
            let Some(work) = self.choose() else { return };
            match work {
                Work::Command(slot) if self.commands[slot].request.op == Op::Write => self.begin_write(slot),
                Work::Command(slot) => self.begin_read(slot),
                Work::Destage(start) => self.begin_destage(start),
                Work::Clean => self.begin_clean(),
            }
        }
    }

    /// Returns when an idle mechanism begins to write dirty data on its own.
    pub(super) fn destage_timer(&self) -> Option<Nanos> {
        let write = &self.cache.write;
        let (_, since) = self.writes.oldest()?;
        let after = |start: Nanos, delay: Nanos| (!delay.is_zero()).then(|| start.saturating_add(delay));
        let aged = after(since, write.max_age);
        let quiet = if self.waiting.is_empty() { after(self.quiet_since, write.idle_delay) } else { None };
        aged.into_iter().chain(quiet).min()
    }

    fn choose(&mut self) -> Option<Work> {
        if let Some(clean) = self.must_clean() {
            return Some(clean);
        }
        // If all data is permanently overdue, every other access is left to commands.
        self.old_went_first = self.holds_old_data() && !self.old_went_first;
        if self.old_went_first {
            return self.nearest_old();
        }
        if let Some(flush) = self.flushes.front() {
            let before = flush.sequence;
            return self.nearest_dirty(|dirty| dirty.sequence < before).map(|dirty| dirty.work);
        }
        let for_room = !self.stalled.is_empty() || self.writes.is_draining();
        let destage = if for_room { self.nearest_dirty(|_| true) } else { None };
        self.by_policy(destage)
            .or_else(|| self.nearest_old())
            .or_else(|| self.when_quiet())
            .or_else(|| self.clean_when_quiet())
    }

    /// Returns whether dirty data must be written before or along with waiting commands, apart from the watermark.
    fn must_destage(&self) -> bool {
        !self.writes.is_empty()
            && (!self.stalled.is_empty() || !self.flushes.is_empty() || self.holds_old_data())
    }

    /// Returns whether no further read may join the current access, because work is overdue or urgent: otherwise a
    /// stream of such reads would starve it.
    pub(super) fn must_leave(&self) -> bool {
        let stalled = self.stalled.front().map(|slot| self.commands[*slot].submitted);
        let mut waits_since = self.waiting.oldest_since().into_iter().chain(stalled);
        !self.flushes.is_empty()
            || self.holds_old_data()
            || waits_since.any(|since| self.chooser.is_overdue(since, self.now))
    }

    fn holds_old_data(&self) -> bool {
        self.writes.oldest().is_some_and(|(_, since)| self.is_old(since))
    }

    fn is_old(&self, since: Nanos) -> bool {
        let limit = self.cache.write.max_age;
        !limit.is_zero() && self.now >= since.saturating_add(limit)
    }

    fn nearest_old(&mut self) -> Option<Work> {
        let (now, limit) = (self.now, self.cache.write.max_age);
        let old = |dirty: &DestageCandidate| !limit.is_zero() && now >= dirty.since.saturating_add(limit);
        self.nearest_dirty(old).map(|dirty| dirty.work)
    }

    /// Returns the revolution, if any, that an access to `lba` loses because the arm is not on track at first.
    pub(super) fn lost(&mut self, lba: u64) -> Nanos {
        let moves = self.servo.loses_turns() && self.geometry.run(Lba(lba), 1).cylinder != self.arm.cylinder;
        if moves { self.servo.lost() } else { Nanos::ZERO }
    }

    /// Chooses among the waiting commands and `destage`; a chosen command is removed from the queue.
    fn by_policy(&mut self, destage: Option<Waiting>) -> Option<Work> {
        let view = View { now: self.now, arm: self.arm, servo: &self.servo };
        let candidates = Candidates { queue: &self.waiting, destage: destage.as_ref() };
        let &Waiting { work, ticket, .. } = self.chooser.choose(candidates, view)?;
        if ticket != Ticket::NONE {
            self.waiting.remove(ticket);
        }
        Some(work)
    }

    /// Returns the dirty range with the shortest positioning time among the oldest ones, as long as they are `due`.
    /// While writes wait for space, its age is that of the first of them. The oldest range is passed over at most
    /// `window` times, so that ranges near the arm cannot starve it.
    fn nearest_dirty(&mut self, due: impl Fn(&DestageCandidate) -> bool) -> Option<Waiting> {
        let since = self.stalled.front().map(|slot| self.commands[*slot].submitted);
        let window = self.cache.write.window as usize;
        let weighed = if self.passed_over < window { window } else { 1 };
        self.scratch.clear();
        self.scratch.extend(self.writes.oldest_first().take(weighed).take_while(due).map(|dirty| Waiting {
            work: Work::Destage(dirty.start),
            since: since.unwrap_or(dirty.since),
            ready: Nanos::ZERO,
            lba: dirty.start,
            end: dirty.start,
            target: dirty.target,
            write: true,
            ticket: Ticket::NONE,
        }));
        let view = View { now: self.now, arm: self.arm, servo: &self.servo };
        let index = self.destage_chooser.choose(&self.scratch, view)?;
        Some(self.scratch[index])
    }

    fn when_quiet(&mut self) -> Option<Work> {
        let delay = self.cache.write.idle_delay;
        if delay.is_zero() || !self.waiting.is_empty() || self.writes.is_empty() {
            return None;
        }
        if !self.tidying && self.now < self.quiet_since.saturating_add(delay) {
            return None;
        }
        self.tidying = true;
        self.nearest_dirty(|_| true).map(|dirty| dirty.work)
    }
}
