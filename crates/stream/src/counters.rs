//! Counters of operators and rings, which can be read while the stream runs.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hdrhistogram::Histogram;

use crate::latency::{Latency, LatencyBin};

/// A number that one thread at a time increases and any may read.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// A load and a store: the owner of the operator is the only one that writes.
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The largest number of items that the consumer of a ring has found in it.
#[derive(Default)]
pub(crate) struct HighWater(AtomicUsize);

impl HighWater {
    pub(crate) fn note(&self, items: usize) {
        if items > self.0.load(Ordering::Relaxed) {
            self.0.store(items, Ordering::Relaxed);
        }
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of an operator.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) tuples_in: Count,
    pub(crate) tuples_out: Count,
    pub(crate) dead_letters: Count,
    pub(crate) dead_marks: Count,
    pub(crate) discarded: Count,
    pub(crate) restarts: Count,
    pub(crate) shed: Count,
    pub(crate) sequence_violations: Count,
    /// Calls for tuples.
    pub(crate) calls: Count,
    /// Those that were timed.
    pub(crate) sampled: Count,
    pub(crate) sampled_ns: Count,
    /// Time of watermarks, ends and snapshots, each of which is timed.
    pub(crate) rare_ns: Count,
    pub(crate) ring: Arc<HighWater>,
    pub(crate) second_ring: Arc<HighWater>,
    pub(crate) latency: Mutex<Option<Latency>>,
}

/// Counters of an operator at one moment.
#[derive(Clone, Debug, Default)]
pub struct OperatorReport {
    /// Its name.
    pub name: String,
    /// Tuples that it received.
    pub tuples_in: u64,
    /// Tuples that it emitted.
    pub tuples_out: u64,
    /// Tuples whose processing panicked.
    pub dead_letters: u64,
    /// Watermarks and ends whose processing panicked. They pass nevertheless.
    pub dead_marks: u64,
    /// Tuples that arrived after the operator had stopped.
    pub discarded: u64,
    /// Restarts from a snapshot.
    pub restarts: u64,
    /// Tuples that a source dropped under overload.
    pub shed: u64,
    /// Tuples, watermarks and ends whose number was not the next one on their edge: 0, or the runtime has a bug.
    pub sequence_violations: u64,
    /// Estimated time in the operator, in nanoseconds: of calls for tuples 1 in 64 is timed, of all others each.
    pub busy_ns: u64,
    /// Most items found in the ring to its first input.
    pub ring_high_water: usize,
    /// Most items found in the ring to its second input.
    pub second_ring_high_water: usize,
    /// Latencies, of a sink.
    pub latency: Option<Latency>,
}

impl Counters {
    /// Adds a bin of latencies that has ended.
    pub(crate) fn latency(&self, bin: &LatencyBin, histogram: &Histogram<u64>) {
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        latency.get_or_insert_default().add(bin, histogram);
    }

    pub(crate) fn report(&self, name: &str) -> OperatorReport {
        let (calls, sampled) = (self.calls.get(), self.sampled.get());
        let calls_ns = u128::from(self.sampled_ns.get()) * u128::from(calls) / u128::from(sampled.max(1));
        let busy_ns = calls_ns + u128::from(self.rare_ns.get());
        OperatorReport {
            name: name.to_owned(),
            tuples_in: self.tuples_in.get(),
            tuples_out: self.tuples_out.get(),
            dead_letters: self.dead_letters.get(),
            dead_marks: self.dead_marks.get(),
            discarded: self.discarded.get(),
            restarts: self.restarts.get(),
            shed: self.shed.get(),
            sequence_violations: self.sequence_violations.get(),
            busy_ns: u64::try_from(busy_ns).unwrap_or(u64::MAX),
            ring_high_water: self.ring.get(),
            second_ring_high_water: self.second_ring.get(),
            latency: self.latency.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
