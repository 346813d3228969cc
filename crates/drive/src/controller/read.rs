//! Reads: cache hits, reads that join the current access, misses; and read-ahead.

use sakiyomi_model::{Class, Device, Extent, Lba, Nanos, ReadClass, RequestId, Sectors};

use super::{Drive, Media, Occurrence};
use crate::cache::SegmentId;
use crate::log::{CacheChange, DiskCause, DiskEvent, Event as LogEvent};
use crate::media::{Access, Mechanism, Plan, Positioning, Supply};
use crate::queue::{Ticket, View, Waiting, Work};
use crate::servo::Target;
use crate::spec::{Consumed, ReadAheadMode};

/// A read access: first the sectors that commands wait for, then read-ahead.
#[derive(Clone, Debug)]
pub(super) struct ReadAccess {
    plan: Plan,
    /// Segment that it fills; `None` if the buffer has no space for reads.
    segment: Option<SegmentId>,
    request: Option<RequestId>,
    begun: Nanos,
    positioning: Positioning,
    distance: u32,
    first: u64,
    /// End of the sectors that commands wait for.
    demand: u64,
    /// End of the read-ahead if no other work arrives.
    limit: u64,
    /// Sector at which it stops as currently planned.
    goal: u64,
    /// Time at which it reaches `goal`.
    pub(super) end: Nanos,
}

impl Drive {
    pub(super) fn arrive_read(&mut self, slot: usize) {
        self.note_progress();
        let command = self.commands[slot];
        let missing = self.cached_until(command.start(), command.end());
        if missing == command.end() {
            self.serve_from_cache(slot);
            return;
        }
        let overhead = self.interface.overhead.read_miss.after(command.before);
        self.commands[slot].breakdown.overhead = overhead;
        if self.join(slot, missing, None) {
            return;
        }
        let run = self.geometry.run(Lba(missing), 1);
        let ready = self.now + overhead;
        self.waiting.push(Waiting {
            work: Work::Command(slot),
            since: self.now,
            ready,
            lba: missing,
            end: command.end(),
            target: Target::from(&run),
            write: false,
            ticket: Ticket::NONE,
        });
        self.announce(ready, Occurrence::Ready);
    }

    /// Returns the first sector in `start..end` that is neither in a segment nor dirty, or `end`.
    pub(super) fn cached_until(&self, start: u64, end: u64) -> u64 {
        let mut at = start;
        loop {
            at = self.segments.covered_until(at, end);
            if at == end || self.writes.sectors() == 0 {
                return at;
            }
            let dirty = self.writes.covered_until(at, end);
            if dirty == at {
                return at;
            }
            at = dirty;
        }
    }

    /// Serves a full hit over the link.
    fn serve_from_cache(&mut self, slot: usize) {
        let command = &mut self.commands[slot];
        let overhead = self.interface.overhead.read_hit.after(command.before);
        command.class = Class::Read(ReadClass::FullHit);
        let (start, end, sectors) = (command.start(), command.end(), command.request.extent.sectors.0);
        let completion = self.interface.overhead.completion;
        let (begun, sent) = self.link.send(self.now + overhead, sectors);
        self.commands[slot].breakdown.overhead = overhead + (sent - begun) + completion;
        self.announce(sent + completion, Occurrence::Finished(slot));
        if let Some(segment) = self.segments.holding(end - 1) {
            self.segments.used(segment, start, end, &mut self.ghosts);
            self.continue_ahead(segment, end);
        }
    }

    /// Extends or resumes the read-ahead of `segment` after the host has read up to `end`.
    fn continue_ahead(&mut self, segment: SegmentId, end: u64) {
        match &mut self.media {
            Media::Read(access) if access.segment == Some(segment) => {
                let limit = self.read_ahead_limit(Some(segment), end);
                if let Media::Read(access) = &mut self.media
                    && limit > access.limit
                {
                    access.limit = limit;
                    self.retarget();
                }
            }
            Media::Idle if self.cache.read_ahead.resume_on_hit => self.resume_ahead(segment, end),
            _ => {}
        }
    }

