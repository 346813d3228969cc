//! Generators of traces: simple patterns with configurable sizes, mix and arrivals, and a desktop workload ([`pc`]).
//!
//! Equal parameters and seeds give equal records on every platform and in every version: random numbers come
//! from
//! PCG-64, and distributions are computed here, without the platform's mathematics library.
//!
//! ```
//! use sakiyomi_model::{Bytes, Nanos};
//! use sakiyomi_trace::generate::{Arrival, Pattern, Workload};
//!
//! let workload = Workload {
//!     pattern: Pattern::Random,
//!     arrival: Arrival::ClosedLoop { think: Nanos::MILLISECOND },
//!     ..Workload::new(1000, Bytes(1 << 30))
//! };
//! assert_eq!(workload.records(7)?.count(), 1000);
//! # Ok::<(), sakiyomi_trace::TraceError>(())
//! ```

mod arrival;
mod interleaved;
mod math;
pub mod pc;
mod random;
mod sample;
mod sequential;
mod zipf;

pub use arrival::Arrival;
pub use sample::Sizes;

use sakiyomi_model::{Bytes, Nanos, Op, StreamId};

use crate::error::TraceError;
use crate::record::{OFFSET_MAX, Record};
use arrival::Clock;
use sample::Sampler;

/// Sector size of generated commands, in bytes; command sizes are multiples of it.
const SECTOR_BYTES: u64 = 512;

/// Address pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Uniformly random.
    Random,
    /// Sequential from the start; wraps around at the end of the span.
    Sequential,
    /// Several sequential streams, each in its own equal part of the span, with one command of each in turn.
    Interleaved {
        /// Number of streams, at least 1; each is a stream of the trace.
        streams: u32,
    },
    /// The span is divided into extents; the k-th most popular is accessed with a probability proportional to
    /// k^−exponent. Popular extents are scattered over the span; addresses within an extent are uniform.
    Zipf {
        /// Exponent, from 0 (uniform); 0.8 to 1.2 is common.
        exponent: f64,
        /// Size of an extent.
        extent: Bytes,
    },
}

/// A sequence of commands: pattern, sizes, mix and arrivals.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Address pattern.
    pub pattern: Pattern,
    /// Number of commands.
    pub count: u64,
    /// Size of the used part of the device, from its start.
    pub span: Bytes,
    /// Command sizes. Random addresses are multiples of the smallest.
    pub sizes: Sizes,
    /// Share of reads, from 0 to 1; the rest are writes.
    pub read_share: f64,
    /// Arrival times.
    pub arrival: Arrival,
}

impl Workload {
    /// Creates a workload of random reads of 4 KiB in a closed loop without think time.
    #[must_use]
    pub fn new(count: u64, span: Bytes) -> Workload {
        Workload {
            pattern: Pattern::Random,
            count,
            span,
            sizes: Sizes::Fixed(Bytes(4096)),
            read_share: 1.0,
            arrival: Arrival::ClosedLoop { think: Nanos::ZERO },
        }
    }

    /// Returns the records generated with `seed`.
    ///
    /// # Errors
    /// [`TraceError::Parameter`] if a parameter is out of range.
    pub fn records(&self, seed: u64) -> Result<Records, TraceError> {
        self.sizes.check()?;
        let longest = self.sizes.longest();
        require(longest <= self.span, "the span", self.span, "at least the longest command's size")?;
        require(self.span <= OFFSET_MAX, "the span", self.span, "below 2^63 bytes")?;
        require(
            (0.0..=1.0).contains(&self.read_share),
            "the share of reads",
            self.read_share,
            "from 0 to 1",
        )?;
        let align = self.sizes.shortest();
        let place: Box<dyn Place + Send> = match self.pattern {
            Pattern::Random => Box::new(random::Random::new(self.span, align)),
            Pattern::Sequential => Box::new(sequential::Sequential::new(Bytes::ZERO, self.span)),
            Pattern::Interleaved { streams } => {
                Box::new(interleaved::Interleaved::new(self.span, streams, longest)?)
            }
            Pattern::Zipf { exponent, extent } => {
                require(longest <= extent, "the extent", extent, "at least the longest command's size")?;
                Box::new(zipf::Zipf::new(self.span, extent, align, exponent)?)
            }
        };
        Ok(Records {
            place,
            clock: Clock::new(self.arrival)?,
            sizes: self.sizes.clone(),
            read_share: self.read_share,
            left: self.count,
            sampler: Sampler::new(seed),
        })
    }
}

