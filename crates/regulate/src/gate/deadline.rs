//! As many unregulated requests as leave the regulated ones in time.
//!
//! An allowance limits what is ahead of a regulated request when it comes; a drive that reorders lets those which come
//! after it overtake it. So each request is weighed when it could go in: would all that is in the device, with it, be
//! done before the first deadline? In whatever order the drive works, the regulated one is then in time.
//!
//! Three kinds of deadline count: of regulated requests that are in the device; of the next request of an owner whose
//! answer is still being held back, which cannot come before (so that until shortly before, all may go in that will be
//! done by then); and of owners that may ask at any moment, for which the allowance of section 4.2 is formed with the
//! times that the device needs rather than with a count.

use sakiyomi_model::Nanos;

use super::allowance::MOST;
use super::{Ended, View};
use crate::presence::Presence;
use crate::rate::{Levels, Share};
use crate::service::Service;
use crate::settings::Margin;

/// The rule with its margin.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    margin: Margin,
    most: u32,
    look_ahead: bool,
    deviations: f64,
}

/// So many deadlines are looked at, at most: more are never kept by a device of 32 places.
const LOOKED_AT: usize = 64;
/// By how much one late I/O raises the margin, in standard deviations.
const STEP: f64 = 0.1;
/// The range of the margin, in standard deviations.
const DEVIATIONS: (f64, f64) = (0.0, 6.0);

impl Deadline {
    pub(super) fn new(margin: Margin, most: u32, look_ahead: bool) -> Deadline {
        let deviations = match margin {
            Margin::Deviations(deviations) => deviations,
            Margin::Flat(_) | Margin::Late(_) => 1.0,
        };
        Deadline { margin, most: most.clamp(1, MOST), look_ahead, deviations }
    }

    pub(super) fn ended(&mut self, ended: Ended) {
        if let Margin::Late(share) = self.margin {
            let off = if ended.late { 1.0 - share } else { -share };
            self.deviations = (self.deviations + STEP * off).clamp(DEVIATIONS.0, DEVIATIONS.1);
        }
    }

    pub(super) fn admits(&self, view: &View<'_>) -> bool {
        view.others_in_device < self.most as usize && self.leaves_room(view) && self.keeps_deadlines(view)
    }

    /// A regulated request waits where it would make a faster owner's late, while it has the time to. It does not wait
    /// for an idle device, so it is looked at again when something ends. (Between owners that are as fast nothing would
    /// be gained, and throughput lost.)
    pub(super) fn admits_regulated(&self, view: &View<'_>, deadline: Nanos, faster: Option<Nanos>) -> bool {
        let Some(faster) = faster.filter(|_| view.in_device > 0) else { return true };
        let one = view.service.mean_of_all();
        let start = view.busy_since.max(view.now.saturating_sub(one));
        let end = start + self.drain(view.in_device + 1, view.work, view.service);
        end <= faster || end + one > deadline
    }

    /// Whether an owner that asks at this moment will be in time.
    fn leaves_room(&self, view: &View<'_>) -> bool {
        !self.look_ahead || view.in_device < self.room(view.presence, view.service)
    }

    pub(super) fn allowance(&self, presence: &Presence, service: &Service) -> u32 {
        (self.room(presence, service) as u32).clamp(1, self.most)
    }

    /// How many requests may be in the device when one of the owners that may ask at any moment does.
    fn room(&self, presence: &Presence, service: &Service) -> usize {
        let mut room = self.room_beside(presence.thinking(), service);
        if let Some(allowed) = presence.shortest_away() {
            room = room.min(self.fit(allowed, service).saturating_sub(1).max(1));
        }
        room
    }

    /// Whether one request of another fits beside those of so many owners.
    pub(super) fn keeps(&self, share: Share, ahead: u32, service: &Service) -> bool {
        self.fit(service.time_for(share), service) > ahead as usize
    }

    fn room_beside(&self, thinking: &Levels, service: &Service) -> usize {
        let mut room = MOST as usize;
        for (share, ahead) in thinking.by_performance() {
            let fits = self.fit(service.time_for(share), service).saturating_sub(ahead as usize);
            // The margin alone never keeps everybody out: an owner may think for long.
            let formula = share.times().saturating_sub(ahead);
            room = room.min(fits.max(formula.min(1) as usize));
            if room == 0 {
                break;
            }
        }
        room
    }

    /// How many requests the device surely does within `time`.
    fn fit(&self, time: Nanos, service: &Service) -> usize {
        let one = service.mean_of_all();
        let (mut fits, mut beyond) = (0, MOST as usize + 1);
        while beyond - fits > 1 {
            let load = (fits + beyond) / 2;
            if self.drain(load, one * load as u64, service) <= time { fits = load } else { beyond = load }
        }
        fits
    }

    /// Whether, with one more in the device, all known deadlines are kept.
    fn keeps_deadlines(&self, view: &View<'_>) -> bool {
        let one = view.service.mean_of_all();
        let start = view.busy_since.max(view.now.saturating_sub(one));
        let (mut load, mut work) = (view.in_device + 1, view.work);
        let mut known = view.deadlines.iter().map(|(deadline, _)| *deadline);
        let mut upcoming = view.presence.upcoming().filter(|_| self.look_ahead);
        let (mut here, mut next) = (known.next(), upcoming.next());
        for _ in 0..LOOKED_AT {
            let deadline = match (here, next) {
                (Some(deadline), other) if other.is_none_or(|other| deadline <= other) => {
                    here = known.next();
                    deadline
                }
                (_, Some(deadline)) => {
                    next = upcoming.next();
                    (load, work) = (load + 1, work + one);
                    deadline
                }
                (_, None) => return true,
            };
            if start + self.drain(load, work, view.service) > deadline {
                return false;
            }
        }
        true
    }

    /// The time that surely suffices for `load` requests that would take `work` one by one.
    fn drain(&self, load: usize, work: Nanos, service: &Service) -> Nanos {
        match self.margin {
            Margin::Flat(factor) => Nanos((work.0 as f64 * factor) as u64),
            Margin::Deviations(_) | Margin::Late(_) => service.drain(load, work, self.deviations),
        }
    }
}