    /// Joins a read to the current access if that reaches its first missing sector anyway, unless a waiting command that
    /// arrived before `ticket` (`None`: any) has precedence.
    fn join(&mut self, slot: usize, missing: u64, ticket: Option<Ticket>) -> bool {
        let Media::Read(access) = &self.media else { return false };
        let progress = access.plan.progress(&self.servo, self.now).max(access.first);
        if missing < progress || missing > access.goal || self.must_leave() {
            return false;
        }
        let view = View { now: access.end, arm: access.plan.arm_at(access.goal), servo: &self.servo };
        let older = self.waiting.older(ticket);
        if !self.chooser.continues_transfer(self.commands[slot].submitted, older, view) {
            return false;
        }
        let command = self.commands[slot];
        let (start, end, arrived) = (command.start(), command.end(), command.submitted);
        let segment = access.segment;
        if let Some(segment) = segment {
            self.segments.used(segment, start, end, &mut self.ghosts);
        }
        let limit = self.read_ahead_limit(segment, end);
        let Media::Read(access) = &mut self.media else { return false };
        access.demand = access.demand.max(end);
        access.limit = access.limit.max(limit);
        let mechanism = Mechanism { geometry: &self.geometry, servo: &self.servo };
        access.plan.cover(mechanism, &mut self.ledger, end);
        let ready = arrived + command.breakdown.overhead;
        let passed = access.plan.time_at(&self.servo, end).max(ready);
        let coming = self.link.flows_from(&access.plan, &self.servo, missing, end).max(ready);
        let command = &mut self.commands[slot];
        command.class = Class::Read(ReadClass::ActiveHit);
        command.brings(missing, coming, self.interface.immediate_partial);
        command.breakdown.transfer = passed.saturating_sub(self.now.max(ready));
        self.announce(passed, Occurrence::Transferred(slot));
        self.retarget();
        true
    }

    /// Begins an access for a read, at its first missing sector.
    pub(super) fn begin_read(&mut self, slot: usize) {
        let command = self.commands[slot];
        let (start, end) = (command.start(), command.end());
        let missing = self.cached_until(start, end);
        if missing == end {
            self.serve_from_cache(slot);
            return;
        }
        let class = self.classify(missing);
        match class {
            ReadClass::NearMiss => self.ledger.seeks.read_near_miss += 1,
            _ => self.ledger.seeks.read += 1,
        }
        let segment = self.segment_for(missing, end);
        if let Some(segment) = segment {
            self.segments.used(segment, start, end, &mut self.ghosts);
        }
        let limit = self.read_ahead_limit(segment, end);
        let access = self.begin_access(segment, missing, end, limit, Some(command.request.id));
        let arrived = access.begun + access.positioning.travel;
        let data_from = access.plan.begins_at(&self.servo, missing);
        let coming = self.link.flows_from(&access.plan, &self.servo, missing, end);
        let passed = access.plan.time_at(&self.servo, end);
        let command = &mut self.commands[slot];
        command.class = Class::Read(class);
        command.brings(missing, coming, self.interface.immediate_partial);
        command.breakdown.seek = access.positioning.travel;
        command.breakdown.rotation = data_from.saturating_sub(arrived);
        command.breakdown.transfer = passed.saturating_sub(data_from);
        self.announce(passed, Occurrence::Transferred(slot));
        self.media = Media::Read(access);
        self.retarget();
        self.join_waiting();
    }

    /// Resumes read-ahead at the end of `segment` without a command.
    fn resume_ahead(&mut self, segment: SegmentId, read_until: u64) {
        let from = self.segments.end(segment);
        let limit = self.read_ahead_limit(Some(segment), read_until);
        if limit <= from || self.work_waits() {
            return;
        }
        self.ledger.seeks.read += 1;
        let access = self.begin_access(Some(segment), from, from, limit, None);
        self.media = Media::Read(access);
        self.retarget();
    }

    fn begin_access(
        &mut self,
        segment: Option<SegmentId>,
        from: u64,
        demand: u64,
        limit: u64,
        request: Option<RequestId>,
    ) -> ReadAccess {
        let mut plan = Plan::default();
        let lost = self.lost(from);
        let mechanism = Mechanism { geometry: &self.geometry, servo: &self.servo };
        let on_arrival = self.cache.read_ahead.on_arrival
            && segment.is_some_and(|id| self.segments.end(id) == self.segments.start(id));
        let supply = Supply::default();
        let access = Access { lba: from, wanted: demand - from, write: false, supply, on_arrival, lost };
        let positioning = plan.begin(mechanism, &mut self.ledger, self.now, self.arm, access);
        plan.cover(mechanism, &mut self.ledger, demand.max(from + 1));
        let distance = plan.arm_at(from + 1).cylinder.abs_diff(self.arm.cylinder);
        let first = plan.first();
        ReadAccess {
            plan,
            segment,
            request,
            begun: self.now,
            positioning,
            distance,
            first,
            demand,
            limit,
            goal: demand,
            end: self.now,
        }
    }

