//! Writes, to the cache or to the medium; flushes and discards.

use sakiyomi_model::{Class, Extent, Lba, Nanos, Op, Sectors, WriteClass};

use super::{Drive, Media, Occurrence};
use crate::geometry::Geometry;
use crate::log::{CacheChange, DiskCause, DiskEvent, Event as LogEvent};
use crate::media::{Access, Arrival, Mechanism, Plan, Positioning, Supply};
use crate::queue::{Ticket, Waiting, Work};
use crate::servo::Target;
use crate::spec::{WriteOnCached, WriteShare};

/// A write access, which always runs to its end.
#[derive(Clone, Debug)]
pub(super) struct WriteAccess {
    work: Work,
    begun: Nanos,
    positioning: Positioning,
    distance: u32,
    first: u64,
    last: u64,
    plan: Plan,
    /// First sector after the place on the medium, which is in the media cache if there is one.
    written_until: u64,
    pub(super) end: Nanos,
}

/// A flush that waits until all data older than it is on the medium.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flush {
    slot: usize,
    pub(super) sequence: u64,
}

fn place(geometry: &Geometry) -> impl Fn(u64) -> Target + '_ {
    |sector| Target::from(&geometry.run(Lba(sector), 1))
}

impl Drive {
    pub(super) fn arrive_write(&mut self, slot: usize) {
        let command = self.commands[slot];
        let destage = self.cache.write.destage_max.0 / self.geometry.sector().0;
        if let Some(cache) = &mut self.media_cache {
            let sectors = command.request.extent.sectors.0;
            cache.expect(if self.cache.write.enabled { destage.max(sectors) } else { sectors });
        }
        if self.cache.write.on_cached == WriteOnCached::Invalidate {
            self.invalidate_reads(command.request.extent);
        }
        let sectors = command.request.extent.sectors.0;
        if !self.cache.write.enabled || command.request.fua || !self.writes.could_hold(sectors) {
            self.write_through(slot);
        } else if self.stalled.is_empty() && self.writes.has_room(sectors) {
            self.absorb(slot, WriteClass::Absorbed);
            self.work_arrived();
        } else {
            self.stalled.push_back(slot);
            self.work_arrived();
        }
    }

    /// Transfers a write's data into the cache, after which the command is finished.
    fn absorb(&mut self, slot: usize, class: WriteClass) {
        let command = &mut self.commands[slot];
        let overhead = self.interface.overhead.write_hit.after(command.before);
        command.class = Class::Write(class);
        let (start, end, extent) = (command.start(), command.end(), command.request.extent);
        let completion = self.interface.overhead.completion;
        let (begun, received) = self.link.receive(self.now + overhead, extent.sectors.0);
        self.commands[slot].breakdown.overhead = overhead + (received - begun) + completion;
        self.announce(received + completion, Occurrence::Finished(slot));
        let arrival = Arrival { start, end, last: received, per_sector: self.link.ns_per_sector_from_host() };
        self.writes.insert(arrival, self.now, place(&self.geometry));
        self.share_room();
        self.log_cache(CacheChange::Dirty, extent);
    }

    /// Takes the space of dirty data from the read segments if both share one buffer.
    fn share_room(&mut self) {
        if self.cache.write.share != WriteShare::Shared {
            return;
        }
        let filling = self.filling();
        self.segments.yield_room(self.writes.sectors(), filling, &mut self.ghosts);
    }

    /// Queues a write that finishes only when it is on the medium. Until then the data it overwrites stays dirty,
    /// because that was acknowledged.
    fn write_through(&mut self, slot: usize) {
        let command = self.commands[slot];
        let overheads = &self.interface.overhead;
        let overhead = overheads.write_miss.after(command.before);
        let asked = overheads.write_data.unwrap_or(overheads.write_miss).after(command.before);
        let (_, received) = self.link.receive(self.now + asked, command.request.extent.sectors.0);
        // With overlap the arm moves at once, and the data arrives meanwhile.
        let ready =
            if self.interface.overlap { self.now + overhead } else { received.max(self.now + overhead) };
        let command = &mut self.commands[slot];
        command.class = Class::Write(WriteClass::Media);
        command.breakdown.overhead = ready - self.now;
        command.data_from = received;
        let (since, lba, end) = (self.now, command.start(), command.end());
        let target = place(&self.geometry)(lba);
        self.waiting.push(Waiting {
            work: Work::Command(slot),
            since,
            ready,
            lba,
            end,
            target,
            write: true,
            ticket: Ticket::NONE,
        });
        self.announce(ready, Occurrence::Ready);
    }

    /// Begins the access of a write command.
    pub(super) fn begin_write(&mut self, slot: usize) {
        let command = self.commands[slot];
        let (first, last) = (command.start(), command.end());
        let arrival = Arrival {
            start: first,
            end: last,
            last: command.data_from,
            per_sector: self.link.ns_per_sector_from_host(),
        };
        let supply = self.supply(vec![arrival]);
        let access = self.write_access(Work::Command(slot), first, last, supply);
        let breakdown = &mut self.commands[slot].breakdown;
        breakdown.seek = access.positioning.travel;
        breakdown.rotation = access.positioning.wait;
        breakdown.transfer =
            access.end - (access.begun + access.positioning.travel + access.positioning.wait);
        self.media = Media::Write(access);
    }

    /// Returns when the data is available. Without overlap all of it arrives before the first sector passes.
    fn supply(&self, arrivals: Vec<Arrival>) -> Supply {
        let all = arrivals.iter().map(|arrival| arrival.last).max().unwrap_or_default();
        Supply { begin: if self.interface.overlap { Nanos::ZERO } else { all }, arrivals }
    }

