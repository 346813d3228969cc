//! How well rates are kept, and how the device does: for a live view. Constant memory for each owner.

use sakiyomi_model::Nanos;

use super::Regulator;
use super::kept::Recent;
use super::member::Member;
use super::request::State;
use crate::rate::{Owner, Rate};

/// How well an owner's rate is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// What it has asked for.
    pub rate: Rate,
    /// Whether it is kept only as well as can be: there is no room for it, with the device as it is now.
    pub best_effort: bool,
    /// How long the next I/O is to take, if it is like the last one.
    pub ideal: Nanos,
    /// Since the rate was set: I/Os that have ended.
    pub ios: u64,
    /// Since the rate was set: those that the device had not done in time.
    pub late: u64,
    /// Since the rate was set: mean of the time that they took, against the ideal. 1 is exact, up to 1.1 is good
    /// (section 6.2); 1 before the first.
    pub accuracy: f64,
    /// The same of the last I/Os.
    pub recent: Recent,
    /// Its requests that wait to go into the device.
    pub waiting: usize,
    /// Its requests that the device has.
    pub in_device: usize,
    /// Its requests that the device has done, and whose answer is held back.
    pub held_back: usize,
}

/// How the device does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceReport {
    /// When this was so.
    pub at: Nanos,
    /// How many unregulated requests may be in the device when a regulated one comes now, 1 to 32.
    pub allowance: u32,
    /// The mean service time, as measured; zero before anything is.
    pub service: Nanos,
    /// How many the device serves at once: 1 where it does one after another, or nothing is known yet.
    pub parallelism: f64,
    /// Requests in the device.
    pub in_device: usize,
    /// Requests that wait to go in.
    pub waiting: usize,
    /// Requests that the device has done, and whose answers are held back.
    pub held_back: usize,
    /// Owners that have a rate.
    pub regulated: usize,
    /// Since the beginning: how many requests the device has ended.
    pub ended: u64,
    /// Since the beginning: how long there was something in the device.
    pub busy: Nanos,
}

impl DeviceReport {
    /// The share of the time since an `earlier` report in which there was something in the device, 0 to 1.
    #[must_use]
    pub fn busy_share_since(&self, earlier: &DeviceReport) -> f64 {
        let (busy, time) = (self.busy.saturating_sub(earlier.busy), self.at.saturating_sub(earlier.at));
        if time.is_zero() { 0.0 } else { busy.0 as f64 / time.0 as f64 }
    }

    /// Requests a second that the device has ended since an `earlier` report.
    #[must_use]
    pub fn iops_since(&self, earlier: &DeviceReport) -> f64 {
        let time = self.at.saturating_sub(earlier.at);
        if time.is_zero() { 0.0 } else { (self.ended - earlier.ended) as f64 / time.as_secs_f64() }
    }
}

impl Regulator {
    /// How well an owner's rate is kept, if it has one. Looks at each of its requests.
    #[must_use]
    pub fn report(&self, owner: Owner) -> Option<Report> {
        self.members.get(&owner).map(|member| self.report_of(owner, member))
    }

    /// The same of all that have a rate, in their order.
    pub fn reports(&self) -> impl Iterator<Item = (Owner, Report)> {
        self.members.iter().map(|(owner, member)| (*owner, self.report_of(*owner, member)))
    }

    /// How the device does.
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

    fn report_of(&self, owner: Owner, member: &Member) -> Report {
        let mut counts = [0; 3];
        for id in self.ids_of(owner) {
            counts[match self.requests[&id].state {
                State::Waiting => 0,
                State::InDevice(_) => 1,
                State::HeldBack { .. } => 2,
            }] += 1;
        }
        let [waiting, in_device, held_back] = counts;
        Report {
            rate: member.rate,
            best_effort: !self.gate.has_room_for(member.share, &self.levels, &self.service),
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
