//! Arrival of a write's data in the buffer, and the resulting earliest time at which its sectors may pass.

use sakiyomi_model::Nanos;

use crate::geometry::Run;

/// Arrival times of a write's data. The default (for reads) means that all data is available.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supply {
    /// Earliest start of writing.
    pub(crate) begin: Nanos,
    /// Data still to arrive; all other data is available.
    pub(crate) arrivals: Vec<Arrival>,
}

impl Supply {
    /// Returns the supply of data that is written from `to` on instead of `from`.
    pub(crate) fn moved(mut self, from: u64, to: u64) -> Supply {
        for arrival in self.arrivals.iter_mut().filter(|_| from != to) {
            (arrival.start, arrival.end) = (arrival.start.max(from) - from + to, arrival.end - from + to);
        }
        self
    }
}

/// Consecutive sectors arriving from the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// First sector.
    pub(crate) start: u64,
    /// First sector after the last one.
    pub(crate) end: u64,
    /// Arrival time of the last sector.
    pub(crate) last: Nanos,
    /// Time between two sectors, in nanoseconds.
    pub(crate) per_sector: f64,
}

impl Arrival {
    /// Returns the arrival time of the sector before `end`.
    fn there(&self, end: u64) -> Nanos {
        self.last.saturating_sub(Nanos((self.per_sector * (self.end - end) as f64) as u64))
    }

    /// Returns the part before `end`.
    pub(crate) fn until(self, end: u64) -> Arrival {
        let end = end.min(self.end);
        Arrival { end, last: self.there(end), ..self }
    }

    /// Returns the earliest time at which a run may pass. The condition is checked for its first and its last arriving
    /// sector, which implies it for those between.
    pub(super) fn allows(&self, run: &Run, revolution: Nanos) -> Nanos {
        let (first, end) = (self.start.max(run.lba.0), self.end.min(run.lba.0 + u64::from(run.sectors)));
        if first >= end {
            return Nanos::ZERO;
        }
        let passing = |until: u64| run.passing((until - run.lba.0) as u32, revolution);
        let begins = self.there(first + 1).saturating_sub(passing(first));
        begins.max(self.there(end).saturating_sub(passing(end)))
    }
}
