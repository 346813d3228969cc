//! Admission of as many unregulated requests as leave the regulated ones in time.
//!
//! An allowance limits the requests ahead of a regulated one at its arrival, but a drive that reorders lets later
//! requests overtake it. Therefore each candidate is checked when it could be issued: would all requests in the device,
//! including it, be done before the first deadline? Then the regulated request is in time whatever order the drive
//! chooses.
//!
//! Three kinds of deadline count. First, those of regulated requests in the device. Second, the deadline of the next
//! request of an owner whose reply is still delayed: it cannot arrive before the reply, so until shortly before,
//! anything may be issued that will be done by then. Third, owners that may send a request at any moment: for these the
//! allowance of section 4.2 is computed from the device's service times rather than from a count.

use std::collections::BTreeMap;

use sakiyomi_model::Nanos;

use super::allowance::IN_DEVICE_MAX;
use super::{CompletedRequest, View};
use crate::presence::Presence;
use crate::rate::{Levels, Share};
use crate::service::Service;
use crate::settings::Margin;

/// Deadline admission with its margin.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    margin: Margin,
    most: u32,
    look_ahead: bool,
    /// Margin in standard deviations, for all owners and by share: the faster an owner is, the more of its requests are
    /// overtaken by those of others.
    deviations: f64,
    by_share: BTreeMap<Share, f64>,
}

/// Number of deadlines examined: a device with 32 places cannot keep more.
const DEADLINES_MAX: usize = 64;
/// Increase of the margin for a late I/O, in standard deviations.
const MARGIN_STEP_DEVIATIONS: f64 = 0.1;
/// Largest margin, in standard deviations.
const MARGIN_MAX_DEVIATIONS: f64 = 6.0;

impl Deadline {
    pub(super) fn new(margin: Margin, most: u32, look_ahead: bool) -> Deadline {
        let most = most.clamp(1, IN_DEVICE_MAX);
        Deadline { margin, most, look_ahead, deviations: 1.0, by_share: BTreeMap::new() }
    }

    pub(super) fn ended(&mut self, ended: CompletedRequest) {
        if let Margin::Late(share) = self.margin {
            let off = if ended.late { 1.0 - share } else { -share };
            let here = self.by_share.entry(ended.share).or_insert(self.deviations);
            for deviations in [here, &mut self.deviations] {
                *deviations = (*deviations + MARGIN_STEP_DEVIATIONS * off).clamp(0.0, MARGIN_MAX_DEVIATIONS);
            }
        }
    }

    pub(super) fn admits(&self, view: &View<'_>) -> bool {
        view.others_in_device < self.most as usize
            && self.leaves_room(view)
            && self.keeps_deadlines(view, |_| true)
    }

    /// Returns whether a regulated request may be issued. It is delayed if it would make a request of a faster owner
    /// late and can afford the delay. It never waits for an idle device, so it is reconsidered after each completion.
    /// Between equally fast owners nothing would be gained, and throughput lost.
    pub(super) fn admits_regulated(&self, view: &View<'_>, deadline: Nanos, share: Share) -> bool {
        let one = view.service.mean_of_all();
        let end = start(view) + self.drain(share, view.in_device + 1, view.work, view.service);
        view.in_device == 0 || end + one > deadline || self.keeps_deadlines(view, |other| other > share)
    }

    /// Returns whether the request of an owner that arrives at this moment will be in time.
    fn leaves_room(&self, view: &View<'_>) -> bool {
        !self.look_ahead || view.in_device < self.room(view.presence, view.service)
    }

    pub(super) fn allowance(&self, presence: &Presence, service: &Service) -> u32 {
        (self.room(presence, service) as u32).clamp(1, self.most)
    }

    /// Returns how many requests may be in the device when an owner that may send a request at any moment does so.
    fn room(&self, presence: &Presence, service: &Service) -> usize {
        let mut room = self.room_beside(presence.thinking(), service);
        if let Some((allowed, share)) = presence.shortest_away() {
            room = room.min(self.fit(share, allowed, service).saturating_sub(1).max(1));
        }
        room
    }

    /// Returns whether an unregulated request fits beside those of `ahead` owners.
    pub(super) fn keeps(&self, share: Share, ahead: u32, service: &Service) -> bool {
        self.fit(share, service.time_for(share), service) > ahead as usize
    }

    fn room_beside(&self, thinking: &Levels, service: &Service) -> usize {
        let mut room = IN_DEVICE_MAX as usize;
        for (share, ahead) in thinking.by_performance() {
            let fits = self.fit(share, service.time_for(share), service).saturating_sub(ahead as usize);
            // The margin alone never excludes all unregulated requests: an owner may be idle for long.
            let formula = share.times().saturating_sub(ahead);
            room = room.min(fits.max(formula.min(1) as usize));
            if room == 0 {
                break;
            }
        }
        room
    }

    /// Returns how many requests the device completes within `time`, with the confidence that owners of this share
    /// need.
    fn fit(&self, share: Share, time: Nanos, service: &Service) -> usize {
        let one = service.mean_of_all();
        let (mut fits, mut beyond) = (0, IN_DEVICE_MAX as usize + 1);
        while beyond - fits > 1 {
            let load = (fits + beyond) / 2;
            if self.drain(share, load, one * load as u64, service) <= time {
                fits = load
            } else {
                beyond = load
            }
        }
        fits
    }

    /// Whether, with the candidate in the device, all known deadlines of owners whose share `counts` are kept.
    fn keeps_deadlines(&self, view: &View<'_>, counts: impl Fn(Share) -> bool) -> bool {
        let one = view.service.mean_of_all();
        let (mut load, mut work) = (view.in_device + 1, view.work);
        let known = view.deadlines.iter().map(|&(deadline, share, _)| (deadline, share));
        let mut known = known.filter(|&(_, share)| counts(share));
        let mut upcoming = view.presence.upcoming().filter(|&(_, share)| self.look_ahead && counts(share));
        let (mut here, mut next) = (known.next(), upcoming.next());
        for _ in 0..DEADLINES_MAX {
            let (deadline, share) = match (here, next) {
                (Some(first), other) if other.is_none_or(|other| first.0 <= other.0) => {
                    here = known.next();
                    first
                }
                (_, Some(first)) => {
                    next = upcoming.next();
                    (load, work) = (load + 1, work + one);
                    first
                }
                (_, None) => return true,
            };
            if start(view) + self.drain(share, load, work, view.service) > deadline {
                return false;
            }
        }
        true
    }

    /// Returns the time that suffices for `load` requests with a serial service time of `work`, with the confidence
    /// that owners of this share need.
    fn drain(&self, share: Share, load: usize, work: Nanos, service: &Service) -> Nanos {
        match self.margin {
            Margin::Flat(factor) => Nanos((work.0 as f64 * factor) as u64),
            Margin::Deviations(deviations) => service.drain(load, work, deviations),
            Margin::Late(_) => {
                let deviations = self.by_share.get(&share).copied().unwrap_or(self.deviations);
                service.drain(load, work, deviations)
            }
        }
    }
}

/// Returns the time from which the work in the device is counted: the start of its current request, but at most one
/// mean service time ago.
fn start(view: &View<'_>) -> Nanos {
    view.busy_since.max(view.now.saturating_sub(view.service.mean_of_all()))
}
