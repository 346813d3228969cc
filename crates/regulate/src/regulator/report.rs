//! How well rates are kept, and how the device does: for a live view. Constant memory for each owner.

use sakiyomi_model::Nanos;

use super::rates::Member;
use super::request::State;
use super::{Owner, Regulator};
use crate::gate::Ended;
use crate::rate::Rate;

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

/// An owner's last 128 to 256 I/Os, or all that there were since the rate was set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recent {
    /// How many.
    pub ios: u32,
    /// How many the device had not done in time.
    pub late: u32,
    /// How long they took, in the mean; zero without any.
    pub took: Nanos,
    /// How long they were to take, in the mean; zero without any.
    pub ideal: Nanos,
    /// Mean of the time that they took, against the ideal; 1 without any.
    pub accuracy: f64,
    /// Standard deviation of the time that they took, over its mean; 0 without any.
    pub cov: f64,
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

/// What is kept of an owner's I/Os.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    ios: u64,
    late: u64,
    ratios: f64,
    /// The last full block and the one that is being filled: together the last [`BLOCK`] to twice as many.
    before: Block,
    block: Block,
}

/// I/Os in a block.
const BLOCK: u32 = 128;

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    ios: u32,
    late: u32,
    ratios: f64,
    ideals: f64,
    took: f64,
    squares: f64,
}

impl Kept {
    fn add(&mut self, ended: Ended) {
        if self.block.ios == BLOCK {
            self.before = std::mem::take(&mut self.block);
        }
        let (took, ideal) = (ended.took.0 as f64, ended.ideal.0 as f64);
        self.ios += 1;
        self.late += u64::from(ended.late);
        self.ratios += took / ideal;
        self.block.ios += 1;
        self.block.late += u32::from(ended.late);
        self.block.ratios += took / ideal;
        self.block.ideals += ideal;
        self.block.took += took;
        self.block.squares += took * took;
    }

    /// An I/O that has been added, and was to take about `ideal`, took `by` longer.
    fn add_late(&mut self, by: f64, ideal: f64) {
        if self.block.ios > 0 {
            self.ratios += by / ideal;
            self.block.ratios += by / ideal;
            self.block.took += by;
            self.block.squares += by * (2.0 * ideal + by);
        }
    }

    fn accuracy(&self) -> f64 {
        if self.ios == 0 { 1.0 } else { self.ratios / self.ios as f64 }
    }

    fn recent(&self) -> Recent {
        let sum = |part: fn(&Block) -> f64| part(&self.before) + part(&self.block);
        let (ios, late) = (self.before.ios + self.block.ios, self.before.late + self.block.late);
        if ios == 0 {
            let (took, ideal) = (Nanos::ZERO, Nanos::ZERO);
            return Recent { ios, late, took, ideal, accuracy: 1.0, cov: 0.0 };
        }
        let count = f64::from(ios);
        let took = sum(|block| block.took) / count;
        let variance = (sum(|block| block.squares) / count - took * took).max(0.0);
        Recent {
            ios,
            late,
            took: Nanos(took as u64),
            ideal: Nanos((sum(|block| block.ideals) / count) as u64),
            accuracy: sum(|block| block.ratios) / count,
            cov: if took > 0.0 { variance.sqrt() / took } else { 0.0 },
        }
    }
}

impl Member {
    pub(super) fn ended(&mut self, ended: Ended) {
        if ended.ideal.is_zero() {
            return;
        }
        self.bursts.add(ended.took.0 as f64 / ended.ideal.0 as f64);
        self.kept.add(ended);
    }

    /// The I/O that has ended last took so much longer than was known then. Says how long it was to take.
    pub(super) fn ended_late(&mut self, by: Nanos) -> Nanos {
        let ideal = self.rate.ideal(self.service);
        if !ideal.is_zero() && !by.is_zero() {
            self.kept.add_late(by.0 as f64, ideal.0 as f64);
        }
        ideal
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
