//! When a write's data comes into the buffer, and from when on a run of sectors may pass for it.

use sakiyomi_model::Nanos;

use crate::geometry::Run;

/// When a write's data comes into the buffer. Without any (a read), all is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supply {
    /// Not before this is it written.
    pub(crate) begin: Nanos,
    /// What is still to come. All else is there.
    pub(crate) arrivals: Vec<Arrival>,
}

/// Sectors that come from the host one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The first of them.
    pub(crate) start: u64,
    /// The first sector after them.
    pub(crate) end: u64,
    /// When the last of them is there.
    pub(crate) last: Nanos,
    /// The time between two sectors, in nanoseconds.
    pub(crate) per_sector: f64,
}

impl Arrival {
    /// When the sector before `end` is there.
    fn there(&self, end: u64) -> Nanos {
        self.last.saturating_sub(Nanos((self.per_sector * (self.end - end) as f64) as u64))
    }

    /// What of it lies before `end`.
    pub(crate) fn until(self, end: u64) -> Arrival {
        let end = end.min(self.end);
        Arrival { end, last: self.there(end), ..self }
    }

    /// From when on a run may pass: the first and the last sector of it that come have come in time then, and so have
    /// those between them.
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