    /// Begins the access that destages the dirty range at `start`, whose newest data may still be arriving. In a stream
    /// each destage begins where the head stands after the previous one, so that no time is lost between them.
    pub(super) fn begin_destage(&mut self, start: u64) {
        let most = self.cache.write.destage_max.0 / self.geometry.sector().0;
        let is_oldest = self.writes.oldest().is_some_and(|oldest| oldest.0 == start);
        self.passed_over = if is_oldest { 0 } else { self.passed_over + 1 };
        let end = self.writes.launch(start, most, place(&self.geometry));
        let supply = self.supply(self.writes.arriving(start, end, self.now).collect());
        let access = self.write_access(Work::Destage(start), start, end, supply);
        self.media = Media::Write(access);
    }

    fn write_access(&mut self, work: Work, first: u64, last: u64, supply: Supply) -> WriteAccess {
        let from = self.place_of_write(first, last);
        let until = from + (last - first);
        let supply = supply.moved(first, from);
        // In the log, writes are padded to whole physical sectors.
        let lost = self.lost(from) + if from == first { self.rewriting(first, last) } else { Nanos::ZERO };
        let mechanism = Mechanism { geometry: &self.geometry, servo: &self.servo };
        let mut plan = Plan::default();
        let access = Access { lba: from, wanted: last - first, write: true, supply, on_arrival: false, lost };
        let positioning = plan.begin(mechanism, &mut self.ledger, self.now, self.arm, access);
        plan.cover(mechanism, &mut self.ledger, until);
        self.ledger.seeks.write += 1;
        let end = plan.time_at(&self.servo, until);
        let distance = plan.arm_at(from + 1).cylinder.abs_diff(self.arm.cylinder);
        WriteAccess {
            work,
            begun: self.now,
            positioning,
            distance,
            first,
            last,
            plan,
            written_until: until,
            end,
        }
    }

    pub(super) fn end_write(&mut self, access: WriteAccess) {
        self.ledger.cut(self.now);
        self.ledger.settle(self.now);
        self.arm = access.plan.arm_at(access.written_until);
        self.log_write(&access);
        match access.work {
            Work::Command(slot) => {
                let before = self.commands[slot].sequence;
                self.writes.drop_older(access.first, access.last, before, place(&self.geometry));
                self.dirty_data_left();
                self.forget_reads(access.first, access.last);
                let overhead = &self.interface.overhead;
                let completion = overhead.completion_write.unwrap_or(overhead.completion);
                self.commands[slot].breakdown.overhead += completion;
                self.announce(self.now + completion, Occurrence::Finished(slot));
            }
            Work::Destage(_) | Work::Clean => self.destaged(access.first, access.last),
        }
    }

    /// Invalidates segments that were read while the write waited for the arm: they are stale once it is on the medium.
    fn forget_reads(&mut self, first: u64, last: u64) {
        if self.cache.write.on_cached == WriteOnCached::Invalidate {
            self.segments.invalidate(first, last);
        }
    }

    /// Frees the space of a destaged range.
    fn destaged(&mut self, first: u64, last: u64) {
        self.writes.land();
        let extent = Extent::new(Lba(first), Sectors(last - first));
        self.share_room();
        if self.cache.write.keep
            && let Some(segment) = self.segments.take(first, last - first, &mut self.ghosts)
        {
            self.segments.grow(segment, last, &mut self.ghosts);
        }
        self.log_cache(CacheChange::Clean, extent);
        self.dirty_data_left();
    }

    /// Admits stalled writes and finishes flushes after dirty data was written or dropped.
    fn dirty_data_left(&mut self) {
        self.share_room();
        while let Some(&slot) = self.stalled.front() {
            if !self.writes.has_room(self.commands[slot].request.extent.sectors.0) {
                break;
            }
            self.stalled.pop_front();
            self.absorb(slot, WriteClass::Media);
        }
        while let Some(&Flush { slot, sequence }) = self.flushes.front() {
            if self.writes.holds_older_than(sequence) {
                break;
            }
            self.flushes.pop_front();
            self.finish_after_overhead(slot);
        }
    }

    fn log_write(&mut self, access: &WriteAccess) {
        if self.log.is_none() {
            return;
        }
        let (cause, request) = match access.work {
            Work::Command(slot) => (DiskCause::Write, Some(self.commands[slot].request.id)),
            Work::Destage(_) | Work::Clean => (DiskCause::Destage, None),
        };
        let event = DiskEvent {
            start: access.begun,
            seek: access.positioning.travel,
            rotation: access.positioning.wait,
            end: self.now,
            cause,
            request,
            lba: Lba(access.first),
            wanted: Sectors(access.last - access.first),
            ahead: Sectors::ZERO,
            distance: access.distance,
        };
        self.log.iter_mut().for_each(|log| log.push(LogEvent::Disk(event)));
    }

    pub(super) fn arrive_flush(&mut self, slot: usize) {
        self.commands[slot].class = Class::Flush;
        let sequence = self.writes.next_sequence();
        if self.writes.holds_older_than(sequence) {
            self.flushes.push_back(Flush { slot, sequence });
            self.work_arrived();
        } else {
            self.finish_after_overhead(slot);
        }
    }

    pub(super) fn arrive_discard(&mut self, slot: usize) {
        debug_assert_eq!(self.commands[slot].request.op, Op::Discard);
        let extent = self.commands[slot].request.extent;
        self.commands[slot].class = Class::Discard;
        if !extent.sectors.is_zero() {
            self.writes.drop_range(extent.start.0, extent.end().0, place(&self.geometry));
            self.dirty_data_left();
            self.invalidate_reads(extent);
            self.work_arrived();
        }
        self.finish_after_overhead(slot);
    }
}
