//! The demerit figure computed from two histograms, as by DiskSim's `rms` tool.
//!
//! DiskSim prints the distributions of measured and simulated access times as histograms, which `rms` reads. Its
//! `statdefs` contains `Distribution size: 1750`, `Scale/Equals: 1000/0`, `Start 0 step 1 grow 1`: times in
//! milliseconds are multiplied by 1,000, so that edges are in microseconds; the first edge is 0, the next one is 1
//! further, and each step is 1 % larger than the previous one. The edges are 0, 1, 2.01, 3.0301, … µs; around 4 ms a
//! bin is 41 µs wide, around 15 ms 151 µs. (The interpretation of `grow` as a percentage is ours; the source is not
//! available.) The bin below the first edge stays empty, and the last one extends to the longest time.
//!
//! `rms` compares the two cumulative curves at 10,000 levels. Within a bin the curve is linear.

use crate::demerit::{levels, root_mean_square};
use crate::distribution::Distribution;

/// Number of edges between 1,750 bins.
const EDGE_COUNT: usize = 1749;
/// Width of the first bin, in nanoseconds.
const STEP_NS: f64 = 1000.0;
/// Ratio of the widths of successive bins.
const WIDTH_RATIO: f64 = 1.01;

/// Returns the root mean square of the horizontal distance of two distributions known by their histograms, in
/// nanoseconds; zero if either is empty.
#[must_use]
pub fn binned_demerit(a: &Distribution, b: &Distribution) -> f64 {
    if a.count() == 0 || b.count() == 0 {
        return 0.0;
    }
    let edges = edges();
    let [a, b] = [a, b].map(|distribution| Histogram::new(distribution, &edges).at_levels());
    root_mean_square(a.into_iter().zip(b).map(|(a, b)| a - b))
}

/// Returns the lower edges of the bins from the second on, in nanoseconds, ascending from zero.
fn edges() -> Vec<f64> {
    let next = |(edge, step): &(f64, f64)| Some((edge + step, step * WIDTH_RATIO));
    std::iter::successors(Some((0.0, STEP_NS)), next).take(EDGE_COUNT).map(|(edge, _)| edge).collect()
}

/// A non-empty bin.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bin {
    from_ns: f64,
    to_ns: f64,
    count: u64,
}

struct Histogram {
    filled: Vec<Bin>,
    count: u64,
}

impl Histogram {
    fn new(distribution: &Distribution, edges: &[f64]) -> Histogram {
        let (times, longest) = (distribution.ascending(), distribution.max().0 as f64);
        let mut filled = Vec::new();
        let mut counted = 0;
        for (index, &from_ns) in edges.iter().enumerate() {
            let next = edges.get(index + 1).copied();
            let to_ns = next.unwrap_or(longest.max(from_ns));
            let end = next.map_or(times.len(), |next| times.partition_point(|time| (time.0 as f64) < next));
            if end > counted {
                filled.push(Bin { from_ns, to_ns, count: (end - counted) as u64 });
                counted = end;
            }
        }
        Histogram { filled, count: times.len() as u64 }
    }

    /// Returns the times at [`levels`], in nanoseconds.
    fn at_levels(&self) -> Vec<f64> {
        let mut bins = self.filled.iter();
        let mut bin = bins.next();
        let mut before = 0.0;
        levels()
            .map(|level| {
                let wanted = level * self.count as f64;
                while let Some(full) = bin.filter(|bin| before + (bin.count as f64) < wanted) {
                    before += full.count as f64;
                    bin = bins.next();
                }
                bin.map_or(0.0, |bin| {
                    bin.from_ns + (bin.to_ns - bin.from_ns) * ((wanted - before) / bin.count as f64)
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demerit::demerit;
    use crate::sample::any_times;
    use proptest::prelude::*;
    use sakiyomi_model::Nanos;

    fn of(times: &[Nanos]) -> Distribution {
        times.iter().copied().collect()
    }

    #[test]
    fn edges_grow_by_a_hundredth() {
        let edges = edges();
        assert_eq!(edges.len(), EDGE_COUNT);
        assert_eq!(edges[..3], [0.0, 1000.0, 2010.0]);
        // The sum of 1.01^k µs.
        let closed = (1.01f64.powi(1748) - 1.0) / 0.01 * 1000.0;
        assert!((edges[1748] / closed - 1.0).abs() < 1e-9);
        let at = edges.partition_point(|&edge| edge < 4e6);
        assert!((40_000.0..42_000.0).contains(&(edges[at] - edges[at - 1])));
    }

    #[test]
    fn a_bin_is_filled_evenly() {
        // All times are in the bin from 1 to 2.01 µs: the levels range from its lower to its upper edge.
        let times = Histogram::new(&of(&[Nanos(1200); 4]), &edges()).at_levels();
        assert!((times[0] - 1000.0).abs() < 1.0 && (times[9999] - 2010.0).abs() < 1.0);
        assert!((times[5000] - 1505.0).abs() < 1.0);
    }

    #[test]
    fn times_beyond_the_last_edge_are_in_the_last_bin() {
        let far = Nanos(10_000_000_000_000);
        let times = Histogram::new(&of(&[far; 2]), &edges()).at_levels();
        assert!(times[9999] <= far.0 as f64);
        assert_eq!(binned_demerit(&of(&[far]), &of(&[])), 0.0);
    }

    proptest! {
        #[test]
        fn it_is_zero_for_the_same_and_symmetric(a in any_times(1..50), b in any_times(1..50)) {
            prop_assert_eq!(binned_demerit(&of(&a), &of(&a)), 0.0);
            prop_assert_eq!(binned_demerit(&of(&a), &of(&b)), binned_demerit(&of(&b), &of(&a)));
        }

        #[test]
        fn it_is_the_exact_one_but_for_the_width_of_bins(a in any_times(50..51), b in any_times(50..51)) {
            // 50 divides 10,000, so that both compare the same pairs.
            let (a, b) = (of(&a), of(&b));
            let width = |of: &Distribution| STEP_NS + of.max().0 as f64 * (WIDTH_RATIO - 1.0);
            let difference = (demerit(&a, &b) - binned_demerit(&a, &b)).abs();
            prop_assert!(difference <= width(&a) + width(&b), "{difference}");
        }
    }
}
