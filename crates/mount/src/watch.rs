//! What is seen of a mount: counts, response times, lateness; and the trace, if one is taken.

use std::sync::atomic::{AtomicU64, Ordering};

use sakiyomi_drive::observe::Latency;
use sakiyomi_model::{Bytes, Class, Completion, Extent, Nanos, Op, StreamId};
use sakiyomi_trace::Record;

use crate::per_thread::PerThread;
use crate::record::{Recorder, Records};

/// An access that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended<'a> {
    /// In order of the beginning.
    pub(crate) number: u64,
    pub(crate) stream: StreamId,
    pub(crate) op: Op,
    pub(crate) extents: &'a [Extent],
    pub(crate) bytes: u64,
    /// Of the drive, in order of their ends; empty where there is none.
    pub(crate) ends: &'a [Completion],
    pub(crate) arrival: Nanos,
    pub(crate) answered: Nanos,
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
    /// Requests to the drive by class, in the order of [`Class::ALL`]; none of a device that does not class them.
    pub by_class: [u64; Class::ALL.len()],
    /// Accesses under way.
    pub in_flight: u64,
    /// From an access's beginning to its answer.
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
    fn add(&mut self, ended: &Ended<'_>) {
        self.accesses += 1;
        self.response.record(ended.answered.saturating_sub(ended.arrival));
        match ended.op {
            Op::Read => self.read_bytes += ended.bytes,
            Op::Write => self.written_bytes += ended.bytes,
            Op::Flush | Op::Discard => {}
        }
        for end in ended.ends {
            let place = end.class().and_then(|own| Class::ALL.iter().position(|&class| class == own));
            if let Some(place) = place {
                self.by_class[place] += 1;
            }
        }
        if let Some(last) = ended.ends.last() {
            self.lateness.record(ended.answered.saturating_sub(last.finish));
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

/// What threads count, each for itself.
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

    /// An access begins; its number, if a trace is taken.
    pub(crate) fn begin(&self) -> u64 {
        self.counted.with(|counted| counted.begun += 1);
        if self.is_recording() { self.next.fetch_add(1, Ordering::Relaxed) } else { 0 }
    }

    /// An access was answered.
    pub(crate) fn end(&self, ended: &Ended<'_>) {
        if let Some(recorder) = &self.recorder {
            recorder.record(ended.number, self.records(ended));
        }
        // Counted last: the end of a mount waits until no access is in flight, and then completes the trace.
        self.counted.with(|counted| counted.totals.add(ended));
    }

    /// What a trace says of it: a line for each extent.
    fn records(&self, ended: &Ended<'_>) -> Records {
        let record = |extent: &Extent, arrival: Nanos, replied: Nanos| Record {
            stream: ended.stream,
            response: Some(replied.saturating_sub(arrival)),
            ..Record::new(
                arrival,
                ended.op,
                Bytes(extent.start.0 * self.sector.0),
                extent.sectors.to_bytes(self.sector),
            )
        };
        if ended.ends.is_empty() {
            let of = |extent| record(extent, ended.arrival, ended.answered);
            return match ended.extents {
                [extent] => Records::One(of(extent)),
                extents => Records::Some(extents.iter().map(of).collect()),
            };
        }
        // Parts that ended before the last one were answered, to the host's file system, when they ended.
        let last = ended.ends.len() - 1;
        let replied =
            |index: usize, end: &Completion| if index == last { ended.answered } else { end.finish };
        let ends = ended.ends.iter().enumerate();
        let of = |(index, end): (usize, &Completion)| {
            record(&end.request.extent, ended.arrival, replied(index, end))
        };
        Records::Some(ends.map(of).collect())
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.recorder.is_some()
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut all = Counted::default();
        self.counted.each(|counted| all.merge(counted));
        // One that begins on a thread which was looked at before it ended on another is counted the next time.
        Totals { in_flight: all.begun.saturating_sub(all.totals.accesses), ..all.totals }
    }
}
