//! Service times of single operations.

use std::time::Duration;

use hdrhistogram::Histogram;
use sakiyomi_io::engine::OpKind;

/// Significant decimal digits of latencies, which bound the histogram's memory.
const LATENCY_DIGITS: u8 = 3;

/// Service times of single operations in nanoseconds, those of reads and those of writes.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Latencies of reads.
    pub reads: Histogram<u64>,
    /// Latencies of writes.
    pub writes: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let none = || Histogram::new(LATENCY_DIGITS).expect("three digits are allowed");
        Latencies { reads: none(), writes: none() }
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, kind: OpKind, service: Duration) {
        let histogram = if kind == OpKind::Read { &mut self.reads } else { &mut self.writes };
        // A time beyond the histogram's range would be longer than any run.
        let _ = histogram.record(u64::try_from(service.as_nanos()).unwrap_or(u64::MAX));
    }
}
