//! Shingled tracks: cleaning of bands, and where writes go.

use sakiyomi_model::{Lba, Nanos, Sectors};

use super::{Drive, Media};
use crate::log::{DiskCause, DiskEvent, Event as LogEvent};
use crate::media::{Access, Mechanism, Plan, Positioning, Supply};
use crate::queue::Work;
use crate::servo::Arm;

/// Cleaning of a band: a read of all its sectors, then a write of them. It is not interrupted.
#[derive(Clone, Debug)]
pub(super) struct CleanAccess {
    begun: Nanos,
    positioning: Positioning,
    distance: u32,
    first: u64,
    last: u64,
    arm: Arm,
    pub(super) end: Nanos,
}

impl Drive {
    /// Returns the cleaning of a band, if a write waits and may find no room in the media cache.
    pub(super) fn must_clean(&self) -> Option<Work> {
        let exhausted =
            self.media_cache.as_ref().is_some_and(|cache| cache.is_exhausted() && !cache.is_empty());
        let writes = || !self.writes.is_empty() || self.waiting.any_write();
        (exhausted && writes()).then_some(Work::Clean)
    }

    /// Returns the cleaning of a band, if the drive has been idle for long enough.
    pub(super) fn clean_when_quiet(&mut self) -> Option<Work> {
        let due = self.clean_timer()?;
        if !self.tidying && self.now < due {
            return None;
        }
        self.tidying = true;
        Some(Work::Clean)
    }

    /// Returns when an idle drive begins to clean bands.
    pub(super) fn clean_timer(&self) -> Option<Nanos> {
        let delay = self.clean_delay;
        let held = self.media_cache.as_ref().is_some_and(|cache| !cache.is_empty());
        let quiet = held && !delay.is_zero() && self.waiting.is_empty() && self.writes.is_empty();
        quiet.then(|| self.quiet_since.saturating_add(delay))
    }

    /// Begins to clean the band whose data has been in the media cache longest.
    pub(super) fn begin_clean(&mut self) {
        let Some((first, last)) = self.media_cache.as_ref().and_then(|cache| cache.next_band()) else {
            return;
        };
        let (read, arm, positioning) = self.pass(first, last, false, self.now, self.arm);
        let distance = self.geometry.run(Lba(first), 1).cylinder.abs_diff(self.arm.cylinder);
        let (end, arm, _) = self.pass(first, last, true, read, arm);
        self.ledger.seeks.read += 1;
        self.ledger.seeks.write += 1;
        self.media =
            Media::Clean(CleanAccess { begun: self.now, positioning, distance, first, last, arm, end });
    }

    /// Plans a transfer of `first..last` from `now` on; returns its end and the arm's position there.
    fn pass(
        &mut self,
        first: u64,
        last: u64,
        write: bool,
        now: Nanos,
        arm: Arm,
    ) -> (Nanos, Arm, Positioning) {
        let mechanism = Mechanism { geometry: &self.geometry, servo: &self.servo };
        let (supply, lost) = (Supply::default(), Nanos::ZERO);
        let access = Access { lba: first, wanted: last - first, write, supply, on_arrival: false, lost };
        let mut plan = Plan::default();
        let positioning = plan.begin(mechanism, &mut self.ledger, now, arm, access);
        plan.cover(mechanism, &mut self.ledger, last);
        let end = plan.time_at(&self.servo, last);
        self.ledger.cut(end);
        (end, plan.arm_at(last), positioning)
    }

    pub(super) fn end_clean(&mut self, access: &CleanAccess) {
        self.ledger.cut(self.now);
        self.ledger.settle(self.now);
        self.arm = access.arm;
        if let Some(cache) = &mut self.media_cache {
            cache.cleaned();
        }
        let event = DiskEvent {
            start: access.begun,
            seek: access.positioning.travel,
            rotation: access.positioning.wait,
            end: self.now,
            cause: DiskCause::Clean,
            request: None,
            lba: Lba(access.first),
            wanted: Sectors(access.last - access.first),
            ahead: Sectors::ZERO,
            distance: access.distance,
        };
        self.log.iter_mut().for_each(|log| log.push(LogEvent::Disk(event)));
    }

    /// Returns where `first..last` is written: in the media cache, or at home.
    pub(super) fn place_of_write(&mut self, first: u64, last: u64) -> u64 {
        self.media_cache.as_mut().and_then(|cache| cache.append(first, last)).unwrap_or(first)
    }

    /// Returns the revolutions that a write loses to physical sectors that it covers partly: each is read first, and
    /// written when it comes around again. What the buffer holds need not be read.
    pub(super) fn rewriting(&self, first: u64, last: u64) -> Nanos {
        let per_physical = self.physical_sectors;
        let (head, tail) = (first - first % per_physical, last.next_multiple_of(per_physical));
        let tail = tail.min(self.geometry.capacity().0);
        let reads_head = self.cached_until(head, first) < first;
        let reads_tail = self.cached_until(last, tail) < tail;
        let track = |sector: u64| {
            let run = self.geometry.run(Lba(sector), 1);
            (run.cylinder, run.head)
        };
        let turns = match (reads_head, reads_tail) {
            (false, false) => 0,
            (true, true) if track(first) != track(last - 1) => 2,
            _ => 1,
        };
        self.servo.revolution() * turns
    }
}
