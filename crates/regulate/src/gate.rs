//! Who else may be in the device beside regulated requests.

mod allowance;
mod deadline;

use std::collections::BTreeSet;

use sakiyomi_model::{Nanos, RequestId};

use crate::presence::Presence;
use crate::rate::{Levels, Share};
use crate::service::Service;
use crate::settings::GateSettings;
use allowance::Allowance;
use deadline::Deadline;

/// What a gate looks at before it lets in another unregulated request.
pub(crate) struct View<'a> {
    pub(crate) now: Nanos,
    /// Since when the device has been at the request that it is at; now, if it is idle.
    pub(crate) busy_since: Nanos,
    /// Requests in the device, and how many of them are not regulated.
    pub(crate) in_device: usize,
    pub(crate) others_in_device: usize,
    /// What it would take for those in the device and for the one that would go in, one by one.
    pub(crate) work: Nanos,
    /// By when regulated requests that are in the device, or wait for it, must have ended; in order.
    pub(crate) deadlines: &'a BTreeSet<(Nanos, Share, RequestId)>,
    pub(crate) presence: &'a Presence,
    pub(crate) service: &'a Service,
}

/// A regulated request that the device has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) share: Share,
    pub(crate) ideal: Nanos,
    /// From its arrival until it was, or will be, answered.
    pub(crate) took: Nanos,
    /// Whether the device was too late with it.
    pub(crate) late: bool,
    /// It arrived before the allowance was last changed: it says nothing about this one.
    pub(crate) arrived: Nanos,
}

/// The rule by which unregulated requests go into the device.
#[derive(Clone, Debug)]
pub(crate) enum Gate {
    Allowance(Allowance),
    Deadline(Deadline),
}

impl Gate {
    pub(crate) fn new(settings: GateSettings) -> Gate {
        match settings {
            GateSettings::Allowance { correction, counted } => {
                Gate::Allowance(Allowance::new(correction, counted))
            }
            GateSettings::Deadline { margin, most, look_ahead } => {
                Gate::Deadline(Deadline::new(margin, most, look_ahead))
            }
        }
    }

    /// A regulated owner has come, gone, or changed its performance.
    pub(crate) fn owners_changed(&mut self, owners: &Levels) {
        if let Gate::Allowance(allowance) = self {
            allowance.owners_changed(owners.formula());
        }
    }

    pub(crate) fn ended(&mut self, now: Nanos, ended: Ended, service: &Service) {
        match self {
            Gate::Allowance(allowance) => allowance.ended(now, ended, service.changes()),
            Gate::Deadline(deadline) => deadline.ended(ended),
        }
    }

    /// Whether one more unregulated request may go into the device.
    pub(crate) fn admits(&self, view: &View<'_>) -> bool {
        match self {
            Gate::Allowance(allowance) => allowance.admits(view),
            Gate::Deadline(deadline) => deadline.admits(view),
        }
    }

    /// Whether a request of an owner with this share, which must end by `deadline`, may go into the device.
    pub(crate) fn admits_regulated(&self, view: &View<'_>, deadline: Nanos, share: Share) -> bool {
        match self {
            Gate::Allowance(allowance) => allowance.admits_regulated(view),
            Gate::Deadline(gate) => gate.admits_regulated(view, deadline, share),
        }
    }

    /// Whether all these owners can be kept to their rates, with at least one request of another in the device.
    pub(crate) fn has_room(&self, owners: &Levels, service: &Service) -> bool {
        owners.by_performance().all(|(share, ahead)| self.keeps(share, ahead, service))
    }

    /// Whether an owner with this share, one of these, can be kept to its rate.
    pub(crate) fn has_room_for(&self, share: Share, owners: &Levels, service: &Service) -> bool {
        let ahead = owners.by_performance().take_while(|(other, _)| *other >= share).last();
        self.keeps(share, ahead.map_or(1, |(_, ahead)| ahead), service)
    }

    /// Whether an owner can be kept to its share where so many, with it, have asked for as much or more.
    fn keeps(&self, share: Share, ahead: u32, service: &Service) -> bool {
        match self {
            Gate::Deadline(deadline) if service.knows_several() => deadline.keeps(share, ahead, service),
            _ => match service.mean_of_all() {
                Nanos::ZERO => share.times() > ahead,
                mean => service.time_for(share).0 / mean.0 > u64::from(ahead),
            },
        }
    }

    /// How many unregulated requests may be in the device when a regulated one comes now: 1 to 32.
    pub(crate) fn allowance(&self, presence: &Presence, service: &Service) -> u32 {
        match self {
            Gate::Allowance(allowance) => allowance.now(presence.anybody()),
            Gate::Deadline(deadline) => deadline.allowance(presence, service),
        }
    }
}
