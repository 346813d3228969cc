//! Latencies by tenths of a second.

use hdrhistogram::Histogram;
use sakiyomi_stream::Report;
use serde_json::{Value, json};

/// Length of a bin, that of the runtime's own.
pub(crate) const BIN_NS: u64 = 100_000_000;

/// Longest latency that is distinguished from longer ones, and significant digits.
const LATENCY_MAX_NS: u64 = 1_000_000_000_000;
const PRECISION_DIGITS: u8 = 2;

/// Latencies of the results of a tenth of a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bin {
    pub(crate) start_ns: u64,
    pub(crate) results: u64,
    pub(crate) mean_ns: f64,
    pub p99_ns: u64,
}

impl Bin {
    pub(crate) fn json(&self) -> Value {
        json!([self.start_ns, self.results, self.mean_ns, self.p99_ns])
    }
}

/// The bins of a sink of the runtime.
pub(crate) fn bins(report: &Report, sink: usize) -> Vec<Bin> {
    let bins = report.operators[sink].latency.iter().flat_map(|latency| &latency.bins);
    bins.map(|bin| Bin {
        start_ns: bin.start_ns,
        results: bin.tuples,
        mean_ns: bin.mean_ns as f64,
        p99_ns: bin.p99_ns,
    })
    .collect()
}

/// The medians of the bins' means and 99th percentiles, which a disturbed bin does not move; none without bins.
pub(crate) fn medians(bins: &[Bin]) -> Option<(f64, f64)> {
    let of = |figure: fn(&Bin) -> f64| median(bins.iter().map(figure).collect());
    Some((of(|bin| bin.mean_ns)?, of(|bin| bin.p99_ns as f64)?))
}

/// The median of some figures; none without any.
pub(crate) fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let (low, high) = (figures.get(figures.len().checked_sub(1)? / 2)?, figures.get(figures.len() / 2)?);
    Some((low + high) / 2.0)
}

/// Records latencies as the runtime does, for what does not run on it.
pub(crate) struct Recorder {
    histogram: Histogram<u64>,
    sum_ns: u64,
    start_ns: u64,
    bins: Vec<Bin>,
}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_NS, PRECISION_DIGITS);
        let histogram = histogram.expect("the bounds are constants");
        Recorder { histogram, sum_ns: 0, start_ns: 0, bins: Vec::new() }
    }

    /// A result that was due at `due_ns`, and is there now.
    pub(crate) fn record(&mut self, due_ns: u64, now_ns: u64) {
        if now_ns >= self.start_ns + BIN_NS {
            self.close();
            self.start_ns = now_ns - now_ns % BIN_NS;
        }
        let latency_ns = now_ns.saturating_sub(due_ns);
        self.histogram.saturating_record(latency_ns);
        self.sum_ns += latency_ns;
    }

    pub(crate) fn finish(mut self) -> Vec<Bin> {
        self.close();
        self.bins
    }

    fn close(&mut self) {
        let results = self.histogram.len();
        if results > 0 {
            let (mean_ns, p99_ns) =
                (self.sum_ns as f64 / results as f64, self.histogram.value_at_quantile(0.99));
            self.bins.push(Bin { start_ns: self.start_ns, results, mean_ns, p99_ns });
        }
        self.histogram.reset();
        self.sum_ns = 0;
    }
}
