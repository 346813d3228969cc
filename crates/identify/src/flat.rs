//! A device without a mechanism: latency, parallelism and bandwidth, from a survey.

use sakiyomi_model::{Bytes, Nanos};

use crate::survey::Surveyed;

/// Parameters of storage whose times do not depend on the place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flat {
    /// Mean latency, without the transfer.
    pub latency: Nanos,
    /// Half-width of the latency's distribution as a share of its mean.
    pub spread: f64,
    /// Requests served in parallel.
    pub parallel: u32,
    /// Bandwidth in bytes per second; `None` if the size makes no difference.
    pub bandwidth: Option<Bytes>,
}

/// Shares between which the distribution of the latency is measured: rare delays have other causes.
const LATENCY_QUANTILES: [f64; 2] = [0.05, 0.95];
/// Shortest transfer of the largest read that counts as one, as a share of the latency.
const TRANSFER_MIN_RATIO: f64 = 0.02;

/// Returns the parameters that explain the times best; `None` without reads of two sizes.
#[must_use]
pub fn flat(surveyed: &Surveyed) -> Option<Flat> {
    let medians: Vec<(f64, f64)> = surveyed
        .sizes
        .iter()
        .filter_map(|of| Some((of.size.0 as f64, of.times.get(of.times.len() / 2)?.0 as f64)))
        .collect();
    if medians.len() < 2 {
        return None;
    }
    // The median of the slopes between all pairs of sizes (Theil 1950; Sen 1968).
    let mut slopes = Vec::new();
    for (index, a) in medians.iter().enumerate() {
        slopes.extend(medians[..index].iter().map(|b| (a.1 - b.1) / (a.0 - b.0)));
    }
    slopes.sort_by(f64::total_cmp);
    let per_byte = slopes[slopes.len() / 2].max(0.0);
    let mut constants: Vec<f64> = medians.iter().map(|(size, time)| time - per_byte * size).collect();
    constants.sort_by(f64::total_cmp);
    let latency = constants[constants.len() / 2].max(1.0);
    let transfers = per_byte * medians.last()?.0 > TRANSFER_MIN_RATIO * latency;
    let small = surveyed.sizes.first()?;
    let at = |share: f64| small.times[((small.times.len() - 1) as f64 * share).round() as usize].0 as f64;
    let [low, high] = LATENCY_QUANTILES;
    let spread = ((at(high) - at(low)) / (high - low) / 2.0 / latency).clamp(0.0, 1.0);
    // Little's law: requests served at a time are throughput times latency.
    let fastest = surveyed.depths.iter().map(|of| of.reads_per_second).fold(0.0, f64::max);
    let own = latency + if transfers { per_byte * small.size.0 as f64 } else { 0.0 };
    Some(Flat {
        latency: Nanos(latency.round() as u64),
        spread: if spread < 0.01 { 0.0 } else { (spread * 100.0).round() / 100.0 },
        parallel: ((fastest * own / 1e9).round() as u32).max(1),
        bandwidth: transfers.then(|| Bytes((1e9 / per_byte).round().max(1000.0) as u64)),
    })
}
