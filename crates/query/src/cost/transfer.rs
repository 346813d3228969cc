//! Costs of transfers on one device, from `probe`'s calibration.
//!
//! The model follows Ueda 2013, sections 2 and 3: a device time `D(B) = B / W` and a CPU time
//! `C(B) = (B / b) c0 + B c1`. Both depend on device, engine, depth, block, use of the page cache and kind of memory.
//! The calibration interpolates both between measured blocks, so here they are two constants per byte. The CPU time of
//! kernel threads is separate, because it occupies cores but not the threads of the job.
//!
//! Calibrations are rarely complete. Substitutes are tried in a fixed order, and the prediction lists each as an
//! assumption: other memory for that of a job (unregistered huge pages), and sequential for random access.

use sakiyomi_io::{EngineKind, EngineSpec};
use sakiyomi_probe::calibration::{DeviceCosts, Estimate, EstimateError, Query};
use sakiyomi_probe::setting::{Buffers, CacheState, Operation};

use super::plan::PageCache;

/// Costs of transfers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Transfer {
    /// Time of the device and its path per byte at full queue depth, in nanoseconds.
    pub(crate) device_ns_per_byte: f64,
    /// CPU time of this process per byte, in nanoseconds.
    pub(crate) cpu_ns_per_byte: f64,
    /// CPU time of kernel threads per byte, in nanoseconds.
    pub(crate) kernel_ns_per_byte: f64,
    /// Latency of the first operation, in nanoseconds.
    pub(crate) latency_ns: f64,
    /// Number of operations in flight or queued beside the blocks that threads compute on.
    pub(crate) ahead: usize,
    /// Assumptions made for missing measurements.
    pub(crate) assumptions: Assumptions,
}

/// Assumptions made for missing measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assumptions {
    /// Whether the block or the depth is outside of the measured range.
    pub(crate) extrapolated: bool,
    /// Whether sequential operations substitute for random ones.
    pub(crate) sequential: bool,
    /// Whether other memory substitutes for huge pages.
    pub(crate) memory: bool,
}

impl Assumptions {
    /// Returns the union.
    pub(crate) fn and(self, other: Assumptions) -> Assumptions {
        Assumptions {
            extrapolated: self.extrapolated || other.extrapolated,
            sequential: self.sequential || other.sequential,
            memory: self.memory || other.memory,
        }
    }

    /// Returns a description of each assumption.
    pub(crate) fn describe(self) -> Vec<String> {
        let all = [
            (self.extrapolated, "a block or a depth lies beyond those that the calibration has"),
            (
                self.sequential,
                "sequential transfers stand for random ones, which `sakiyomi probe DIR --random --op read,write` measures",
            ),
            (
                self.memory,
                "transfers with other memory stand for huge pages, which `sakiyomi probe DIR --buffers huge` measures",
            ),
        ];
        all.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text.to_owned()).collect()
    }
}

/// The access pattern of transfers to estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pattern {
    /// The engine and its depth.
    pub(crate) engine: EngineSpec,
    /// Bytes per operation.
    pub(crate) block_bytes: u64,
    /// Use of the page cache.
    pub(crate) page_cache: PageCache,
    /// Fraction of the bytes in the page cache, 0 to 1; only for buffered reads.
    pub(crate) cached_ratio: f64,
    /// Whether the access is random.
    pub(crate) random: bool,
}

/// Kinds of memory in order of preference: unregistered huge pages, as in a job, then the closest substitutes.
const BUFFERS: [Buffers; 4] =
    [Buffers::Huge, Buffers::HugeRegistered, Buffers::Ordinary, Buffers::Registered];

/// Costs of reads.
pub(crate) fn read(costs: &DeviceCosts, pattern: &Pattern) -> Result<Transfer, EstimateError> {
    let cached = if pattern.page_cache == PageCache::Bypassed { 0.0 } else { pattern.cached_ratio };
    let of = |cache| estimate(costs, pattern, Operation::Read, cache);
    let from_device = || match pattern.page_cache {
        PageCache::Bypassed => of(CacheState::Direct),
        PageCache::Used => of(CacheState::Cold),
    };
    match () {
        () if cached <= 0.0 => from_device(),
        () if cached >= 1.0 => of(CacheState::Cached),
        () => Ok(mean(&of(CacheState::Cached)?, &from_device()?, cached)),
    }
}

/// Costs of writes, including the transfer to the device.
pub(crate) fn write(costs: &DeviceCosts, pattern: &Pattern) -> Result<Transfer, EstimateError> {
    let cache = match pattern.page_cache {
        PageCache::Bypassed => CacheState::Direct,
        PageCache::Used => CacheState::Cold,
    };
    estimate(costs, pattern, Operation::Write, cache)
}

/// Factors on the device time of concurrent reads and writes, by the fraction of bytes read.
///
/// Device times of reads and writes add up. Measurements of mixed operations give the slowdown beyond that, or the
/// speedup of a full-duplex device.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Interference {
    /// Read ratio and factor, ascending, including ratios 0 and 1; empty without a measurement.
    points: Vec<(f64, f64)>,
}

