//! The points of a sweep that no other point dominates (the Pareto front).
//!
//! A cache cannot be judged by its hit rate alone (Hosogi 2013, section 5): a longer read-ahead may raise the hit
//! rate and worsen the worst response. Dominated points are excluded; the choice is among the others.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The objectives of a point: a high hit rate, and low response times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Objectives {
    /// Hits over reads; NaN counts as the worst.
    pub(crate) hit_ratio: f64,
    /// Mean response in nanoseconds.
    pub(crate) response_mean_ns: u64,
    /// Worst response in nanoseconds.
    pub(crate) response_max_ns: u64,
}

impl Objectives {
    fn hit_key(&self) -> f64 {
        // Adding zero makes -0.0 equal to 0.0 for `total_cmp`.
        if self.hit_ratio.is_nan() { f64::NEG_INFINITY } else { self.hit_ratio + 0.0 }
    }

    /// Orders by descending hit rate, then by mean, then by maximum.
    fn order(&self, other: &Objectives) -> Ordering {
        (other.hit_key().total_cmp(&self.hit_key()))
            .then(self.response_mean_ns.cmp(&other.response_mean_ns))
            .then(self.response_max_ns.cmp(&other.response_max_ns))
    }
}

/// Returns for each point whether no other is at least as good in every objective and better in one.
///
/// Equal points do not dominate each other. Takes O(n log n).
#[must_use]
pub(crate) fn undominated(points: &[Objectives]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| points[a].order(&points[b]));

    // In this order every point that dominates another precedes it, with at least its hit rate, so only the two
    // response times are left to compare. The staircase holds, by ascending mean, the strictly descending maxima seen
    // so far.
    let mut staircase: BTreeMap<u64, u64> = BTreeMap::new();
    let mut front = vec![false; points.len()];
    let mut previous: Option<usize> = None;
    for index in order {
        let point = &points[index];
        front[index] = match previous {
            Some(before) if points[before].order(point) == Ordering::Equal => front[before],
            _ => climb(&mut staircase, point),
        };
        previous = Some(index);
    }
    front
}

/// Adds the point to the staircase unless a step is at least as good; returns whether it was added.
fn climb(staircase: &mut BTreeMap<u64, u64>, point: &Objectives) -> bool {
    let (mean, max) = (point.response_mean_ns, point.response_max_ns);
    if staircase.range(..=mean).next_back().is_some_and(|(_, &step)| step <= max) {
        return false;
    }
    while let Some((&key, _)) = staircase.range(mean..).next().filter(|&(_, &step)| step >= max) {
        staircase.remove(&key);
    }
    staircase.insert(mean, max);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, pair by pair: the oracle.
    fn undominated_by_pairs(points: &[Objectives]) -> Vec<bool> {
        let beats = |a: &Objectives, b: &Objectives| {
            let no_worse = a.hit_key() >= b.hit_key()
                && a.response_mean_ns <= b.response_mean_ns
                && a.response_max_ns <= b.response_max_ns;
            no_worse && a.order(b) != Ordering::Equal
        };
        points.iter().map(|point| !points.iter().any(|other| beats(other, point))).collect()
    }

    fn point() -> impl Strategy<Value = Objectives> {
        let hit_ratio = prop_oneof![(0u8..6).prop_map(|n| f64::from(n) / 5.0), Just(-0.0), Just(f64::NAN)];
        (hit_ratio, 0u64..8, 0u64..8).prop_map(|(hit_ratio, response_mean_ns, response_max_ns)| Objectives {
            hit_ratio,
            response_mean_ns,
            response_max_ns,
        })
    }

    proptest! {
        #[test]
        fn the_fast_way_agrees_with_the_definition(points in proptest::collection::vec(point(), 0..60)) {
            prop_assert_eq!(undominated(&points), undominated_by_pairs(&points));
        }
    }
}
