//! Costs as functions of a size: measured at a few sizes, interpolated over the logarithm of the size.
//!
//! The cost of a row depends on the working set through the caches and the TLB. It never falls as the working set
//! grows, so a falling measurement is noise. It is averaged with its neighbors (isotonic regression by pooling
//! adjacent violators). Rising curves make the model monotone in rows, on which the search relies.

use serde::{Deserialize, Serialize};

/// A measurement at one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The size, above 0: rows, bytes, partitions or runs, depending on the curve.
    pub size: f64,
    /// Cost in nanoseconds.
    pub ns: f64,
}

/// A cost that never falls as a size grows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<CurvePoint>", into = "Vec<CurvePoint>")]
pub struct Curve {
    points: Vec<CurvePoint>,
}

impl Curve {
    /// Returns the curve through measurements at different sizes, in any order.
    #[must_use]
    pub fn new(mut points: Vec<CurvePoint>) -> Curve {
        points.sort_by(|a, b| a.size.total_cmp(&b.size));
        points.dedup_by(|b, a| a.size == b.size);
        Curve { points: rising(&points) }
    }

    /// Returns a curve with this cost at every size.
    #[must_use]
    pub fn constant(ns: f64) -> Curve {
        Curve { points: vec![CurvePoint { size: 1.0, ns }] }
    }

    /// Returns the points, ascending.
    #[must_use]
    pub fn points(&self) -> &[CurvePoint] {
        &self.points
    }

    /// Returns the cost at a size, in nanoseconds. Outside of the measured sizes it is that of the nearest one; without
    /// a measurement it is 0.
    #[must_use]
    pub fn at(&self, size: f64) -> f64 {
        let after = self.points.partition_point(|point| point.size < size);
        let (Some(a), Some(b)) = (self.points.get(after.saturating_sub(1)), self.points.get(after)) else {
            return self.points.last().map_or(0.0, |last| last.ns);
        };
        if after == 0 {
            return b.ns;
        }
        let fraction = (size / a.size).ln() / (b.size / a.size).ln();
        a.ns + (b.ns - a.ns) * fraction
    }

    /// Returns whether the curve is valid: at least one point, finite sizes above 0, costs in range.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let is_sound = |point: &CurvePoint| point.size.is_finite() && point.size > 0.0 && is_cost(point.ns);
        !self.points.is_empty() && self.points.iter().all(is_sound)
    }
}

impl From<Vec<CurvePoint>> for Curve {
    fn from(points: Vec<CurvePoint>) -> Curve {
        Curve::new(points)
    }
}

impl From<Curve> for Vec<CurvePoint> {
    fn from(curve: Curve) -> Vec<CurvePoint> {
        curve.points
    }
}

/// Largest cost in nanoseconds: about 17 minutes per row, small enough that products with row counts are finite.
const COST_MAX_NS: f64 = 1e12;

/// Returns whether a number is a valid cost in nanoseconds.
pub(crate) fn is_cost(ns: f64) -> bool {
    (0.0..=COST_MAX_NS).contains(&ns)
}

/// Pools adjacent points whose costs fall.
fn rising(points: &[CurvePoint]) -> Vec<CurvePoint> {
    // Mean cost and number of points of each pooled block.
    let mut blocks: Vec<(f64, usize)> = Vec::with_capacity(points.len());
    for point in points {
        let mut block = (point.ns, 1);
        while let Some(&(mean, count)) = blocks.last().filter(|before| before.0 > block.0) {
            let both = count + block.1;
            block = ((mean * count as f64 + block.0 * block.1 as f64) / both as f64, both);
            blocks.pop();
        }
        blocks.push(block);
    }
    let costs = blocks.into_iter().flat_map(|(mean, count)| std::iter::repeat_n(mean, count));
    points.iter().zip(costs).map(|(point, ns)| CurvePoint { size: point.size, ns }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve(points: &[(f64, f64)]) -> Curve {
        Curve::new(points.iter().map(|&(size, ns)| CurvePoint { size, ns }).collect())
    }

    #[test]
    fn a_cost_is_interpolated_over_the_logarithm_of_the_size() {
        let curve = curve(&[(1024.0, 2.0), (1024.0 * 1024.0, 12.0)]);
        assert_eq!([1.0, 1024.0, 1e9].map(|size| curve.at(size)), [2.0, 2.0, 12.0]);
        assert!((curve.at(32.0 * 1024.0) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn costs_that_fall_are_averaged() {
        let found = curve(&[(1.0, 4.0), (2.0, 6.0), (4.0, 2.0), (8.0, 9.0)]);
        assert_eq!(found.points().iter().map(|point| point.ns).collect::<Vec<_>>(), [4.0, 4.0, 4.0, 9.0]);
    }

    proptest! {
        #[test]
        fn a_curve_never_falls(points in proptest::collection::vec((1.0..1e9f64, 0.0..1e6f64), 1..8), a in 0.1..1e10f64, b in 0.1..1e10f64) {
            let curve = curve(&points);
            prop_assert!(curve.is_sound());
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(curve.at(low) <= curve.at(high) * (1.0 + 1e-9) + 1e-9);
        }
    }
}
