//! Statistics of a run, in total and per interval (Hosogi 2013, table 1).
//!
//! Memory does not grow with the run. Response times go into histograms with a relative bucket width of at most 0.1 %.
//! Intervals ("chunks") are handed over as they close; for charts at most [`POINTS_MAX`] are kept, by merging
//! neighbors.

mod latency;
mod series;
mod tally;

use sakiyomi_model::{Bytes, Completion, Nanos};

use crate::disk::Simulated;
use crate::replay::ReplayObserver;
use crate::usage::Usage;

pub use latency::Latency;
pub use series::{Join, POINTS_MAX, Series};
pub use tally::{Counts, Point, Tally};

/// Criterion that closes a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunking {
    /// A duration (Δtime). A command belongs to the chunk in which it finishes.
    Time(Nanos),
    /// The total length of the finished commands (Δcapacity).
    Bytes(Bytes),
    /// A number of finished commands (Δevents).
    Commands(u64),
}

/// Collects the statistics of a replay.
#[derive(Clone, Debug)]
pub struct Observation {
    chunking: Chunking,
    warm_up: Option<Nanos>,
    sector: Bytes,
    start: Nanos,
    usage_at_start: Usage,
    tally: Tally,
    chunk: Chunk,
    series: Series<Point>,
    closed: Option<Vec<Point>>,
}

/// The open chunk.
#[derive(Clone, Debug)]
struct Chunk {
    point: Point,
    usage_at_start: Usage,
    latency: Latency,
}

impl Chunk {
    fn new(start: Nanos, usage: Usage) -> Chunk {
        Chunk { point: Point::new(start), usage_at_start: usage, latency: Latency::coarse() }
    }
}

impl Observation {
    /// Starts at time 0, for sectors of `sector` bytes; completions before `warm_up` are not counted.
    #[must_use]
    pub fn new(chunking: Chunking, warm_up: Nanos, sector: Bytes) -> Observation {
        Observation {
            chunking,
            warm_up: (!warm_up.is_zero()).then_some(warm_up),
            sector,
            start: Nanos::ZERO,
            usage_at_start: Usage::default(),
            tally: Tally::default(),
            chunk: Chunk::new(Nanos::ZERO, Usage::default()),
            series: Series::default(),
            closed: None,
        }
    }

    /// Enables collection of closed chunks for [`take_chunks`](Self::take_chunks).
    pub fn keep_chunks(&mut self) {
        self.closed = Some(Vec::new());
    }

    /// Moves the chunks that closed since the last call to `chunks`.
    pub fn take_chunks(&mut self, chunks: &mut Vec<Point>) {
        if let Some(closed) = &mut self.closed {
            chunks.append(closed);
        }
    }

    /// Closes the last chunk at `end`, the end of the run, and returns the summary.
    pub fn finish(&mut self, drive: &impl Simulated, end: Nanos) -> Summary {
        self.before(drive, end);
        if self.warm_up.is_some() {
            // All completions were before the end of the warm-up: the result is empty, of zero duration.
            self.restart(drive, end);
        }
        if end > self.chunk.point.start || self.chunk.point.counts.commands > 0 {
            self.close_chunk(drive, end);
        }
        Summary {
            start: self.start,
            end,
            usage: drive.usage(end) - self.usage_at_start,
            tally: self.tally.clone(),
            series: std::mem::take(&mut self.series).finish(),
        }
    }

    fn restart(&mut self, drive: &impl Simulated, at: Nanos) {
        self.warm_up = None;
        self.start = at;
        self.usage_at_start = drive.usage(at);
        self.tally = Tally::default();
        self.chunk = Chunk::new(at, self.usage_at_start);
        self.series = Series::default();
    }

    fn close_chunk(&mut self, drive: &impl Simulated, end: Nanos) {
        let usage = drive.usage(end);
        let Chunk { point, usage_at_start, latency } = &mut self.chunk;
        point.end = end;
        point.usage = usage - *usage_at_start;
        point.response_p99 = latency.quantile(0.99);
        let next = Point::new(end);
        let closed = std::mem::replace(point, next);
        *usage_at_start = usage;
        latency.clear();
        if let Some(all) = &mut self.closed {
            all.push(closed.clone());
        }
        self.series.push(closed);
    }
}

impl<D: Simulated> ReplayObserver<D> for Observation {
    fn before(&mut self, drive: &D, now: Nanos) {
        if let Some(warm_up) = self.warm_up
            && now >= warm_up
        {
            self.restart(drive, warm_up);
        }
        if let (Chunking::Time(span), None) = (self.chunking, self.warm_up) {
            while now >= self.chunk.point.start.saturating_add(span) {
                let end = self.chunk.point.start + span;
                self.close_chunk(drive, end);
            }
        }
    }

    fn completed(&mut self, drive: &mut D, completion: &Completion, backlog: usize) {
        if self.warm_up.is_some() {
            return;
        }
        let bytes = completion.request.extent.sectors.to_bytes(self.sector);
        self.tally.add(completion, bytes);
        self.chunk.latency.record(completion.response_time());
        self.chunk.point.add(completion, bytes, backlog);
        let counts = &self.chunk.point.counts;
        let full = match self.chunking {
            Chunking::Time(_) => false,
            Chunking::Bytes(limit) => counts.read_bytes + counts.written_bytes >= limit,
            Chunking::Commands(limit) => counts.commands >= limit,
        };
        if full {
            self.close_chunk(drive, completion.finish);
        }
    }
}

/// Statistics of a whole run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Start: the end of the warm-up.
    pub start: Nanos,
    /// End of the last command.
    pub end: Nanos,
    /// Time and seek counts of the mechanism; the times add up to `end - start` exactly.
    pub usage: Usage,
    /// Counts and response times.
    pub tally: Tally,
    /// Chunks, for charts.
    pub series: Series<Point>,
}
