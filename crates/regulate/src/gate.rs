//! Admission of unregulated requests to the device beside regulated ones.

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

/// State that a gate considers before it admits a request.
pub(crate) struct View<'a> {
    pub(crate) now: Nanos,
    /// Time at which the device began its current request; now, if it is idle.
    pub(crate) busy_since: Nanos,
    /// Requests in the device, and the unregulated ones among them.
    pub(crate) in_device: usize,
    pub(crate) others_in_device: usize,
    /// Serial service time of the requests in the device and of the candidate.
    pub(crate) work: Nanos,
    /// Deadlines of the regulated requests in the device or queued for it, in order.
    pub(crate) deadlines: &'a BTreeSet<(Nanos, Share, RequestId)>,
    pub(crate) presence: &'a Presence,
    pub(crate) service: &'a Service,
}

/// A regulated request that the device has completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompletedRequest {
    pub(crate) share: Share,
    pub(crate) ideal: Nanos,
    /// Time from its arrival to its reply, which may be still to come.
    pub(crate) took: Nanos,
    /// Whether the device missed its deadline.
    pub(crate) late: bool,
    /// Time of arrival. If it precedes the last change of the allowance, the request is no evidence about the current
    /// one.
    pub(crate) arrived: Nanos,
}

/// The rule by which unregulated requests are admitted to the device.
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

    /// Updates the allowance when a regulated owner was added, removed, or given another rate.
    pub(crate) fn owners_changed(&mut self, owners: &Levels) {
        if let Gate::Allowance(allowance) = self {
            allowance.owners_changed(owners.formula());
        }
    }

    pub(crate) fn ended(&mut self, now: Nanos, ended: CompletedRequest, service: &Service) {
        match self {
            Gate::Allowance(allowance) => allowance.ended(now, ended, service.changes()),
            Gate::Deadline(deadline) => deadline.ended(ended),
        }
    }

    /// Returns whether one more unregulated request may be issued.
    pub(crate) fn admits(&self, view: &View<'_>) -> bool {
        match self {
            Gate::Allowance(allowance) => allowance.admits(view),
            Gate::Deadline(deadline) => deadline.admits(view),
        }
    }

    /// Returns whether a request of an owner with this share, due by `deadline`, may be issued.
    pub(crate) fn admits_regulated(&self, view: &View<'_>, deadline: Nanos, share: Share) -> bool {
        match self {
            Gate::Allowance(allowance) => allowance.admits_regulated(view),
            Gate::Deadline(gate) => gate.admits_regulated(view, deadline, share),
        }
    }

    /// Returns whether the rates of all these owners can be kept with at least one unregulated request in the device.
    pub(crate) fn has_room(&self, owners: &Levels, service: &Service) -> bool {
        owners.by_performance().all(|(share, ahead)| self.keeps(share, ahead, service))
    }

    /// Returns whether the rate of an owner with this share, one of `owners`, can be kept.
    pub(crate) fn has_room_for(&self, share: Share, owners: &Levels, service: &Service) -> bool {
        let ahead = owners.by_performance().take_while(|(other, _)| *other >= share).last();
        self.keeps(share, ahead.map_or(1, |(_, ahead)| ahead), service)
    }

    /// Returns whether a share can be kept if `ahead` owners, including this one, have requested as much or more.
    fn keeps(&self, share: Share, ahead: u32, service: &Service) -> bool {
        match self {
            Gate::Deadline(deadline) if service.knows_several() => deadline.keeps(share, ahead, service),
            _ => match service.mean_of_all() {
                Nanos::ZERO => share.times() > ahead,
                mean => service.time_for(share).0 / mean.0 > u64::from(ahead),
            },
        }
    }

    /// Returns how many unregulated requests may be in the device when a regulated one arrives now: 1 to 32.
    pub(crate) fn allowance(&self, presence: &Presence, service: &Service) -> u32 {
        match self {
            Gate::Allowance(allowance) => allowance.now(presence.anybody()),
            Gate::Deadline(deadline) => deadline.allowance(presence, service),
        }
    }
}