/// The records of a [`Workload`].
pub struct Records {
    place: Box<dyn Place + Send>,
    clock: Clock,
    sizes: Sizes,
    read_share: f64,
    left: u64,
    sampler: Sampler,
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Iterator for Records {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        self.left = self.left.checked_sub(1)?;
        let length = self.sizes.sample(&mut self.sampler);
        let (stream, offset) = self.place.next(length, &mut self.sampler);
        let op = if self.sampler.chance(self.read_share) { Op::Read } else { Op::Write };
        let (time, think) = self.clock.next(&mut self.sampler);
        Some(Record { stream, think, ..Record::new(time, op, offset, length) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).ok();
        (left.unwrap_or(usize::MAX), left)
    }
}

/// Source of addresses.
trait Place {
    /// Returns the stream and an address for `length` bytes within the span.
    fn next(&mut self, length: Bytes, sampler: &mut Sampler) -> (StreamId, Bytes);
}

/// Returns an error unless `holds`.
fn require(
    holds: bool,
    name: &'static str,
    value: impl ToString,
    wanted: &'static str,
) -> Result<(), TraceError> {
    if holds {
        return Ok(());
    }
    Err(TraceError::Parameter { name, value: value.to_string(), wanted: wanted.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPAN: Bytes = Bytes(1 << 26);

    fn patterns() -> [Pattern; 4] {
        [
            Pattern::Random,
            Pattern::Sequential,
            Pattern::Interleaved { streams: 3 },
            Pattern::Zipf { exponent: 1.0, extent: Bytes(1 << 20) },
        ]
    }

    proptest! {
        #[test]
        fn commands_stay_inside_the_span_and_in_order(seed: u64, at in 0usize..4) {
            let workload = Workload {
                pattern: patterns()[at],
                sizes: Sizes::Weighted(vec![(Bytes(4096), 3), (Bytes(12_288), 1), (Bytes(131_072), 1)]),
                read_share: 0.5,
                arrival: Arrival::Bursty {
                    on: Nanos::SECOND, off: Nanos::SECOND, rate_per_second: 100.0,
                },
                ..Workload::new(500, SPAN)
            };
            let records: Vec<_> = workload.records(seed).unwrap().collect();
            prop_assert_eq!(records.len(), 500);
            prop_assert!(records.iter().all(|record| record.end() <= SPAN));
            prop_assert!(records.iter().all(|record| record.offset.0.is_multiple_of(4096)));
            prop_assert!(records.is_sorted_by_key(|record| record.time));
            let again: Vec<_> = workload.records(seed).unwrap().collect();
            prop_assert_eq!(records, again);
        }
    }

    #[test]
    fn streams_of_random_numbers_never_change() {
        let lines = patterns().map(|pattern| {
            let workload = Workload {
                pattern,
                read_share: 0.5,
                arrival: Arrival::Poisson { rate_per_second: 100.0 },
                ..Workload::new(3, SPAN)
            };
            let shown = |record: Record| format!("{} {:?} {}", record.time.0, record.op, record.offset.0);
            workload.records(1).unwrap().map(shown).collect::<Vec<_>>().join("; ")
        });
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let error = |workload: Workload| workload.records(0).unwrap_err().to_string();
        assert_eq!(
            error(Workload::new(1, Bytes(512))),
            "the span is 512B, but must be at least the longest command's size"
        );
        let base = || Workload::new(1, SPAN);
        assert!(error(Workload { read_share: f64::NAN, ..base() }).starts_with("the share of reads is NaN"));
        assert!(error(Workload { sizes: Sizes::Weighted(vec![]), ..base() }).contains("at least one"));
        let pattern = Pattern::Interleaved { streams: 0 };
        assert!(error(Workload { pattern, ..base() }).starts_with("the number of streams is 0"));
        let pattern = Pattern::Zipf { exponent: -1.0, extent: Bytes(1 << 20) };
        assert!(error(Workload { pattern, ..base() }).starts_with("the Zipf exponent is -1"));
    }
}
