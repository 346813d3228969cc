//! Costs of transferring bytes in one way on one device, from `probe`'s calibration.
//!
//! The form is that of the facts behind Ueda 2013, sections 2 and 3: for each device, engine, depth, block, use of
//! the page cache and kind of memory there is a device time `D(B) = B / W` and a CPU time `C(B) = (B / b) c0 + B c1`.
//! The calibration has both at measured blocks and interpolates between them, so here they are two constants for each
//! byte. The CPU time of the kernel's own threads is kept apart: it takes cores away, and belongs to no thread of the
//! job.
//!
//! Calibrations are rarely complete. Substitutes are taken in a fixed order, and each is an assumption that the
//! prediction names: other memory than a job's (huge pages, not registered) and sequential for random places.

use sakiyomi_io::{EngineKind, EngineSpec};
use sakiyomi_probe::calibration::{DeviceCosts, Estimate, EstimateError, Query};
use sakiyomi_probe::setting::{Buffers, CacheState, Operation};

use super::plan::PageCache;

/// Costs of transfers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Transfer {
    /// Time of the device and its path, in nanoseconds for each byte, with all operations of the depth in flight.
    pub(crate) device_ns_per_byte: f64,
    /// CPU time of this process, in nanoseconds for each byte.
    pub(crate) cpu_ns_per_byte: f64,
    /// CPU time of the kernel's threads, in nanoseconds for each byte.
    pub(crate) kernel_ns_per_byte: f64,
    /// Time from the first operation's start until its bytes are there, in nanoseconds.
    pub(crate) latency_ns: f64,
    /// Assumptions in it.
    pub(crate) assumptions: Assumptions,
}

/// Assumptions where the calibration lacks a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assumptions {
    /// The block or the depth lies beyond those measured.
    pub(crate) extrapolated: bool,
    /// Sequential operations stand for random ones.
    pub(crate) sequential: bool,
    /// Other memory stands for huge pages.
    pub(crate) memory: bool,
}

impl Assumptions {
    /// Those of either.
    pub(crate) fn and(self, other: Assumptions) -> Assumptions {
        Assumptions {
            extrapolated: self.extrapolated || other.extrapolated,
            sequential: self.sequential || other.sequential,
            memory: self.memory || other.memory,
        }
    }

    /// In words, one sentence each.
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

/// Transfers to be estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pattern {
    /// The engine and its depth.
    pub(crate) engine: EngineSpec,
    /// Bytes of an operation.
    pub(crate) block_bytes: u64,
    /// How the page cache is used.
    pub(crate) page_cache: PageCache,
    /// The part of the bytes that the page cache already has, 0 to 1; only for buffered reads.
    pub(crate) cached_ratio: f64,
    /// At random places.
    pub(crate) random: bool,
}

/// Memory of a job's operations, best first: huge pages that are not registered, then what comes nearest.
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

/// Costs of writes until their bytes are on the device.
pub(crate) fn write(costs: &DeviceCosts, pattern: &Pattern) -> Result<Transfer, EstimateError> {
    let cache = match pattern.page_cache {
        PageCache::Bypassed => CacheState::Direct,
        PageCache::Used => CacheState::Cold,
    };
    estimate(costs, pattern, Operation::Write, cache)
}

/// Factors on the device time of a phase that reads and writes at the same time, by the part of its bytes that is
/// read.
///
/// Reads and writes on one device add up. A calibration with mixed operations says by how much they hinder each other
/// beyond that (or overlap, where a device has a path for each).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Interference {
    /// Read ratio and factor, ascending, those of 0 and 1 included; none without a measurement.
    points: Vec<(f64, f64)>,
}

impl Interference {
    /// That of an engine on a device, from the mixes that were measured.
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

    /// The factor where this part of the bytes is read, 0 to 1.
    pub(crate) fn factor(&self, read_ratio: f64) -> f64 {
        let after = self.points.partition_point(|point| point.0 < read_ratio);
        let (Some(a), Some(b)) = (self.points.get(after.saturating_sub(1)), self.points.get(after)) else {
            return 1.0;
        };
        if after == 0 { b.1 } else { a.1 + (b.1 - a.1) * (read_ratio - a.0) / (b.0 - a.0) }
    }
}

/// The best substitute that was measured, or the error about the memory that was wanted first.
fn estimate(
    costs: &DeviceCosts,
    pattern: &Pattern,
    op: Operation,
    cache: CacheState,
) -> Result<Transfer, EstimateError> {
    let Pattern { engine, block_bytes, random, .. } = *pattern;
    let mut first = None;
    // Sequential operations stand for random ones, never the other way round.
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
                // Another memory that was measured too far away says more than one that was not measured.
                Err(error @ EstimateError::TooFar { .. }) => first = Some(error),
                Err(error) => first = first.or(Some(error)),
            }
        }
    }
    Err(first.expect("each attempt failed"))
}

/// The memory of an engine: mappings bring their own.
fn buffers_of(kind: EngineKind, buffers: Buffers) -> Buffers {
    if kind.uses_buffers() { buffers.for_engine(kind) } else { Buffers::Ordinary }
}

fn transfer(found: &Estimate, engine: EngineSpec, block_bytes: u64, assumptions: Assumptions) -> Transfer {
    let block = block_bytes as f64;
    let device_ns_per_byte = 1e9 / found.throughput_bytes_per_s;
    // The first operation waits for no other: the calibration's latency, less the time of those queued before it.
    // Where the engine does not tell, they are taken to be served in turn.
    let turn = block * device_ns_per_byte;
    let others = turn * engine.depth.saturating_sub(1) as f64;
    let latency = found.latency_ns.map_or(turn, |latency| (latency - others).max(turn));
    Transfer {
        device_ns_per_byte,
        cpu_ns_per_byte: found.cpu_ns_per_op / block,
        kernel_ns_per_byte: found.kernel_threads_cpu_ns_per_op / block,
        latency_ns: latency,
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
        assumptions: a.assumptions.and(b.assumptions),
    }
}
