//! Results of an experiment.

mod job;
mod regulation;
mod workload;

use sakiyomi_drive::Usage;
use sakiyomi_model::Nanos;
use sakiyomi_prefetch::State;

pub use job::{JobOutcome, JobRun};
pub use regulation::{Allowance, AllowanceSource, RateAccuracy, Regulation};
pub use workload::WorkloadOutcome;

/// Result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Time until the end of the last program, or of the first if the experiment says so. Remaining dirty data is not
    /// waited for.
    pub elapsed: Nanos,
    /// Programs, in the order of the experiment.
    pub processes: Vec<ProcessOutcome>,
    /// Jobs, in the order of the experiment.
    pub jobs: Vec<JobOutcome>,
    /// Further workloads, in order.
    pub workloads: Vec<WorkloadOutcome>,
    /// Usage of the drive's mechanism; `None` for a device without one.
    pub usage: Option<Usage>,
    /// Accuracy of I/O times; `None` without a regulator.
    pub regulation: Option<Regulation>,
}

/// Result of one program.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessOutcome {
    /// Name.
    pub name: String,
    /// Time from its start to its end.
    pub elapsed: Nanos,
    /// CPU time, hops included.
    pub ran: Nanos,
    /// CPU time of hops between cores, and of wake-ups.
    pub hops: Nanos,
    /// Time in which it was ready to run but shared its core.
    pub queued: Nanos,
    /// Time in which it waited for reads.
    pub waited_read: Nanos,
    /// Time in which it was throttled because of too much dirty data.
    pub waited_write: Nanos,
    /// Time in which it paused.
    pub slept: Nanos,
    /// Time in which reads of its file were outstanding, for any purpose.
    pub reading: Nanos,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes loaded by a prefetcher.
    pub prefetched_bytes: u64,
    /// Bytes loaded by a prefetcher and evicted before the program used them.
    pub wasted_bytes: u64,
    /// Prefetch distance over time; empty without a prefetcher.
    pub distances: Distances,
    /// State of the prefetcher at the end; `None` without one.
    pub state: Option<State>,
}

impl ProcessOutcome {
    /// Returns the reading time that overlapped with other activities of the program.
    #[must_use]
    pub fn hidden(&self) -> Nanos {
        self.reading.saturating_sub(self.waited_read)
    }
}

/// The prefetch distance over time, in a bounded number of points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distances {
    /// Times, and the maximum distance since the previous point, in bytes.
    pub points: Vec<(Nanos, u64)>,
    /// Overall maximum, in bytes.
    pub longest: u64,
    interval: Nanos,
}

impl Distances {
    /// Maximum number of points of the curve; beyond it, neighbors are merged in pairs.
    const POINTS_MAX: usize = 512;

    pub(crate) fn seen(&mut self, now: Nanos, distance: u64) {
        self.longest = self.longest.max(distance);
        match self.points.last_mut() {
            Some(last) if now < last.0 + self.interval => last.1 = last.1.max(distance),
            _ => self.points.push((now, distance)),
        }
        if self.points.len() > Self::POINTS_MAX {
            let joined = self
                .points
                .chunks(2)
                .map(|pair| (pair[0].0, pair.iter().map(|point| point.1).max().unwrap_or_default()));
            self.points = joined.collect();
            let span = now.saturating_sub(self.points[0].0);
            self.interval = Nanos((span.0 / (Self::POINTS_MAX as u64 / 2)).max(self.interval.0 * 2));
        }
    }
}
