//! Estimates between the measured points.
//!
//! Between two block sizes, throughput is interpolated on logarithmic scales, as its curves are drawn, and the CPU
//! time and the latency of an operation linearly in its bytes. Between two depths, all are interpolated over the
//! logarithm of the depth. Up to [`EXTRAPOLATION_MAX`] times beyond the measured sizes and depths the estimate is
//! conservative and marked as extrapolated: a larger block or depth gives the throughput of the largest, a smaller
//! block as many operations per second as the smallest, and a smaller depth proportionally less throughput. Beyond
//! that, or for a kind of operation that was not measured, the estimate is refused.

use sakiyomi_io::EngineSpec;

use super::{Cost, DepthCost, DeviceCosts, Point};
use crate::setting::{Buffers, CacheState, Operation};

/// Maximum ratio by which an estimate exceeds the measured block sizes and depths.
pub const EXTRAPOLATION_MAX: f64 = 2.0;

/// Operations whose costs are to be estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The engine and its depth.
    pub engine: EngineSpec,
    /// Reads, writes or a mix.
    pub op: Operation,
    /// How the page cache is used.
    pub cache: CacheState,
    /// Whether offsets are random.
    pub random: bool,
    /// The memory of the operations.
    pub buffers: Buffers,
    /// Bytes of an operation.
    pub block_bytes: u64,
}

/// Costs of operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Bytes per second.
    pub throughput_bytes_per_s: f64,
    /// CPU time of this process per operation, in nanoseconds.
    pub cpu_ns_per_op: f64,
    /// CPU time of kernel threads per operation, in nanoseconds.
    pub kernel_threads_cpu_ns_per_op: f64,
    /// Median service time of an operation, in nanoseconds; `None` if the engine does not report it.
    pub latency_ns: Option<f64>,
    /// Whether it lies beyond the measured points.
    pub is_extrapolated: bool,
}

/// The reason why there is no estimate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EstimateError {
    /// This kind of operation was not measured.
    #[error(
        "{op} by {engine} ({cache}{}, {buffers:?} buffers) was not measured on {target}; measure it with `sakiyomi probe`",
        if *random { ", random" } else { "" }
    )]
    NotMeasured {
        /// The device's target.
        target: String,
        /// The engine's name.
        engine: &'static str,
        /// Reads, writes or a mix.
        op: Operation,
        /// How the page cache is used.
        cache: &'static str,
        /// Whether offsets are random.
        random: bool,
        /// The memory.
        buffers: Buffers,
    },
    /// Too far from the measured sizes or depths.
    #[error(
        "{what} {wanted} is too far outside the measured range, {least} to {most}; measure it with `sakiyomi probe`"
    )]
    TooFar {
        /// `a block of`, `a depth of`.
        what: &'static str,
        /// The requested value.
        wanted: u64,
        /// The smallest measured value.
        least: u64,
        /// The largest measured value.
        most: u64,
    },
}

impl DeviceCosts {
    /// Estimates the costs of operations on this device.
    ///
    /// # Errors
    /// If this kind of operation was not measured, or only with sizes or depths that are too far away.
    pub fn estimate(&self, query: &Query) -> Result<Estimate, EstimateError> {
        let is_same = |cost: &&Cost| {
            (cost.engine, cost.op, cost.cache, cost.random, cost.buffers)
                == (query.engine.kind, query.op, query.cache, query.random, query.buffers)
        };
        let cost = self.costs.iter().find(is_same).ok_or_else(|| EstimateError::NotMeasured {
            target: self.target.clone(),
            engine: query.engine.kind.name(),
            op: query.op,
            cache: query.cache.name(),
            random: query.random,
            buffers: query.buffers,
        })?;
        cost.at(query.engine.depth as u64, query.block_bytes)
    }
}

/// The two measured neighbors of a value, as indices, and its position between them, 0 to 1.
struct Between {
    first: usize,
    second: usize,
    fraction: f64,
    /// Ratio of the value to its nearest neighbor; 1 if it lies between the two.
    beyond: f64,
}