impl Interference {
    /// Creates the factors of an engine on a device from its measured mixes.
    pub(crate) fn new(costs: &DeviceCosts, pattern: &Pattern, read: &Transfer, write: &Transfer) -> Self {
        let mixes = costs.costs.iter().filter_map(|cost| match cost.op {
            Operation::Mix { reads_percent } if cost.engine == pattern.engine.kind => Some(reads_percent),
            _ => None,
        });
        let factor = |reads_percent: u8| {
            let cache = match pattern.page_cache {
                PageCache::Bypassed => CacheState::Direct,
                PageCache::Used => CacheState::Cold,
            };
            let mix = estimate(costs, pattern, Operation::Mix { reads_percent }, cache).ok()?;
            let ratio = f64::from(reads_percent) / 100.0;
            let apart = read.device_ns_per_byte * ratio + write.device_ns_per_byte * (1.0 - ratio);
            Some((ratio, mix.device_ns_per_byte / apart)).filter(|(_, factor)| factor.is_finite())
        };
        let mut points: Vec<(f64, f64)> = mixes.filter_map(factor).collect();
        if !points.is_empty() {
            points.extend([(0.0, 1.0), (1.0, 1.0)]);
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points.dedup_by(|b, a| a.0 == b.0);
        }
        Interference { points }
    }

    /// Returns the factor for a fraction of bytes read, 0 to 1.
    pub(crate) fn factor(&self, read_ratio: f64) -> f64 {
        let after = self.points.partition_point(|point| point.0 < read_ratio);
        let (Some(a), Some(b)) = (self.points.get(after.saturating_sub(1)), self.points.get(after)) else {
            return 1.0;
        };
        if after == 0 { b.1 } else { a.1 + (b.1 - a.1) * (read_ratio - a.0) / (b.0 - a.0) }
    }
}

/// Returns the estimate with the best measured substitute, or else the most specific error.
fn estimate(
    costs: &DeviceCosts,
    pattern: &Pattern,
    op: Operation,
    cache: CacheState,
) -> Result<Transfer, EstimateError> {
    let Pattern { engine, block_bytes, random, .. } = *pattern;
    let mut first = None;
    // Sequential operations substitute for random ones, but not vice versa.
    for random in [random, false] {
        for (rank, buffers) in BUFFERS.into_iter().enumerate() {
            let buffers = buffers_of(engine.kind, buffers);
            match costs.estimate(&Query { engine, op, cache, random, buffers, block_bytes }) {
                Ok(found) => {
                    let assumptions = Assumptions {
                        extrapolated: found.is_extrapolated,
                        sequential: pattern.random && !random,
                        memory: rank > 1 && buffers_of(engine.kind, BUFFERS[0]) != buffers,
                    };
                    return Ok(transfer(&found, engine, block_bytes, assumptions));
                }
                // An out-of-range measurement with other memory is more specific than a missing one.
                Err(error @ EstimateError::TooFar { .. }) => first = Some(error),
                Err(error) => first = first.or(Some(error)),
            }
        }
    }
    Err(first.expect("each attempt failed"))
}

/// Returns the memory of an engine; engines without buffers (mappings) count as ordinary.
fn buffers_of(kind: EngineKind, buffers: Buffers) -> Buffers {
    if kind.uses_buffers() { buffers.for_engine(kind) } else { Buffers::Ordinary }
}

fn transfer(found: &Estimate, engine: EngineSpec, block_bytes: u64, assumptions: Assumptions) -> Transfer {
    let block = block_bytes as f64;
    let device_ns_per_byte = 1e9 / found.throughput_bytes_per_s;
    // The first operation does not queue: the calibrated latency, minus the service time of the operations queued
    // before it. Without a measured latency, the service time of one block is used.
    let turn = block * device_ns_per_byte;
    let others = turn * engine.depth.saturating_sub(1) as f64;
    let latency = found.latency_ns.map_or(turn, |latency| (latency - others).max(turn));
    Transfer {
        device_ns_per_byte,
        cpu_ns_per_byte: found.cpu_ns_per_op / block,
        kernel_ns_per_byte: found.kernel_threads_cpu_ns_per_op / block,
        latency_ns: latency,
        ahead: engine.ahead(usize::try_from(block_bytes).unwrap_or(usize::MAX)),
        assumptions,
    }
}

fn mean(a: &Transfer, b: &Transfer, ratio: f64) -> Transfer {
    let of = |of: fn(&Transfer) -> f64| of(a) * ratio + of(b) * (1.0 - ratio);
    Transfer {
        device_ns_per_byte: of(|transfer| transfer.device_ns_per_byte),
        cpu_ns_per_byte: of(|transfer| transfer.cpu_ns_per_byte),
        kernel_ns_per_byte: of(|transfer| transfer.kernel_ns_per_byte),
        latency_ns: of(|transfer| transfer.latency_ns),
        ahead: a.ahead.min(b.ahead),
        assumptions: a.assumptions.and(b.assumptions),
    }
}
