//! The period of rotation, from reads of the same sector.
//!
//! Reads of a sector end at the same angle of the platters, whatever came before. So the ends lie on a grid whose step
//! is the period. Of all periods that a disk could have, that one is taken at which the ends, as angles, are the most
//! coherent, or the longest of its multiples at which they are as well: at a half of the period they always are. Then a
//! line through the ends by their revolution gives the period and its standard error.

use std::f64::consts::TAU;

use sakiyomi_model::Nanos;

/// Speeds of disks, in revolutions per minute.
const SPEEDS_RPM: std::ops::RangeInclusive<f64> = 3_000.0..=20_000.0;
/// Ends that are needed.
const ENDS_MIN: usize = 12;
/// By chance the largest of many coherences of n ends has n R² near the logarithm of their number; a disk's exceeds it
/// by this at least.
const RAYLEIGH_MARGIN: f64 = 8.0;
/// Coherence of a disk's ends at least; less is a pattern of another cause.
const COHERENCE_MIN: f64 = 0.5;
/// Share of the largest coherence at which a longer period is taken instead.
const LONGER_MIN_RATIO: f64 = 0.9;
/// Multiples of a frequency among the speeds of disks.
const HARMONICS_MAX: usize = 6;
/// Grid steps within the width of a peak.
const GRID_OVERSAMPLING: f64 = 4.0;
/// Ends of the first search: the grid grows with the time that they span.
const FIRST_ENDS: usize = 16;
/// Quantile 97.5 % of the normal distribution, and a little for the few degrees of freedom.
const NORMAL_QUANTILE: f64 = 2.1;

/// A period of rotation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotation {
    /// Revolutions per minute.
    pub rpm: f64,
    /// Bounds at the level of 95 %.
    pub interval: [f64; 2],
    /// Length of the mean of the ends as unit vectors.
    pub coherence: f64,
}

impl Rotation {
    /// Returns the time of a revolution in nanoseconds.
    pub(crate) fn turn_ns(&self) -> f64 {
        60e9 / self.rpm
    }
}

/// Returns the period of the ends; `None` if they have none that a disk could have.
#[must_use]
pub fn rotation(ends: &[Nanos]) -> Option<Rotation> {
    let first = ends.first()?.0;
    let ends: Vec<f64> = ends.iter().map(|end| (end.0 - first) as f64).collect();
    if ends.len() < ENDS_MIN {
        return None;
    }
    let mut period = coarse(&ends[..ends.len().min(FIRST_ENDS)])?;
    // Twice as many ends at a time: the period of the first ones then counts the revolutions of the others.
    let mut count = ends.len().min(FIRST_ENDS);
    let mut error = fitted(&ends[..count], &mut period);
    while count < ends.len() {
        count = (count * 2).min(ends.len());
        error = fitted(&ends[..count], &mut period);
    }
    let coherence = coherence(&ends, 1.0 / period);
    let by_chance = (ends.len() as f64).ln() + RAYLEIGH_MARGIN;
    if coherence < COHERENCE_MIN || coherence * coherence * (ends.len() as f64) < by_chance {
        return None;
    }
    let rpm = |period: f64| 60e9 / period;
    let half = NORMAL_QUANTILE * error;
    Some(Rotation { rpm: rpm(period), interval: [rpm(period + half), rpm(period - half)], coherence })
}

/// Searches all periods on a grid.
fn coarse(ends: &[f64]) -> Option<f64> {
    let [low, high] = [SPEEDS_RPM.start() / 60e9, SPEEDS_RPM.end() / 60e9];
    let step = 1.0 / (ends.last()?.max(1.0) * GRID_OVERSAMPLING);
    let count = ((high - low) / step).ceil() as usize;
    let at = |index: usize| low + index as f64 * step;
    let coherences: Vec<f64> = (0..=count).map(|index| coherence(ends, at(index))).collect();
    let (best, largest) = coherences
        .iter()
        .copied()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|best| best.1 > 0.0)?;
    // Ends that are coherent at a frequency are at its multiples, too. Other peaks as high are chance.
    let below = (1..=HARMONICS_MAX).rev().filter_map(|divisor| {
        let near = ((at(best) / divisor as f64 - low) / step).round();
        let near = (near >= 0.0).then_some(near as usize)?;
        (near.saturating_sub(1)..=(near + 1).min(count))
            .max_by(|a, b| coherences[*a].total_cmp(&coherences[*b]))
    });
    let index = below.into_iter().find(|index| coherences[*index] >= LONGER_MIN_RATIO * largest)?;
    Some(1.0 / at(index))
}

fn coherence(ends: &[f64], frequency: f64) -> f64 {
    let (sin, cos) = ends.iter().fold((0.0, 0.0), |(sin, cos), end| {
        let (s, c) = (TAU * (end * frequency).fract()).sin_cos();
        (sin + s, cos + c)
    });
    sin.hypot(cos) / ends.len() as f64
}

/// Improves the period by a line through the ends by revolution, without outliers; returns its standard error.
fn fitted(ends: &[f64], period: &mut f64) -> f64 {
    /// Residuals beyond this share of a revolution are reads that were disturbed.
    const OUTLIER_RATIO: f64 = 0.15;
    /// Each round leaves out the outliers of the one before.
    const LINE_ROUNDS: usize = 4;
    let mut error = f64::INFINITY;
    for _ in 0..LINE_ROUNDS {
        let (sin, cos) = ends.iter().fold((0.0, 0.0), |(sin, cos), end| {
            let (s, c) = (TAU * (end / *period).fract()).sin_cos();
            (sin + s, cos + c)
        });
        let phase = sin.atan2(cos) / TAU;
        let points: Vec<(f64, f64)> = ends
            .iter()
            .map(|end| ((end / *period - phase).round(), *end))
            .filter(|(turn, end)| (end / *period - phase - turn).abs() < OUTLIER_RATIO)
            .collect();
        let count = points.len() as f64;
        if points.len() < 3 {
            return error;
        }
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (turn, end) = (mean(|point| point.0), mean(|point| point.1));
        let squares: f64 = points.iter().map(|point| (point.0 - turn).powi(2)).sum();
        let products: f64 = points.iter().map(|point| (point.0 - turn) * (point.1 - end)).sum();
        if squares <= 0.0 {
            return error;
        }
        *period = products / squares;
        let residuals: f64 =
            points.iter().map(|point| (point.1 - end - *period * (point.0 - turn)).powi(2)).sum();
        // A timer is read in nanoseconds at best.
        let variance = (residuals / (count - 2.0)).max(1.0);
        error = (variance / squares).sqrt();
    }
    error
}