impl Between {
    /// Finds the neighbors of a value among ascending ones, on the scale of `scale`.
    fn find(
        wanted: u64,
        measured: &[u64],
        scale: fn(f64) -> f64,
        what: &'static str,
    ) -> Result<Between, EstimateError> {
        let (least, most) = (measured[0], measured[measured.len() - 1]);
        let beyond = wanted as f64 / wanted.clamp(least, most) as f64;
        if !(1.0 / EXTRAPOLATION_MAX..=EXTRAPOLATION_MAX).contains(&beyond) {
            return Err(EstimateError::TooFar { what, wanted, least, most });
        }
        let inside = wanted.clamp(least, most);
        let second = measured.partition_point(|&value| value < inside);
        let first = if measured[second] == inside { second } else { second - 1 };
        let [from, to, at] = [measured[first], measured[second], inside].map(|value| scale(value as f64));
        let fraction = if first == second { 0.0 } else { (at - from) / (to - from) };
        Ok(Between { first, second, fraction, beyond })
    }

    fn linear(&self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.fraction
    }

    fn geometric(&self, from: f64, to: f64) -> f64 {
        from * (to / from).powf(self.fraction)
    }
}

impl Cost {
    fn at(&self, depth: u64, block_bytes: u64) -> Result<Estimate, EstimateError> {
        let depths: Vec<u64> = self.depths.iter().map(|cost| cost.depth as u64).collect();
        let between = Between::find(depth, &depths, f64::log2, "a depth of")?;
        let a = self.depths[between.first].at(block_bytes)?;
        let b = self.depths[between.second].at(block_bytes)?;
        // At worst, throughput is proportional to the depth.
        let fewer = between.beyond.min(1.0);
        let of = |of: fn(&Estimate) -> f64| between.linear(of(&a), of(&b));
        Ok(Estimate {
            throughput_bytes_per_s: between.geometric(a.throughput_bytes_per_s, b.throughput_bytes_per_s)
                * fewer,
            cpu_ns_per_op: of(|estimate| estimate.cpu_ns_per_op),
            kernel_threads_cpu_ns_per_op: of(|estimate| estimate.kernel_threads_cpu_ns_per_op),
            latency_ns: a
                .latency_ns
                .zip(b.latency_ns)
                .map(|(a, b)| between.linear(a, b) * between.beyond.max(1.0)),
            is_extrapolated: a.is_extrapolated || b.is_extrapolated || between.beyond != 1.0,
        })
    }
}

impl DepthCost {
    fn at(&self, block_bytes: u64) -> Result<Estimate, EstimateError> {
        let blocks: Vec<u64> = self.points.iter().map(|point| point.block_bytes).collect();
        let by_bytes = Between::find(block_bytes, &blocks, |bytes| bytes, "a block of")?;
        let by_scale = Between::find(block_bytes, &blocks, f64::log2, "a block of")?;
        let (a, b) = (&self.points[by_bytes.first], &self.points[by_bytes.second]);
        let (beyond, of) = (by_bytes.beyond, |of: fn(&Point) -> f64| by_bytes.linear(of(a), of(b)));
        let more_bytes = block_bytes as f64 - block_bytes.clamp(blocks[0], blocks[blocks.len() - 1]) as f64;
        let throughput = by_scale.geometric(a.throughput_bytes_per_s, b.throughput_bytes_per_s);
        let latency = a.latency_p50_ns.zip(b.latency_p50_ns);
        Ok(Estimate {
            throughput_bytes_per_s: throughput * beyond.min(1.0),
            cpu_ns_per_op: (of(|point| point.cpu_ns_per_op) + self.cpu_ns_per_byte * more_bytes).max(0.0),
            kernel_threads_cpu_ns_per_op: of(|point| point.kernel_threads_cpu_ns_per_op) * beyond.max(1.0),
            latency_ns: latency.map(|(a, b)| by_bytes.linear(a as f64, b as f64) * beyond.max(1.0)),
            is_extrapolated: beyond != 1.0,
        })
    }
}
