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

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The largest of some numbers.
#[derive(Default)]
pub(crate) struct Peak(AtomicU64);

impl Peak {
    /// A load and a store, as [`Count::add`].
    pub(crate) fn note(&self, number: u64) {
        if number > self.0.load(Ordering::Relaxed) {
            self.0.store(number, Ordering::Relaxed);
        }
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Times of calls that are kept for readers: more than one reads at a time, so that few of them are overwritten
/// meanwhile.
const RECENT_SAMPLES_MAX: usize = 16;

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
    /// Calls that were timed.
    pub(crate) sampled: Count,
    pub(crate) sampled_ns: Count,
    /// The latest of them; the sample of number `n` is in slot `n` modulo their number.
    recent_ns: [Count; RECENT_SAMPLES_MAX],
    /// Scheduled arrival of the latest value of a source.
    pub(crate) arrival_ns: Count,
    /// Time before which no value of a source is due, as last reported by it; `u64::MAX` after its end.
    pub(crate) due_ns: Count,
    /// Time of watermarks, ends and snapshots, each of which is timed.
    pub(crate) rare_ns: Count,
    pub(crate) save_ns: Peak,
    pub(crate) held_ns: Peak,
    pub(crate) ring: Arc<HighWater>,
    pub(crate) second_ring: Arc<HighWater>,
    pub(crate) latency: Mutex<Option<Latency>>,
}

/// Counters of an operator at one moment.
#[derive(Clone, Debug, Default)]
pub struct OperatorReport {
    /// Its name.
    pub name: String,
    /// Number of the replica; none of an operator that runs as one.
    pub replica: Option<usize>,
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
    /// Estimated time in the operator, in nanoseconds: of calls for tuples one in 64 to 1,024 is timed, of all others each.
    pub busy_ns: u64,
    /// Longest time of saving the state for a snapshot, in nanoseconds: the pause of the operator.
    pub save_max_ns: u64,
    /// Longest time in nanoseconds for which a join held one input back, from its barrier to that of the other input.
    pub held_max_ns: u64,
    /// Most items found in the ring to its first input.
    pub ring_high_water: usize,
    /// Most items found in the ring to its second input.
    pub second_ring_high_water: usize,
    /// Latencies, of a sink.
    pub latency: Option<Latency>,
}

impl OperatorReport {
    /// Adds the counters of another replica of the operator.
    pub(crate) fn add_replica(&mut self, other: &OperatorReport) {
        self.tuples_in += other.tuples_in;
        self.tuples_out += other.tuples_out;
        self.dead_letters += other.dead_letters;
        self.dead_marks += other.dead_marks;
        self.discarded += other.discarded;
        self.restarts += other.restarts;
        self.shed += other.shed;
        self.sequence_violations += other.sequence_violations;
        self.busy_ns += other.busy_ns;
        self.save_max_ns = self.save_max_ns.max(other.save_max_ns);
        self.held_max_ns = self.held_max_ns.max(other.held_max_ns);
        self.ring_high_water = self.ring_high_water.max(other.ring_high_water);
        self.second_ring_high_water = self.second_ring_high_water.max(other.second_ring_high_water);
    }
}

impl Counters {
    /// Adds the time of a call that was timed.
    pub(crate) fn sample(&self, call_ns: u64) {
        let number = self.sampled.get();
        self.recent_ns[number as usize % RECENT_SAMPLES_MAX].set(call_ns);
        self.sampled_ns.add(call_ns);
        self.sampled.add(1);
    }

    /// Returns the times of the latest calls that were timed after the first `seen`, at most `samples_max`, the
    /// newest first. One that is overwritten meanwhile is read as a newer one.
    pub(crate) fn samples_since(&self, seen: u64, samples_max: usize) -> impl Iterator<Item = u64> + '_ {
        let samples = self.sampled.get();
        let first = samples.saturating_sub(samples_max.min(RECENT_SAMPLES_MAX) as u64).max(seen);
        (first..samples).rev().map(|number| self.recent_ns[number as usize % RECENT_SAMPLES_MAX].get())
    }

    /// Adds a bin of latencies that has ended.
    pub(crate) fn latency(&self, bin: &LatencyBin, histogram: &Histogram<u64>) {
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        latency.get_or_insert_default().add(bin, histogram);
    }

    /// Counts the time of saving the state for a snapshot.
    pub(crate) fn saved(&self, save_ns: u64) {
        self.rare_ns.add(save_ns);
        self.save_ns.note(save_ns);
    }

    pub(crate) fn report(&self, name: &str) -> OperatorReport {
        let (calls, sampled) = (self.calls.get(), self.sampled.get());
        let calls_ns = u128::from(self.sampled_ns.get()) * u128::from(calls) / u128::from(sampled.max(1));
        let busy_ns = calls_ns + u128::from(self.rare_ns.get());
        OperatorReport {
            name: name.to_owned(),
            replica: None,
            tuples_in: self.tuples_in.get(),
            tuples_out: self.tuples_out.get(),
            dead_letters: self.dead_letters.get(),
            dead_marks: self.dead_marks.get(),
            discarded: self.discarded.get(),
            restarts: self.restarts.get(),
            shed: self.shed.get(),
            sequence_violations: self.sequence_violations.get(),
            busy_ns: u64::try_from(busy_ns).unwrap_or(u64::MAX),
            save_max_ns: self.save_ns.get(),
            held_max_ns: self.held_ns.get(),
            ring_high_water: self.ring.get(),
            second_ring_high_water: self.second_ring.get(),
            latency: self.latency.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