    fn classify(&self, missing: u64) -> ReadClass {
        if self.ghosts.contains(missing) {
            ReadClass::PurgedMiss
        } else if self.segments.is_near(missing, self.near_window) {
            ReadClass::NearMiss
        } else {
            ReadClass::PureMiss
        }
    }

    /// Returns the segment that ends where the read begins, or allocates a new one.
    fn segment_for(&mut self, missing: u64, end: u64) -> Option<SegmentId> {
        if let Some(segment) = self.segments.ending_at(missing) {
            return Some(segment);
        }
        let ahead = if self.cache.read_ahead.mode == ReadAheadMode::Off {
            0
        } else {
            self.sectors(self.cache.read_ahead.max.0)
        };
        self.segments.take(missing, end - missing + ahead, &mut self.ghosts)
    }

    fn sectors(&self, bytes: u64) -> u64 {
        bytes / self.geometry.sector().0
    }

    /// Returns the sector up to which to read when the host has requested everything before `end`.
    fn read_ahead_limit(&self, segment: Option<SegmentId>, end: u64) -> u64 {
        let (Some(segment), spec) = (segment, &self.cache.read_ahead) else { return end };
        if spec.mode == ReadAheadMode::Off || self.segments.sequence(segment) < spec.after_sequential {
            return end;
        }
        let capacity = self.segments.capacity(segment);
        let reach = match spec.mode {
            ReadAheadMode::TrackEnd => self.geometry.end_of(Lba(end - 1), false).0,
            ReadAheadMode::NextTrack => {
                let track_end = self.geometry.end_of(Lba(end - 1), false);
                let last = self.geometry.capacity().0 - 1;
                self.geometry.end_of(Lba(track_end.0.min(last)), false).0
            }
            ReadAheadMode::CylinderEnd => self.geometry.end_of(Lba(end - 1), true).0,
            ReadAheadMode::Segment => end + self.segments.room_ahead(segment),
            ReadAheadMode::Fixed | ReadAheadMode::Off => u64::MAX,
        };
        // Beyond its capacity the ring would overwrite sectors that were read ahead and not yet requested.
        let keeps = self.cache.segments.consumed == Consumed::Keep;
        let room = if keeps { self.segments.room_ahead(segment) } else { capacity };
        let most = end + self.sectors(spec.max.0).min(room);
        reach.min(most).min(self.capacity().0).max(end)
    }

    /// Sets where the current read stops: at its limit, or as early as allowed if other work waits.
    pub(super) fn retarget(&mut self) {
        let waits = self.work_waits();
        let (least, idle_only) = (self.sectors(self.cache.read_ahead.min.0), self.cache.read_ahead.idle_only);
        let Media::Read(access) = &mut self.media else { return };
        access.plan.forget(self.now);
        let must = access.demand.max(access.plan.stop_at(&self.servo, self.now));
        let goal = if !waits {
            access.limit
        } else if idle_only {
            must
        } else {
            must.max((access.demand + least).min(access.limit))
        };
        access.goal = goal.max(must);
        let mechanism = Mechanism { geometry: &self.geometry, servo: &self.servo };
        access.plan.cover(mechanism, &mut self.ledger, access.goal);
        access.end = access.plan.time_at(&self.servo, access.goal).max(self.now);
    }

    /// Joins the waiting reads that the current access will reach; those fully cached by now are served as hits.
    pub(super) fn join_waiting(&mut self) {
        let mut from = None;
        while let Media::Read(access) = &self.media {
            let (passes, now) = (access.first..access.goal.saturating_add(1), self.now);
            let next = self.waiting.first_read(from, passes, |waiting| waiting.ready <= now);
            let Some((ticket, waiting)) = next else { return };
            let Work::Command(slot) = waiting.work else { return };
            self.waiting.remove(ticket);
            let command = self.commands[slot];
            let missing = self.cached_until(command.start(), command.end());
            if missing == command.end() {
                self.serve_from_cache(slot);
                from = None;
            } else if self.join(slot, missing, Some(ticket)) {
                from = None;
            } else {
                self.waiting.restore(ticket, waiting);
                from = Some(ticket.next());
            }
        }
    }

