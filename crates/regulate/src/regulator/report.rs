//! Reports on rates and on the device for a live view. Constant memory per owner.

use sakiyomi_model::Nanos;

use super::Regulator;
use super::io_times::Recent;
use super::owner_state::RegulatedOwner;
use super::request::State;
use crate::rate::{Owner, Rate};

/// How well the rate of an owner is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// Its rate.
    pub rate: Rate,
    /// Whether the rate is not guaranteed: with the device's current service time there is no capacity for it.
    pub best_effort: bool,
    /// Ideal time of the next I/O, if it is like the last one.
    pub ideal: Nanos,
    /// I/Os completed since the rate was set.
    pub ios: u64,
    /// I/Os since then that missed their deadline.
    pub late: u64,
    /// Mean ratio of actual to ideal time since then. 1 is exact, up to 1.1 is good (section 6.2); 1 before the first
    /// I/O.
    pub accuracy: f64,
    /// Figures of the recent I/Os.
    pub recent: Recent,
    /// Its queued requests.
    pub waiting: usize,
    /// Its requests in the device.
    pub in_device: usize,
    /// Its completed requests with delayed replies.
    pub held_back: usize,
}

/// State of the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceReport {
    /// Time of this report.
    pub at: Nanos,
    /// How many unregulated requests may be in the device when a regulated one arrives now, 1 to 32.
    pub allowance: u32,
    /// Measured mean service time; zero before the first measurement.
    pub service: Nanos,
    /// Parallelism of the device: 1 if it serves requests one by one, or is not known yet.
    pub parallelism: f64,
    /// Requests in the device.
    pub in_device: usize,
    /// Requests in the queue.
    pub waiting: usize,
    /// Completed requests with delayed replies.
    pub held_back: usize,
    /// Owners that have a rate.
    pub regulated: usize,
    /// Total number of requests completed by the device.
    pub ended: u64,
    /// Total time with a request in the device.
    pub busy: Nanos,
}

impl DeviceReport {
    /// Returns the fraction of the time since an `earlier` report in which the device was busy, 0 to 1.
    #[must_use]
    pub fn busy_share_since(&self, earlier: &DeviceReport) -> f64 {
        let (busy, time) = (self.busy.saturating_sub(earlier.busy), self.at.saturating_sub(earlier.at));
        if time.is_zero() { 0.0 } else { busy.0 as f64 / time.0 as f64 }
    }
}

impl Regulator {
    /// Returns how well an owner's rate is kept, if it has one. The cost is linear in its outstanding requests.
    #[must_use]
    pub fn report(&self, owner: Owner) -> Option<Report> {
        self.members.get(&owner).map(|member| self.report_of(owner, member))
    }

    /// Returns the reports of all owners with rates, in ascending order of owner.
    pub fn reports(&self) -> impl Iterator<Item = (Owner, Report)> {
        self.members.iter().map(|(owner, member)| (*owner, self.report_of(*owner, member)))
    }

    /// Returns the state of the device.
    #[must_use]
    pub fn device_report(&self) -> DeviceReport {
        let busy_now = if self.device.len() == 0 { Nanos::ZERO } else { self.now - self.device.began };
        DeviceReport {
            at: self.now,
            allowance: self.allowance(),
            service: self.service.mean_of_all(),
            parallelism: self.service.parallelism(),
            in_device: self.device.len(),
            waiting: self.queue.len(),
            held_back: self.held_back.len(),
            regulated: self.members.len(),
            ended: self.device.ended,
            busy: self.device.busy + busy_now,
        }
    }

    fn report_of(&self, owner: Owner, member: &RegulatedOwner) -> Report {
        let mut counts = [0; 3];
        for id in self.ids_of(owner) {
            counts[match self.requests[&id].state {
                State::Waiting | State::AwaitsFetch(_) => 0,
                State::InDevice(_) => 1,
                State::HeldBack { .. } => 2,
            }] += 1;
        }
        let [waiting, in_device, held_back] = counts;
        Report {
            rate: member.rate,
            best_effort: match self.planned {
                Some(_) => !member.guaranteed,
                None => !self.gate.has_room_for(member.share, &self.levels, &self.service),
            },
            ideal: member.rate.ideal(member.service),
            ios: member.kept.ios,
            late: member.kept.late,
            accuracy: member.kept.accuracy(),
            recent: member.kept.recent(),
            waiting,
            in_device,
            held_back,
        }
    }
}
