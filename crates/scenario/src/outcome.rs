//! What came of an experiment.

mod job;
mod regulation;
mod workload;

use sakiyomi_drive::Usage;
use sakiyomi_model::Nanos;
use sakiyomi_prefetch::State;

pub use job::{JobOutcome, JobRun};
pub use regulation::{Allowance, Decided, Kept, Regulation};
pub use workload::WorkloadOutcome;

/// What came of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// From the beginning until the last program has ended, or the first if so is said. What is still dirty then is not
    /// waited for.
    pub elapsed: Nanos,
    /// The programs, in the order of the experiment.
    pub processes: Vec<ProcessOutcome>,
    /// The jobs, in the order of the experiment.
    pub jobs: Vec<JobOutcome>,
    /// Workloads that were given besides, in their order.
    pub workloads: Vec<WorkloadOutcome>,
    /// What the drive's mechanism did; none for a device without one.
    pub usage: Option<Usage>,
    /// How well I/O times were kept; none without a regulator.
    pub regulation: Option<Regulation>,
}

/// What came of one program.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessOutcome {
    /// Its name.
    pub name: String,
    /// From its start to its end.
    pub elapsed: Nanos,
    /// Time on a core, hops included.
    pub ran: Nanos,
    /// Time on a core for hops between cores, and for waking one up.
    pub hops: Nanos,
    /// Time in which it wanted a core and shared it.
    pub queued: Nanos,
    /// Time in which it waited for what it reads.
    pub waited_read: Nanos,
    /// Time in which it could not write because too much was dirty.
    pub waited_write: Nanos,
    /// Time in which it paused.
    pub slept: Nanos,
    /// Time in which reads of its file were outstanding, whoever had asked.
    pub reading: Nanos,
    /// What it read, in bytes.
    pub read_bytes: u64,
    /// What it wrote, in bytes.
    pub written_bytes: u64,
    /// What was brought into memory for it by a prefetcher, in bytes.
    pub prefetched_bytes: u64,
    /// How much of that was evicted before the program came to it, in bytes.
    pub wasted_bytes: u64,
    /// How far the prefetcher was ahead; empty without one.
    pub distances: Distances,
    /// What the prefetcher did at the end; none without one.
    pub state: Option<State>,
}

impl ProcessOutcome {
    /// Reading that went on while the program did something else.
    #[must_use]
    pub fn hidden(&self) -> Nanos {
        self.reading.saturating_sub(self.waited_read)
    }
}

/// The distance over time, in few enough points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distances {
    /// When, and how far, in bytes: the longest since the point before.
    pub points: Vec<(Nanos, u64)>,
    /// The longest of all, in bytes.
    pub longest: u64,
    interval: Nanos,
}

impl Distances {
    /// Points of a curve. Beyond this number neighbours are joined in pairs.
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
