//! Figures of a simulated stream.

use hdrhistogram::Histogram;
use sakiyomi_model::Nanos;

use super::time::{ns, to_nanos};

/// Latencies of results, each from the time at which its tuple was meant to arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatencyFigures {
    /// Number of results.
    pub results: u64,
    /// Mean in nanoseconds; 0 without results.
    pub mean_ns: f64,
    /// Median, within 0.1 %.
    pub p50: Nanos,
    /// Exceeded by one in 100, within 0.1 %.
    pub p99: Nanos,
    /// Exceeded by one in 1000, within 0.1 %.
    pub p999: Nanos,
    /// The longest.
    pub max: Nanos,
}

/// A part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IntervalFigures {
    /// When it begins.
    pub from: Nanos,
    /// Latencies of results that were emitted in it.
    pub latency: LatencyFigures,
    /// Tuples that came into the pipeline.
    pub arrived_tuples: u64,
    /// Tuples that were handed from one core to another.
    pub hops: u64,
    /// Tuples that were shed.
    pub shed_tuples: u64,
    /// Cores that have operators at its end.
    pub cores: usize,
}

/// Figures of a core, while tuples arrived and latencies counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreFigures {
    /// CPU time of operators, hops and wake-up calls.
    pub busy: Nanos,
    /// CPU time of polling empty rings.
    pub spin: Nanos,
    /// Share of the time in which it was busy.
    pub utilization: f64,
    /// How often it was woken up.
    pub wakes: u64,
}

/// A ring into an operator on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFigures {
    /// The edge that passes through it; none for the tuples from outside.
    pub edge: Option<usize>,
    /// The operator that takes the tuples.
    pub operator: usize,
    /// The core at the end of the run.
    pub core: usize,
    /// Most tuples at a time, that in progress included.
    pub high_water_tuples: usize,
    /// How often a tuple found it full.
    pub times_full: u64,
}

/// A change of the placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// When it took effect.
    pub at: Nanos,
    /// The change.
    pub change: sakiyomi_placement::Move,
    /// For how long no operator that it concerns took a tuple; none for other replicas, which stop nothing.
    pub pause: Nanos,
}

/// Results of a simulated stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamOutcome {
    /// When the last tuple was done.
    pub elapsed: Nanos,
    /// Latencies of all results that count.
    pub latency: LatencyFigures,
    /// Latencies by operator that emits results.
    pub sinks: Vec<(usize, LatencyFigures)>,
    /// Figures over time.
    pub intervals: Vec<IntervalFigures>,
    /// By core.
    pub cores: Vec<CoreFigures>,
    /// Rings through which tuples have passed.
    pub rings: Vec<RingFigures>,
    /// Tuples that came into the pipeline.
    pub arrived_tuples: u64,
    /// Tuples that came into the pipeline later than meant, as there was no room.
    pub held_back_tuples: u64,
    /// Tuples that found no room and were dropped.
    pub shed_tuples: u64,
    /// Tuples that operators have taken.
    pub operator_steps: u64,
    /// Tuples that were handed from one core to another.
    pub hops: u64,
    /// Results that stem from earlier tuples than one that their operator has emitted before. 0 for a pipeline with one
    /// path.
    pub reordered_results: u64,
    /// Number of cores with operators, from each time on.
    pub cores_used: Vec<(Nanos, usize)>,
    /// Changes of the placement.
    pub relocations: Vec<Relocation>,
    /// Placements that were wanted and that no order of changes leads to.
    pub unreachable_placements: u64,
}

impl StreamOutcome {
    /// CPU time of all cores, polling included.
    #[must_use]
    pub fn cpu_time(&self) -> Nanos {
        self.cores.iter().map(|core| core.busy + core.spin).sum()
    }

    /// Hops between cores per tuple that arrived; 0 without tuples.
    #[must_use]
    pub fn hops_per_tuple(&self) -> f64 {
        if self.arrived_tuples == 0 { 0.0 } else { self.hops as f64 / self.arrived_tuples as f64 }
    }
}

/// Digits of latencies that are kept.
const LATENCY_DIGITS: u8 = 3;

/// Longest latency that is distinguished from longer ones: that of a tuple which waits for a week, the longest input.
const LATENCY_MAX_NS: u64 = 7 * 86_400 * 1_000_000_000;

/// Collects latencies.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    histogram: Histogram<u64>,
    sum_ps: u128,
    max_ps: u64,
}

impl Latencies {
    pub(super) fn new() -> Latencies {
        let histogram = Histogram::new_with_max(LATENCY_MAX_NS, LATENCY_DIGITS);
        let histogram = histogram.expect("the range and the number of digits are possible");
        Latencies { histogram, sum_ps: 0, max_ps: 0 }
    }

    pub(super) fn add(&mut self, latency_ps: u64) {
        self.sum_ps += u128::from(latency_ps);
        self.max_ps = self.max_ps.max(latency_ps);
        self.histogram.saturating_record(to_nanos(latency_ps).0);
    }

    pub(super) fn figures(&self) -> LatencyFigures {
        let results = self.histogram.len();
        if results == 0 {
            return LatencyFigures::default();
        }
        let quantile = |share: f64| Nanos(self.histogram.value_at_quantile(share));
        LatencyFigures {
            results,
            mean_ns: self.sum_ps as f64 / results as f64 / 1000.0,
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: Nanos(ns(self.max_ps).ceil() as u64),
        }
    }

    pub(super) fn clear(&mut self) {
        self.histogram.reset();
        (self.sum_ps, self.max_ps) = (0, 0);
    }
}
