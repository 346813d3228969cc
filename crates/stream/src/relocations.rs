//! Pauses of relocated segments.

use hdrhistogram::Histogram;

/// Significant digits of a recorded pause.
const PRECISION_DIGITS: u8 = 2;

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
    /// Times from the end of the last tuple on one worker to the end of the first on the other, in nanoseconds. They
    /// include the wait for input.
    pub pause_ns: Histogram<u64>,
}

impl Default for Relocations {
    fn default() -> Relocations {
        let histogram = || Histogram::new(PRECISION_DIGITS).expect("the precision is a constant");
        Relocations { moves: 0, splits: 0, fusions: 0, handover_ns: histogram(), pause_ns: histogram() }
    }
}