    /// Extends the current read's segment to the sectors that have passed the head by now.
    pub(super) fn note_progress(&mut self) {
        let Media::Read(access) = &mut self.media else { return };
        let passed = access.plan.progress(&self.servo, self.now).min(access.goal);
        access.plan.forget(self.now);
        self.ledger.settle(self.now);
        let Some(segment) = access.segment else { return };
        if passed > self.segments.end(segment) {
            self.segments.grow(segment, passed, &mut self.ghosts);
            self.segments.grow_front(segment, access.first);
        }
    }

    pub(super) fn end_read(&mut self, access: ReadAccess) {
        self.ledger.cut(self.now);
        self.ledger.settle(self.now);
        let goal = access.goal;
        self.arm = access.plan.arm_at(goal);
        if let Some(segment) = access.segment
            && goal > self.segments.end(segment)
        {
            self.segments.grow(segment, goal, &mut self.ghosts);
            self.segments.grow_front(segment, access.first);
        }
        self.log_read(&access);
        self.serve_waiting_hits(access.first, goal);
    }

    fn log_read(&mut self, access: &ReadAccess) {
        if self.log.is_none() {
            return;
        }
        let extent = Extent::new(Lba(access.first), Sectors(access.goal.saturating_sub(access.first)));
        self.log_cache(CacheChange::Fill, extent);
        let wanted = access.demand.saturating_sub(access.first);
        let event = DiskEvent {
            start: access.begun,
            seek: access.positioning.travel,
            rotation: access.positioning.wait,
            end: self.now,
            cause: if access.request.is_some() { DiskCause::Read } else { DiskCause::ReadAhead },
            request: access.request,
            lba: Lba(access.first),
            wanted: Sectors(wanted),
            ahead: Sectors(extent.sectors.0.saturating_sub(wanted)),
            distance: access.distance,
        };
        self.log.iter_mut().for_each(|log| log.push(LogEvent::Disk(event)));
    }

    /// After `first..end` has been read: serves the waiting reads that are now hits, and moves the start of partial
    /// ones.
    fn serve_waiting_hits(&mut self, first: u64, end: u64) {
        let mut from = None;
        while let Some((ticket, waiting)) = self.waiting.first_read(from, first..end, |_| true) {
            from = Some(ticket.next());
            let Work::Command(slot) = waiting.work else { continue };
            let command = self.commands[slot];
            let missing = self.cached_until(command.start(), command.end());
            if missing == command.end() {
                self.waiting.remove(ticket);
                self.serve_from_cache(slot);
            } else {
                let target = Target::from(&self.geometry.run(Lba(missing), 1));
                self.waiting.set_start(ticket, missing, target);
            }
        }
    }

    /// Sends the rest of a read to the host: its last sector is in the buffer.
    pub(super) fn send_to_host(&mut self, slot: usize) {
        let command = self.commands[slot];
        let (missing, coming) = command.missing;
        let (from, coming) =
            if self.interface.overlap { (command.data_from, coming) } else { (self.now, self.now) };
        let reconnect = self.interface.overhead.reconnect;
        let cached = if from < coming { from } else { coming + reconnect };
        let (_, all) = self.link.sending(cached, command.request.extent.sectors.0);
        let (_, rest) = self.link.sending(coming + reconnect, missing);
        let sent = all.max(rest).max(self.now + self.link.time_to_host(1));
        self.link.busy_until(sent);
        let over = sent + self.interface.overhead.completion;
        self.commands[slot].breakdown.overhead += over - self.now;
        self.announce(over, Occurrence::Finished(slot));
    }

    /// Removes `extent` from the read segments, for a write or discard, and ends a read-ahead that would fetch it.
    pub(super) fn invalidate_reads(&mut self, extent: Extent) {
        self.note_progress();
        let (start, end) = (extent.start.0, extent.end().0);
        let filled_until = |drive: &Drive| drive.filling().map(|segment| drive.segments.end(segment));
        let before = filled_until(self);
        self.segments.invalidate(start, end);
        let torn = filled_until(self) != before;
        if let Media::Read(access) = &mut self.media
            && (torn || (start < access.limit && access.first < end))
        {
            // Fetched data still goes to the host but is not kept. A segment that has lost its end is not continued.
            access.limit = access.demand;
            access.segment = None;
            self.retarget();
        }
        self.log_cache(CacheChange::Invalidate, extent);
    }

    /// Returns the segment that the current access fills.
    pub(super) fn filling(&self) -> Option<SegmentId> {
        match &self.media {
            Media::Read(access) => access.segment,
            _ => None,
        }
    }
}
