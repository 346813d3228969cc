//! What is seen of a mount: counts, response times, lateness; and the trace, if one is taken.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use sakiyomi_drive::observe::Latency;
use sakiyomi_model::{Bytes, Class, Completion, Extent, Nanos, Op, StreamId};
use sakiyomi_trace::Record;

use crate::record::Recorder;

/// An access that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended<'a> {
    /// In order of the beginning.
    pub(crate) number: u64,
    pub(crate) stream: StreamId,
    pub(crate) op: Op,
    pub(crate) extents: &'a [Extent],
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
    /// Bytes read from the drive.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// Requests to the drive by class, in the order of [`Class::ALL`].
    pub by_class: [u64; Class::ALL.len()],
    /// Accesses under way.
    pub in_flight: u64,
    /// From an access's beginning to its answer.
    pub response: Latency,
    /// From the instant when the model says that an access has ended to its answer.
    pub lateness: Latency,
}

impl Totals {
    /// Reads by the drive, and those of them that were hits.
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

/// Watches all accesses.
#[derive(Debug)]
pub(crate) struct Watch {
    begun: AtomicU64,
    totals: Mutex<Totals>,
    sector: Bytes,
    recorder: Option<Recorder>,
}

impl Watch {
    pub(crate) fn new(sector: Bytes, recorder: Option<Recorder>) -> Watch {
        Watch { begun: AtomicU64::new(0), totals: Mutex::default(), sector, recorder }
    }

    /// An access begins; its number.
    pub(crate) fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed)
    }

    /// An access was answered.
    pub(crate) fn end(&self, ended: &Ended<'_>) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.accesses += 1;
        totals.response.record(ended.answered.saturating_sub(ended.arrival));
        let bytes = ended.extents.iter().map(|extent| extent.sectors.to_bytes(self.sector).0).sum::<u64>();
        match ended.op {
            Op::Read => totals.read_bytes += bytes,
            Op::Write => totals.written_bytes += bytes,
            Op::Flush | Op::Discard => {}
        }
        for end in ended.ends {
            let place = Class::ALL.iter().position(|&class| class == end.class);
            totals.by_class[place.expect("every class is listed")] += 1;
        }
        if let Some(last) = ended.ends.last() {
            totals.lateness.record(ended.answered.saturating_sub(last.finish));
        }
        drop(totals);
        if let Some(recorder) = &self.recorder {
            recorder.record(ended.number, self.records(ended));
        }
    }

    /// What a trace says of it: a line for each extent.
    fn records(&self, ended: &Ended<'_>) -> Vec<Record> {
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
            return ended
                .extents
                .iter()
                .map(|extent| record(extent, ended.arrival, ended.answered))
                .collect();
        }
        // Parts that ended before the last one were answered, to the host's file system, when they ended.
        let last = ended.ends.len() - 1;
        let replied =
            |index: usize, end: &Completion| if index == last { ended.answered } else { end.finish };
        let ends = ended.ends.iter().enumerate();
        ends.map(|(index, end)| record(&end.request.extent, ended.arrival, replied(index, end))).collect()
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.recorder.is_some()
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner).clone();
        totals.in_flight = self.begun.load(Ordering::Relaxed).saturating_sub(totals.accesses);
        totals
    }
}
