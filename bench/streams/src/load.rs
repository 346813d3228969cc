//! A run of a query: its load, and what is measured of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sakiyomi_os::topology::Cpus;

use crate::event::{Feed, Pool, Schedule};
use crate::query::{Query, Row, Windows};

/// When events are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At their scheduled times, or as soon after them as the engine can. Latencies count from the schedule.
    Scheduled,
    /// Events are sent as fast as the engine accepts them.
    Unlimited,
}

/// A run of a query on an engine.
#[derive(Clone, Debug)]
pub struct Load {
    /// The query.
    pub query: Query,
    /// Sizes of its windows.
    pub windows: Windows,
    /// The events.
    pub pool: Arc<Pool>,
    /// Their times.
    pub schedule: Schedule,
    /// When they are processed.
    pub pace: Pace,
    /// For each worker the CPU that it is pinned to; none leaves it to the kernel.
    pub workers: Vec<Option<usize>>,
    /// Time that a worker polls before it parks.
    pub spin: Duration,
    /// Whether the rows are kept.
    pub keeps_rows: bool,
}

impl Load {
    /// The events of each `stride`-th number from `first` on.
    #[must_use]
    pub fn feed(&self, first: usize, stride: usize) -> Feed {
        Feed::new(Arc::clone(&self.pool), self.schedule, first as u64, stride as u64)
    }
}

/// The first CPUs of a set, for this number of workers; none for workers beyond it.
#[must_use]
pub fn on_cpus(cpus: &Cpus, workers: usize) -> Vec<Option<usize>> {
    let mut cpus = cpus.iter().copied();
    (0..workers).map(|_| cpus.next()).collect()
}

/// The measurements of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From the start of the engine to the last row.
    pub elapsed: Duration,
    /// CPU time of the process meanwhile.
    pub cpu: Duration,
    /// The rows.
    pub results: Results,
    /// Latency of each row from its scheduled time to the sink, in nanoseconds. The scheduled time is that of
    /// the latest event
    /// that the row needed, or the end of its window.
    pub latency: Histogram<u64>,
}

/// The rows that a sink has received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// Their number.
    pub count: u64,
    /// The sum of their digests, which does not depend on their order.
    pub digest: u64,
    /// The rows, if they are kept.
    pub rows: Vec<Row>,
}

impl Results {
    /// Adds a row.
    pub fn add(&mut self, row: Row, keeps_rows: bool) {
        self.count += 1;
        self.digest = self.digest.wrapping_add(row.digest());
        if keeps_rows {
            self.rows.push(row);
        }
    }

    /// Adds the rows of another worker.
    pub fn merge(&mut self, other: Results) {
        self.count += other.count;
        self.digest = self.digest.wrapping_add(other.digest);
        self.rows.extend(other.rows);
    }

    /// Whether the other result has the same rows, by number and digest.
    #[must_use]
    pub fn agrees(&self, other: &Results) -> bool {
        (self.count, self.digest) == (other.count, other.digest)
    }
}

/// A moment: the clock, and the CPU time of this process.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    clock: Instant,
    cpu: Duration,
}

impl Moment {
    /// This moment.
    #[must_use]
    pub fn now() -> Moment {
        Moment { clock: Instant::now(), cpu: sakiyomi_os::cpu::of_this_process() }
    }

    /// Elapsed time and CPU time from an earlier moment to this one.
    #[must_use]
    pub fn since(self, earlier: Moment) -> (Duration, Duration) {
        (self.clock.saturating_duration_since(earlier.clock), self.cpu.saturating_sub(earlier.cpu))
    }

    /// The later one of two moments.
    #[must_use]
    pub fn max(self, other: Moment) -> Moment {
        if other.clock > self.clock { other } else { self }
    }
}

/// Largest latency that is distinguished from larger ones: a run is shorter.
const LATENCY_MAX_NS: u64 = 1_000_000_000_000;

/// Significant digits of a latency, as in the histograms of `sakiyomi-stream`.
const LATENCY_DIGITS: u8 = 2;

/// A histogram of latencies in nanoseconds, with the bounds of those of `sakiyomi-stream`.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, LATENCY_DIGITS).expect("the bounds are constants")
}
