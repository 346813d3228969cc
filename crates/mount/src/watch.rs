//! Statistics of a mount: counts, response times, lateness; and the trace, if one is taken.

use std::sync::atomic::{AtomicU64, Ordering};

use sakiyomi_drive::observe::Latency;
use sakiyomi_model::{Bytes, Class, Completion, Extent, Lba, Nanos, Op, Sectors};

use crate::per_thread::PerThread;
use crate::record::{Part, Recorder};
use crate::request::IoRequest;

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed<'a> {
    pub(crate) request: &'a IoRequest,
    /// The drive's completions, in order of their ends; empty without a drive.
    pub(crate) completions: &'a [Completion],
    pub(crate) answered: Nanos,
}

impl Completed<'_> {
    /// Time of its arrival at the drive; without a drive, in this process.
    fn arrival(&self) -> Nanos {
        self.completions.first().map_or(self.request.arrival, |first| first.request.arrival)
    }
}

/// Counts since the mount; all times are the drive's.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Accesses that were answered.
    pub accesses: u64,
    /// Bytes read from the drive; without one, of files.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// Requests to the drive by class, in the order of [`Class::ALL`]; all 0 for a device that does not class them.
    pub by_class: [u64; Class::ALL.len()],
    /// Accesses under way.
    pub in_flight: u64,
    /// Time from an access's beginning to its reply.
    pub response: Latency,
    /// From the instant when the model says that an access has ended to its answer.
    pub lateness: Latency,
}

impl Totals {
    /// Reads by the drive whose class is known, and those of them that were hits.
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

/// Watches all accesses.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The next access's number in the trace.
    next: AtomicU64,
    counted: PerThread<Counted>,
    sector: Bytes,
    recorder: Option<Recorder>,
}

impl Watch {
    pub(crate) fn new(sector: Bytes, recorder: Option<Recorder>) -> Watch {
        Watch { next: AtomicU64::new(0), counted: PerThread::default(), sector, recorder }
    }

    /// The number of a request that has arrived, if a trace is taken.
    pub(crate) fn number(&self) -> u64 {
        if self.is_recording() { self.next.fetch_add(1, Ordering::Relaxed) } else { 0 }
    }

    /// A request is in flight from now on.
    pub(crate) fn begin(&self) {
        self.counted.with(|counted| counted.begun += 1);
    }

    /// A request was answered on the thread that it came to; it was not in flight.
    pub(crate) fn end_at_once(&self, completed: &Completed<'_>) {
        self.end_with(completed, 1);
    }

    /// A request that was in flight was answered.
    pub(crate) fn end(&self, completed: &Completed<'_>) {
        self.end_with(completed, 0);
    }

    fn end_with(&self, completed: &Completed<'_>, begun: u64) {
        if let Some(recorder) = &self.recorder {
            self.record(recorder, completed);
        }
        // Counted last: the end of a mount waits until no access is in flight, and then completes the trace.
        self.counted.with(|counted| {
            counted.begun += begun;
            counted.totals.add(completed);
        });
    }

    /// Records a part for each extent.
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
            // Parts that ended before the last one were answered, to the host's file system, when they ended.
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

    pub(crate) fn is_recording(&self) -> bool {
        self.recorder.is_some()
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut all = Counted::default();
        self.counted.each(|counted| all.merge(counted));
        // An access may begin on a thread after its counts were read, and end on another before: it counts the next
        // time.
        Totals { in_flight: all.begun.saturating_sub(all.totals.accesses), ..all.totals }
    }
}
