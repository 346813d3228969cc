//! The link to the host: one transfer at a time.

use sakiyomi_model::{Bytes, Nanos};

use crate::media::Plan;
use crate::servo::Servo;
use crate::spec::InterfaceSpec;

/// The link's rates, and the time until which it is busy.
#[derive(Clone, Debug)]
pub(super) struct Link {
    to_host_ns_per_sector: f64,
    from_host_ns_per_sector: f64,
    read_watermark: f64,
    free: Nanos,
}

impl Link {
    pub(super) fn new(spec: &InterfaceSpec, sector: Bytes) -> Link {
        let per_sector = |rate: Bytes| sector.0 as f64 * 1e9 / rate.0 as f64;
        Link {
            to_host_ns_per_sector: per_sector(spec.link_rate),
            from_host_ns_per_sector: per_sector(spec.link_rate_write.unwrap_or(spec.link_rate)),
            read_watermark: spec.read_watermark,
            free: Nanos::ZERO,
        }
    }

    /// Returns the transfer time of `sectors` to the host.
    pub(super) fn time_to_host(&self, sectors: u64) -> Nanos {
        Nanos((sectors as f64 * self.to_host_ns_per_sector) as u64)
    }

    /// Returns the transfer time of `sectors` from the host.
    pub(super) fn time_from_host(&self, sectors: u64) -> Nanos {
        Nanos((sectors as f64 * self.from_host_ns_per_sector) as u64)
    }

    /// Returns the transfer time of one sector from the host, in nanoseconds.
    pub(super) fn ns_per_sector_from_host(&self) -> f64 {
        self.from_host_ns_per_sector
    }

    /// Returns when a transfer to the host of sectors available from `from` on would begin and end.
    pub(super) fn sending(&self, from: Nanos, sectors: u64) -> (Nanos, Nanos) {
        let begin = from.max(self.free);
        (begin, begin + self.time_to_host(sectors))
    }

    /// Schedules a transfer to the host of sectors available from `from` on; returns its begin and end.
    pub(super) fn send(&mut self, from: Nanos, sectors: u64) -> (Nanos, Nanos) {
        let span = self.sending(from, sectors);
        self.free = span.1;
        span
    }

    /// Schedules a transfer from the host, at `from` or later; returns its begin and end.
    pub(super) fn receive(&mut self, from: Nanos, sectors: u64) -> (Nanos, Nanos) {
        let begin = from.max(self.free);
        self.free = begin + self.time_from_host(sectors);
        (begin, self.free)
    }

    /// Marks the link busy until `end`.
    pub(super) fn busy_until(&mut self, end: Nanos) {
        self.free = end;
    }

    /// Returns when the transfer of `missing..end` to the host may begin: when the sector that reaches the watermark
    /// begins to pass under the head.
    pub(super) fn flows_from(&self, plan: &Plan, servo: &Servo, missing: u64, end: u64) -> Nanos {
        let enough = (self.read_watermark * (end - missing) as f64) as u64;
        plan.begins_at(servo, missing + enough.saturating_sub(1))
    }
}
