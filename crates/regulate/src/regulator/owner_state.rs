//! A regulated owner: its rate and statistics.

use sakiyomi_model::Nanos;

use super::burst::Bursts;
use super::io_times::IoTimeStatistics;
use crate::gate::CompletedRequest;
use crate::rate::{Rate, Share};

/// A regulated owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegulatedOwner {
    pub(super) rate: Rate,
    /// The share that corresponds to the rate, which orders the owners.
    pub(super) share: Share,
    pub(super) outstanding: u32,
    /// Time at which a device of the owner's own, with the requested speed, would have done all its requests.
    pub(super) until: Nanos,
    /// Whether the rate was granted, and not only accepted as best effort.
    pub(super) guaranteed: bool,
    /// Whether its last read continued a stream that is read ahead, so that the next one is probably no access.
    pub(super) in_stream: bool,
    /// Accumulated lateness of its replies due to timers (section 4.3), by which the next ones are sent earlier.
    pub(super) carry: Nanos,
    /// Service time of one I/O of the kind last requested.
    pub(super) service: Nanos,
    pub(super) bursts: Bursts,
    pub(super) kept: IoTimeStatistics,
}

impl RegulatedOwner {
    pub(super) fn ended(&mut self, ended: CompletedRequest) {
        if ended.ideal.is_zero() {
            return;
        }
        self.bursts.add(ended.took.0 as f64 / ended.ideal.0 as f64);
        self.kept.add(ended);
    }

    /// Records that the last I/O took `by` longer than known when it ended. Returns its ideal time.
    pub(super) fn ended_late(&mut self, by: Nanos) -> Nanos {
        let ideal = self.rate.ideal(self.service);
        if !ideal.is_zero() && !by.is_zero() {
            self.kept.add_late(by.0 as f64, ideal.0 as f64);
        }
        ideal
    }
}
