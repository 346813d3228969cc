//! A sample of arrivals.

/// A count of arrivals in an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) tuples: u64,
}

impl Sample {
    pub(super) fn seconds(&self) -> f64 {
        (self.to_ns - self.from_ns) as f64 * 1e-9
    }

    /// Returns the middle of its interval relative to `now_ns`, in seconds; negative if the interval ends by then.
    pub(super) fn at_s(&self, now_ns: u64) -> f64 {
        let end_s = if self.to_ns >= now_ns {
            (self.to_ns - now_ns) as f64 * 1e-9
        } else {
            -((now_ns - self.to_ns) as f64 * 1e-9)
        };
        end_s - self.seconds() / 2.0
    }

    /// Merges this sample with the next one.
    pub(super) fn followed_by(self, next: Sample) -> Sample {
        Sample { from_ns: self.from_ns, to_ns: next.to_ns, tuples: self.tuples.saturating_add(next.tuples) }
    }

    pub(super) fn rate_per_s(&self) -> f64 {
        self.tuples as f64 / self.seconds()
    }
}
