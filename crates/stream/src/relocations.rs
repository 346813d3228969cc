//! Pauses of relocated segments.

use hdrhistogram::Histogram;

use crate::latency::histogram;

/// Changes of a running stream, and how long they stopped the operators that they moved.
#[derive(Clone, Debug)]
pub struct Relocations {
    /// Segments that went to another worker as they were.
    pub moves: u64,
    /// Calls that became rings.
    pub splits: u64,
    /// Rings that became calls.
    pub fusions: u64,
    /// Times from the release by one worker to the receipt by the other, in nanoseconds.
    pub handover_ns: Histogram<u64>,
    /// Times from the end of the last tuples on one worker to the end of the first on another, in nanoseconds, be it
    /// after several moves. They include the wait for input. The pause of a segment that is fused ends when it has
    /// been, and includes what was left in its ring.
    pub pause_ns: Histogram<u64>,
}

impl Default for Relocations {
    fn default() -> Relocations {
        Relocations { moves: 0, splits: 0, fusions: 0, handover_ns: histogram(), pause_ns: histogram() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pauses_of_microseconds_and_of_seconds_are_told_apart() {
        let mut relocations = Relocations::default();
        for pause_ns in [1_000, 1_000_000_000] {
            relocations.pause_ns.saturating_record(pause_ns);
            let recorded_ns = relocations.pause_ns.max();
            assert!((recorded_ns as f64 / pause_ns as f64 - 1.0).abs() < 0.01, "{recorded_ns}");
        }
    }
}
