//! Latencies at a sink: from the scheduled arrival of a tuple to its arrival at the sink.

use std::collections::VecDeque;

use hdrhistogram::Histogram;

/// Length of a bin. Short enough that a relocation is not lost among the tuples around it.
const BIN_NS: u64 = 100_000_000;

/// Bins that are remembered: the last hour.
const BINS_MAX: usize = 36_000;

/// Significant digits of a recorded latency: an error below 1 % in 30 KiB.
const PRECISION_DIGITS: u8 = 2;

/// Largest latency that is distinguished from larger ones.
const LATENCY_MAX_NS: u64 = 1_000_000_000_000;

/// Percentiles of the tuples of one tenth of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyBin {
    /// Begin of the bin, in nanoseconds since the start of the stream.
    pub start_ns: u64,
    /// Number of tuples.
    pub tuples: u64,
    /// Mean, of the exact latencies.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// Largest latency.
    pub latency_max_ns: u64,
}

/// Latencies of a sink: all of them, and by tenths of a second.
#[derive(Clone, Debug)]
pub struct Latency {
    /// All tuples of the bins that have ended, in nanoseconds.
    pub total: Histogram<u64>,
    /// Bins with tuples, in order; the last hour.
    pub bins: VecDeque<LatencyBin>,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency { total: histogram(), bins: VecDeque::new() }
    }
}

/// The bin of a sink that is being filled.
pub(crate) struct Recorder {
    bin: Histogram<u64>,
    /// Sum of the latencies of the bin, in nanoseconds.
    sum_ns: u64,
    start_ns: u64,
}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        Recorder { bin: histogram(), sum_ns: 0, start_ns: 0 }
    }

    /// Records tuples with these scheduled arrivals that arrive at `now_ns`. Adds the bin before it to `latency` if that has ended.
    pub(crate) fn record(
        &mut self,
        arrivals_ns: impl IntoIterator<Item = u64>,
        now_ns: u64,
        close: impl FnOnce(&LatencyBin, &Histogram<u64>),
    ) {
        if now_ns >= self.start_ns + BIN_NS {
            self.close(close);
            self.start_ns = now_ns - now_ns % BIN_NS;
        }
        // Under load tuples that were due at once come together.
        let (mut last_ns, mut count) = (0, 0);
        for arrival_ns in arrivals_ns {
            let latency_ns = now_ns.saturating_sub(arrival_ns);
            if latency_ns != last_ns {
                self.add(last_ns, count);
                (last_ns, count) = (latency_ns, 0);
            }
            count += 1;
        }
        self.add(last_ns, count);
    }

    fn add(&mut self, latency_ns: u64, count: u64) {
        if count > 0 {
            self.bin.saturating_record_n(latency_ns, count);
            self.sum_ns = self.sum_ns.saturating_add(latency_ns.saturating_mul(count));
        }
    }

    /// Ends the current bin.
    pub(crate) fn close(&mut self, close: impl FnOnce(&LatencyBin, &Histogram<u64>)) {
        if self.bin.is_empty() {
            return;
        }
        let at = |quantile| self.bin.value_at_quantile(quantile);
        let ended = LatencyBin {
            start_ns: self.start_ns,
            tuples: self.bin.len(),
            mean_ns: self.sum_ns / self.bin.len(),
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p99_9_ns: at(0.999),
            latency_max_ns: self.bin.max(),
        };
        close(&ended, &self.bin);
        self.bin.reset();
        self.sum_ns = 0;
    }
}

impl Latency {
    /// Adds a bin that has ended.
    pub(crate) fn add(&mut self, bin: &LatencyBin, histogram: &Histogram<u64>) {
        // Both have the same bounds, so that nothing can be out of range.
        self.total.add(histogram).expect("histograms of equal bounds");
        if self.bins.len() == BINS_MAX {
            self.bins.pop_front();
        }
        self.bins.push_back(*bin);
    }
}

/// Returns a histogram of times in nanoseconds. It has fixed bounds: one that grows would clip what
/// `saturating_record` records.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, PRECISION_DIGITS).expect("the bounds are constants")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_latency_is_in_the_bin_of_its_arrival_and_in_the_total() {
        let (mut recorder, mut latency) = (Recorder::new(), Latency::default());
        for tuple in 0..1_000_u64 {
            let now_ns = tuple * 1_000_000;
            recorder.record([now_ns.saturating_sub(tuple)], now_ns, |bin, all| latency.add(bin, all));
        }
        recorder.close(|bin, all| latency.add(bin, all));
        assert_eq!(latency.total.len(), 1_000);
        assert_eq!(latency.bins.len(), 10);
        for (index, bin) in latency.bins.iter().enumerate() {
            assert_eq!((bin.start_ns, bin.tuples), (index as u64 * BIN_NS, 100));
            assert_eq!(bin.mean_ns, index as u64 * 100 + 49, "49.5 without its fraction");
            let expected = index as f64 * 100.0 + 99.0;
            assert!((bin.latency_max_ns as f64 / expected - 1.0).abs() < 0.01, "{bin:?}");
        }
    }
}
