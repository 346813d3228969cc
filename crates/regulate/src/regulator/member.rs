//! A regulated owner: what it has asked for, and how that goes.

use sakiyomi_model::Nanos;

use super::burst::Bursts;
use super::kept::Kept;
use crate::gate::Ended;
use crate::rate::{Rate, Share};

/// A regulated owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) rate: Rate,
    /// What that comes to, and its place in the order of performance.
    pub(super) share: Share,
    pub(super) outstanding: u32,
    /// When a device of its own, as fast as it has asked for, would have done all that it has been given.
    pub(super) until: Nanos,
    /// By how much its answers have come too late because the timer did (section 4.3); the next one comes earlier.
    pub(super) carry: Nanos,
    /// What one I/O of the kind last asked for takes the device.
    pub(super) service: Nanos,
    pub(super) bursts: Bursts,
    pub(super) kept: Kept,
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
