//! Statistics of requests: counts, response times, lateness; and the trace, if there is one.

use std::sync::atomic::{AtomicU64, Ordering};

use sakiyomi_drive::observe::Latency;
use sakiyomi_model::{Bytes, Class, Completion, Extent, Lba, Nanos, Op, Sectors};

use crate::record::{Part, Recorder};
use crate::request::IoRequest;
use sakiyomi_os::per_thread::PerThread;

/// A completed request.
#[derive(Clone, Copy, Debug)]
pub struct Completed<'a> {
    /// The request.
    pub request: &'a IoRequest,
    /// The drive's completions in order of time; empty without a drive.
    pub completions: &'a [Completion],
    /// Time of the reply.
    pub answered: Nanos,
}

impl Completed<'_> {
    /// Returns the time of arrival at the drive; without a drive, in this process.
    fn arrival(&self) -> Nanos {
        self.completions.first().map_or(self.request.arrival, |first| first.request.arrival)
    }
}

/// Counts since the start; all times are those of the drive.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Completed accesses.
    pub accesses: u64,
    /// Bytes read from the drive; without a drive, from files.
    pub read_bytes: u64,
    /// Bytes written to the drive; without a drive, to files.
    pub written_bytes: u64,
    /// Requests to the drive by class, in the order of [`Class::ALL`]; all 0 for a device without classes.
    pub by_class: [u64; Class::ALL.len()],
    /// Accesses in flight.
    pub in_flight: u64,
    /// Time from the arrival of an access to its reply.
    pub response: Latency,
    /// Time from the completion of an access in the model to its reply.
    pub lateness: Latency,
}

impl Totals {
    /// Returns the number of reads by the drive whose class is known, and of hits among them.
    #[must_use]
    pub fn reads_and_hits(&self) -> (u64, u64) {
        let of = |wanted: fn(&Class) -> bool| {
            Class::ALL
                .iter()
                .zip(self.by_class)
                .filter(|(class, _)| wanted(class))
                .map(|(_, count)| count)
                .sum()
        };
        (
            of(|class| matches!(class, Class::Read(_))),
            of(|class| matches!(class, Class::Read(read) if read.is_hit())),
        )
    }
}

impl Totals {
    fn add(&mut self, completed: &Completed<'_>) {
        self.accesses += 1;
        self.response.record(completed.answered.saturating_sub(completed.arrival()));
        match completed.request.op {
            Op::Read => self.read_bytes += completed.request.bytes,
            Op::Write => self.written_bytes += completed.request.bytes,
            Op::Flush | Op::Discard => {}
        }
        for end in completed.completions {
            let place = end.class().and_then(|own| Class::ALL.iter().position(|&class| class == own));
            if let Some(place) = place {
                self.by_class[place] += 1;
            }
        }
        if let Some(last) = completed.completions.last() {
            self.lateness.record(completed.answered.saturating_sub(last.finish));
        }
    }

    fn merge(&mut self, other: &Totals) {
        self.accesses += other.accesses;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.by_class.iter_mut().zip(other.by_class).for_each(|(count, more)| *count += more);
        self.response.merge(&other.response);
        self.lateness.merge(&other.lateness);
    }
}

/// Counts of one thread.
#[derive(Debug, Default)]
struct Counted {
    begun: u64,
    totals: Totals,
}

impl Counted {
    fn merge(&mut self, other: &Counted) {
        self.begun += other.begun;
        self.totals.merge(&other.totals);
    }
}

/// Collects statistics of all accesses.
#[derive(Debug)]
pub struct Watch {
    /// Number of the next access in the trace.
    next: AtomicU64,
    counted: PerThread<Counted>,
    sector: Bytes,
    recorder: Option<Recorder>,
}

impl Watch {
    /// Makes a collection for a drive with sectors of `sector` bytes, which are the addresses in the trace.
    #[must_use]
    pub fn new(sector: Bytes, recorder: Option<Recorder>) -> Watch {
        Watch { next: AtomicU64::new(0), counted: PerThread::default(), sector, recorder }
    }

    /// Returns the number of a request that has arrived, if a trace is recorded.
    #[must_use]
    pub fn number(&self) -> u64 {
        if self.is_recording() { self.next.fetch_add(1, Ordering::Relaxed) } else { 0 }
    }

    /// Counts a request as in flight.
    pub fn begin(&self) {
        self.counted.with(|counted| counted.begun += 1);
    }

    /// Counts a request that was answered at once, without being in flight.
    pub fn end_at_once(&self, completed: &Completed<'_>) {
        self.end_with(completed, 1);
    }

    /// Counts the reply to a request that was in flight.
    pub fn end(&self, completed: &Completed<'_>) {
        self.end_with(completed, 0);
    }

    fn end_with(&self, completed: &Completed<'_>, begun: u64) {
        if let Some(recorder) = &self.recorder {
            self.record(recorder, completed);
        }
        // Counted last: at its end, a mount waits until no access is in flight and then completes the trace.
        self.counted.with(|counted| {
            counted.begun += begun;
            counted.totals.add(completed);
        });
    }

    /// Records a part per extent.
    fn record(&self, recorder: &Recorder, completed: &Completed<'_>) {
        let Completed { request, completions, answered } = *completed;
        let arrival = completed.arrival();
        let part = |extent: &Extent, replied: Nanos| Part {
            number: request.number,
            arrival,
            response: replied.saturating_sub(arrival),
            offset: Bytes(extent.start.0 * self.sector.0),
            length: Some(extent.sectors.to_bytes(self.sector)),
            stream: request.issuer.process,
            op: request.op,
        };
        if let Some(last) = completions.len().checked_sub(1) {
            // Parts that completed before the last one count as answered at their completion.
            let replied = |index: usize, end: &Completion| if index == last { answered } else { end.finish };
            let parts = completions.iter().enumerate();
            recorder.record(parts.map(|(index, end)| part(&end.request.extent, replied(index, end))));
        } else if request.extents.is_empty() {
            let nowhere = Extent::new(Lba(0), Sectors(0));
            recorder.record([Part { length: None, ..part(&nowhere, answered) }].into_iter());
        } else {
            recorder.record(request.extents.iter().map(|extent| part(extent, answered)));
        }
    }

    /// Returns whether there is a trace.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.recorder.is_some()
    }

    /// Returns the counts of all threads until now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut all = Counted::default();
        self.counted.each(|counted| all.merge(counted));
        // An access may begin on a thread after its counts were read, and end on another one before: it is counted the
        // next time.
        Totals { in_flight: all.begun.saturating_sub(all.totals.accesses), ..all.totals }
    }
}
